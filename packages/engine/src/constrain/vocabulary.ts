/**
 * The vocabulary as an automaton sees it: the bytes of every token that may stand in a text, as a tree, so that tokens which begin alike
 * are tried once. Special tokens, and tokens without bytes, are not in it.
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
  /** The same, of those tokens only that have a quotation mark: all that can end a JSON string. */
  readonly quoted: Trie;
  /** The bytes of each token in the tree. */
  readonly bytesOf: ReadonlyMap<number, Uint8Array>;
  /** Bytes that are tokens of their own. */
  readonly single: ReadonlySet<number>;
  readonly strings: StringTables;
}

const quote = 0x22;
/** Longer ones are rows of dashes or spaces, which nothing here needs. */
const longestToken = 64;
/** Of one token, in the steps of a slice. */
const tokenSteps = 4;

/** Makes the vocabulary in slices: that of a large model takes half a second. */
export interface VocabularyBuilder {
  /**
   * Continues for one slice. Returns the vocabulary when it is complete.
   *
   * @throws InputError when tokens do not stand for bytes, or a visible ASCII character has no token of its own
   */
  advance(slice: Slice): Vocabulary | undefined;
}

/** @param vocabSize - tokens that the model knows; a tokenizer may have more */
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
    if (bytes === undefined) throw unfit("its tokens do not stand for bytes");
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
