/**
 * A `Tokenizer` based on `@huggingface/tokenizers`. The library encodes; decoding is done here, by bytes (see `token-bytes.ts`), because the
 * library's decoder cleans up spaces, throws on empty lists and searches all special tokens for each id.
 */

import { Tokenizer as LibraryTokenizer } from "@huggingface/tokenizers";
import type { ChatTemplate } from "../chat/chat-template.ts";
import type { ChatMessage, ChatTemplateOptions } from "../chat/types.ts";
import { TokenizerError } from "../errors.ts";
import type { TokenizerDefinition } from "./definition.ts";
import { tokenBytesOf } from "./token-bytes.ts";
import type { Tokenizer } from "./types.ts";

export interface FromDefinitionOptions {
  readonly definition: TokenizerDefinition;
  readonly eosTokenIds: readonly number[];
  readonly bosTokenId: number | undefined;
  readonly hasChatTemplate: boolean;
  /** Throws if the model has no template. */
  readonly chatTemplate: ChatTemplate;
  /** Name of the model or file, shown in error messages. */
  readonly origin: string;
}

// Keep a byte-order mark, so that decoding is the inverse of encoding.
const lossy = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

/** @throws TokenizerError if the library rejects the definition. */
export function tokenizerFromDefinition(options: FromDefinitionOptions): Tokenizer {
  const { definition, chatTemplate, origin } = options;
  let library: LibraryTokenizer;
  try {
    library = withExactStripping(definition);
  } catch (cause) {
    throw new TokenizerError(`${origin}: the tokenizer cannot be built: ${(cause as Error).message}`, { cause });
  }
  const vocabulary = Object.entries(definition.model["vocab"] as Record<string, number>);
  const idOf = new Map(vocabulary);
  const tokenOf = new Map(vocabulary.map(([token, id]) => [id, token]));
  const special = new Set<number>();
  for (const token of definition.added_tokens) {
    idOf.set(token.content, token.id);
    tokenOf.set(token.id, token.content);
    if (token.special) special.add(token.id);
  }
  let vocabSize = 0;
  for (const id of tokenOf.keys()) vocabSize = Math.max(vocabSize, id + 1);

  const byBytes = tokenBytesOf(definition.decoder);
  const bytesById = new Map<number, Uint8Array>(); // bytes by token id, filled on first use
  const tokenBytes = (id: number): Uint8Array | undefined => {
    const known = bytesById.get(id);
    if (known || !byBytes) return known;
    const token = tokenOf.get(id);
    const bytes = token === undefined ? new Uint8Array(0) : byBytes.bytesOf(token);
    bytesById.set(id, bytes);
    return bytes;
  };

  const decode = (ids: ArrayLike<number>, { skipSpecialTokens = false } = {}): string => {
    const kept = Array.from(ids).filter((id) => tokenOf.has(id) && !(skipSpecialTokens && special.has(id)));
    if (kept.length === 0) return "";
    if (!byBytes) {
      return library.decode(kept, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
    }
    const pieces: string[] = [];
    let run: Uint8Array[] = [];
    let runIsLoneBytes = false;
    const flush = () => {
      if (run.length > 0) pieces.push(runIsLoneBytes ? decodeByteTokens(run) : lossy.decode(concatenate(run)));
      run = [];
    };
    for (const id of kept) {
      const isLoneByte = byBytes.isLoneByte(tokenOf.get(id) as string);
      if (isLoneByte !== runIsLoneBytes) flush();
      runIsLoneBytes = isLoneByte;
      run.push(tokenBytes(id) as Uint8Array);
    }
    flush();
    const text = pieces.join("");
    return byBytes.dropsLeadingSpace && text.startsWith(" ") ? text.slice(1) : text;
  };

  const encode = (text: string, { addSpecialTokens = true } = {}): number[] => {
    try {
      return library.encode(text, { add_special_tokens: addSpecialTokens }).ids;
    } catch (cause) {
      throw new TokenizerError(`${origin}: the text cannot be encoded: ${(cause as Error).message}`, { cause });
    }
  };

  function applyChatTemplate(
    messages: readonly ChatMessage[],
    options: ChatTemplateOptions & { readonly tokenize: false },
  ): string;
  function applyChatTemplate(
    messages: readonly ChatMessage[],
    options?: ChatTemplateOptions & { readonly tokenize?: true },
  ): number[];
  function applyChatTemplate(messages: readonly ChatMessage[], options: ChatTemplateOptions = {}): string | number[] {
    const text = chatTemplate(messages, options);
    // Templates render the special tokens; adding them again would duplicate the BOS.
    return options.tokenize === false ? text : encode(text, { addSpecialTokens: false });
  }

  return {
    encode,
    decode,
    applyChatTemplate,
    eosTokenIds: options.eosTokenIds,
    bosTokenId: options.bosTokenId,
    vocabSize,
    hasChatTemplate: options.hasChatTemplate,
    idToToken: (id) => tokenOf.get(id),
    tokenToId: (token) => idOf.get(token),
    isSpecial: (id) => special.has(id),
    tokenBytes,
  };
}

/** Splits text at added tokens; returns the tokens and the text between them, which may be empty. */
interface Splitter {
  split(text: string): string[];
}

/**
 * The library's tokenizer with Rust's definition of white space for added tokens with `lstrip` or `rstrip`. JavaScript's definition
 * includes U+FEFF but not U+0085. The library's own stripping is disabled, and the text between the tokens is stripped here.
 */
function withExactStripping(definition: TokenizerDefinition): LibraryTokenizer {
  const stripping = new Map(
    definition.added_tokens.filter(({ lstrip, rstrip }) => lstrip || rstrip).map((token) => [token.content, token]),
  );
  if (stripping.size === 0) return new LibraryTokenizer(definition, {});
  const added_tokens = definition.added_tokens.map((token) => ({ ...token, lstrip: false, rstrip: false }));
  const library = new LibraryTokenizer({ ...definition, added_tokens }, {});
  const splitters = library as unknown as Readonly<Record<"splitter_unnormalized" | "splitter_normalized", Splitter>>;
  for (const splitter of [splitters.splitter_unnormalized, splitters.splitter_normalized]) {
    const split = splitter.split.bind(splitter);
    splitter.split = (text) => {
      const pieces = split(text);
      pieces.forEach((piece, at) => {
        const token = stripping.get(piece);
        if (token?.lstrip === true && at > 0) pieces[at - 1] = stripWhiteSpace(pieces[at - 1]!, "end");
        if (token?.rstrip === true && at < pieces.length - 1)
          pieces[at + 1] = stripWhiteSpace(pieces[at + 1]!, "start");
      });
      return pieces;
    };
  }
  return library;
}

const blank = /\p{White_Space}/u;

function stripWhiteSpace(text: string, side: "start" | "end"): string {
  let [start, end] = [0, text.length];
  if (side === "start") while (start < end && blank.test(text[start]!)) start++;
  else while (end > start && blank.test(text[end - 1]!)) end--;
  return text.slice(start, end);
}

function concatenate(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}

/** Decodes a run of byte tokens: as text if it is valid UTF-8, otherwise as one U+FFFD per byte, as the Rust library does. */
function decodeByteTokens(run: readonly Uint8Array[]): string {
  try {
    return strict.decode(concatenate(run));
  } catch {
    return "\ufffd".repeat(run.length);
  }
}
