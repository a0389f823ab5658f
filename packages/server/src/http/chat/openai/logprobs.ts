/** Log-probabilities of drawn tokens, as OpenAI's two APIs write them. */
import type { Tokenizer } from "@tinklet/models/tokenizer";
import type { DrawnToken, Totals } from "../generate.ts";

/** Where a token has none, or an infinite one: as OpenAI writes what it does not know. */
const none = -9999;
const finite = (logprob: number): number => (Number.isFinite(logprob) ? logprob : none);

const encoder = new TextEncoder();

/** Of `chat/completions`: one entry a token. */
export function chatLogprobs(tokenizer: Tokenizer, tokens: readonly DrawnToken[]): object {
  const entry = (id: number, logprob: number) => {
    const token = tokenizer.decode([id]);
    return { token, logprob: finite(logprob), bytes: Array.from(tokenizer.tokenBytes(id) ?? encoder.encode(token)) };
  };
  return {
    content: tokens.map(({ id, logprob, top = [] }) => ({
      ...entry(id, logprob),
      top_logprobs: top.map(([other, its]) => entry(other, its)),
    })),
    refusal: null,
  };
}

/** A token of a prompt or a completion; the first of a prompt has no log-prob. */
export type ScoredToken = Omit<DrawnToken, "logprob"> & { readonly logprob: number | undefined };

/** Of `completions`: lists beside each other. `offset` is where the text of the first token stands. */
export function textLogprobs(tokenizer: Tokenizer, tokens: readonly ScoredToken[], offset: number): object {
  const texts = tokens.map(({ id }) => tokenizer.decode([id]));
  let at = offset;
  return {
    tokens: texts,
    token_logprobs: tokens.map(({ logprob }) => (logprob === undefined ? null : finite(logprob))),
    top_logprobs: tokens.some(({ top }) => top !== undefined)
      ? tokens.map(
          ({ top }) => top && Object.fromEntries(top.map(([id, its]) => [tokenizer.decode([id]), finite(its)])),
        )
      : null,
    text_offset: texts.map((text) => {
      at += text.length;
      return at - text.length;
    }),
  };
}

/** The tokens of a prompt with their scores. */
export function promptTokens(
  prompt: Iterable<number>,
  { promptLogprobs: scores, promptTop: table }: Totals,
): ScoredToken[] {
  if (scores === undefined) return [];
  return Array.from(prompt, (id, at) => {
    if (at === 0) return { id, logprob: undefined };
    const cells = table === undefined ? [] : Array.from({ length: table.k }, (_, i) => at * table.k + i);
    const top = cells.map((cell) => [table!.tokenIds[cell]!, table!.logprobs[cell]!] as const);
    return { id, logprob: scores[at]!, ...(table === undefined ? {} : { top }) };
  });
}
