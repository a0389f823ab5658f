/**
 * Rejects unknown option names. TypeScript programs get a compiler error; in JavaScript a misspelt option would be ignored silently.
 */

import { closest } from "./closest.ts";
import { describe, isPlainObject } from "./describe.ts";
import { InvalidInputError } from "./errors.ts";

/** Every name of an options type; a missing or an extra name is a compiler error. */
export type OptionNames<T> = { readonly [K in keyof Required<T>]: true };

/**
 * @param of - name of the method, or of the option that holds these options; used in the message.
 * @param field - path of nested options; used as a prefix of the name.
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
