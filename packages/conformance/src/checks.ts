/** Assertions of cases. Every failure has the expected and the actual value, so that the report is sufficient to debug it. */

/** The server did not meet the requirement. */
export class Failed extends Error {
  override readonly name = "Failed";
  readonly expected: string;
  readonly seen: string;
  constructor(message: string, expected: string, seen: string) {
    super(message);
    this.expected = expected;
    this.seen = seen;
  }
}

/** The server responds that it does not have the feature of the case. */
export class NotOffered extends Error {
  override readonly name = "NotOffered";
}

/** Formats a value for the report: short, on one line. */
export function show(value: unknown): string {
  if (typeof value === "string") return value.length > 300 ? `${value.slice(0, 300)}…` : value;
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : value.toPrecision(7);
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return show(Array.from(value as Uint8Array));
  if (Array.isArray(value)) {
    const items = value.slice(0, 12).map(show);
    return `[${items.join(", ")}${value.length > 12 ? `, … ${value.length} in total` : ""}]`;
  }
  if (value instanceof Date) return value.toISOString();
  const text = JSON.stringify(value, (_, item: unknown) => (typeof item === "bigint" ? `${item}` : item));
  return text === undefined ? String(value) : text.length > 400 ? `${text.slice(0, 400)}…` : text;
}

/** @throws {@link Failed} */
export function fail(label: string, expected: unknown, seen: unknown): never {
  throw new Failed(label, show(expected), show(seen));
}

/** @throws {@link NotOffered} */
export function notOffered(reason: string): never {
  throw new NotOffered(reason);
}

/** @throws {@link Failed} unless the condition holds. */
export function holds(condition: boolean, label: string, expected: unknown, seen: unknown): asserts condition {
  if (!condition) fail(label, expected, seen);
}

/** @throws {@link Failed} unless both values are equal or have the same JSON. */
export function equal(seen: unknown, expected: unknown, label: string): void {
  const same = Object.is(seen, expected) || JSON.stringify(seen) === JSON.stringify(expected);
  if (!same) fail(label, expected, seen);
}

/** @throws {@link Failed} unless the numbers are within `tolerance` of each other. */
export function close(seen: number, expected: number, tolerance: number, label: string): void {
  if (!(Math.abs(seen - expected) <= tolerance)) fail(label, `${show(expected)} ± ${show(tolerance)}`, seen);
}

/** @throws {@link Failed} unless `seen` is within a fraction of the expected value. */
export function closeRelative(seen: number, expected: number, share: number, label: string): void {
  close(seen, expected, Math.abs(expected) * share, label);
}

/** Like {@link close}, for each element of two lists. */
export function allClose(seen: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number, label: string): void {
  if (seen.length !== expected.length) fail(`${label}: length`, expected.length, seen.length);
  for (let i = 0; i < seen.length; i++) {
    if (!(Math.abs(seen[i]! - expected[i]!) <= tolerance)) {
      fail(`${label}, position ${i}`, `${show(expected[i])} ± ${show(tolerance)}`, seen[i]);
    }
  }
}

/** The largest absolute difference between two lists; infinite if their lengths differ. */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let largest = a.length === b.length ? 0 : Number.POSITIVE_INFINITY;
  for (let i = 0; i < Math.min(a.length, b.length); i++) largest = Math.max(largest, Math.abs(a[i]! - b[i]!));
  return largest;
}

/** Asserts a non-empty string and returns it. */
export function text(value: unknown, label: string): string {
  if (typeof value !== "string" || value === "") fail(label, "a non-empty string", value);
  return value;
}

/** Asserts a finite number and returns it. */
export function finite(value: unknown, label: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) fail(label, "a number", value);
  return value;
}

/** Asserts an array and returns it. */
export function listOf(value: unknown, label: string): readonly unknown[] {
  if (!Array.isArray(value)) fail(label, "a list", value);
  return value;
}

/** Whether two byte arrays have the same contents; without `Buffer`, which is not in browsers. */
export const sameBytes = (one: Uint8Array, other: Uint8Array): boolean =>
  one.length === other.length && one.every((byte, at) => byte === other[at]);
