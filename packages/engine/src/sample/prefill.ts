/**
 * Computes the keys and values of prompts, in runs that depend on their length alone: blocks at fixed borders, and what is left. Takes whole blocks
 * that are known already, and leaves those that it makes for others. A prompt therefore has the same bits cold and warm.
 */

import type { ModelConfig } from "@tinklet/models/config";
import type { AdapterWeights } from "../adapter/adapter.ts";
import type { SampleResult } from "../types.ts";
import { type Extender, type ExtensionResult, rowsFor } from "./extender.ts";
import { type KvBlock, lengthOf, pastOf, takeBlock } from "./kv-block.ts";
import { blockTokens, type Distribution, type PrefixLease } from "./prefix-cache.ts";
import { hasQuestions, type PromptQuestions, promptRows } from "./prompt-rows.ts";

export interface PrefillJob {
  readonly prompt: Int32Array;
  readonly adapter: AdapterWeights | undefined;
  /** 1 / temperature. */
  readonly coldness: number;
  /** Absent where every position is scored: then all of them are computed, and nothing is left. */
  readonly lease: PrefixLease | undefined;
  readonly scores: PromptScores;
  readonly isCancelled: () => boolean;
}

/** Which scores within the prompt are wanted. */
export interface PromptScores extends PromptQuestions {
  readonly promptLogprobs: boolean;
  /** 0: none. */
  readonly topkPromptLogprobs: number;
  /** Only the prompt's own tokens from this one on are scored. */
  readonly firstScored: number;
}

export interface Prefilled {
  readonly blocks: readonly KvBlock[];
  readonly last: Distribution;
  readonly prompted: Pick<
    SampleResult,
    "promptLogprobs" | "topkPromptLogprobs" | "targetPromptLogprobs" | "promptAltTokens"
  >;
}

/** What an absent cell of top-k prompt log-probs holds. */
const noTop = { id: 0, logprob: -99999 } as const;

/** Whether the prompt's own tokens are scored. */
const scoresTokens = ({ promptLogprobs, topkPromptLogprobs }: PromptScores): boolean =>
  promptLogprobs || topkPromptLogprobs > 0;

/** Whether anything within the prompt is scored. */
export const isScored = (scores: PromptScores): boolean => scoresTokens(scores) || hasQuestions(scores);

/** Scores of a whole prompt, filled in run by run. */
const scoreSheet = (length: number, { promptLogprobs, topkPromptLogprobs: k }: PromptScores) => {
  const logprobs = new Float32Array(length).fill(Number.NaN);
  const top = {
    k,
    tokenIds: new Int32Array(length * k).fill(noTop.id),
    logprobs: new Float32Array(length * k).fill(noTop.logprob),
  };
  return {
    fill: (first: number, scored: NonNullable<ExtensionResult["scored"]>): void => {
      logprobs.set(scored.logprobs, first);
      if (k === 0) return;
      top.tokenIds.set(scored.topIds, first * k);
      top.logprobs.set(scored.top, first * k);
    },
    result: (): Prefilled["prompted"] => ({
      ...(promptLogprobs ? { promptLogprobs: logprobs } : {}),
      ...(k > 0 ? { topkPromptLogprobs: top } : {}),
    }),
  };
};

/** Prompts of equal length of which equally much is known; one that is scored is alone. Undefined if all are cancelled on the way. */
export const prefill = async (
  { config, extender }: { config: ModelConfig; extender: Extender },
  jobs: readonly PrefillJob[],
): Promise<Prefilled[] | undefined> => {
  const [first] = jobs as [PrefillJob];
  const { length } = first.prompt;
  const ending = first.lease?.ending;
  if (ending) {
    return jobs.map(({ lease }) => {
      const { block, last } = lease!.ending!;
      return { blocks: [...lease!.blocks, block], last, prompted: {} };
    });
  }
  const scored = scoresTokens(first.scores);
  const asked = promptRows(length, first.scores);
  const sheet = scoreSheet(scored ? length : 0, first.scores);
  const held = jobs.map(({ lease }): KvBlock[] => [...(lease?.blocks ?? [])]);
  for (let start = lengthOf(held[0]!); ; start += blockTokens) {
    const time = Math.min(blockTokens, length - start);
    const isLast = start + time === length;
    const tokens = new Int32Array(jobs.length * time);
    for (const [row, { prompt }] of jobs.entries()) tokens.set(prompt.subarray(start, start + time), row * time);
    // Row i predicts token i + 1; the last row of the prompt predicts the first sample instead.
    const firstScored = Math.max(start + 1, first.scores.firstScored);
    const scoredRows = scored ? Math.max(0, Math.min(start + time + 1, length) - firstScored) : 0;
    const wanted = isLast ? jobs : [];
    const questions = asked.within(start, start + time);
    const result = await extender.extend({
      past: pastOf(config, held, rowsFor(jobs.length, time)),
      tokens,
      time,
      adapters: jobs.map(({ adapter }) => adapter),
      rows: Int32Array.from([...questions.map((row) => row - start), ...wanted.map((_, row) => (row + 1) * time - 1)]),
      coldness: Float32Array.from([...questions.map(() => first), ...wanted], ({ coldness }) => coldness),
      ...(scoredRows > 0
        ? {
            scored: {
              rows: Int32Array.from({ length: scoredRows }, (_, i) => firstScored - 1 - start + i),
              targets: first.prompt.slice(firstScored, firstScored + scoredRows),
              k: first.scores.topkPromptLogprobs,
            },
          }
        : {}),
    });
    if (result.scored) sheet.fill(firstScored, result.scored);
    const distributionOf = (row: number): Distribution => {
      const own = (values: Float32Array): Float32Array =>
        values.slice(row * config.vocabSize, (row + 1) * config.vocabSize);
      return {
        logits: own(result.logits),
        probabilities: own(result.probabilities),
        logSumExp: result.logSumExp[row]!,
      };
    };
    questions.forEach((row, index) => {
      asked.take(row, distributionOf(index));
    });
    const blocks = jobs.map((_, row) => takeBlock(config, { row, length: time, fresh: result.fresh }));
    blocks.forEach((block, row) => {
      held[row]!.push(block);
    });
    if (isLast) {
      return jobs.map(({ lease }, row) => {
        const last = distributionOf(questions.length + row);
        // What overflows is for its own request alone to fail with.
        if (Number.isFinite(last.logSumExp)) lease?.end({ block: blocks[row]!, last });
        if (time === blockTokens) lease?.add(blocks[row]!); // a longer prompt may go on from here
        return { blocks: held[row]!, last, prompted: { ...sheet.result(), ...asked.result() } };
      });
    }
    jobs.forEach(({ lease }, row) => {
      lease?.add(blocks[row]!);
    });
    if (jobs.every(({ isCancelled }) => isCancelled())) return undefined;
  }
};
