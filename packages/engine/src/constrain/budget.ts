/**
 * Budgets of grammar work. A client sizes it, so all of it is counted: steps by the request that causes them, bytes by the grammar that keeps
 * them. Steps are a deterministic count and not a time, so that the same request is refused on every machine. One step is what takes a way
 * through a schema past one byte: 0.1 to 0.4 µs. Whatever takes longer counts as several.
 */
import { GrammarTooLargeError } from "../errors.ts";

export const grammarField = "params.constraint.schema";

/** Characters of a format as JSON. All of it is read, also what only describes. */
export const formatCharacters = 262_144;

/**
 * Steps of grammar work between two decode steps, for all requests together: 10 ms. One unit of work that cannot be divided may exceed it:
 * a compilation (`compileSteps`), or the bytes of one token (`stepsPerByte` each).
 */
export const sliceSteps = 32_768;

/** Steps of one compilation: at most 130 ms. Schemas of 64 KB of names take half of it. */
export const compileSteps = 250_000;

/** Steps of one byte: a schema with more options than this that begin alike holds its own request up, and every other one with it. */
export const stepsPerByte = 8192;

/**
 * Steps of a request beyond its compilation: once, and for each token that it writes. Requests that are meant to be answered take a tenth.
 * Finding a mask grows with the vocabulary, hence both do.
 */
export const decodeSteps = (vocabSize: number): { readonly once: number; readonly perToken: number } => ({
  once: 1_000_000 + 16 * vocabSize,
  perToken: 4096 + vocabSize,
});

/** Bytes of one grammar: its nodes and tries, without the masks. */
export const grammarBytes = 8 * 1024 * 1024;
/** Bytes of the grammars that an engine keeps for requests to come. */
export const keptGrammarBytes = 32 * 1024 * 1024;
/** Bytes of the masks that an engine keeps, of all grammars. */
export const keptMaskBytes = 32 * 1024 * 1024;

/** What is left of a slice. */
export interface Slice {
  left: number;
}

/** The next slice. What the one before took too much is taken off it: on average, no step waits for more than a slice. */
export const createSlice = (before: Slice = { left: 0 }): Slice => ({
  left: Math.min(sliceSteps, before.left + sliceSteps),
});

/** Steps of one compilation, or of one request's texts. */
export interface Account {
  steps: number;
  limit: number;
  /** What the steps are for, as the subject of a message. */
  readonly purpose: string;
}

/**
 * What a grammar and its nodes count against: each node that does more than constant work calls {@link spend} before it, each that keeps
 * something calls {@link hold}. Work happens later than the grammar is made, for one request after the other: {@link charge} says for which.
 */
export class GrammarBudget {
  #account: Account = { steps: 0, limit: compileSteps, purpose: "compiling it" };
  #slice: Slice;
  #bytes = 0;

  /** @param slice - that of the compilation */
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

  /** Whether the slice has been used up. */
  get isSliceOver(): boolean {
    return this.#slice.left <= 0;
  }

  /** Counts the steps from now on for an account, in a slice. */
  charge(account: Account, slice: Slice): void {
    this.#account = account;
    this.#slice = slice;
  }

  /** @throws GrammarTooLargeError */
  spend(steps: number): void {
    this.#slice.left -= steps;
    this.#account.steps += steps;
    const { steps: used, limit, purpose } = this.#account;
    if (used <= limit) return;
    throw new GrammarTooLargeError(
      grammarField,
      `${purpose} takes more than ${limit} steps; use fewer properties, values and options, above all options that begin alike`,
      { used, limit },
    );
  }

  /** @throws GrammarTooLargeError */
  hold(bytes: number): void {
    const used = this.#bytes + bytes;
    if (used > grammarBytes) {
      throw new GrammarTooLargeError(
        grammarField,
        `its grammar takes ${used} bytes, and the limit is ${grammarBytes}; use fewer properties and values, or shorter ones`,
        { used, limit: grammarBytes },
      );
    }
    this.#bytes = used;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
  }
}
