/**
 * The EOS token ids of a model. They may be defined in several places: the tokenizer's `eos_token`, `generation_config.json` and
 * `config.json`. The result is their union without duplicates, in the order of the arguments.
 */

/**
 * Merges EOS ids from several places. Each argument is an id, a list of ids or undefined; values that are not token ids are ignored.
 *
 * @example
 * ```ts
 * endOfTextIds(2, [2, 32000], undefined); // [2, 32000]
 * ```
 */
export function endOfTextIds(...places: readonly unknown[]): number[] {
  const isId = (id: unknown): id is number => typeof id === "number" && Number.isInteger(id) && id >= 0;
  return [...new Set(places.flat().filter(isId))];
}
