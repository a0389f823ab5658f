/**
 * The vocabulary as an automaton sees it: the bytes of every token that may stand in a text, as a tree, so that tokens which begin alike
 * are tried once. Special tokens, and tokens without bytes, are not in it.
 */
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { InputError } from "../errors.ts";
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
}

const quote = 0x22;
/** Longer ones are rows of dashes or spaces, which nothing here needs. */
const longestToken = 256;

/**
 * @param vocabSize - tokens that the model knows; a tokenizer may have more
 * @throws InputError when tokens are no matter of single bytes, or a visible ASCII character has no token of its own
 */
export function createVocabulary(tokenizer: Tokenizer, vocabSize: number): Vocabulary {
  const tree = new Trie();
  const quoted = new Trie();
  const bytesOf = new Map<number, Uint8Array>();
  const single = new Set<number>();
  const size = Math.min(vocabSize, tokenizer.vocabSize);
  for (let id = 0; id < size; id++) {
    const bytes = tokenizer.tokenBytes(id);
    if (bytes === undefined) throw unfit("its tokens do not stand for bytes");
    if (bytes.length === 0 || bytes.length > longestToken || tokenizer.isSpecial(id)) continue;
    tree.add(bytes, id);
    if (bytes.includes(quote)) quoted.add(bytes, id);
    bytesOf.set(id, bytes);
    if (bytes.length === 1) single.add(bytes[0]!);
  }
  for (let byte = 0x20; byte < 0x7f; byte++) {
    if (!single.has(byte)) throw unfit(`it has no token for ${JSON.stringify(String.fromCharCode(byte))} alone`);
  }
  return { size, tree, quoted, bytesOf, single };
}

const unfit = (reason: string): InputError =>
  new InputError("params.constraint", `this model's tokenizer cannot be held to a format: ${reason}`, {
    code: "unsupported_tokenizer",
  });
