/**
 * The simulated engine. Its results are a pure function of what it was given; each call takes virtual time and may die with the engine.
 */
import {
  type AdapterInfo,
  type AdapterState,
  type Engine,
  EngineError,
  InputError,
  type LossRequest,
  type LossResult,
  MemoryError,
} from "@tinklet/engine";
import {
  AdapterTable,
  engineWithoutModel,
  filledLora,
  nameA,
  nameB,
  width,
} from "../../../packages/server/src/testing/engine-parts.ts";
import {
  accumulated,
  initialState,
  type ModelState,
  sampledLogprob,
  sampledTokens,
  stepped,
  targetLogprobs,
} from "./arithmetic.ts";
import type { Random } from "./random.ts";
import type { Owner, Scheduler } from "./scheduler.ts";

/** That of the tokenizer. */
export const vocabularySize = 269;
export const contextLength = 512;

/** The hash of a base model without an adapter. */
export const baseWeights = 0;

export interface SimulatedEngineOptions {
  readonly scheduler: Scheduler;
  readonly owner: Owner;
  readonly random: Random;
  /** Longest time of one call. */
  readonly callMs: number;
  /** Adapters and snapshots that fit into its memory. */
  readonly capacity: number;
}

export interface SimulatedEngine extends Engine {
  /** Ends the engine as a crash of its thread does: everything in its memory is gone, and calls under way fail. */
  die(): void;
}

interface Adapter {
  readonly lora: AdapterState["lora"];
  step: number;
  state: ModelState;
}

/** Sixteen bits in each number: exact in float32. */
const limbs = (hash: number): number[] => [hash & 0xffff, hash >>> 16];
const joined = (values: ArrayLike<number>): number => (values[0]! + values[1]! * 65536) >>> 0;

export function simulatedEngine({
  scheduler,
  owner,
  random,
  callMs,
  capacity,
}: SimulatedEngineOptions): SimulatedEngine {
  const adapters = new AdapterTable<Adapter>();
  const underWay = new Set<(error: Error) => void>();
  let gone: EngineError | undefined;
  let line: Promise<unknown> = Promise.resolve();

  const takesTime = (label: string, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      if (gone !== undefined) return reject(gone);
      const end = () => {
        underWay.delete(fail);
        signal?.removeEventListener("abort", aborted);
      };
      const fail = (error: Error) => {
        end();
        cancel();
        reject(error);
      };
      const aborted = () => fail(signal?.reason as Error);
      if (signal?.aborted === true) return reject(signal.reason);
      underWay.add(fail);
      const cancel = scheduler.after(owner, random.fraction() * callMs, `engine ${label}`, () => {
        end();
        resolve();
      });
      signal?.addEventListener("abort", aborted, { once: true });
    });
  /** Training calls run one after the other, in the order of the calls. */
  const inLine = <T>(name: string, body: () => T): Promise<T> => {
    const done = line.then(async () => {
      await takesTime(name);
      return body();
    });
    line = done.catch(() => {});
    return done;
  };
  const checkMemory = () => {
    if (adapters.held >= capacity) throw new MemoryError(`the memory is full: it holds ${adapters.held} adapters`);
  };
  const live = (id: string): Adapter => adapters.live(id);
  const checkTokens = (tokens: ArrayLike<number>, field: string) => {
    for (let i = 0; i < tokens.length; i++) {
      const token = tokens[i]!;
      if (token >= 0 && token < vocabularySize) continue;
      throw new InputError(`${field}[${i}]`, `token ${token} is not in the vocabulary of ${vocabularySize}`);
    }
  };
  const info = (adapterId: string): AdapterInfo => {
    const { lora, step } = live(adapterId);
    return { adapterId, lora, parameters: 2 * width * lora.rank, step };
  };
  const put = (adapter: Adapter): AdapterInfo => {
    checkMemory();
    return info(adapters.add(adapter));
  };
  const keep = (adapter: Adapter): string => {
    checkMemory();
    return adapters.addSnapshot(adapter);
  };
  const array = (rank: number, values: readonly number[]): Float32Array => {
    const data = new Float32Array(width * rank);
    data.set(values);
    return data;
  };
  const exported = ({ lora, step, state }: Adapter, optimizer: boolean): AdapterState => {
    const { rank } = lora;
    const weights = {
      [nameA]: { data: array(rank, limbs(state.weights)), shape: [rank, width] },
      [nameB]: { data: array(rank, []), shape: [width, rank] },
    };
    if (!optimizer) return { lora, step, weights };
    const moments = (values: readonly number[]) => ({ [nameA]: array(rank, values), [nameB]: array(rank, []) });
    return { lora, step, weights, optimizer: { m: moments(limbs(state.moments)), v: moments([]) } };
  };
  const restored = (from: AdapterState): Adapter => ({
    lora: from.lora,
    step: from.optimizer === undefined ? 0 : from.step,
    state: {
      weights: joined(from.weights[nameA]!.data),
      moments: from.optimizer === undefined ? 0 : joined(from.optimizer.m[nameA]!),
      gradient: 0,
    },
  });
  const pass = (adapter: Adapter | undefined, request: LossRequest): { result: LossResult; state: ModelState } => {
    for (const key of Object.keys(request.lossFnConfig ?? {})) {
      if (!/^clip_(low|high)_threshold$/.test(key))
        throw new InputError(`lossFnConfig.${key}`, "there is no such setting");
    }
    let state = adapter?.state ?? { weights: baseWeights, moments: 0, gradient: 0 };
    const start = state;
    let sum = 0;
    const lossFnOutputs = request.data.map(({ tokens, lossFnInputs }, i) => {
      const target = lossFnInputs["target_tokens"];
      if (target === undefined) throw new InputError(`data[${i}].lossFnInputs.target_tokens`, "is required");
      checkTokens(tokens, `data[${i}].tokens`);
      const example = { tokens: Array.from(tokens), targets: Array.from(target.data as ArrayLike<number>, Number) };
      const logprobs = Float32Array.from(targetLogprobs(start, example));
      state = accumulated(state, example);
      sum -= logprobs.reduce((all, value) => all + value, 0);
      const shape = target.shape ?? [logprobs.length];
      return {
        logprobs: { data: logprobs, shape },
        elementwise_loss: {
          data: logprobs.map((value, at) => -value * Number(lossFnInputs["weights"]?.data[at] ?? 1)),
          shape,
        },
      };
    });
    return { result: { lossFnOutputs, metrics: { "loss:sum": sum } }, state };
  };
  const end = (error: EngineError) => {
    gone = error;
    for (const fail of [...underWay]) fail(error);
  };

  return {
    ...engineWithoutModel({ origin: "simulated", vocabSize: vocabularySize, contextLength }),
    createAdapter: (lora) =>
      inLine("createAdapter", () =>
        put({
          lora: filledLora(lora),
          step: 0,
          state: initialState(lora.seed ?? 1),
        }),
      ),
    adapterInfo: async (id) => info(id),
    deleteAdapter: (id) => inLine("deleteAdapter", () => adapters.delete(id)),
    forward: (id, request) => inLine("forward", () => pass(id === null ? undefined : adapters.any(id), request).result),
    forwardBackward: (id, request) =>
      inLine("forwardBackward", () => {
        const { result, state } = pass(live(id), request);
        live(id).state = state;
        return result;
      }),
    optimStep: (id, params) =>
      inLine("optimStep", () => {
        const adapter = live(id);
        adapter.state = stepped(adapter.state, params?.learningRate ?? 1e-4);
        adapter.step++;
        return { metrics: { "unclipped_grad_l2:mean": 1 }, step: adapter.step };
      }),
    snapshot: (id) => inLine("snapshot", () => keep({ ...live(id) })),
    importSnapshot: (state) => inLine("importSnapshot", () => keep(restored(state))),
    deleteSnapshot: async (id) => adapters.deleteSnapshot(id),
    exportState: (id, { optimizer = false } = {}) => inLine("exportState", () => exported(adapters.any(id), optimizer)),
    importState: (state) => inLine("importState", () => put(restored(state))),
    loadState: (id, state) =>
      inLine("loadState", () => {
        adapters.replace(id, restored(state));
        return info(id);
      }),
    sample: async (request, { signal, onToken } = {}) => {
      const { prompt, params = {}, numSamples = 1, adapter } = request;
      if (prompt.length >= contextLength)
        throw new InputError("prompt", `must be shorter than ${contextLength} tokens`);
      checkTokens(prompt, "prompt");
      const { constraint, stop = [] } = params;
      if (typeof stop !== "string" && Array.from<string | number>(stop).includes(""))
        throw new InputError("params.stop[0]", "must not be empty: it would stop every sample at once");
      if (constraint?.type === "json_schema" && (constraint.schema as { type?: unknown }).type === "nothing")
        throw new InputError("params.constraint.schema.type", "must be a type of JSON");
      await takesTime("sample", signal);
      const weights = adapter === undefined ? baseWeights : adapters.any(adapter).state.weights;
      const seed = params.seed ?? 1;
      const length = Math.min(params.maxTokens ?? 4, contextLength - prompt.length);
      const sequences = Array.from({ length: numSamples }, (_, i) => {
        const tokens = sampledTokens(weights, Array.from(prompt), seed + i, length, vocabularySize);
        return {
          stopReason: "length" as const,
          tokens: Int32Array.from(tokens),
          logprobs: Float32Array.from(tokens, (token) => sampledLogprob(weights, token)),
        };
      });
      for (const [index, { tokens, logprobs }] of onToken === undefined ? [] : sequences.entries()) {
        for (const [at, token] of tokens.entries()) {
          await takesTime("token", signal);
          onToken?.({ index, token, logprob: logprobs[at]!, promptCacheHitTokens: 0 });
        }
      }
      const firstScored = prompt.length - (request.promptLogprobsLastN ?? prompt.length);
      const scored = (at: number) => at > 0 && at >= firstScored;
      const promptLogprobs = Float32Array.from(prompt as ArrayLike<number>, (token, at) =>
        scored(at) ? sampledLogprob(weights, token) : Number.NaN,
      );
      const {
        topkPromptLogprobs: topPrompt = 0,
        topkSampleLogprobs: top = 0,
        promptAltTokensK: alternatives = 0,
      } = request;
      const { targetPromptLogprobs: targets } = request;
      /** The tokens from each one on, in place of the likeliest. */
      const table = (tokens: readonly number[], k: number) => {
        const tokenIds = Int32Array.from(
          tokens.flatMap((token) => Array.from({ length: k }, (_, i) => (token + i) % vocabularySize)),
        );
        return { k, tokenIds, logprobs: Float32Array.from(tokenIds, (token) => sampledLogprob(weights, token)) };
      };
      return {
        sequences: sequences.map((each) =>
          top === 0
            ? each
            : { ...each, topkLogprobs: { ...table(Array.from(each.tokens), top), length: each.tokens.length } },
        ),
        seed,
        promptCacheHitTokens: 0,
        ...(request.promptLogprobs === true ? { promptLogprobs } : {}),
        ...(topPrompt > 0 ? { topkPromptLogprobs: table(Array.from(prompt), topPrompt) } : {}),
        ...(alternatives > 0 ? { promptAltTokens: table(Array.from(prompt).slice(1), alternatives) } : {}),
        ...(targets === undefined
          ? {}
          : { targetPromptLogprobs: Float32Array.from(targets.tokens, (token) => sampledLogprob(weights, token)) }),
      };
    },
    stats: async () => ({
      weightsBytes: 0,
      adaptersBytes: 0,
      cacheBytes: 0,
      prefixCacheBytes: 0,
      grammarBytes: 0,
      residentBytes: 0,
      activeSequences: 0,
      waitingSequences: 0,
    }),
    close: async () => end(new EngineError("closed", "the engine is closed")),
    [Symbol.asyncDispose]: async () => end(new EngineError("closed", "the engine is closed")),
    die: () => end(new EngineError("worker_died", "the engine's thread died")),
  };
}
