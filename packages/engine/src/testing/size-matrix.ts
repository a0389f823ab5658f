/**
 * Sampling, scoring and training over combinations of sizes. Each case is run, all results must be finite, and log-probs are compared with
 * those of a float64 forward pass without rank blocks, caches or batching. Tests run a selection; `npm run drill -- sizes` runs all.
 */
import type { Adapter } from "../adapter/adapter.ts";
import type { LoadedModel } from "../model/load.ts";
import { createRandom } from "../random.ts";
import { createInterpreter } from "../runtime/interpreter.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { best } from "../sample/choose-token.ts";
import { Sampler } from "../sample/sampler.ts";
import { Trainer } from "../train/trainer.ts";
import type { LossRequest, SampleRequest, SampleResult, TrainingDatum } from "../types.ts";
import { allCombinations, type Combination, pairwise } from "./combinations.ts";
import { noisyAdapter } from "./noisy-adapter.ts";
import { createRoundingRuntime, inFloat64, Tolerance, toleranceOf } from "./rounding.ts";
import { passOf } from "./training-pass.ts";

/** Whether all combinations are run (hours) instead of a selection (seconds). */
export const isFull = process.env["SIZES"] === "all";

const contextLength = 1024;
const trainerOptions = { activationBytes: 1e11, contextLength };
/** Runs of Monte Carlo arithmetic. Few, because the deviation is common to thousands of values of a kind. */
const noiseRuns = 1;
/** More for gradients of a few tokens, which have few independent errors. */
const gradientNoiseRuns = 4;
/** Number of sampled tokens. */
const sampled = 3;
/** Number of listed tokens per position. */
const listed = 3;
/** Number of scored tokens at the end of a prompt, if only those are scored. */
const lastScored = 5;
/** The token that a bias forces after every prompt, as in the reference. */
const forced = 7;

/** Around the maximum rows of a run, around twice as many, one row, and a length that shares a run with other prompts. */
const lengths = [1, 100, 255, 256, 257, 511, 512, 513, 1000] as const;
/** One, less than a rank block, a block, one more, whole blocks, and the maximum number of terms that is never split. */
const ranks = [1, 5, 16, 17, 32, 64, 128] as const;

export const sampleFactors = {
  rank: ranks,
  length: lengths,
  /** Scores within the prompt: none, its tokens, also the most likely tokens, only the last tokens, given tokens at some positions. */
  scores: ["none", "tokens", "top", "last", "targets"],
  /** Concurrent samples: the base model, or adapters of other ranks, started before or after. */
  company: ["none", "base", "before", "after"],
  /** A single sample has forced tokens and is compared whole; of three free samples only the first token is compared. */
  samples: [1, 3],
  /** Half of the prompt was sampled before. */
  cache: ["cold", "warm"],
} as const;
export type SampleCase = Combination<typeof sampleFactors>;

export const trainFactors = {
  rank: ranks,
  length: lengths,
  pass: ["score", "train"],
  /** The sequence alone, with shorter ones, or with one that has a common prefix. */
  batch: ["alone", "packed", "tree"],
  /** Positions with weight: the second half (an untrained prompt), all, or none. */
  weights: ["half", "all", "none"],
} as const;
export type TrainCase = Combination<typeof trainFactors>;

/** All combinations of the main factors and few of the others: the full program of slower runtimes. */
export const manySamples: readonly SampleCase[] = [
  ...allCombinations({
    ...sampleFactors,
    scores: ["none", "tokens", "top"],
    company: ["none", "before"],
    cache: ["cold"],
  } as const),
  ...pairwise(sampleFactors),
];
export const manyPasses: readonly TrainCase[] = [
  ...allCombinations({ ...trainFactors, weights: ["half"] } as const),
  ...pairwise(trainFactors),
];

/** Gradients compared with float64: one per length, rank and batch. */
export const gradientCases = (of: readonly TrainCase["length"][]): TrainCase[] =>
  of.map((length, i) => ({
    rank: ranks[(3 * i + 4) % ranks.length]!,
    length,
    pass: "train",
    batch: trainFactors.batch[i % trainFactors.batch.length]!,
    weights: "half",
  }));

/** Log-probs of every vocabulary token after each token of a sequence, with float32's error bounds. */
interface Reference {
  readonly exact: Float32Array;
  readonly allowed: Float64Array;
}

/** The failure of a case, or undefined. */
type Problem = string | undefined;

/** The failures of several cases. */
export const problemsOf = async <C>(
  cases: readonly C[],
  run: (given: C) => Promise<Problem>,
): Promise<readonly string[]> => {
  const problems: string[] = [];
  for (const each of cases) {
    const problem = await run(each);
    if (problem !== undefined) problems.push(`${JSON.stringify(each)}: ${problem}`);
  }
  return problems;
};

/** The part that is compared with float64, which is slow; other cases are only run. */
export interface Compared {
  readonly ranks: readonly number[];
  /** Maximum prompt length. */
  readonly longest: number;
}

export class SizeMatrix {
  readonly #model: LoadedModel;
  readonly #sequence: Int32Array;
  readonly #adapters = new Map<number, Adapter>();
  readonly #references = new Map<number, Promise<Reference>>();
  readonly #compared: Compared;

  constructor(model: LoadedModel, compared: Compared = { ranks, longest: Math.max(...lengths) }) {
    const random = createRandom(1, "sequence");
    this.#model = model;
    this.#compared = compared;
    this.#sequence = Int32Array.from({ length: Math.max(...lengths) + sampled }, () =>
      Math.floor(random() * model.config.vocabSize),
    );
    for (const length of lengths) this.#sequence.fill(forced, length, length + sampled);
  }

  adapter(rank: number): Adapter {
    let adapter = this.#adapters.get(rank);
    if (!adapter) {
      adapter = noisyAdapter(this.#model.config, { rank, seed: rank });
      this.#adapters.set(rank, adapter);
    }
    return adapter;
  }

  #isCompared({ rank, length }: { readonly rank: number; readonly length: number }): boolean {
    return this.#compared.ranks.includes(rank) && length <= this.#compared.longest;
  }

  /** Computed by the training graph, which scores the whole vocabulary at every position. */
  #reference(rank: number): Promise<Reference> {
    let reference = this.#references.get(rank);
    if (!reference) {
      reference = this.#compute(rank);
      this.#references.set(rank, reference);
    }
    return reference;
  }

  async #compute(rank: number): Promise<Reference> {
    const { vocabSize } = this.#model.config;
    const tokens = this.#sequence.subarray(0, this.#compared.longest + sampled);
    const targets = Int32Array.from({ length: tokens.length * vocabSize }, (_, i) => i % vocabSize);
    const shape = [tokens.length, vocabSize];
    const request: LossRequest = {
      lossFn: "cross_entropy",
      data: [{ tokens, lossFnInputs: { target_tokens: { data: targets, shape } } }],
    };
    const on = async (runtime: Runtime): Promise<{ logprobs: Float32Array }> => {
      const trainer = this.trainer(runtime);
      const { lossFnOutputs } = await trainer.forward(inFloat64(this.adapter(rank)), request);
      await trainer.dispose();
      return { logprobs: lossFnOutputs[0]!.logprobs.data };
    };
    const exact = await on(createInterpreter({ float64: true }));
    const spread = [];
    for (let seed = 1; seed <= noiseRuns; seed++) spread.push(await on(createRoundingRuntime(seed)));
    return { exact: exact.logprobs, allowed: new Tolerance(exact, spread).allowed("logprobs") };
  }

  /** The sampler of a runtime, with weights packed as in an engine with a small model. */
  sampler(runtime: Runtime, { cacheBytes = 1e9 }: { readonly cacheBytes?: number } = {}): Sampler {
    const packing = ({ native: "all", wasm: "decoding", interpreter: "none" } as const)[runtime.name];
    return new Sampler(this.#model, runtime, {
      contextLength,
      maxBatch: 8,
      cacheBytes,
      eosTokenIds: [],
      packing,
    });
  }

  trainer(runtime: Runtime): Trainer {
    return new Trainer(this.#model, runtime, trainerOptions);
  }

  /** Runs one case of sampling. */
  async sample(sampler: Sampler, given: SampleCase): Promise<Problem> {
    try {
      const { own, others, request } = await this.#run(sampler, given);
      return (
        others.map((each) => this.#samplesProblem(each)).find((each) => each !== undefined) ??
        this.#samplesProblem(own) ??
        scoresProblem(own, given) ??
        (this.#isCompared(given) ? await this.#compare(own, { request, given }) : undefined)
      );
    } catch (error) {
      return String(error);
    }
  }

  /** Samples have equal bits with other scores, with cached prompts, and with concurrent samples. */
  async independence(sampler: Sampler, { rank, length }: Pick<SampleCase, "rank" | "length">): Promise<Problem> {
    const base = { rank, length, scores: "none", company: "none", samples: 3, cache: "cold" } as const;
    const changes: readonly Partial<SampleCase>[] = [
      { company: "base" },
      { company: "before", cache: "warm" },
      { company: "after", scores: "top" },
    ];
    const { own: expected } = await this.#run(sampler, base);
    for (const change of changes) {
      const { own } = await this.#run(sampler, { ...base, ...change });
      for (const [i, { tokens, logprobs }] of own.sequences.entries()) {
        const first = expected.sequences[i]!;
        const isEqual = String(tokens) === String(first.tokens) && String(logprobs) === String(first.logprobs);
        if (!isEqual)
          return `${JSON.stringify(change)}: ${tokens}, ${logprobs} instead of ${first.tokens}, ${first.logprobs}`;
      }
    }
    return undefined;
  }

  async #run(
    sampler: Sampler,
    given: SampleCase,
  ): Promise<{ own: SampleResult; others: readonly SampleResult[]; request: SampleRequest }> {
    const { rank, length, scores, company, samples, cache } = given;
    const adapter = this.adapter(rank);
    const scope = JSON.stringify(given);
    const prompt = this.#sequence.subarray(0, length);
    const ask = async (asked: readonly (readonly [SampleRequest, Adapter | undefined])[]): Promise<SampleResult[]> => {
      const handles = asked.map(([request, weights]) => sampler.submit({ ...request, scope }, weights));
      const results = Promise.all(handles.map(({ result }) => result));
      results.catch(() => {}); // awaited below, after the last step
      while (sampler.busy) await sampler.step();
      return results;
    };
    if (cache === "warm") {
      const half = prompt.subarray(0, Math.ceil(length / 2));
      await ask([[{ prompt: half, params: { maxTokens: 1, seed: 1 } }, adapter]]);
    }
    const request: SampleRequest = {
      prompt,
      numSamples: samples,
      params: { maxTokens: sampled, seed: 1, ...(samples === 1 ? { logitBias: [[forced, 1000]] } : {}) },
      ...this.#scored(scores, prompt),
    };
    const others = this.#company(company, given);
    const isLast = company === "before";
    const results = await ask(isLast ? [...others, [request, adapter]] : [[request, adapter], ...others]);
    const own = results.splice(isLast ? -1 : 0, 1)[0]!;
    return { own, others: results, request };
  }

  #scored(scores: SampleCase["scores"], { length }: Int32Array): Partial<SampleRequest> {
    if (scores === "none" || (scores === "targets" && length === 1)) return {};
    if (scores === "targets") {
      const positions = Int32Array.of(1, Math.ceil(length / 2), length - 1);
      return { targetPromptLogprobs: { positions, tokens: positions.map((at) => at % this.#model.config.vocabSize) } };
    }
    return {
      promptLogprobs: true,
      ...(scores === "top" ? { topkPromptLogprobs: listed, topkSampleLogprobs: listed } : {}),
      ...(scores === "last" ? { promptLogprobsLastN: lastScored } : {}),
    };
  }

  /** Prompts of similar length to the case's, if that is short. */
  #company(
    company: SampleCase["company"],
    { rank, length }: SampleCase,
  ): readonly (readonly [SampleRequest, Adapter | undefined])[] {
    if (company === "none") return [];
    const next = ranks[(ranks.indexOf(rank) + 1) % ranks.length]!;
    const weights =
      company === "base" ? [undefined] : [this.adapter(next), undefined, this.adapter(5), this.adapter(64)];
    return weights.map((each, i) => {
      const start = 17 * (i + 1);
      const prompt = this.#sequence.subarray(start, start + Math.min(length, 40) + i);
      return [{ prompt, params: { maxTokens: 2 + i, seed: i } }, each];
    });
  }

  #samplesProblem({ sequences }: SampleResult): Problem {
    const { vocabSize } = this.#model.config;
    for (const { tokens, logprobs } of sequences) {
      if (tokens.length === 0) return "no tokens were sampled";
      if (!tokens.every((token) => token >= 0 && token < vocabSize)) return `sampled tokens ${tokens.join()}`;
      if (!logprobs.every((value) => Number.isFinite(value) && value <= 0)) return `log-probs ${logprobs.join()}`;
    }
    return undefined;
  }

  /** Compares all returned log-probs with the reference. */
  async #compare(
    { sequences, promptLogprobs, topkPromptLogprobs, targetPromptLogprobs }: SampleResult,
    { request, given }: { readonly request: SampleRequest; readonly given: SampleCase },
  ): Promise<Problem> {
    const { vocabSize } = this.#model.config;
    const check = createCheck(await this.#reference(given.rank), vocabSize);
    const { length } = request.prompt;
    for (const { tokens, logprobs, topkLogprobs } of sequences) {
      const known = given.samples === 1 ? sampled : 1; // after the first token, free samples differ from the reference
      for (let i = 0; i < known; i++) {
        check.token({ position: length + i, token: tokens[i]!, logprob: logprobs[i]! });
        if (given.samples === 1 && tokens[i] !== forced) return `sampled ${tokens.join()} against the bias`;
        if (topkLogprobs) check.listed(length + i, topkLogprobs, i);
      }
    }
    for (let position = firstScored(given); promptLogprobs && position < length; position++) {
      check.token({ position, token: this.#sequence[position]!, logprob: promptLogprobs[position]! });
      if (topkPromptLogprobs) check.listed(position, topkPromptLogprobs, position);
    }
    targetPromptLogprobs?.forEach((logprob, i) => {
      const { positions, tokens } = request.targetPromptLogprobs!;
      check.token({ position: positions[i]!, token: tokens[i]!, logprob });
    });
    return check.problem();
  }

  /** The data of one case of training or scoring. */
  #request({ length, batch, weights }: TrainCase): LossRequest {
    const datum = (tokens: Int32Array, targets: Int32Array): TrainingDatum => ({
      tokens,
      lossFnInputs: {
        target_tokens: { data: targets },
        weights: {
          data: Float32Array.from(tokens, (_, i) => {
            if (weights === "none") return 0;
            return weights === "all" || i >= Math.floor(tokens.length / 2) ? 1 : 0;
          }),
        },
      },
    });
    const part = (start: number, size: number): TrainingDatum =>
      datum(this.#sequence.subarray(start, start + size), this.#sequence.subarray(start + 1, start + size + 1));
    const branch = this.#sequence.slice(0, length);
    branch.set(this.#sequence.subarray(200, 200 + Math.floor(length / 2)), Math.ceil(length / 2));
    const others = {
      alone: [],
      packed: [part(20, 7), part(30, 130)],
      tree: [datum(branch, branch.toReversed())],
    }[batch];
    return { lossFn: "cross_entropy", data: [part(0, length), ...others] };
  }

  /** Runs one case of training or scoring. */
  async train(trainer: Trainer, given: TrainCase): Promise<Problem> {
    const adapter: Adapter = { ...this.adapter(given.rank) };
    const request = this.#request(given);
    try {
      const { lossFnOutputs, metrics } =
        given.pass === "train"
          ? await trainer.forwardBackward(adapter, request)
          : await trainer.forward(adapter, request);
      if (!Number.isFinite(metrics["loss:sum"])) return `the loss is ${metrics["loss:sum"]}`;
      if (given.pass === "train" && !adapter.gradient?.every(Number.isFinite)) return "the gradient is not finite";
      if (lossFnOutputs.some(({ logprobs }) => !logprobs.data.every(Number.isFinite)))
        return "log-probs are not finite";
      if (!this.#isCompared(given)) return undefined;
      const check = createCheck(await this.#reference(given.rank), this.#model.config.vocabSize);
      lossFnOutputs[0]!.logprobs.data.forEach((logprob, i) => {
        check.token({ position: i + 1, token: this.#sequence[i + 1]!, logprob });
      });
      return check.problem();
    } catch (error) {
      return String(error);
    }
  }

  /** Compares a whole gradient with float64. */
  async gradient(on: readonly Runtime[], given: TrainCase): Promise<Problem> {
    const compute = passOf(this.#model, this.#request(given), trainerOptions);
    const adapter = (): Adapter => ({ ...this.adapter(given.rank) });
    const tolerance = await toleranceOf(compute, adapter, gradientNoiseRuns);
    for (const runtime of on) {
      const { share, where } = tolerance.worst(await compute(runtime, adapter()));
      if (!(share <= 1)) return `${runtime.name}: ${where}`;
    }
    return undefined;
  }
}

/** The first scored position of a prompt. */
const firstScored = ({ scores, length }: SampleCase): number =>
  scores === "last" ? Math.max(1, length - lastScored) : 1;

/** Checks that the requested scores, and no others, are present and finite. */
const scoresProblem = (
  { promptLogprobs, topkPromptLogprobs, targetPromptLogprobs }: SampleResult,
  given: SampleCase,
): Problem => {
  const { scores, length } = given;
  const first = firstScored(given);
  const expected = { none: 0, targets: 0, tokens: length, top: length, last: length }[scores];
  if ((promptLogprobs?.length ?? 0) !== expected) return `${promptLogprobs?.length} prompt log-probs`;
  if ((topkPromptLogprobs?.logprobs.length ?? 0) !== (scores === "top" ? listed * length : 0)) return "another table";
  const wrong = promptLogprobs?.findIndex((value, at) => (at < first ? !Number.isNaN(value) : !Number.isFinite(value)));
  if (wrong !== undefined && wrong >= 0)
    return `position ${wrong} of the prompt is scored with ${promptLogprobs![wrong]}`;
  const others = [...(topkPromptLogprobs?.logprobs ?? []), ...(targetPromptLogprobs ?? [])];
  return others.every(Number.isFinite) ? undefined : "a score within the prompt is not finite";
};

/** Compares log-probs with a reference and keeps the worst. */
const createCheck = ({ exact, allowed }: Reference, vocabSize: number) => {
  let worst = { share: 1, problem: undefined as Problem };
  const note = (share: number, problem: string): void => {
    if (share > worst.share || Number.isNaN(share)) worst = { share, problem };
  };
  /** @param position - of the token, one after the row that predicts it */
  const token = (at: { position: number; token: number; logprob: number }): void => {
    const cell = (at.position - 1) * vocabSize + at.token;
    const error = Math.abs(at.logprob - exact[cell]!);
    note(
      error / allowed[cell]!,
      `token ${at.token} at ${at.position}: ${at.logprob} instead of ${exact[cell]} ± ${allowed[cell]}`,
    );
  };
  return {
    token,
    /** Checks a list of the most likely tokens: each log-prob, and that no token left out is more likely than float32's error allows. */
    listed: (
      position: number,
      table: { k: number; tokenIds: Int32Array; logprobs: Float32Array },
      row: number,
    ): void => {
      const start = (position - 1) * vocabSize;
      const likeliest = best(exact.subarray(start, start + vocabSize), table.k);
      for (let i = 0; i < table.k; i++) {
        const id = table.tokenIds[row * table.k + i]!;
        token({ position, token: id, logprob: table.logprobs[row * table.k + i]! });
        const missed = exact[start + likeliest[i]!]! - exact[start + id]!;
        note(missed / (2 * allowed[start + id]!), `token ${id} is listed as the ${i + 1}. at ${position}`);
      }
    },
    problem: (): Problem => worst.problem,
  };
};
