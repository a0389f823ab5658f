/**
 * Text as it appears, token by token, for stop strings and for streaming to a person. Never emits half a character: bytes wait
 * until the character they belong to is complete, or known to be broken.
 */

import type { Tokenizer } from "./types.ts";

/** What a stream needs of a tokenizer: any that decodes lists will do; one that knows the bytes of its tokens is decoded by them. */
export interface StreamedTokenizer extends Partial<Pick<Tokenizer, "isSpecial" | "tokenBytes">> {
  decode(ids: number[]): string;
}

const lossy = new TextDecoder("utf-8", { ignoreBOM: true });

/** An incremental decoder; one per sampled sequence. */
export interface TextStream {
  /** Adds a token and returns the text that is now certain (often all of the token, sometimes nothing). */
  push(id: number): string;
  /** Whether text may be left for {@link TextStream.end}: the last token ended inside a character. */
  isPending(): boolean;
  /** What is left when no token follows: U+FFFD for bytes that never became a character. */
  end(): string;
}

export interface TextStreamOptions {
  /** Special tokens add nothing to the text. @defaultValue false */
  readonly skipSpecialTokens?: boolean;
  /**
   * The ids go on from others, as a completion does from its prompt. A space at the front is then the text's own, and not the one
   * that SentencePiece puts before every text and `decode` takes away.
   * @defaultValue false
   */
  readonly midText?: boolean;
}

/**
 * Makes a stream that starts at the beginning of a text, unless told otherwise. All it returns, joined, is `tokenizer.decode` of the
 * ids — but for lone bytes that are not UTF-8 in vocabularies with byte fallback, where `decode` can look ahead and spoils the whole run.
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
    tokenizer.tokenBytes?.(0) === undefined ? decodedAgain(tokenizer, midText) : byBytes(tokenizer, midText);
  const isLeftOut = (id: number) => skipSpecialTokens && tokenizer.isSpecial?.(id) === true;
  return { ...stream, push: (id) => (isLeftOut(id) ? "" : stream.push(id)) };
}

/** Each token adds its own bytes. */
function byBytes(tokenizer: StreamedTokenizer, midText: boolean): TextStream {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let atStart = !midText;
  let tail: number[] = [];
  return {
    push(id) {
      let bytes = tokenizer.tokenBytes?.(id) as Uint8Array;
      if (atStart && bytes.length > 0) {
        atStart = false;
        // Some tokenizers put a space before a text and take it away again: decoding the first token alone shows it.
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

/** Whether the last bytes of a UTF-8 text begin a character that is longer. @param tail - at least the last three bytes */
function endsInsideCharacter(tail: readonly number[]): boolean {
  const start = tail.findLastIndex((byte) => byte >= 0xc0);
  const lead = tail[start];
  if (lead === undefined) return false;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  return tail.length - start < length && tail.slice(start + 1).every((byte) => byte >= 0x80);
}

/**
 * For decoders that are not a matter of single tokens: what a token means may depend on the one before it, so that each is decoded
 * together with the last few. Linear in the number of tokens.
 */
function decodedAgain(tokenizer: StreamedTokenizer, midText: boolean): TextStream {
  /** Tokens that are still decoded: first `shown` as context, then those that have not been given out. */
  let ids: number[] = [];
  let shown = 0;
  const fresh = (): string => tokenizer.decode(ids).slice(tokenizer.decode(ids.slice(0, shown)).length);
  return {
    push(id) {
      if (midText && ids.length === 0) {
        // Something must stand before the first token for it to be decoded as one that follows: itself will do.
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
