/**
 * Text as it appears, token by token, for stop strings and for streaming to a person. Never emits half a character: bytes wait
 * until the character they belong to is complete, or known to be broken.
 */

import type { Tokenizer } from "./types.ts";

const lossy = new TextDecoder("utf-8", { ignoreBOM: true });

/** An incremental decoder; one per sampled sequence. */
export interface TextStream {
  /** Adds a token and returns the text that is now certain (often all of the token, sometimes nothing). */
  push(id: number): string;
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
export function createTextStream(tokenizer: Tokenizer, options: TextStreamOptions = {}): TextStream {
  const isLeftOut = (id: number) => options.skipSpecialTokens === true && tokenizer.isSpecial(id);
  if (tokenizer.tokenBytes(0) === undefined) return wholeDecodes(tokenizer, isLeftOut, options.midText === true);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let atStart = options.midText !== true;
  return {
    push(id) {
      if (isLeftOut(id)) return "";
      let bytes = tokenizer.tokenBytes(id) as Uint8Array;
      if (atStart && bytes.length > 0) {
        atStart = false;
        // Some tokenizers put a space before a text and take it away again: decoding the first token alone shows it.
        const alone = tokenizer.decode([id]);
        if (bytes[0] === 0x20 && alone.length < lossy.decode(bytes).length) bytes = bytes.subarray(1);
      }
      return decoder.decode(bytes, { stream: true });
    },
    end: () => decoder.decode(),
  };
}

/** For decoders that are not a matter of single tokens: decode everything each time and emit what is new. */
function wholeDecodes(tokenizer: Tokenizer, isLeftOut: (id: number) => boolean, midText: boolean): TextStream {
  const ids: number[] = [];
  let emitted = "";
  const advance = (text: string): string => {
    if (!text.startsWith(emitted)) return ""; // the decoder changed its mind about the past; wait until it settles
    const fresh = text.slice(emitted.length);
    emitted = text;
    return fresh;
  };
  return {
    push(id) {
      if (isLeftOut(id)) return "";
      if (midText && ids.length === 0) {
        // Something must stand before the first token for it to be decoded as one that follows: itself will do.
        ids.push(id);
        emitted = tokenizer.decode(ids);
      }
      ids.push(id);
      const text = tokenizer.decode(ids);
      return text.endsWith("\ufffd") ? "" : advance(text);
    },
    end: () => advance(tokenizer.decode(ids)),
  };
}
