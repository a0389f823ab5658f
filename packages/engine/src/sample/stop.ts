/** Decides after each token whether a sequence ends: EOS, stop tokens, or stop strings. */

import type { Tokenizer } from "@tinklet/models/tokenizer";
import { createTextStream } from "@tinklet/models/tokenizer";
import { InputError } from "../errors.ts";
import type { SamplingParams } from "../types.ts";

export interface StopRules {
  readonly tokens: ReadonlySet<number>;
  readonly texts: readonly string[];
}

/** Normalises the three forms of `stop`. EOS tokens are included unless the list is empty. */
export const stopRules = (stop: SamplingParams["stop"], eosTokenIds: readonly number[]): StopRules => {
  const list = stop === undefined ? [] : typeof stop === "string" ? [stop] : stop;
  const tokens = new Set(Array.isArray(stop) && stop.length === 0 ? [] : eosTokenIds);
  const texts: string[] = [];
  list.forEach((item, index) => {
    if (typeof item === "number") tokens.add(item);
    else if (item.length > 0) texts.push(item);
    else throw new InputError(`params.stop[${index}]`, "must not be empty: it would stop every sample at once");
  });
  if (texts.length > 0 && list.some((item) => typeof item === "number")) {
    throw new InputError("params.stop", "must be either strings or token ids, not both");
  }
  return { tokens, texts };
};

/** Watches one sequence. */
export class StopWatch {
  readonly #rules: StopRules;
  readonly #stream: { push(id: number): string } | undefined;
  readonly #keep: number;
  #tail = "";

  /** @param tokenizer - required for stop strings */
  constructor(rules: StopRules, tokenizer: Tokenizer | undefined) {
    this.#rules = rules;
    // The sample continues the prompt, so " END" can be the first token.
    if (rules.texts.length > 0) this.#stream = createTextStream(tokenizer!, { midText: true });
    // A match ends in the new text, so it starts at most this far before it.
    this.#keep = Math.max(0, ...rules.texts.map((text) => text.length - 1));
  }

  /** Adds the next token; true if it ends the sequence. */
  push(token: number): boolean {
    if (this.#rules.tokens.has(token)) return true;
    if (!this.#stream) return false;
    const text = this.#tail + this.#stream.push(token);
    if (this.#rules.texts.some((stop) => text.includes(stop))) return true;
    this.#tail = this.#keep > 0 ? text.slice(-this.#keep) : "";
    return false;
  }
}
