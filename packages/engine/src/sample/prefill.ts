/**
 * Computes the keys and values of prompts. Reuses blocks of the prefix cache and adds new ones to it. The missing tokens of a prompt are
 * computed in as few runs as `run-rows.ts` allows, and prompts with few missing tokens share a run. A token's bits do not depend on the
 * division into runs, so a prompt has equal results with a cold and a warm cache.
 */

import type { AdapterWeights } from "../adapter/adapter.ts";
import type { SampleResult } from "../types.ts";
import { type KvBlock, lengthOf } from "./kv-block.ts";
import { startsOf } from "./prefill-inputs.ts";
import { blockTokens, type Distribution, type PrefixLease } from "./prefix-cache.ts";
import { firstAsked, hasQuestions, type PromptQuestions, promptRows } from "./prompt-rows.ts";

export interface PrefillJob {
  readonly prompt: Int32Array;
  readonly adapter: AdapterWeights | undefined;
  /** 1 / temperature. */
  readonly coldness: number;
  readonly lease: PrefixLease;
  readonly scores: PromptScores;
  readonly isCancelled: () => boolean;
}

/** Requested scores within the prompt. */
export interface PromptScores extends PromptQuestions {
  readonly promptLogprobs: boolean;
  /** 0: none. */
  readonly topkPromptLogprobs: number;
  /** Only the prompt's tokens from this index on are scored. */
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

/** Value of an absent cell of top-k prompt log-probs. */
const noTop = { id: 0, logprob: -99999 } as const;

/** Whether the prompt's own tokens are scored. */
const scoresTokens = ({ promptLogprobs, topkPromptLogprobs }: PromptScores): boolean =>
  promptLogprobs || topkPromptLogprobs > 0;

/** Whether any position of the prompt is scored. */
export const isScored = (scores: PromptScores): boolean => scoresTokens(scores) || hasQuestions(scores);

/** Number of tokens at the start that can come from the cache. A token is scored by the row before it. */
export const unscoredTokens = (scores: PromptScores, length: number): number => {
  if (!isScored(scores)) return length;
  const first = scoresTokens(scores) ? scores.firstScored - 1 : length - 1;
  return Math.max(0, Math.min(first, firstAsked(scores)));
};

/** Scores of a whole prompt, filled in run by run. */
const scoreSheet = (length: number, { promptLogprobs, topkPromptLogprobs: k }: PromptScores) => {
  const logprobs = new Float32Array(length).fill(Number.NaN);
  const top = {
    k,
    tokenIds: new Int32Array(length * k).fill(noTop.id),
    logprobs: new Float32Array(length * k).fill(noTop.logprob),
  };
  return {
    fill: (first: number, scored: NonNullable<PrefillResult["scored"]>): void => {
      const count = scored.logprobs.length;
      logprobs.set(scored.logprobs, first);
      if (k === 0) return;
      top.tokenIds.set(scored.topIds.subarray(0, count * k), first * k);
      top.logprobs.set(scored.top, first * k);
    },
    result: (): Prefilled["prompted"] => ({
      ...(promptLogprobs ? { promptLogprobs: logprobs } : {}),
      ...(k > 0 ? { topkPromptLogprobs: top } : {}),
    }),
  };
};

/** Maximum logits of scored tokens per run: the logits of a long prompt would take more memory than the model. */
export const scoredLogits = 2 ** 23;

/** New tokens of prompts, in total at most the runner's limit. */
export interface PrefillRun {
  readonly pieces: readonly {
    readonly past: readonly KvBlock[];
    readonly tokens: Int32Array;
    readonly adapter: AdapterWeights | undefined;
  }[];
  /** Indices of tokens (over all pieces) after which the distribution is requested, with 1 / temperature for each. */
  readonly rows: Int32Array;
  readonly coldness: Float32Array;
  /** Score these targets after these tokens, and list the k most likely ones. */
  readonly scored?: { readonly rows: Int32Array; readonly targets: Int32Array; readonly k: number };
}

export interface PrefillResult {
  /** The blocks of one piece, of `blockTokens` each; the last has the remainder. */
  take(piece: number): readonly KvBlock[];
  /** The distribution after one of the requested rows, in arrays of its own. */
  distribution(row: number): Distribution;
  readonly scored?: { readonly logprobs: Float32Array; readonly top: Float32Array; readonly topIds: Int32Array };
}

/** Computes new tokens of prompts, on the host or on a device. */
export interface PrefillRunner {
  /** Maximum tokens of a run, without and with scores. */
  readonly most: { readonly plain: number; readonly scored: number };
  prefill(run: PrefillRun): Promise<PrefillResult>;
  /** Divides the same tokens into blocks of `blockTokens`; the last has the remainder. */
  recut(blocks: readonly KvBlock[]): readonly KvBlock[];
}

/** Prefills several prompts that fit one run together, or a single one. Undefined if all are cancelled in the meantime. */
export const prefill = async (
  runner: PrefillRunner,
  jobs: readonly PrefillJob[],
): Promise<readonly Prefilled[] | undefined> => {
  const missing = jobs.filter(({ lease }) => !lease.ending);
  const computed = await computeMissing(runner, missing);
  if (!computed) return undefined;
  return jobs.map((job) => {
    const { ending, blocks } = job.lease;
    if (ending) return { blocks: [...blocks, ending.block], last: ending.last, prompted: {} };
    return computed[missing.indexOf(job)]!;
  });
};

const computeMissing = async (
  runner: PrefillRunner,
  jobs: readonly PrefillJob[],
): Promise<readonly Prefilled[] | undefined> => {
  const [first, ...others] = jobs;
  if (!first) return [];
  return others.length === 0 ? prefillLong(runner, first) : prefillShort(runner, jobs);
};

/** Prompts that share one run. */
const prefillShort = async (runner: PrefillRunner, jobs: readonly PrefillJob[]): Promise<readonly Prefilled[]> => {
  const pieces = jobs.map(({ prompt, adapter, lease }) => ({
    past: lease.blocks,
    tokens: prompt.subarray(lengthOf(lease.blocks)),
    adapter,
  }));
  const starts = startsOf(pieces);
  const result = await runner.prefill({
    pieces,
    rows: Int32Array.from(pieces, ({ tokens }, row) => starts[row]! + tokens.length - 1),
    coldness: Float32Array.from(jobs, ({ coldness }) => coldness),
  });
  return jobs.map((job, row) => ({
    ...finish(runner, job, { made: result.take(row), last: result.distribution(row) }),
    prompted: {},
  }));
};

/** A prompt in one or more runs. */
const prefillLong = async (runner: PrefillRunner, job: PrefillJob): Promise<readonly [Prefilled] | undefined> => {
  const { prompt, adapter, lease, scores, coldness } = job;
  const scored = scoresTokens(scores);
  const sheet = scoreSheet(scored ? prompt.length : 0, scores);
  const asked = promptRows(prompt.length, scores);
  const most = isScored(scores) ? runner.most.scored : runner.most.plain;
  const made: KvBlock[] = [];
  for (const { start, end } of runsOf(lengthOf(lease.blocks), prompt.length, most)) {
    const isLast = end === prompt.length;
    // Row i predicts token i + 1; the last row predicts the first sampled token.
    const firstScored = Math.max(start + 1, scores.firstScored);
    const scoredCount = scored ? Math.max(0, Math.min(end + 1, prompt.length) - firstScored) : 0;
    const questions = asked.within(start, end);
    const wanted = [...questions, ...(isLast ? [end - 1] : [])];
    const result = await runner.prefill({
      pieces: [{ past: [...lease.blocks, ...made], tokens: prompt.subarray(start, end), adapter }],
      rows: Int32Array.from(wanted, (row) => row - start),
      coldness: new Float32Array(wanted.length).fill(coldness),
      ...(scoredCount > 0
        ? {
            scored: {
              rows: Int32Array.from({ length: scoredCount }, (_, i) => firstScored - 1 - start + i),
              targets: prompt.slice(firstScored, firstScored + scoredCount),
              k: scores.topkPromptLogprobs,
            },
          }
        : {}),
    });
    if (result.scored) sheet.fill(firstScored, result.scored);
    questions.forEach((row, index) => {
      asked.take(row, result.distribution(index));
    });
    made.push(...result.take(0));
    if (isLast) {
      const last = result.distribution(questions.length);
      return [{ ...finish(runner, job, { made, last }), prompted: { ...sheet.result(), ...asked.result() } }];
    }
    if (job.isCancelled()) return undefined;
  }
  throw new RangeError("a prompt has a last run");
};

/**
 * Divides tokens `from` to `to` into as few runs as possible, of similar length; runs end at block boundaries if that needs no additional
 * run.
 */
export const runsOf = (from: number, to: number, most: number): { start: number; end: number }[] => {
  const all = to - from;
  const count = Math.ceil(all / most);
  const equal = Math.ceil(all / count);
  const [shorter, longer] = [Math.floor, Math.ceil].map((round) => round(equal / blockTokens) * blockTokens);
  const fits = (size: number): boolean => size > 0 && size <= most && all - (count - 1) * size <= most;
  const size = [longer!, shorter!].find(fits) ?? equal;
  return Array.from({ length: Math.min(count, Math.ceil(all / size)) }, (_, i) => ({
    start: from + i * size,
    end: i === count - 1 ? to : Math.min(to, from + (i + 1) * size),
  }));
};

/** Adds the whole blocks and the end of the prompt to the cache. */
const finish = (
  runner: PrefillRunner,
  { lease }: PrefillJob,
  { made, last }: { readonly made: readonly KvBlock[]; readonly last: Distribution },
): Omit<Prefilled, "prompted"> => {
  const blocks = runner.recut(made);
  const rest = blocks.at(-1)!;
  for (const block of blocks.slice(0, -1)) lease.add(block);
  const all = [...lease.blocks, rest];
  // A prompt with overflowing values is not cached: only its own request fails.
  if (Number.isFinite(last.logSumExp)) lease.end({ block: rest, last });
  if (rest.length === blockTokens) lease.add(rest); // a longer prompt may continue from here
  return { blocks: all, last };
};
