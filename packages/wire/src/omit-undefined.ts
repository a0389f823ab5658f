/**
 * Removes `undefined` values from objects: `exactOptionalPropertyTypes` and the wire treat an absent field and `undefined` differently.
 * Imports nothing.
 */

/** A copy of the object without the entries that are `undefined`. */
export function omitUndefined<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept: Partial<T> = {};
  for (const key of Object.keys(values) as (keyof T)[]) if (values[key] !== undefined) kept[key] = values[key];
  return kept as { [K in keyof T]?: Exclude<T[K], undefined> };
}
