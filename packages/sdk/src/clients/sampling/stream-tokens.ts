/**
 * The tokens of a {@link SampleStream}: from the server's feed until the result is there, then the rest from the result. Loaded when the
 * first stream is read.
 */
import type { TextStream } from "@tinklet/models/tokenizer";
import type { SampleResponse } from "@tinklet/wire/client";
import { APIError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import type { APIFuture } from "../../futures/api-future.ts";
import type { Session } from "../session/session.ts";
import { type StreamedToken, type TextDecoderLike, tokenFeed } from "./sample-stream.ts";
import type { FedToken } from "./token-feed.ts";

/** How far a stream has been read, by sample. */
export interface StreamProgress {
  readonly texts: TextStream[];
  /** Tokens already yielded. */
  readonly shown: number[][];
  /** The last token if it ends inside a character: its text is not complete yet. */
  readonly held: (StreamedToken | undefined)[];
}

export async function* streamedTokens(
  session: Session,
  response: APIFuture<SampleResponse>,
  tokenizer: TextDecoderLike | undefined,
  progress: StreamProgress,
): AsyncGenerator<StreamedToken, SampleResponse> {
  const { texts, shown, held } = progress;
  let newText: (() => TextStream) | undefined;
  if (tokenizer !== undefined) {
    const { textStreamsOf } = await import("../../tokenizer/load.ts");
    newText = await textStreamsOf(tokenizer);
  }
  function* next(index: number, token: number, logprob: number | null | undefined): Generator<StreamedToken> {
    shown[index] ??= [];
    shown[index].push(token);
    if (newText !== undefined) texts[index] ??= newText();
    const text = texts[index];
    const streamed = {
      index,
      token,
      ...omitUndefined({ logprob: logprob ?? undefined, text: text?.push(token) }),
    } as StreamedToken;
    const before = held[index];
    held[index] = text?.isPending() === true ? streamed : undefined;
    if (before !== undefined) yield before;
    if (held[index] === undefined) yield streamed;
  }
  for await (const [index, token, logprob] of fed(session, response)) yield* next(index, token, logprob);
  const whole = await response;
  for (const [index, { tokenArray, logprobs }] of whole.sequences.entries()) {
    const before = shown[index] ?? [];
    if (before.some((token, i) => token !== tokenArray[i])) throw restarted(index);
    for (let i = before.length; i < tokenArray.length; i++) yield* next(index, tokenArray[i]!, logprobs?.[i]);
    const [last, rest] = [held[index], texts[index]?.end() ?? ""];
    if (last !== undefined) yield { ...last, text: `${last.text ?? ""}${rest}` };
  }
  return whole;
}

/** The tokens of the feed until the result is available. */
async function* fed(session: Session, response: APIFuture<SampleResponse>): AsyncGenerator<FedToken> {
  const { requestIds } = await response.submitted;
  const requestId = requestIds[0];
  if (requestId === undefined || !session.config.tinkletExtensions?.includes(tokenFeed)) return;
  const { fedTokens } = await import("./token-feed.ts");
  yield* fedTokens(session, requestId, response);
}

const restarted = (index: number) =>
  new APIError(
    `The streamed tokens of sample ${index} differ from its result: the server lost the sample and sampled it again.`,
    {
      code: "stream_restarted",
      hint: "Discard the streamed tokens; the complete result is in the stream's `response`.",
    },
  );
