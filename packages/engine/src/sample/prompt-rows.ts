/**
 * Requests about distributions within a prompt other than scores of its own tokens: log-probs of given tokens, and random draws. Row i is
 * the distribution after prompt token i, for position i + 1; the last row is for the first sampled token and is never requested.
 */
import { createRandom } from "../random.ts";
import type { PromptTargets, SampleResult } from "../types.ts";
import { argmax, chooseToken } from "./choose-token.ts";
import type { Distribution } from "./prefix-cache.ts";

export interface PromptQuestions {
  readonly targetPromptLogprobs: PromptTargets | undefined;
  /** 0: none. */
  readonly promptAltTokensK: number;
  readonly temperature: number;
  readonly seed: number;
}

export interface PromptRows {
  /** Rows from `start` to `end − 1` whose distribution is requested. */
  readonly within: (start: number, end: number) => number[];
  /** Consumes the distribution of one of these rows, in order. */
  readonly take: (row: number, distribution: Distribution) => void;
  readonly result: () => Pick<SampleResult, "targetPromptLogprobs" | "promptAltTokens">;
}

/** Whether anything is requested. */
export const hasQuestions = ({ targetPromptLogprobs, promptAltTokensK }: PromptQuestions): boolean =>
  targetPromptLogprobs !== undefined || promptAltTokensK > 0;

/** The first requested row. */
export const firstAsked = ({ targetPromptLogprobs, promptAltTokensK }: PromptQuestions): number => {
  if (promptAltTokensK > 0) return 0;
  return (
    targetPromptLogprobs?.positions.reduce((first, position) => Math.min(first, position - 1), Infinity) ?? Infinity
  );
};

export const promptRows = (length: number, questions: PromptQuestions): PromptRows => {
  const { targetPromptLogprobs: targets, promptAltTokensK: k, temperature, seed } = questions;
  const cells = new Map<number, number[]>();
  targets?.positions.forEach((position, cell) => {
    const own = cells.get(position - 1);
    if (own) own.push(cell);
    else cells.set(position - 1, [cell]);
  });
  const logprobs = new Float32Array(targets?.positions.length ?? 0);
  const drawn = {
    k,
    tokenIds: new Int32Array((length - 1) * k),
    logprobs: new Float32Array((length - 1) * k),
  };
  const random = createRandom(seed, "prompt alternatives");
  return {
    within: (start, end) => {
      const rows: number[] = [];
      for (let row = start; row < Math.min(end, length - 1); row++) if (k > 0 || cells.has(row)) rows.push(row);
      return rows;
    },
    take: (row, distribution) => {
      const { logits, probabilities, logSumExp } = distribution;
      const logprobOf = (token: number): number => Math.min(0, logits[token]! - logSumExp);
      for (const cell of cells.get(row) ?? []) logprobs[cell] = logprobOf(targets!.tokens[cell]!);
      const greedy = temperature === 0 || Number.isNaN(probabilities[0]);
      for (let i = row * k; i < (row + 1) * k; i++) {
        const token = greedy ? argmax(logits) : chooseToken(probabilities, { topK: -1, topP: 1 }, random());
        drawn.tokenIds[i] = token;
        drawn.logprobs[i] = logprobOf(token);
      }
    },
    result: () => ({
      ...(targets ? { targetPromptLogprobs: logprobs } : {}),
      ...(k > 0 ? { promptAltTokens: drawn } : {}),
    }),
  };
};
