/** How a case fails: always with what was expected and what was seen, so that a report is enough to go on. */

/** The server did something else than it should. */
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

/** The server says that it does not have what the case is about. */
export class NotOffered extends Error {
  override readonly name = "NotOffered";
}

/** A value as a report shows it: short, on one line. */
export function show(value: unknown): string {
  if (typeof value === "string") return value.length > 300 ? `${value.slice(0, 300)}…` : value;
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : value.toPrecision(7);
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return show(Array.from(value as Uint8Array));
  if (Array.isArray(value)) {
    const items = value.slice(0, 12).map(show);
    return `[${items.join(", ")}${value.length > 12 ? `, … ${value.length} in all` : ""}]`;
  }
  if (value instanceof Date) return value.toISOString();
  const text = JSON.stringify(value, (_, item: unknown) => (typeof item === "bigint" ? `${item}` : item));
  return text === undefined ? String(value) : text.length > 400 ? `${text.slice(0, 400)}…` : text;
}

/** @throws {@link Failed} */
export function fail(what: string, expected: unknown, seen: unknown): never {
  throw new Failed(what, show(expected), show(seen));
}

/** @throws {@link NotOffered} */
export function notOffered(reason: string): never {
  throw new NotOffered(reason);
}

/** @throws {@link Failed} unless the condition holds. */
export function holds(condition: boolean, what: string, expected: unknown, seen: unknown): asserts condition {
  if (!condition) fail(what, expected, seen);
}

/** @throws {@link Failed} unless both show the same. */
export function equal(seen: unknown, expected: unknown, what: string): void {
  const same = Object.is(seen, expected) || JSON.stringify(seen) === JSON.stringify(expected);
  if (!same) fail(what, expected, seen);
}

/** @throws {@link Failed} unless the numbers are within `tolerance` of each other. */
export function close(seen: number, expected: number, tolerance: number, what: string): void {
  if (!(Math.abs(seen - expected) <= tolerance)) fail(what, `${show(expected)} ± ${show(tolerance)}`, seen);
}

/** Within a share of the expected value. */
export function closeRelative(seen: number, expected: number, share: number, what: string): void {
  close(seen, expected, Math.abs(expected) * share, what);
}

/** Lists of numbers, element by element. */
export function allClose(seen: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number, what: string): void {
  if (seen.length !== expected.length) fail(`${what}: length`, expected.length, seen.length);
  for (let i = 0; i < seen.length; i++) {
    if (!(Math.abs(seen[i]! - expected[i]!) <= tolerance)) {
      fail(`${what}, position ${i}`, `${show(expected[i])} ± ${show(tolerance)}`, seen[i]);
    }
  }
}

/** The largest difference between two lists of one length. */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let largest = a.length === b.length ? 0 : Number.POSITIVE_INFINITY;
  for (let i = 0; i < Math.min(a.length, b.length); i++) largest = Math.max(largest, Math.abs(a[i]! - b[i]!));
  return largest;
}

/** A string that is not empty. */
export function text(value: unknown, what: string): string {
  if (typeof value !== "string" || value === "") fail(what, "a non-empty string", value);
  return value;
}

/** A finite number. */
export function finite(value: unknown, what: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) fail(what, "a number", value);
  return value;
}

/** A list. */
export function listOf(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) fail(what, "a list", value);
  return value;
}
