/** Descriptions of values for messages, and the test for plain objects. Imports nothing. */

/** Describes a value for a message: `null`, `NaN`, `an array`, `a Uint8Array`; a short string is quoted. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "an array";
  if (typeof value === "number") return Number.isInteger(value) || !Number.isFinite(value) ? String(value) : `${value}`;
  if (typeof value === "string") return value.length <= 40 ? JSON.stringify(value) : `a string of ${value.length}`;
  if (typeof value === "object") return `a ${value.constructor?.name ?? "object"}`;
  return `a ${typeof value}`;
}

/** Whether a value is an object made by `{}` or `Object.create(null)`: not an array, a class instance or null. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Another realm's Object.prototype (a vm context, an iframe) is plain too: it has no prototype of its own.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
