/** Formats numbers, sizes and times for display. */

// Made once: a formatter takes longer to make than to use.
const [oneDigit, threeDigits, fourDigits] = [1, 3, 4].map((maximumFractionDigits) =>
  Intl.NumberFormat("en", { maximumFractionDigits }),
);
const wholeNumber = Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const dateTime = Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });

export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e7)) return value.toExponential(2);
  return (size >= 100 ? oneDigit : size >= 1 ? threeDigits : fourDigits)!.format(value);
}

export function formatCount(value: number): string {
  return (value < 10_000 ? wholeNumber : compact).format(value);
}

export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

export function formatDuration(seconds: number): string {
  if (seconds === 0) return "0";
  if (seconds < 0) return `−${formatDuration(-seconds)}`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const [minutes, hours, days] = [seconds / 60, seconds / 3600, seconds / 86_400];
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  return hours < 48 ? `${Math.floor(hours)} h` : `${Math.floor(days)} days`;
}

/** Seconds between two ticks of a time axis, chosen so that their labels are exact. uPlot's defaults are powers of ten. */
export const timeSteps = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
];

/** The exact label of a time axis tick: 90 s is 1:30, not 1 min. */
export function timeMark(seconds: number): string {
  if (seconds < 0) return `−${timeMark(-seconds)}`;
  const clock = (whole: number) => `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
  if (seconds >= 60 && seconds < 3600 && seconds % 60 !== 0) return clock(Math.round(seconds));
  if (seconds >= 3600 && seconds % 3600 !== 0) return `${clock(Math.round(seconds / 60))} h`;
  return seconds >= 3600 && seconds % 86_400 !== 0 ? `${seconds / 3600} h` : formatDuration(seconds);
}

export const formatAge = (then: Date | number, now: number): string => {
  const seconds = (now - Number(then)) / 1000;
  if (seconds < 5) return "now";
  return `${seconds < 60 ? `${Math.round(seconds)} s` : formatDuration(seconds)} ago`;
};

export const formatTime = (time: Date | number): string => dateTime.format(time);
