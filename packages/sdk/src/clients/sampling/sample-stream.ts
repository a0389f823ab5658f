/**
 * Tokens of a sample while they are drawn, where the server shows them (Tinklet's own does); elsewhere all of them when the result
 * is there. The showing never changes the sample: whatever goes wrong with it, the tokens of the result follow.
 */
import type { TextStream } from "@tinklet/models/tokenizer";
import type { SampleResponse } from "@tinklet/wire/client";
import { APIError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import type { APIFuture } from "../../futures/api-future.ts";
import type { Session } from "../session/session.ts";
import type { FedToken } from "./token-feed.ts";

/** The server's extension that shows tokens, by its name in `tinklet_extensions`. */
export const tokenFeed = "sample_tokens";
/** Sent with a sample whose tokens one wants to see. */
export const tokenFeedHeaders = { "x-tinklet-stream": "tokens" };

/** The part of a tokenizer that is needed to show text while it is sampled. */
export interface TextDecoderLike {
  decode(tokens: number[]): string;
}

/** A token of a stream. */
export interface StreamedToken {
  /** Which of the samples it belongs to, from 0. */
  readonly index: number;
  readonly token: number;
  /** Its log-probability. */
  readonly logprob?: number;
  /** What it adds to its sample's text, where a tokenizer was given. A token that ends inside a character comes with the next one. */
  readonly text?: string;
}

/** A token of a stream with a tokenizer. */
export interface StreamedText extends StreamedToken {
  readonly text: string;
}

/**
 * A sample under way: its tokens when iterated, the whole response when awaited. Leaving the loop before the end cancels the
 * sample, on the server too where it can do that. Made by {@link SamplingClient.stream}.
 */
export class SampleStream<T extends StreamedToken = StreamedToken> implements AsyncIterable<T> {
  /** The whole response, with everything that the tokens alone do not tell (stop reasons, prompt log-probs). */
  readonly response: APIFuture<SampleResponse>;
  readonly #session: Session;
  readonly #texts: TextStream[] = [];
  /** Makes the text of one sample, where a tokenizer was given. */
  #newText: (() => TextStream) | undefined;
  readonly #tokenizer: TextDecoderLike | undefined;
  /** Tokens that were shown, by sample. */
  readonly #shown: number[][] = [];
  /** The last token of each sample where it ends inside a character: its text may still grow. */
  readonly #held: (T | undefined)[] = [];

  /** @internal */
  constructor(session: Session, response: APIFuture<SampleResponse>, tokenizer: TextDecoderLike | undefined) {
    this.#session = session;
    this.response = response;
    this.#tokenizer = tokenizer;
  }

  /** Ends the sample, on the server too where it can do that. */
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
    // Of type T: a stream with a tokenizer, and no other, has text.
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

  /** What the server shows until the result is there. */
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
    `The tokens shown of sample ${index} are not those of its result: the server lost the sample and drew it again.`,
    {
      code: "stream_restarted",
      hint: "Discard the tokens shown; the whole result is in the stream's `response`.",
    },
  );
