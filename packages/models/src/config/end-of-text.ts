/**
 * The ids of the tokens that end a text. Several places may name some: the tokenizer's own `eos_token`, `generation_config.json`,
 * `config.json`; all of them count, each once, in the order in which the places are given.
 */

/**
 * Joins what several places name; a place gives a number, a list or nothing, and what is no token id is left out.
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
