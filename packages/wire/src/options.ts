/**
 * `@tinklet/wire/options`: helpers for options objects, shared by all packages: reject unknown names, omit `undefined`, describe values in
 * messages.
 */
export { checkOptions, type OptionNames } from "./check-options.ts";
export { closest } from "./closest.ts";
export { describe, isPlainObject } from "./describe.ts";
export { omitUndefined } from "./omit-undefined.ts";
