/** Durations in Python's format. */

/** Formats a duration like Python's `timedelta`, for example `0:00:00.551106` or `2 days, 1:00:00`. */
export function writeDuration(milliseconds: number): string {
  let micros = Math.round(milliseconds * 1000);
  const dayMicros = 86_400_000_000;
  const days = Math.floor(micros / dayMicros);
  micros -= days * dayMicros;
  const pad = (value: number, width = 2) => String(value).padStart(width, "0");
  const seconds = Math.floor(micros / 1_000_000);
  const fraction = micros % 1_000_000;
  const clock = `${Math.floor(seconds / 3600)}:${pad(Math.floor(seconds / 60) % 60)}:${pad(seconds % 60)}`;
  const head = days === 0 ? "" : `${days} day${Math.abs(days) === 1 ? "" : "s"}, `;
  return `${head}${clock}${fraction === 0 ? "" : `.${pad(fraction, 6)}`}`;
}
