/**
 * An engine for tests of the server: deterministic and fast. It has weights, moments and accumulated gradients, so that a lost, repeated or
 * reordered call changes its results. `beforeCall` lets a test observe, delay or fail calls.
 */
import {
  type AdamParams,
  type AdapterInfo,
  type AdapterState,
  type Engine,
  EngineError,
  InputError,
  type LossRequest,
  type LossResult,
  type SampleRequest,
  type SampleResult,
  type TensorOutput,
} from "@tinklet/engine";
import { seededRandom } from "@tinklet/wire/entropy";
import { AdapterTable, engineWithoutModel, filledLora, nameA, nameB, width } from "./engine-parts.ts";

export interface FakeEngineOptions {
  readonly contextLength?: number;
  readonly vocabSize?: number;
  /** @defaultValue 64 */
  readonly maxRank?: number;
  /** Awaited before each call takes effect. */
  readonly beforeCall?: (name: string, adapter: string | null) => Promise<void> | void;
  /** Awaited in `close`. */
  readonly beforeClose?: () => Promise<void> | void;
  /** Called with each sample. */
  readonly onSample?: (request: SampleRequest) => void;
  /** `promptCacheHitTokens` of every sample. @defaultValue 0 */
  readonly cachedTokens?: number;
  /** The tokens of a sample instead of random ones; it stops after the last one or at the request's limit. */
  readonly reply?: (request: SampleRequest, index: number) => readonly number[];
  /** Awaited before each token of a streamed sample. */
  readonly beforeToken?: () => Promise<void> | void;
}

interface Adapter {
  readonly lora: AdapterState["lora"];
  step: number;
  weights: Float32Array;
  m: Float32Array;
  v: Float32Array;
  gradient: Float32Array;
}

export function fakeEngine(options: FakeEngineOptions = {}): Engine {
  const { contextLength = 512, vocabSize = 512, maxRank = 64, cachedTokens = 0 } = options;
  const { beforeCall, beforeToken, onSample, reply } = options;
  const adapters = new AdapterTable<Adapter>();
  let closed = false;
  let tail: Promise<unknown> = Promise.resolve();

  /** Runs training calls sequentially in call order, as the real engine does. */
  const queued = <T>(name: string, adapter: string | null, body: () => T): Promise<T> => {
    const done = tail.then(async () => {
      await beforeCall?.(name, adapter);
      if (closed) throw new EngineError("closed", "the engine is closed");
      return body();
    });
    tail = done.catch(() => {});
    return done;
  };
  const live = (id: string): Adapter => adapters.live(id);
  const info = (adapterId: string): AdapterInfo => {
    const { lora, weights, step } = live(adapterId);
    return { adapterId, lora, parameters: weights.length, step };
  };
  const fresh = (lora: AdapterState["lora"]): Adapter => {
    const size = 2 * width * lora.rank;
    const zeros = () => new Float32Array(size);
    const draw = seededRandom(lora.seed);
    const weights = zeros().map((_, i) => (i < size / 2 ? draw() - 0.5 : 0));
    return { lora, step: 0, weights, m: zeros(), v: zeros(), gradient: zeros() };
  };
  const split = ({ lora, weights }: Adapter): Record<string, TensorOutput> => ({
    [nameA]: { data: weights.slice(0, weights.length / 2), shape: [lora.rank, width] },
    [nameB]: { data: weights.slice(weights.length / 2), shape: [width, lora.rank] },
  });
  const join = (parts: Readonly<Record<string, Float32Array>>): Float32Array =>
    Float32Array.from([...parts[nameA]!, ...parts[nameB]!]);
  const restored = (state: AdapterState): Adapter => {
    const weights = join({ [nameA]: state.weights[nameA]!.data, [nameB]: state.weights[nameB]!.data });
    const adapter = fresh(state.lora);
    adapter.weights = weights;
    if (state.optimizer !== undefined) {
      adapter.m = join(state.optimizer.m);
      adapter.v = join(state.optimizer.v);
      adapter.step = state.step;
    }
    return adapter;
  };
  const put = (adapter: Adapter): AdapterInfo => info(adapters.add(adapter));

  const loss = (adapter: Adapter | undefined, request: LossRequest, gradient: Float32Array | undefined): LossResult => {
    if (request.data.length === 0) throw new InputError("data", "is empty");
    let sum = 0;
    const outputs = request.data.map((datum, i) => {
      if (datum.tokens.length > contextLength)
        throw new InputError(
          `data[${i}].tokens`,
          `${datum.tokens.length} tokens exceed the context of ${contextLength}`,
        );
      const targets = datum.lossFnInputs["target_tokens"];
      if (targets === undefined) throw new InputError(`data[${i}].target_tokens`, "is required");
      const strange = Array.from(targets.data as Int32Array, Number).find((token) => token < 0 || token >= vocabSize);
      if (strange !== undefined)
        throw new InputError(`data[${i}].target_tokens`, `${strange} is not in the vocabulary`);
      const weights = datum.lossFnInputs["weights"]?.data;
      const logprobs = Float32Array.from(targets.data as Int32Array, (target, at) => {
        const parameters = adapter?.weights ?? new Float32Array(2 * width);
        const cell = (Number(target) + at * 7) % parameters.length;
        const weight = weights === undefined ? 1 : Number(weights[at] ?? 0);
        const logprob = -1 - Math.abs(Math.fround(parameters[cell]! + Number(datum.tokens[at] ?? 0) / vocabSize));
        if (gradient !== undefined) gradient[cell] = Math.fround(gradient[cell]! + weight * (parameters[cell]! + 0.01));
        sum -= weight * logprob;
        return logprob;
      });
      const shape = targets.shape ?? [targets.data.length];
      const elementwise = logprobs.map((value, at) => -value * Number(weights?.[at] ?? 1));
      return { logprobs: { data: logprobs, shape }, elementwise_loss: { data: elementwise, shape } };
    });
    return { lossFnOutputs: outputs, metrics: { "loss:sum": sum } };
  };

  const optimize = (adapter: Adapter, params: AdamParams = {}): Record<string, number> => {
    const { learningRate = 1e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-12 } = params;
    const norm = Math.sqrt(adapter.gradient.reduce((total, g) => total + g * g, 0));
    adapter.step++;
    for (let i = 0; i < adapter.weights.length; i++) {
      const g = adapter.gradient[i]!;
      adapter.m[i] = beta1 * adapter.m[i]! + (1 - beta1) * g;
      adapter.v[i] = beta2 * adapter.v[i]! + (1 - beta2) * g * g;
      const m = adapter.m[i]! / (1 - beta1 ** adapter.step);
      const v = adapter.v[i]! / (1 - beta2 ** adapter.step);
      adapter.weights[i] = adapter.weights[i]! - (learningRate * m) / (Math.sqrt(v) + eps);
    }
    adapter.gradient.fill(0);
    return { "unclipped_grad_l2:mean": norm };
  };

  const sample = (request: SampleRequest): SampleResult => {
    const { prompt, params = {}, numSamples = 1 } = request;
    for (const [i, token] of Array.from(prompt).entries()) {
      if (token < 0 || token >= vocabSize) throw new InputError(`prompt[${i}]`, `${token} is not in the vocabulary`);
    }
    if (prompt.length >= contextLength)
      throw new InputError("prompt", `${prompt.length} tokens leave no room in a context of ${contextLength}`);
    const weights = request.adapter === undefined ? undefined : adapters.any(request.adapter).weights;
    const shift = weights === undefined ? 0 : Math.floor(Math.abs(weights.reduce((a, b) => a + b, 0)) * 1e4);
    const seed = params.seed ?? 1;
    const length = Math.min(
      params.maxTokens ?? (reply === undefined ? 16 : contextLength),
      contextLength - prompt.length,
    );
    const stop = Array.isArray(params.stop) ? new Set(params.stop as readonly unknown[]) : new Set<unknown>();
    const sequences = Array.from({ length: numSamples }, (_, i) => {
      const draw = seededRandom(seed + i + shift + Array.from(prompt).reduce((a, b) => a + b, 0));
      const tokens: number[] = [];
      let stopReason: "stop" | "length" = "length";
      const fixed = reply?.(request, i);
      while (tokens.length < length) {
        tokens.push(fixed?.[tokens.length] ?? Math.floor(draw() * vocabSize));
        if (stop.has(tokens.at(-1)) || tokens.length === fixed?.length) {
          stopReason = "stop";
          break;
        }
      }
      return {
        stopReason,
        tokens: Int32Array.from(tokens),
        logprobs: Float32Array.from(tokens, (t) => -1 - t / vocabSize),
      };
    });
    const { promptLogprobsLastN = prompt.length, targetPromptLogprobs, topkSampleLogprobs: k = 0 } = request;
    const promptLogprobs = Float32Array.from(prompt as readonly number[], (t, i) =>
      i === 0 || i < prompt.length - promptLogprobsLastN ? Number.NaN : -t / vocabSize,
    );
    const drawn = (request.promptAltTokensK ?? 0) * (prompt.length - 1);
    const table = (width: number, cells: number) => ({
      k: width,
      tokenIds: Int32Array.from({ length: cells }, (_, i) => i % vocabSize),
      logprobs: Float32Array.from({ length: cells }, (_, i) => -i - 1),
    });
    return {
      sequences: sequences.map((each) => (k > 0 ? { ...each, topkLogprobs: table(k, k * each.tokens.length) } : each)),
      seed,
      promptCacheHitTokens: cachedTokens,
      ...(request.promptLogprobs === true ? { promptLogprobs } : {}),
      ...(targetPromptLogprobs === undefined
        ? {}
        : {
            // a distinct value per position and token
            targetPromptLogprobs: Float32Array.from(
              targetPromptLogprobs.tokens,
              (token, i) => -(targetPromptLogprobs.positions[i]! * 1000 + token),
            ),
          }),
      ...(drawn > 0 ? { promptAltTokens: table(request.promptAltTokensK!, drawn) } : {}),
    };
  };

  return {
    ...engineWithoutModel({ origin: "fake", vocabSize, contextLength }),
    createAdapter: (lora) =>
      queued("createAdapter", null, () => {
        if (lora.rank > maxRank) throw new InputError("rank", `${lora.rank} is more than ${maxRank}`);
        return put(fresh(filledLora(lora)));
      }),
    adapterInfo: async (id) => info(id),
    deleteAdapter: (id) => queued("deleteAdapter", id, () => adapters.delete(id)),
    forward: (id, request) =>
      queued("forward", id, () => loss(id === null ? undefined : adapters.any(id), request, undefined)),
    forwardBackward: (id, request) =>
      queued("forwardBackward", id, () => {
        const gradient = new Float32Array(live(id).gradient);
        const result = loss(live(id), request, gradient); // a failed call does not change the adapter
        live(id).gradient = gradient;
        return result;
      }),
    optimStep: (id, params) =>
      queued("optimStep", id, () => ({ metrics: optimize(live(id), params), step: live(id).step })),
    snapshot: (id) =>
      queued("snapshot", id, () => adapters.addSnapshot({ ...live(id), weights: live(id).weights.slice() })),
    importSnapshot: (state) => queued("importSnapshot", null, () => adapters.addSnapshot(restored(state))),
    deleteSnapshot: async (id) => adapters.deleteSnapshot(id),
    exportState: (id, { optimizer = false } = {}) =>
      queued("exportState", id, () => {
        const adapter = adapters.any(id);
        const { lora, step } = adapter;
        const moments = (values: Float32Array) =>
          Object.fromEntries(Object.entries(split({ ...adapter, weights: values })).map(([k, t]) => [k, t.data]));
        const state = { lora, step, weights: split(adapter) };
        return optimizer ? { ...state, optimizer: { m: moments(adapter.m), v: moments(adapter.v) } } : state;
      }),
    importState: (state) => queued("importState", null, () => put(restored(state))),
    loadState: (id, state) =>
      queued("loadState", id, () => {
        adapters.replace(id, restored(state));
        return info(id);
      }),
    sample: async (request, { signal, onToken } = {}) => {
      const stopped = new Promise<never>((_, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      });
      await Promise.race([beforeCall?.("sample", request.adapter ?? null), stopped]);
      if (closed) throw new EngineError("closed", "the engine is closed");
      onSample?.(request);
      const result = sample(request);
      for (const [index, { tokens }] of onToken === undefined ? [] : result.sequences.entries()) {
        for (const token of tokens) {
          await Promise.race([beforeToken?.(), stopped]);
          const top = Array.from({ length: request.topkSampleLogprobs ?? 0 }, (_, i) => [token + i, -1 - i] as const);
          onToken?.({
            index,
            token,
            logprob: -1,
            promptCacheHitTokens: result.promptCacheHitTokens,
            ...(top.length === 0 ? {} : { top }),
          });
        }
      }
      return result;
    },
    stats: async () => ({
      weightsBytes: 0,
      adaptersBytes: adapters.count * width * 8,
      cacheBytes: 0,
      prefixCacheBytes: 0,
      grammarBytes: 0,
      residentBytes: 0,
      activeSequences: 0,
      waitingSequences: 0,
    }),
    close: async () => {
      await options.beforeClose?.();
      closed = true;
    },
    [Symbol.asyncDispose]: async () => {
      closed = true;
    },
  };
}
