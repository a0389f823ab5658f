/**
 * Streams the tokens of a sample while it runs, on servers with a token feed (Tinklet servers); on other servers, all tokens arrive
 * with the result. If the feed fails, the sample continues, and the tokens that the feed did not deliver are read from its result.
 */
import type { TextStream } from "@tinklet/models/tokenizer";
import type { SampleResponse } from "@tinklet/wire/client";
import { APIError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import type { APIFuture } from "../../futures/api-future.ts";
import type { Session } from "../session/session.ts";
import type { FedToken } from "./token-feed.ts";

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
  readonly #texts: TextStream[] = [];
  /** Creates the incremental decoder of one sample, if a tokenizer was passed. */
  #newText: (() => TextStream) | undefined;
  readonly #tokenizer: TextDecoderLike | undefined;
  /** Tokens already yielded, by sample. */
  readonly #shown: number[][] = [];
  /** The last token of each sample if it ends inside a character: its text is not complete yet. */
  readonly #held: (T | undefined)[] = [];

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
      if (this.#tokenizer !== undefined) {
        const { textStreamsOf } = await import("../../tokenizer/load.ts");
        this.#newText = await textStreamsOf(this.#tokenizer);
      }
      for await (const [index, token, logprob] of this.#fed()) yield* this.#next(index, token, logprob);
      const response = await this.response;
      for (const [index, { tokenArray, logprobs }] of response.sequences.entries()) {
        const shown = this.#shown[index] ?? [];
        if (shown.some((token, i) => token !== tokenArray[i])) throw restarted(index);
        for (let i = shown.length; i < tokenArray.length; i++) yield* this.#next(index, tokenArray[i]!, logprobs?.[i]);
        const [held, rest] = [this.#held[index], this.#texts[index]?.end() ?? ""];
        if (held !== undefined) yield { ...held, text: `${held.text ?? ""}${rest}` };
      }
      return response;
    } finally {
      this.cancel();
    }
  }

  *#next(index: number, token: number, logprob: number | null | undefined): Generator<T> {
    this.#shown[index] ??= [];
    this.#shown[index].push(token);
    if (this.#newText !== undefined) this.#texts[index] ??= this.#newText();
    const text = this.#texts[index];
    // Cast to T: `text` is set exactly if the stream has a tokenizer.
    const next = {
      index,
      token,
      ...omitUndefined({ logprob: logprob ?? undefined, text: text?.push(token) }),
    } as StreamedToken as T;
    const held = this.#held[index];
    this.#held[index] = text?.isPending() === true ? next : undefined;
    if (held !== undefined) yield held;
    if (this.#held[index] === undefined) yield next;
  }

  /** The tokens of the feed until the result is available. */
  async *#fed(): AsyncGenerator<FedToken> {
    const { requestIds } = await this.response.submitted;
    const requestId = requestIds[0];
    if (requestId === undefined || !this.#session.config.tinkletExtensions?.includes(tokenFeed)) return;
    const { fedTokens } = await import("./token-feed.ts");
    yield* fedTokens(this.#session, requestId, this.response);
  }
}

const restarted = (index: number) =>
  new APIError(
    `The streamed tokens of sample ${index} differ from its result: the server lost the sample and sampled it again.`,
    {
      code: "stream_restarted",
      hint: "Discard the streamed tokens; the complete result is in the stream's `response`.",
    },
  );
