/**
 * Budgets of grammar work, whose amount a client controls: steps count against the request that causes them, bytes against the grammar that
 * keeps them. Steps are deterministic and not a time, so that a request is rejected on every machine or on none. One step advances one
 * parse by one byte (0.1 to 0.4 µs); longer operations count as several steps.
 */
import { GrammarTooLargeError } from "../errors.ts";

export const grammarField = "params.constraint.schema";

/** Maximum characters of a format as JSON, descriptions included, since all of it is read. */
export const formatCharacters = 262_144;

/**
 * Grammar steps between two decode steps, for all requests together: 10 ms. One indivisible unit of work may exceed it: a compilation
 * (`compileSteps`), or the bytes of one token (`stepsPerByte` each).
 */
export const sliceSteps = 32_768;

/** Steps of one compilation, at most 130 ms. Schemas with 64 KB of names take half of it. */
export const compileSteps = 250_000;

/** Steps of one byte. A schema with more options than this with a common prefix would block its own request and all others in the batch. */
export const stepsPerByte = 8192;

/**
 * Steps of a request after its compilation: a constant, plus an amount per sampled token. Ordinary requests use a tenth of it. Both amounts
 * are proportional to the vocabulary, like the cost of a mask.
 */
export const decodeSteps = (vocabSize: number): { readonly once: number; readonly perToken: number } => ({
  once: 1_000_000 + 16 * vocabSize,
  perToken: 4096 + vocabSize,
});

/** Bytes of one grammar: nodes and tries, without masks. */
export const grammarBytes = 8 * 1024 * 1024;
/** Bytes of the grammars that an engine keeps for later requests. */
export const keptGrammarBytes = 32 * 1024 * 1024;
/** Bytes of the masks that an engine keeps, over all grammars. */
export const keptMaskBytes = 32 * 1024 * 1024;

/** The remaining steps of a slice. */
export interface Slice {
  left: number;
}

/** The next slice. An overrun of the previous slice is subtracted, so that on average no decode step waits for more than a slice. */
export const createSlice = (before: Slice = { left: 0 }): Slice => ({
  left: Math.min(sliceSteps, before.left + sliceSteps),
});

/** Steps of one compilation, or of the texts of one request. */
export interface Account {
  steps: number;
  limit: number;
  /** Purpose of the steps, as the subject of a message. */
  readonly purpose: string;
}

/**
 * The account of a grammar and its nodes. Each operation that takes more than constant time calls {@link spend} first, each allocation
 * calls {@link hold}. Some work happens after compilation, for one request at a time: {@link charge} sets which.
 */
export class GrammarBudget {
  #account: Account = { steps: 0, limit: compileSteps, purpose: "compiling it" };
  #slice: Slice;
  #bytes = 0;

  /** @param slice - of the compilation */
  constructor(slice: Slice) {
    this.#slice = slice;
  }

  /** Bytes that the grammar keeps. */
  get bytes(): number {
    return this.#bytes;
  }

  get steps(): number {
    return this.#account.steps;
  }

  /** Whether the slice is used up. */
  get isSliceOver(): boolean {
    return this.#slice.left <= 0;
  }

  /** Sets the account and the slice of the following steps. */
  charge(account: Account, slice: Slice): void {
    this.#account = account;
    this.#slice = slice;
  }

  /** @throws GrammarTooLargeError; the work is then not done, and the slice is not charged */
  spend(steps: number): void {
    this.#account.steps += steps;
    const { steps: used, limit, purpose } = this.#account;
    if (used <= limit) {
      this.#slice.left -= steps;
      return;
    }
    throw new GrammarTooLargeError(
      grammarField,
      `${purpose} takes more than ${limit} steps; use fewer properties, values and options, above all options that begin alike, or simpler patterns`,
      { used, limit },
    );
  }

  /** @throws GrammarTooLargeError */
  hold(bytes: number): void {
    const used = this.#bytes + bytes;
    if (used > grammarBytes) {
      throw new GrammarTooLargeError(
        grammarField,
        `its grammar takes ${used} bytes, and the limit is ${grammarBytes}; use fewer or shorter properties and values, or patterns with smaller counts and lengths`,
        { used, limit: grammarBytes },
      );
    }
    this.#bytes = used;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
  }
}
