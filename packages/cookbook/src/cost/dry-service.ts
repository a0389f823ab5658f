/**
 * A service that computes nothing and counts what it is asked, for the price of a recipe before it is run. Its answers are ordinary words
 * without a meaning, as long as they may be.
 */
import {
  autodiff,
  type CustomLossFn,
  type Datum,
  ForwardBackwardOutput,
  type ModelInput,
  SampledSequence,
  SampleResponse,
  TensorData,
  type Tokenizer,
} from "@tinklet/sdk";
import { seededRandom } from "@tinklet/wire/entropy";
import type { Sampler, Scorer, Service, Trainer } from "../clients.ts";
import { inputTokens } from "../loops/nll.ts";
import { sumOf, type TokenCounts } from "./budget.ts";

/** Length of an answer that was given no limit, in tokens. */
const usualAnswer = 256;
/** The log-prob of every token. Costs do not depend on it. */
const logprob = -1;

/** Counts what it is asked. */
export class DryService implements Service {
  #asked: TokenCounts = sumOf([]);
  /** Tokens that could be learned from, of what trainers' own weights answered. */
  #answered = 0;
  readonly #words: readonly number[];

  constructor(tokenizer: Tokenizer) {
    this.#words = ordinaryTokens(tokenizer);
  }

  /** What was asked since the last time. Training is counted as if every answer of a trainer's own weights were learned from. */
  taken(): Required<TokenCounts> {
    const { train, evaluate, sample = 0 } = this.#asked;
    const taken = { train: Math.max(train, this.#answered), evaluate, sample };
    this.#asked = sumOf([]);
    this.#answered = 0;
    return taken;
  }

  /** Tokens since they were last taken. */
  get tokens(): number {
    const { train, evaluate, sample = 0 } = this.#asked;
    return train + evaluate + sample;
  }

  async createSamplingClient(): Promise<Sampler & Scorer> {
    return this.#sampler(false);
  }

  async createLoraTrainingClient(): Promise<Trainer> {
    return this.#trainer();
  }

  async createTrainingClientFromState(): Promise<Trainer> {
    return this.#trainer();
  }

  async createTrainingClientFromStateWithOptimizer(): Promise<Trainer> {
    return this.#trainer();
  }

  #count(tokens: Partial<TokenCounts>): void {
    this.#asked = sumOf([this.#asked, { train: 0, evaluate: 0, ...tokens }]);
  }

  #trainer(): Trainer {
    const pass = async (data: readonly Datum[], kind: "train" | "evaluate") => {
      this.#count({ [kind]: inputTokens(data) });
      return passOf(data);
    };
    const path = async (name: string) => ({ path: `tinker://dry-run/weights/${name}` });
    return {
      step: async (data) => {
        const output = await pass(data, "train");
        return { loss: output.loss, metrics: output.metrics, output };
      },
      forward: (data) => pass(data, "evaluate"),
      forwardBackward: (data) => pass(data, "train"),
      forwardBackwardCustom: async (data: readonly Datum[], lossFn: CustomLossFn) => {
        this.#count({ evaluate: inputTokens(data) }); // the pass that the loss is computed from
        const output = await pass(data, "train");
        const leaves = output.lossFnOutputs.map(({ logprobs }) =>
          autodiff.leaf(Array.from(logprobs?.values ?? [], Number)),
        );
        const { metrics } = await lossFn(data, leaves);
        return new ForwardBackwardOutput({ ...output, metrics: { ...output.metrics, ...metrics } });
      },
      optimStep: async () => ({ metrics: {} }),
      saveState: path,
      saveWeightsForSampler: path,
      saveWeightsAndGetSamplingClient: async () => this.#sampler(true),
    };
  }

  #sampler(isPolicy: boolean): Sampler & Scorer {
    return {
      sample: async (prompt, { numSamples = 1, samplingParams = {}, topkPromptLogprobs: k = 0 }) => {
        const length = samplingParams.maxTokens ?? usualAnswer;
        const [sample, evaluate] = [numSamples * length, numSamples * prompt.length];
        this.#count({ sample, evaluate });
        if (isPolicy) this.#answered += sample + evaluate;
        const sequences = Array.from({ length: numSamples }, (_, index) => {
          const random = seededRandom(Number(samplingParams.seed ?? 0) + index);
          const word = () => this.#words[Math.floor(random() * this.#words.length)] as number;
          const tokens = Array.from({ length }, word);
          return new SampledSequence({ stopReason: "length", tokens, logprobs: tokens.map(() => logprob) });
        });
        return new SampleResponse({ sequences, topkPromptLogprobs: k === 0 ? undefined : likeliest(prompt, k) });
      },
      computeLogprobs: async (prompt) => {
        this.#count({ evaluate: prompt.length });
        return Array.from({ length: prompt.length }, (_, i) => (i === 0 ? null : logprob));
      },
    };
  }
}

/** A pass in which every target has the same log-probability. */
function passOf(data: readonly Datum[]): ForwardBackwardOutput {
  const lossFnOutputs = data.map(({ lossFnInputs: { target_tokens: targets } }) => ({
    logprobs: TensorData.from(new Float32Array(targets?.values.length ?? 0).fill(logprob)),
  }));
  return new ForwardBackwardOutput({ lossFnOutputType: "dry_run", lossFnOutputs, metrics: { "loss:sum": 0 } });
}

/** [T, K]: the tokens that are there, and others of the same probability; an empty row for the first. */
function likeliest(prompt: ModelInput, k: number) {
  const { length } = prompt;
  const tokenIds = Int32Array.from(prompt.toInts().flatMap((token) => new Array<number>(k).fill(token)));
  const logprobs = new Float32Array(length * k).fill(logprob);
  tokenIds.fill(0, 0, k);
  logprobs.fill(-99999, 0, k);
  return { tokenIds, logprobs, k, length };
}

/** Some hundred tokens that are words, or at least not special. */
function ordinaryTokens(tokenizer: Tokenizer): number[] {
  const step = Math.max(1, Math.floor(tokenizer.vocabSize / 2048));
  const ids = Array.from({ length: Math.floor(tokenizer.vocabSize / step) }, (_, at) => at * step).filter(
    (id) => !tokenizer.isSpecial(id),
  );
  const words = ids.filter((id) => /^ ?[a-z]+$/i.test(tokenizer.decode([id])));
  return words.length > 0 ? words : ids;
}
