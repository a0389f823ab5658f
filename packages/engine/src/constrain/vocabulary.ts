/**
 * The vocabulary for automata: a trie of the bytes of all tokens that may occur in a text, so that common prefixes are examined once.
 * Excludes special tokens and tokens without bytes.
 */
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { InputError } from "../errors.ts";
import type { Slice } from "./budget.ts";
import { createStringTables, type StringTables } from "./string-machine.ts";
import { Trie } from "./trie.ts";

export interface Vocabulary {
  /** Ids are below this. */
  readonly size: number;
  readonly tree: Trie;
  /** Only the tokens with a quotation mark: those that can end a JSON string. */
  readonly quoted: Trie;
  /** The bytes of each token in the trie. */
  readonly bytesOf: ReadonlyMap<number, Uint8Array>;
  /** Bytes that are single tokens. */
  readonly single: ReadonlySet<number>;
  readonly strings: StringTables;
}

const quote = 0x22;
/** Longer tokens (rows of dashes or spaces) are left out; no format needs them. */
const longestToken = 64;
/** Cost of adding one token, in steps of a slice. */
const tokenSteps = 4;

/** Builds the vocabulary in slices: a large one takes half a second. */
export interface VocabularyBuilder {
  /**
   * Continues for one slice. Returns the vocabulary when it is complete.
   *
   * @throws InputError if the bytes of tokens are unknown, or a visible ASCII character is not a token
   */
  advance(slice: Slice): Vocabulary | undefined;
}

/** @param vocabSize - the model's number of tokens; a tokenizer may have more */
export function createVocabularyBuilder(tokenizer: Tokenizer, vocabSize: number): VocabularyBuilder {
  const tree = new Trie();
  const quoted = new Trie();
  const bytesOf = new Map<number, Uint8Array>();
  const single = new Set<number>();
  const size = Math.min(vocabSize, tokenizer.vocabSize);
  const strings = createStringTables(size);
  let next = 0;
  const add = (id: number): void => {
    const bytes = tokenizer.tokenBytes(id);
    if (bytes === undefined) throw unfit("the bytes of its tokens are unknown");
    if (bytes.length === 0 || bytes.length > longestToken || tokenizer.isSpecial(id)) return;
    tree.add(bytes, id);
    if (bytes.includes(quote)) quoted.add(bytes, id);
    bytesOf.set(id, bytes);
    strings.add(id, bytes);
    if (bytes.length === 1) single.add(bytes[0]!);
  };
  return {
    advance(slice) {
      for (; next < size; next++) {
        if (slice.left <= 0) return undefined;
        slice.left -= tokenSteps;
        add(next);
      }
      for (let byte = 0x20; byte < 0x7f; byte++) {
        if (!single.has(byte)) throw unfit(`it has no token for ${JSON.stringify(String.fromCharCode(byte))} alone`);
      }
      return { size, tree, quoted, bytesOf, single, strings: strings.finish(single) };
    },
  };
}

const unfit = (reason: string): InputError =>
  new InputError("params.constraint", `this model's tokenizer cannot be held to a format: ${reason}`, {
    code: "unsupported_tokenizer",
  });
