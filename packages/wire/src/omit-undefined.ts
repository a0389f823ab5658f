/**
 * Optional values without `undefined`: `exactOptionalPropertyTypes` tells "absent" and "undefined" apart, and so does the wire.
 * Imports nothing.
 */

/** The entries of an object that have a value; what is `undefined` is absent. */
export function omitUndefined<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept: Partial<T> = {};
  for (const key of Object.keys(values) as (keyof T)[]) if (values[key] !== undefined) kept[key] = values[key];
  return kept as { [K in keyof T]?: Exclude<T[K], undefined> };
}
