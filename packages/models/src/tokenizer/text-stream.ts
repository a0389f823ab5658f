/**
 * Incremental decoding of token ids, for stop strings and streaming. Emits only whole characters: bytes are buffered until their character
 * is complete or known to be invalid.
 */

import type { Tokenizer } from "./types.ts";

/** The tokenizer methods that a stream uses. With `tokenBytes` each token is decoded once; without it, through repeated `decode` calls. */
export interface StreamedTokenizer extends Partial<Pick<Tokenizer, "isSpecial" | "tokenBytes">> {
  decode(ids: number[]): string;
}

const lossy = new TextDecoder("utf-8", { ignoreBOM: true });

/** An incremental decoder; one per sampled sequence. */
export interface TextStream {
  /** Adds a token and returns the text that is now complete (often the whole token, sometimes an empty string). */
  push(id: number): string;
  /** Whether {@link TextStream.end} may return text: the last token ended inside a character. */
  isPending(): boolean;
  /** Call after the last token; returns U+FFFD for an incomplete character. */
  end(): string;
}

export interface TextStreamOptions {
  /** Leave out special tokens. @defaultValue false */
  readonly skipSpecialTokens?: boolean;
  /**
   * Whether the ids continue earlier ids, as a completion continues its prompt. A leading space is then kept; otherwise it is the space
   * that SentencePiece adds before every text and `decode` removes.
   * @defaultValue false
   */
  readonly midText?: boolean;
}

/**
 * Creates a stream. The concatenated output equals `tokenizer.decode` of all ids, with one exception: in vocabularies with byte fallback
 * `decode` replaces a whole run of byte tokens with U+FFFD if any of it is invalid UTF-8, while a stream has already emitted the valid part.
 * @example
 * ```ts
 * const stream = createTextStream(tokenizer);
 * for (const id of ids) process.stdout.write(stream.push(id));
 * process.stdout.write(stream.end());
 * ```
 */
export function createTextStream(tokenizer: StreamedTokenizer, options: TextStreamOptions = {}): TextStream {
  const { skipSpecialTokens = false, midText = false } = options;
  const stream =
    tokenizer.tokenBytes?.(0) === undefined ? byRedecoding(tokenizer, midText) : byBytes(tokenizer, midText);
  const isLeftOut = (id: number) => skipSpecialTokens && tokenizer.isSpecial?.(id) === true;
  return { ...stream, push: (id) => (isLeftOut(id) ? "" : stream.push(id)) };
}

/** Decodes through the bytes of each token. */
function byBytes(tokenizer: StreamedTokenizer, midText: boolean): TextStream {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let atStart = !midText;
  let tail: number[] = [];
  return {
    push(id) {
      let bytes = tokenizer.tokenBytes?.(id) as Uint8Array;
      if (atStart && bytes.length > 0) {
        atStart = false;
        // Some tokenizers add a space before every text and remove it when decoding: decoding the first token alone shows that.
        const alone = tokenizer.decode([id]);
        if (bytes[0] === 0x20 && alone.length < lossy.decode(bytes).length) bytes = bytes.subarray(1);
      }
      tail = [...tail, ...bytes.subarray(-3)].slice(-3);
      return decoder.decode(bytes, { stream: true });
    },
    isPending: () => endsInsideCharacter(tail),
    end() {
      tail = [];
      return decoder.decode();
    },
  };
}

/** Whether UTF-8 bytes end inside a character. @param tail - at least the last three bytes */
function endsInsideCharacter(tail: readonly number[]): boolean {
  const start = tail.findLastIndex((byte) => byte >= 0xc0);
  const lead = tail[start];
  if (lead === undefined) return false;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  return tail.length - start < length && tail.slice(start + 1).every((byte) => byte >= 0x80);
}

/**
 * For decoders in which the text of a token depends on the previous one: decodes each token together with the last few tokens. Linear in
 * the number of tokens.
 */
function byRedecoding(tokenizer: StreamedTokenizer, midText: boolean): TextStream {
  /** Tokens in the decoding window: the first `shown` are context, the rest have not been emitted. */
  let ids: number[] = [];
  let shown = 0;
  const fresh = (): string => tokenizer.decode(ids).slice(tokenizer.decode(ids.slice(0, shown)).length);
  return {
    push(id) {
      if (midText && ids.length === 0) {
        // The first token needs a preceding token to be decoded as a continuation; a copy of itself is used.
        ids.push(id);
        shown = 1;
      }
      ids.push(id);
      const text = fresh();
      if (text === "" || text.endsWith("\ufffd")) return "";
      ids = ids.slice(shown);
      shown = ids.length;
      return text;
    },
    isPending: () => ids.length > shown,
    end() {
      const text = fresh();
      shown = ids.length;
      return text;
    },
  };
}
