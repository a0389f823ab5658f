/** Ages of the command line: `12h`, `7d`, `4w`. */
import { UsageError } from "./parse.ts";

const hourMs = 3_600_000;
const units: Readonly<Record<string, number>> = { h: hourMs, d: 24 * hourMs, w: 7 * 24 * hourMs };

/** An age in milliseconds; `undefined` for other text. */
function ageMs(text: string): number | undefined {
  const [, count, unit = ""] = /^(\d{1,6})([hdw])$/.exec(text.trim()) ?? [];
  const each = units[unit];
  return each === undefined ? undefined : Number(count) * each;
}

/** `12h`, `7d`, `4w` in milliseconds. @throws UsageError naming the option */
export function parseAge(option: string, text: string): number {
  const age = ageMs(text);
  if (age === undefined) throw new UsageError(`--${option} must be an age such as 12h, 7d or 4w, not "${text}"`);
  return age;
}

/** A time: an age before now, or a date such as 2026-07-13 or 2026-07-13T08:00:00Z. @throws UsageError naming the option */
export function parseTime(option: string, text: string): Date {
  const age = ageMs(text);
  const time = age === undefined ? new Date(text) : new Date(Date.now() - age);
  if (Number.isNaN(time.getTime()))
    throw new UsageError(`--${option} must be an age such as 12h or 7d, or a date such as 2026-07-13, not "${text}"`);
  return time;
}
