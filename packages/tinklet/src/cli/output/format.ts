/** Formats numbers, sizes and times. Sizes, timestamps and booleans have the official tool's format. */

/** `1.5 MB`, base 1024. */
export function formatSize(bytes: number): string {
  if (bytes < 0) return "N/A";
  let size = bytes;
  for (const unit of ["B", "KB", "MB", "GB", "TB", "PB"]) {
    if (size < 1024) return unit === "B" ? `${Math.trunc(size)} B` : `${size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} EB`;
}

/** `2 hours ago`, `in 3 days`, or a date if it is more than 30 days away. */
export function formatTimestamp(time: Date | undefined, nowMs = Date.now()): string {
  if (time === undefined) return "N/A";
  const future = time.getTime() > nowMs;
  // Future times are lengthened by 1 %, so that an expiry set to 7 days a moment ago is not shown as "in 6 days".
  const seconds = Math.floor((Math.abs(nowMs - time.getTime()) / 1000) * (future ? 1.01 : 1));
  const days = Math.floor(seconds / 86_400);
  const said = (count: number, unit: string) =>
    `${future ? "in " : ""}${count} ${unit}${count > 1 ? "s" : ""}${future ? "" : " ago"}`;
  if (days > 30) return time.toISOString().slice(0, 10);
  if (days > 7) return said(Math.floor(days / 7), "week");
  if (days > 0) return said(days, "day");
  if (seconds > 3600) return said(Math.floor(seconds / 3600), "hour");
  if (seconds > 60) return said(Math.floor(seconds / 60), "minute");
  return future ? "in less than a minute" : "just now";
}

export const formatBool = (value: boolean): string => (value ? "Yes" : "No");

/** `1 thing`, `2 things`. */
export const counted = (count: number, thing: string): string => `${count} ${thing}${count === 1 ? "" : "s"}`;

/** `2m 05s`, `1h 04m`, `7 s`. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "?";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}m ${String(whole % 60).padStart(2, "0")}s`;
  return `${Math.floor(minutes / 60)}h ${String(minutes % 60).padStart(2, "0")}m`;
}

/** `12,345` */
export const formatCount = (value: number): string => Math.round(value).toLocaleString("en-US");

/** US dollars: four decimals below $0.10, else two. */
export const formatDollars = (value: number): string => `$${value < 0.1 ? value.toFixed(4) : value.toFixed(2)}`;
