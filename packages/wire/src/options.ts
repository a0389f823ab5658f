/**
 * `@tinklet/wire/options`: options objects, as every package treats them: unknown names refused, `undefined` left out, values named in
 * messages.
 */
export { checkOptions, type OptionNames } from "./check-options.ts";
export { closest } from "./closest.ts";
export { describe, isPlainObject } from "./describe.ts";
export { omitUndefined } from "./omit-undefined.ts";
