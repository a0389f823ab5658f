/**
 * Streams the tokens of a sample while it runs, on servers with a token feed (Tinklet servers); on other servers, all tokens arrive
 * with the result. If the feed fails, the sample continues, and the tokens that the feed did not deliver are read from its result.
 */
import type { SampleResponse } from "@tinklet/wire/client";
import type { APIFuture } from "../../futures/api-future.ts";
import type { Session } from "../session/session.ts";
import type { StreamProgress } from "./stream-tokens.ts";

/** Name of the token feed in `tinklet_extensions`. */
export const tokenFeed = "sample_tokens";
/** Headers of a sample that is streamed. */
export const tokenFeedHeaders = { "x-tinklet-stream": "tokens" };

/** The part of a tokenizer that decodes text incrementally. */
export interface TextDecoderLike {
  decode(tokens: number[]): string;
}

/** A token of a stream. */
export interface StreamedToken {
  /** Index of the sample that the token belongs to, from 0. */
  readonly index: number;
  readonly token: number;
  /** Log-prob of the token. */
  readonly logprob?: number;
  /** Text that the token adds to its sample, if a tokenizer was passed. Text is delayed until its last character is complete. */
  readonly text?: string;
}

/** A token of a stream with a tokenizer. */
export interface StreamedText extends StreamedToken {
  readonly text: string;
}

/**
 * A running sample: iterate it for tokens, await `response` for the complete response. Leaving the loop early cancels the sample, also
 * on servers that support cancellation. Returned by {@link SamplingClient.stream}.
 */
export class SampleStream<T extends StreamedToken = StreamedToken> implements AsyncIterable<T> {
  /** The complete response, including stop reasons and prompt log-probs. */
  readonly response: APIFuture<SampleResponse>;
  readonly #session: Session;
  readonly #tokenizer: TextDecoderLike | undefined;
  readonly #progress: StreamProgress = { texts: [], shown: [], held: [] };

  /** @internal */
  constructor(session: Session, response: APIFuture<SampleResponse>, tokenizer: TextDecoderLike | undefined) {
    this.#session = session;
    this.response = response;
    this.#tokenizer = tokenizer;
  }

  /** Cancels the sample, also on servers that support cancellation. */
  cancel(reason?: unknown): void {
    const { phase } = this.response;
    if (phase !== "done" && phase !== "failed") this.response.cancel(reason);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, SampleResponse> {
    try {
      const { streamedTokens } = await import("./stream-tokens.ts");
      // Cast to T: `text` is set exactly if the stream has a tokenizer.
      const tokens = streamedTokens(this.#session, this.response, this.#tokenizer, this.#progress);
      return yield* tokens as AsyncGenerator<T, SampleResponse>;
    } finally {
      this.cancel();
    }
  }
}
