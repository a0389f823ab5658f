/** Runs the extend graph: compiles its variants on first use and lays out their inputs. */
import type { AdapterWeights } from "../adapter/adapter.ts";
import { masked } from "../model/attention.ts";
import type { LoadedModel } from "../model/load.ts";
import { RopeCache } from "../model/rope.ts";
import { createProgramCache } from "../runtime/program-cache.ts";
import { f32, i32, type Program, type Runtime, type Value } from "../runtime/runtime.ts";
import { fuseWeights } from "./fused.ts";
import { extendGraph, queryRows, scoreTail } from "./graph.ts";
import { lengthOf } from "./kv-block.ts";
import type { Past } from "./kv-cache.ts";
import type { PrefillRun } from "./prefill.ts";
import { type PromptPiece, prefillInputs } from "./prefill-inputs.ts";
import { type RowLimits, rowLimits } from "./run-rows.ts";
import { type AdapterStack, selectionOf, stackAdapters } from "./stack-adapters.ts";

/** Programs with packed weights: none, those for decoding, or also those for prompts. */
export type Packing = "none" | "decoding" | "all";

/** One new token for each sequence. */
export interface DecodeStep {
  /** Number of rows: see `decodeRows`. */
  readonly past: Past;
  readonly tokens: Int32Array;
  /** One per sequence; undefined for the base model. */
  readonly adapters: readonly (AdapterWeights | undefined)[];
  /** 1 / temperature of each sequence. */
  readonly coldness: Float32Array;
}

/** New tokens of prompts, at most `rowLimits.most` in total. */
export interface HostPrefillRun extends Omit<PrefillRun, "pieces"> {
  readonly pieces: readonly (PromptPiece & { readonly adapter: AdapterWeights | undefined })[];
}

/**
 * Rows of a step over this many sequences. A single row is padded to two: the runtime computes products of one row differently, with other
 * last bits, and a sequence's bits must not change when other sequences leave the batch.
 */
export const decodeRows = (sequences: number): number => Math.max(2, sequences);

export interface ExtensionResult {
  /** Keys and values of the new tokens: `[rows, kvHeads, 1, headDim]` in decoding, `[kvHeads, rows, headDim]` for prompts. */
  readonly fresh: (layer: number, side: "k" | "v") => Float32Array;
  /** Rows of the run, padding included. */
  readonly rows: number;
  readonly logits: Float32Array;
  /** Of the untempered logits. */
  readonly logSumExp: Float64Array;
  readonly probabilities: Float32Array;
  readonly scored?: { readonly logprobs: Float32Array; readonly top: Float32Array; readonly topIds: Int32Array };
}

export class Extender {
  /** Number of tokens of a prefill run. */
  readonly rowLimits: RowLimits;
  readonly #model: LoadedModel;
  readonly #runtime: Runtime;
  readonly #rope: RopeCache;
  readonly #programs = createProgramCache();
  readonly #packing: Packing;
  #stack: { adapters: readonly AdapterWeights[]; stack: AdapterStack } | undefined;

  constructor(model: LoadedModel, runtime: Runtime, options: { readonly packing: Packing }) {
    this.rowLimits = rowLimits(model.config, runtime.threads);
    this.#model = model;
    this.#runtime = runtime;
    this.#rope = new RopeCache(model.config);
    this.#packing = options.packing;
  }

  #program(stack: AdapterStack | undefined, decode: boolean, prompt: boolean): Promise<Program> {
    const adapters = stack ? { targets: stack.targets, blocked: stack.blocked } : {};
    return this.#programs.get([adapters, decode, prompt], () => {
      // With and without scores alike: products with packed weights have other bits, and both share a prefix cache.
      const own = this.#packing === "all" || (decode && this.#packing === "decoding");
      const graph = extendGraph(this.#model.config, { ...adapters, decode, prompt });
      const names = graph.weights.map(({ name }) => name);
      return this.#runtime.compile(graph, fuseWeights(this.#model.weights, names), { packWeights: own });
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

  /** Frees the stacked copy of the last adapters. */
  forgetAdapters(): void {
    this.#stack = undefined;
  }

  /** Runs one new token of every sequence. */
  decode({ past, tokens, adapters, coldness }: DecodeStep): Promise<ExtensionResult> {
    const { heads, kvHeads, layers } = this.#model.config;
    const rows = decodeRows(past.lengths.length);
    const { room } = past;
    const pastMask = new Float32Array(rows * room).fill(masked);
    past.lengths.forEach((length, row) => {
      pastMask.fill(0, row * room, row * room + length);
    });
    const tail = new Float32Array(rows * heads * scoreTail).fill(masked);
    const each = queryRows(this.#model.config);
    const inputs: Record<string, Value> = {
      tokens: i32(padded(tokens, rows), [rows]),
      position_ids: i32(padded(Int32Array.from(past.lengths), rows), [rows, 1]),
      "mask.past": f32(pastMask, [rows, 1, 1, 1, room]),
      "mask.tail": f32(tail, [rows, kvHeads, each.products, each.rows, scoreTail]),
      lengths: i32(Int32Array.of(1, room, scoreTail), [3]),
    };
    for (let layer = 0; layer < layers; layer++) {
      for (const side of ["k", "v"] as const) inputs[`past.${side}.${layer}`] = past.view(layer, side);
    }
    return this.#run(inputs, {
      decode: true,
      positions: Math.max(...past.lengths) + 1,
      adapters: Array.from({ length: rows }, (_, row) => adapters[row]),
      fewest: rows,
      rows: Int32Array.from(tokens, (_, row) => row),
      coldness,
    });
  }

  /** Runs new tokens of prompts. */
  prefill({ pieces, ...wanted }: HostPrefillRun): Promise<ExtensionResult> {
    const adapters = pieces.flatMap(({ tokens, adapter }) => Array.from(tokens, () => adapter));
    while (adapters.length < this.rowLimits.fewest) adapters.push(undefined);
    return this.#run(prefillInputs(this.#model.config, pieces, adapters.length), {
      decode: false,
      positions: Math.max(...pieces.map(({ past, tokens }) => lengthOf(past) + tokens.length)),
      adapters,
      fewest: this.rowLimits.fewestOfHead,
      ...wanted,
    });
  }

  async #run(inputs: Record<string, Value>, run: Run): Promise<ExtensionResult> {
    const { vocabSize } = this.#model.config;
    const { scored, fewest } = run;
    const tables = this.#rope.tables(run.positions);
    const count = run.rows.length;
    // At least one row of the head, because not every runtime supports empty tensors; its result is not read.
    const wanted = count === 0 ? 1 : Math.max(fewest, count);
    Object.assign(inputs, {
      cos: f32(tables.cos, tables.dims),
      sin: f32(tables.sin, tables.dims),
      rows: i32(padded(run.rows, wanted), [wanted]),
      coldness: f32(padded(run.coldness, wanted), [wanted, 1]),
    });
    const stack = this.#stackOf(run.adapters);
    if (stack) Object.assign(inputs, stack.inputs, { "lora.select": selectionOf(stack, run.adapters) });
    if (scored) {
      const rows = Math.max(fewest, scored.rows.length);
      inputs["scored.rows"] = i32(padded(scored.rows, rows), [rows]);
      inputs["scored.targets"] = i32(padded(scored.targets, rows), [rows, 1]);
      inputs["scored.k"] = i32(Int32Array.of(Math.max(1, scored.k)), [1]);
    }
    const program = await this.#program(stack, run.decode, scored !== undefined);
    const outputs = await program.run(inputs);
    const floats = (name: string): Float32Array => asFloat32(outputs[name]!.data);
    const logSumExp = (prefix: string, length: number): Float64Array => {
      const [logit, probability] = [floats(`${prefix}.logit`), floats(`${prefix}.probability`)];
      return Float64Array.from({ length }, (_, row) => logit[row]! - Math.log(probability[row]!));
    };
    return {
      fresh: (layer, side) => floats(`${side}.${layer}`),
      rows: run.adapters.length,
      logits: floats("logits").subarray(0, count * vocabSize),
      logSumExp: logSumExp("largest", count),
      probabilities: floats("probabilities").subarray(0, count * vocabSize),
      ...(scored
        ? {
            scored: {
              ...scoresOf(floats, logSumExp("scored.largest", scored.rows.length)),
              topIds: outputs["scored.topIds"]!.data as Int32Array,
            },
          }
        : {}),
    };
  }

  dispose(): Promise<void> {
    return this.#programs.dispose();
  }
}

/** The common part of decoding and prefill. */
interface Run {
  readonly decode: boolean;
  /** Length of the longest sequence. */
  readonly positions: number;
  /** One per row, padding included. */
  readonly adapters: readonly (AdapterWeights | undefined)[];
  /** Minimum rows of the head; padding is not read. */
  readonly fewest: number;
  readonly rows: Int32Array;
  readonly coldness: Float32Array;
  readonly scored?: PrefillRun["scored"];
}

const asFloat32 = (data: Value["data"]): Float32Array =>
  data instanceof Float32Array ? data : Float32Array.from(data as Float64Array);

/** The values, padded with zeros. */
const padded = <T extends Int32Array | Float32Array>(values: T, length: number): T => {
  if (values.length === length) return values;
  const longer = values instanceof Int32Array ? new Int32Array(length) : new Float32Array(length);
  longer.set(values);
  return longer as T;
};

/** Log-probs of the targets and of the k most likely tokens at each scored row. */
const scoresOf = (
  floats: (name: string) => Float32Array,
  logSumExp: Float64Array,
): { logprobs: Float32Array; top: Float32Array } => {
  const [logits, top] = [floats("scored.logits"), floats("scored.top")];
  const k = top.length / logits.length;
  return {
    logprobs: Float32Array.from(logSumExp, (sum, row) => Math.min(0, logits[row]! - sum)),
    top: Float32Array.from({ length: logSumExp.length * k }, (_, i) => top[i]! - logSumExp[Math.floor(i / k)]!),
  };
};
