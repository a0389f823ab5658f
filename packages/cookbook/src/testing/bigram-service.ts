/**
 * A service in memory for tests: a table of bigram logits, really trained with Adam on the same losses. Small enough to
 * read, and stateful where it matters: saving and loading must carry weights and moments, or a resumed run differs.
 */
import {
  type AdamParamsInput,
  autodiff,
  type CustomLossFn,
  Datum,
  ForwardBackwardOutput,
  gradient,
  type LossFnType,
  type ModelInput,
  SampledSequence,
  SampleResponse,
  TensorData,
  type TopkLogprobs,
} from "@tinklet/sdk";
import { seededRandom } from "@tinklet/wire/entropy";
import type { Sampler, Scorer, Service, TrainedStep, Trainer } from "../clients.ts";
import { inputTokens } from "../loops/nll.ts";

interface State {
  readonly weights: Float64Array;
  readonly m: Float64Array;
  readonly v: Float64Array;
  readonly steps: number;
}

export class BigramService implements Service {
  readonly vocabSize: number;
  readonly saved = new Map<string, State>();
  /** Every call in order, for example `step`, `saveState final`. */
  readonly calls: string[] = [];
  /** Called at the start of each step. */
  onStep: (() => void) | undefined;
  /** Called with the parameters of each optimizer step. */
  onAdam: ((adam: AdamParamsInput) => void) | undefined;
  /** Called with the tokens of each pass, which is what a service charges for. */
  onTokens: ((tokens: { readonly train?: number; readonly evaluate?: number }) => void) | undefined;
  /** Called at the start of each sample, with the number of steps that its weights have seen. */
  onSample: ((steps: number) => void) | undefined;

  constructor(vocabSize = 128) {
    this.vocabSize = vocabSize;
  }

  trainer(fromPath?: string): Trainer {
    const loaded = fromPath === undefined ? undefined : this.saved.get(fromPath);
    if (fromPath !== undefined && loaded === undefined) throw new Error(`no checkpoint ${fromPath}`);
    const size = this.vocabSize ** 2;
    const empty = { weights: new Float64Array(size), m: new Float64Array(size), v: new Float64Array(size), steps: 0 };
    return new BigramTrainer(this, structuredClone(loaded ?? empty));
  }

  /** The untrained weights, for reference. */
  reference(): Sampler & Scorer {
    const size = this.vocabSize ** 2;
    const [weights, m, v] = [new Float64Array(size), new Float64Array(size), new Float64Array(size)];
    return new BigramSampler(this, { weights, m, v, steps: 0 });
  }

  async createLoraTrainingClient(): Promise<Trainer> {
    return this.trainer();
  }

  async createTrainingClientFromState(path: string): Promise<Trainer> {
    const saved = this.saved.get(path);
    if (saved === undefined) throw new Error(`no checkpoint ${path}`);
    const fresh = saved.weights.map(() => 0);
    return new BigramTrainer(this, structuredClone({ weights: saved.weights, m: fresh, v: fresh.slice(), steps: 0 }));
  }

  async createTrainingClientFromStateWithOptimizer(path: string): Promise<Trainer> {
    return this.trainer(path);
  }
}

class BigramTrainer implements Trainer {
  readonly #service: BigramService;
  #state: State;
  readonly #run: string;
  #accumulated = new Float64Array(0);
  #custom: Promise<ForwardBackwardOutput> | undefined;

  constructor(service: BigramService, state: State) {
    this.#service = service;
    this.#state = state;
    this.#run = `run-${service.calls.filter((call) => call === "open").length}`;
    service.calls.push("open");
  }

  async step(data: readonly Datum[], lossFn: LossFnType, adam: AdamParamsInput = {}): Promise<TrainedStep> {
    this.#service.calls.push("step");
    this.#service.onTokens?.({ train: inputTokens(data) });
    this.#service.onStep?.();
    const slopes = new Float64Array(this.#state.weights.length);
    const output = this.#pass(data, lossFn, slopes);
    this.#update(slopes, adam);
    return { loss: output.loss, metrics: { ...output.metrics, "compute_ms:mean": performance.now() }, output };
  }

  #update(gradient: Float64Array, adam: AdamParamsInput): void {
    this.#service.onAdam?.(adam);
    const { learningRate = 1e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-12 } = adam;
    const { weights, m, v } = this.#state;
    const steps = this.#state.steps + 1;
    for (let i = 0; i < weights.length; i++) {
      const slope = gradient[i] as number;
      m[i] = beta1 * (m[i] as number) + (1 - beta1) * slope;
      v[i] = beta2 * (v[i] as number) + (1 - beta2) * slope * slope;
      const up = (m[i] as number) / (1 - beta1 ** steps);
      weights[i] =
        (weights[i] as number) - (learningRate * up) / (Math.sqrt((v[i] as number) / (1 - beta2 ** steps)) + eps);
    }
    this.#state = { weights, m, v, steps };
  }

  async forward(data: readonly Datum[], lossFn: LossFnType): Promise<ForwardBackwardOutput> {
    this.#service.calls.push("forward");
    this.#service.onTokens?.({ evaluate: inputTokens(data) });
    return this.#pass(data, lossFn);
  }

  async forwardBackward(data: readonly Datum[], lossFn: LossFnType): Promise<ForwardBackwardOutput> {
    this.#service.calls.push("forwardBackward");
    this.#service.onTokens?.({ train: inputTokens(data) });
    return this.#pass(data, lossFn, this.#gradient());
  }

  /** The gradients that the next optimizer step takes. */
  #gradient(): Float64Array {
    if (this.#accumulated.length === 0) this.#accumulated = new Float64Array(this.#state.weights.length);
    return this.#accumulated;
  }

  forwardBackwardCustom(data: readonly Datum[], lossFn: CustomLossFn): Promise<ForwardBackwardOutput> {
    this.#service.calls.push("custom");
    this.#custom = this.#customPass(data, lossFn);
    return this.#custom;
  }

  async #customPass(data: readonly Datum[], lossFn: CustomLossFn): Promise<ForwardBackwardOutput> {
    const output = this.#pass(data, "cross_entropy");
    const leaves = output.lossFnOutputs.map(({ logprobs }) =>
      autodiff.leaf(Array.from(logprobs?.values ?? [], Number)),
    );
    const { loss, metrics } = await lossFn(data, leaves);
    if (typeof loss === "number") throw new Error("only losses on the tape");
    const slopes = gradient(loss, leaves);
    const carried = data.map(
      ({ modelInput, lossFnInputs }, i) =>
        new Datum({ modelInput, lossFnInputs: { ...lossFnInputs, weights: slopes[i]!.map((slope) => -slope) } }),
    );
    this.#pass(carried, "cross_entropy", this.#gradient());
    this.#service.onTokens?.({ train: inputTokens(data) });
    return new ForwardBackwardOutput({ ...output, metrics: { ...output.metrics, ...metrics } });
  }

  async optimStep(adam: AdamParamsInput = {}): Promise<{ metrics: Record<string, number> }> {
    this.#service.calls.push("optimStep");
    await this.#custom; // calls take effect in their order
    this.#service.onStep?.();
    this.#update(this.#gradient(), adam);
    this.#accumulated = new Float64Array(0);
    return { metrics: {} };
  }

  async saveState(name: string): Promise<{ path: string }> {
    return this.#save("saveState", `tinker://${this.#run}/weights/${name}`);
  }

  async saveWeightsForSampler(name: string): Promise<{ path: string }> {
    return this.#save("saveWeightsForSampler", `tinker://${this.#run}/sampler_weights/${name}`);
  }

  #save(call: string, path: string): { path: string } {
    this.#service.calls.push(`${call} ${path.split("/").at(-1)}`);
    this.#service.saved.set(path, structuredClone(this.#state));
    return { path };
  }

  async saveWeightsAndGetSamplingClient(): Promise<Sampler> {
    return new BigramSampler(this.#service, { ...this.#state, weights: this.#state.weights.slice() });
  }

  #pass(data: readonly Datum[], lossFn: LossFnType, gradient?: Float64Array): ForwardBackwardOutput {
    const { vocabSize } = this.#service;
    let total = 0;
    const lossFnOutputs = data.map((datum) => {
      const inputs = datum.modelInput.toInts();
      const targets = datum.lossFnInputs["target_tokens"]?.values ?? [];
      const width = targets.length / inputs.length; // K of [T, K]
      const logprobs = Array.from(targets as ArrayLike<number | bigint>, (id, i) => {
        const token = inputs[Math.floor(i / width)] as number;
        const row = logSoftmax(this.#state.weights, token, vocabSize);
        const target = Number(id);
        const logprob = row[target] as number;
        const [loss, slope] = lossAt(datum, lossFn, i, logprob);
        total += loss;
        if (gradient !== undefined && slope !== 0) {
          // d(logprob of target)/d(logit k) = [k is target] - p(k)
          for (let k = 0; k < vocabSize; k++) {
            const at = token * vocabSize + k;
            gradient[at] = (gradient[at] as number) + slope * ((k === target ? 1 : 0) - Math.exp(row[k] as number));
          }
        }
        return logprob;
      });
      return { logprobs: TensorData.from(Float32Array.from(logprobs)) };
    });
    return new ForwardBackwardOutput({ lossFnOutputType: "x", lossFnOutputs, metrics: { "loss:sum": total } });
  }
}

/** The loss at one position and its derivative by the log-probability. */
function lossAt(datum: Datum, lossFn: LossFnType, i: number, logprob: number): [number, number] {
  const at = (key: string) => Number(datum.lossFnInputs[key]?.values[i] ?? 0);
  if (lossFn === "cross_entropy") return [-at("weights") * logprob, -at("weights")];
  const gain = Math.exp(logprob - at("logprobs")) * at("advantages");
  return [-gain, -gain];
}

function logSoftmax(weights: Float64Array, token: number, vocabSize: number): Float64Array {
  const row = weights.slice(token * vocabSize, (token + 1) * vocabSize);
  const highest = row.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const sum = Math.log(row.reduce((total, x) => total + Math.exp(x - highest), 0)) + highest;
  return row.map((x) => x - sum);
}

class BigramSampler implements Sampler, Scorer {
  readonly #service: BigramService;
  readonly #state: State;

  constructor(service: BigramService, state: State) {
    this.#service = service;
    this.#state = state;
  }

  async computeLogprobs(prompt: ModelInput): Promise<(number | null)[]> {
    const tokens = prompt.toInts();
    return tokens.map((token, i) => {
      if (i === 0) return null;
      return logSoftmax(this.#state.weights, tokens[i - 1] as number, this.#service.vocabSize)[token] as number;
    });
  }

  /** [T, K]; nothing for the first token. */
  #likeliest(prompt: ModelInput, k: number): TopkLogprobs {
    const rows = prompt.toInts().map((_, i, tokens): [number, number][] => {
      if (i === 0) return new Array(k).fill([0, -99999]);
      const row = logSoftmax(this.#state.weights, tokens[i - 1] as number, this.#service.vocabSize);
      return [...row.entries()].sort(([, a], [, b]) => b - a).slice(0, k);
    });
    const tokenIds = Int32Array.from(rows.flat(), ([id]) => id);
    return { tokenIds, logprobs: Float32Array.from(rows.flat(), ([, logprob]) => logprob), k, length: rows.length };
  }

  async sample(prompt: ModelInput, options: Parameters<Sampler["sample"]>[1]): Promise<SampleResponse> {
    const { numSamples = 1, samplingParams = {} } = options;
    const { vocabSize } = this.#service;
    this.#service.onSample?.(this.#state.steps);
    const sequences = Array.from({ length: numSamples }, (_, index) => {
      const random = seededRandom(Number(samplingParams.seed ?? 0) + index);
      const tokens: number[] = [];
      const logprobs: number[] = [];
      let last = prompt.toInts().at(-1) as number;
      const stops = Array.isArray(samplingParams.stop) ? (samplingParams.stop as unknown[]) : [];
      while (tokens.length < (samplingParams.maxTokens ?? 4) && !stops.includes(tokens.at(-1))) {
        const row = logSoftmax(this.#state.weights, last, vocabSize);
        let left = random();
        last = 0;
        for (; last < vocabSize - 1; last++) {
          left -= Math.exp(row[last] as number);
          if (left <= 0) break;
        }
        tokens.push(last);
        logprobs.push(row[last] as number);
      }
      return new SampledSequence({ stopReason: "length", tokens, logprobs });
    });
    const { topkPromptLogprobs: k = 0 } = options;
    return new SampleResponse({ sequences, topkPromptLogprobs: k === 0 ? undefined : this.#likeliest(prompt, k) });
  }
}
