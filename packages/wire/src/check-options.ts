/**
 * Refuses option names that nobody knows. The compiler does it for TypeScript; a program in JavaScript would otherwise run with a
 * misspelt option silently ignored.
 */

import { closest } from "./closest.ts";
import { describe, isPlainObject } from "./describe.ts";
import { InvalidInputError } from "./errors.ts";

/** Every name of an options type; does not compile when one is missing or too many. */
export type OptionNames<T> = { readonly [K in keyof Required<T>]: true };

/**
 * @param of - what the options are of, for the message: a method or an option that holds options.
 * @param field - put in front of the name where options are nested.
 * @throws {@link InvalidInputError} naming the option, with the nearest known one.
 */
export function checkOptions(of: string, options: unknown, known: object, field?: string): void {
  if (options === undefined) return;
  if (!isPlainObject(options)) {
    throw new InvalidInputError(field ?? "options", `of ${of} must be an object, not ${describe(options)}`);
  }
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(known, name)) continue;
    const near = closest(name, Object.keys(known));
    throw new InvalidInputError(field === undefined ? name : `${field}.${name}`, `is not an option of ${of}`, {
      hint: near === undefined ? `Known options: ${Object.keys(known).join(", ")}.` : `Did you mean ${near}?`,
    });
  }
}
