/** Log-probabilities of drawn tokens, as OpenAI's two APIs write them. */
import type { Tokenizer } from "@tinklet/models/tokenizer";
import type { DrawnToken } from "../generate.ts";

/** Where a token has none, or an infinite one: as OpenAI writes what it does not know. */
const none = -9999;
const finite = (logprob: number): number => (Number.isFinite(logprob) ? logprob : none);

const encoder = new TextEncoder();

/** Of `chat/completions`: one entry a token. */
export function chatLogprobs(tokenizer: Tokenizer, tokens: readonly DrawnToken[]): object {
  return {
    content: tokens.map(({ id, logprob }) => {
      const token = tokenizer.decode([id]);
      const bytes = Array.from(tokenizer.tokenBytes(id) ?? encoder.encode(token));
      return { token, logprob: finite(logprob), bytes, top_logprobs: [] };
    }),
    refusal: null,
  };
}

/** Of `completions`: lists beside each other. `offset` is where the text of the first token stands. */
export function textLogprobs(
  tokenizer: Tokenizer,
  tokens: readonly { readonly id: number; readonly logprob: number | undefined }[],
  offset: number,
): {
  readonly tokens: string[];
  readonly token_logprobs: (number | null)[];
  readonly text_offset: number[];
  readonly end: number;
} {
  const texts = tokens.map(({ id }) => tokenizer.decode([id]));
  let at = offset;
  const offsets = texts.map((text) => {
    const here = at;
    at += text.length;
    return here;
  });
  return {
    tokens: texts,
    token_logprobs: tokens.map(({ logprob }) => (logprob === undefined ? null : finite(logprob))),
    text_offset: offsets,
    end: at,
  };
}
