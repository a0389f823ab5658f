/** Runs the extend graph: compiles its variants on first use and lays out their inputs. Knows nothing of requests or sampling. */
import type { AdapterWeights } from "../adapter/adapter.ts";
import type { LoadedModel } from "../model/load.ts";
import { RopeCache } from "../model/rope.ts";
import { createProgramCache } from "../runtime/program-cache.ts";
import { f32, i32, type Program, type Runtime, type Value } from "../runtime/runtime.ts";
import { type AdapterStack, selectionOf, stackAdapters } from "./adapters.ts";
import { fuseWeights } from "./fused.ts";
import { extendGraph, scoreTail } from "./graph.ts";
import type { Past } from "./kv-block.ts";

const masked = -1e30;

/** New tokens for each sequence: `time` per sequence, row-major. */
export interface Extension {
  /** With as many rows as `rowsFor` says. */
  readonly past: Past;
  readonly tokens: Int32Array;
  readonly time: number;
  /** One per sequence; undefined is the base model. */
  readonly adapters: readonly (AdapterWeights | undefined)[];
  /** Packed rows (row · time + t) whose distribution is wanted, with 1 / temperature for each. */
  readonly rows: Int32Array;
  readonly coldness: Float32Array;
  /** Score these targets at these packed rows, and list the k best. */
  readonly scored?: { readonly rows: Int32Array; readonly targets: Int32Array; readonly k: number };
}

/**
 * Rows that a run of so many sequences has. A single row is padded to two: products of one row take another path in the runtime, whose
 * last bits differ, and a sequence must not change when its neighbours leave.
 */
export const rowsFor = (sequences: number, time: number): number => (time === 1 ? Math.max(2, sequences) : sequences);

export interface ExtensionResult {
  /** Keys and values of the new tokens, `[rows, kvHeads, time, headDim]`. */
  readonly fresh: (layer: number, side: "k" | "v") => Float32Array;
  readonly logits: Float32Array;
  /** Of the untempered logits. */
  readonly logSumExp: Float64Array;
  readonly probabilities: Float32Array;
  readonly scored?: { readonly logprobs: Float32Array; readonly top: Float32Array; readonly topIds: Int32Array };
}

export class Extender {
  readonly #model: LoadedModel;
  readonly #runtime: Runtime;
  readonly #rope: RopeCache;
  readonly #programs = createProgramCache();
  readonly #packWeights: boolean;
  #stack: { adapters: readonly AdapterWeights[]; stack: AdapterStack } | undefined;

  constructor(model: LoadedModel, runtime: Runtime, options: { packWeights: boolean }) {
    this.#model = model;
    this.#runtime = runtime;
    this.#rope = new RopeCache(model.config);
    this.#packWeights = options.packWeights;
  }

  #program(stack: AdapterStack | undefined, decode: boolean, prompt: boolean): Promise<Program> {
    const adapters = stack ? { targets: stack.targets, blocked: stack.blocked } : {};
    return this.#programs.get([adapters, decode, prompt], () => {
      // Prompts have the rows to do without.
      const own = this.#packWeights && decode;
      const graph = extendGraph(this.#model.config, { ...adapters, decode, fused: own, prompt });
      const names = graph.weights.map(({ name }) => name);
      const weights = own ? fuseWeights(this.#model.weights, names) : this.#model.weights;
      return this.#runtime.compile(graph, weights, { packWeights: own });
    });
  }

  /** The stack of a set of adapters; rebuilt only when the set changes. */
  #stackOf(adapters: readonly (AdapterWeights | undefined)[]): AdapterStack | undefined {
    const distinct = [...new Set(adapters)].filter((adapter) => adapter !== undefined);
    if (distinct.length === 0) return undefined;
    const known = this.#stack;
    if (known?.adapters.length === distinct.length && distinct.every((adapter) => known.stack.columns.has(adapter))) {
      return known.stack;
    }
    const stack = stackAdapters(this.#model.config, distinct);
    this.#stack = { adapters: distinct, stack };
    return stack;
  }

  /** Drops the stacked copy of the last adapters, which may be gone by now. */
  forgetAdapters(): void {
    this.#stack = undefined;
  }

  /** Runs `time` new tokens of every sequence. */
  async extend(extension: Extension): Promise<ExtensionResult> {
    const { past, time, scored } = extension;
    const { config } = this.#model;
    const batch = rowsFor(past.lengths.length, time);
    const tokens = new Int32Array(batch * time);
    tokens.set(extension.tokens);
    const longest = Math.max(...past.lengths) + time;
    const tables = this.#rope.tables(longest);
    const positions = new Int32Array(batch * time);
    const { room } = past;
    const pastMask = new Float32Array(batch * room).fill(masked);
    past.lengths.forEach((length, row) => {
      pastMask.fill(0, row * room, row * room + length);
      for (let t = 0; t < time; t++) positions[row * time + t] = length + t;
    });
    const decode = time === 1 && !scored;
    const count = extension.rows.length;
    const padded = count === 0 ? 0 : Math.max(2, count);
    const rows = new Int32Array(padded);
    rows.set(extension.rows);
    const coldness = new Float32Array(padded).fill(1);
    coldness.set(extension.coldness);
    const stack = this.#stackOf(extension.adapters);
    const inputs: Record<string, Value> = {
      tokens: i32(tokens, [tokens.length]),
      cos: f32(tables.cos, tables.dims),
      sin: f32(tables.sin, tables.dims),
      position_ids: i32(positions, [batch, time]),
      "mask.past": f32(pastMask, [batch, 1, 1, room]),
      rows: i32(rows, [rows.length]),
      coldness: f32(coldness, [rows.length, 1]),
    };
    Object.assign(inputs, decode ? this.#decodeInputs(batch, room) : this.#prefillInputs(batch, time, room));
    for (let layer = 0; layer < config.layers; layer++) {
      for (const side of ["k", "v"] as const) inputs[`past.${side}.${layer}`] = past.view(layer, side);
    }
    if (stack) {
      const perToken = Array.from({ length: batch * time }, (_, i) => extension.adapters[Math.floor(i / time)]);
      Object.assign(inputs, stack.inputs, { "lora.select": selectionOf(stack, perToken) });
    }
    if (scored) {
      inputs["scored.rows"] = i32(scored.rows, [scored.rows.length]);
      inputs["scored.targets"] = i32(scored.targets, [scored.targets.length, 1]);
      inputs["scored.k"] = i32(Int32Array.of(Math.max(1, scored.k)), [1]);
    }
    const program = await this.#program(stack, decode, scored !== undefined);
    const outputs = await program.run(inputs);
    const floats = (name: string): Float32Array => asFloat32(outputs[name]!.data);
    const largest = { logit: floats("largest.logit"), probability: floats("largest.probability") };
    return {
      fresh: (layer, side) => floats(`${side}.${layer}`),
      logits: floats("logits").subarray(0, count * config.vocabSize),
      logSumExp: Float64Array.from({ length: count }, (_, row) => {
        return largest.logit[row]! - Math.log(largest.probability[row]!);
      }),
      probabilities: floats("probabilities").subarray(0, count * config.vocabSize),
      ...(scored
        ? {
            scored: {
              logprobs: floats("scored.logprobs"),
              top: floats("scored.top"),
              topIds: outputs["scored.topIds"]!.data as Int32Array,
            },
          }
        : {}),
    };
  }

  #decodeInputs(batch: number, room: number): Record<string, Value> {
    const { heads, kvHeads } = this.#model.config;
    return {
      "mask.tail": f32(new Float32Array(batch * heads * scoreTail).fill(masked), [
        batch,
        kvHeads,
        heads / kvHeads,
        scoreTail,
      ]),
      lengths: i32(Int32Array.of(1, room, scoreTail), [3]),
    };
  }

  #prefillInputs(batch: number, time: number, room: number): Record<string, Value> {
    const { heads, kvHeads } = this.#model.config;
    const causal = new Float32Array(time * time);
    for (let t = 0; t < time; t++) causal.fill(masked, t * time + t + 1, (t + 1) * time);
    return {
      "index.q": i32(headIndex(batch, heads, time), [batch, heads, time]),
      "index.kv": i32(headIndex(batch, kvHeads, time), [batch, kvHeads, time]),
      "unpack.q": i32(headIndex(batch, time, heads), [batch * heads * time]),
      "mask.new": f32(causal, [time, time]),
      lengths: i32(Int32Array.of(time, room), [2]),
    };
  }

  dispose(): Promise<void> {
    return this.#programs.dispose();
  }
}

const asFloat32 = (data: Value["data"]): Float32Array =>
  data instanceof Float32Array ? data : Float32Array.from(data as Float64Array);

/** Where element (batch, i, j) of a `[batch, outer, inner]` array lies in one stored as `[batch, inner, outer]`. */
const headIndex = (batch: number, outer: number, inner: number): Int32Array => {
  const index = new Int32Array(batch * outer * inner);
  let at = 0;
  for (let b = 0; b < batch; b++) {
    for (let i = 0; i < outer; i++) {
      for (let j = 0; j < inner; j++) index[at++] = (b * inner + j) * outer + i;
    }
  }
  return index;
};
