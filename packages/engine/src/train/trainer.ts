/**
 * Runs losses over batches: checks data, splits it into runs that fit, packs each, calls the program and puts log-probs, losses and
 * gradients back where they belong. Everything depends on the inputs alone, so the same call gives the same bits.
 */
import { type Adapter, type AdapterWeights, adapterInputs } from "../adapter/adapter.ts";
import { MemoryError } from "../errors.ts";
import type { LoadedModel } from "../model/load.ts";
import { RopeCache } from "../model/rope.ts";
import { f32, i32, type Runtime, type Value } from "../runtime/runtime.ts";
import type { LossFnName, LossRequest, LossResult } from "../types.ts";
import { type CheckedDatum, checkRequest } from "./data.ts";
import { losses, SLOPE_TERMS } from "./losses.ts";
import { packSequences, planRuns } from "./pack.ts";
import { type ProgramKey, TrainingPrograms } from "./programs.ts";

/** Tokens beyond which a larger run is no faster per token. */
const ENOUGH_TOKENS = 1024;
/** Length from which the attention probabilities outweigh all else that a layer keeps. */
const LONG_SEQUENCE = 512;
/** Bytes of one slot's [rows, vocabulary] matrix that still fit the last-level cache of common machines. */
const SLOT_BYTES = 24e6;
/** Rows of a slot: below the smaller number the products become inefficient whatever the cache, beyond the larger no better. */
const SLOT_ROWS = { least: 256, most: 512 };
const SLOTS = 8;

export interface TrainerOptions {
  /** Bytes that activations of one run may take. */
  readonly activationBytes: number;
  readonly contextLength: number;
  /** Awaited before each run of a call; what it throws ends the call. */
  readonly beforeRun?: () => Promise<void>;
}

/** A row of the vocabulary projection: which packed row, which datum, which position. */
interface HeadRow {
  readonly row: number;
  readonly datum: CheckedDatum;
  readonly position: number;
  readonly logprobs: Float32Array;
}

export class Trainer {
  readonly #model: LoadedModel;
  readonly #programs: TrainingPrograms;
  readonly #rope: RopeCache;
  readonly #options: TrainerOptions;

  constructor(model: LoadedModel, runtime: Runtime, options: TrainerOptions) {
    this.#model = model;
    this.#programs = new TrainingPrograms(model, runtime);
    this.#rope = new RopeCache(model.config);
    this.#options = options;
  }

  /**
   * Bytes that one token's activations take in a run of sequences of this length. Training keeps those of every layer for the way
   * back, and at the head a row of the unembedding for each of `width` targets; scoring has one layer's at a time.
   */
  bytesPerToken(length: number, { train = true, width = 1 } = {}): number {
    const { hiddenSize, heads, kvHeads, headDim, mlpSize, layers, vocabSize } = this.#model.config;
    const probabilities = train && length < LONG_SEQUENCE ? heads * length : 0;
    const perLayer = 4 * hiddenSize + 3 * heads * headDim + 4 * kvHeads * headDim + 3 * mlpSize + probabilities;
    const perTarget = train ? hiddenSize : 3;
    const transient =
      8 * mlpSize +
      3 * heads * length +
      (2 * Math.max(SLOT_BYTES, SLOT_ROWS.most * vocabSize)) / ENOUGH_TOKENS +
      width * perTarget;
    return 4 * ((train ? layers : 1) * perLayer + transient);
  }

  /** The loss without gradients. */
  forward(adapter: AdapterWeights | undefined, request: LossRequest): Promise<LossResult> {
    return this.#pass(request, adapter, undefined);
  }

  /** The loss, its gradient added to the adapter's. On failure the adapter is as it was. */
  async forwardBackward(adapter: Adapter, request: LossRequest): Promise<LossResult> {
    let sum = adapter.gradient;
    const result = await this.#pass(request, adapter, (part) => {
      // Into the run's own array: what was accumulated before must survive a failure, and usually there is nothing to add.
      if (sum) for (let i = 0; i < part.length; i++) part[i]! += sum[i]!;
      sum = part;
    });
    if (sum) adapter.gradient = sum;
    return result;
  }

  async #pass(
    request: LossRequest,
    adapter: AdapterWeights | undefined,
    takeGradient: ((part: Float32Array) => void) | undefined,
  ): Promise<LossResult> {
    const { contextLength, activationBytes } = this.#options;
    const { data, lossFn } = checkRequest(request, { vocabSize: this.#model.config.vocabSize, contextLength });
    const lengths = data.map((datum) => datum.tokens.length);
    const work = { train: takeGradient !== undefined, width: Math.max(...data.map(({ width }) => width)) };
    // Of every length and not of the longest alone: below LONG_SEQUENCE a run keeps its probabilities, and may need more.
    let [perToken, needed, hungriest] = [0, 0, 0];
    for (const length of lengths) {
      const bytes = this.bytesPerToken(length, work);
      perToken = Math.max(perToken, bytes);
      if (bytes * length > needed) [needed, hungriest] = [bytes * length, length];
    }
    if (needed > activationBytes) {
      throw new MemoryError(`a sequence of ${hungriest} tokens needs about ${Math.ceil(needed / 1e6)} MB`, {
        neededBytes: needed,
        budgetBytes: activationBytes,
        hint: `shorten it${work.width > 1 ? ", give fewer targets per position" : ""} or raise the memory budget`,
      });
    }
    const maxTokens = Math.min(ENOUGH_TOKENS, Math.floor(activationBytes / perToken));
    const logprobs = data.map((datum) => new Float32Array(datum.targets.length));
    for (const members of planRuns(lengths, maxTokens)) {
      await this.#options.beforeRun?.();
      await this.#run(
        members.map((index) => ({ datum: data[index]!, logprobs: logprobs[index]! })),
        lossFn,
        adapter,
        takeGradient,
      );
    }
    return summarise(data, lossFn, logprobs);
  }

  async #run(
    members: readonly { datum: CheckedDatum; logprobs: Float32Array }[],
    lossFn: LossFnName,
    adapter: AdapterWeights | undefined,
    takeGradient: ((part: Float32Array) => void) | undefined,
  ): Promise<void> {
    const packed = packSequences(
      this.#model.config,
      members.map(({ datum }) => datum.tokens),
    );
    const width = Math.max(...members.map(({ datum }) => datum.width));
    const weighted: HeadRow[] = [];
    const unweighted: HeadRow[] = [];
    members.forEach(({ datum, logprobs }, index) => {
      for (let position = 0; position < datum.tokens.length; position++) {
        const row = { row: packed.starts[index]! + position, datum, position, logprobs };
        (takeGradient && hasSlope(row, lossFn) ? weighted : unweighted).push(row);
      }
    });
    const key: ProgramKey = {
      kind: takeGradient ? "train" : "score",
      ...(adapter ? { targets: adapter.layout.targets } : {}),
      groups: packed.groupCount,
      slots: SLOTS,
      recomputeAttention: takeGradient !== undefined && packed.longest >= LONG_SEQUENCE,
    };
    const tables = this.#rope.tables(packed.longest);
    const inputs: Record<string, Value> = {
      ...packed.inputs,
      cos: f32(tables.cos, tables.dims),
      sin: f32(tables.sin, tables.dims),
      ...(adapter ? adapterInputs(adapter) : {}),
      ...this.#slotInputs("unweighted", unweighted, width),
    };
    if (takeGradient) {
      Object.assign(
        inputs,
        this.#slotInputs("weighted", weighted, width),
        termInputs(this.#slots(weighted), width, lossFn),
      );
      // Row i of the packed axis takes its gradient from row source[i] of the weighted ones, or from the zeros behind them.
      const source = new Int32Array(packed.tokenCount).fill(weighted.length);
      weighted.forEach(({ row }, index) => {
        source[row] = index;
      });
      inputs["gradient.rows"] = i32(source, [packed.tokenCount]);
    }
    const program = await this.#programs.get(key);
    const outputs = await program.run(inputs);
    const scored = outputs["logprobs"]!.data as Float32Array;
    [...weighted, ...unweighted].forEach(({ datum, position, logprobs }, index) => {
      for (let k = 0; k < datum.width; k++) logprobs[position * datum.width + k] = scored[index * width + k]!;
    });
    if (!takeGradient || !adapter) return;
    const flat = outputs["gradient"]!.data as Float32Array;
    if (outputs["unembed.slopes"]) {
      addSparseUnembedding(flat, adapter, weighted, width, {
        slopes: outputs["unembed.slopes"].data as Float32Array,
        inner: outputs["unembed.inner"]!.data as Float32Array,
      });
    }
    takeGradient(flat);
  }

  /** Divides head rows over the slots: each as full as the cache allows, or evenly when there are too many. */
  #slots(rows: readonly HeadRow[]): HeadRow[][] {
    const cached = Math.floor(SLOT_BYTES / 4 / this.#model.config.vocabSize);
    const preferred = Math.min(SLOT_ROWS.most, Math.max(SLOT_ROWS.least, cached));
    const size = Math.max(preferred, Math.ceil(rows.length / SLOTS));
    return Array.from({ length: SLOTS }, (_, slot) => rows.slice(slot * size, (slot + 1) * size));
  }

  #slotInputs(name: string, rows: readonly HeadRow[], width: number): Record<string, Value> {
    const inputs: Record<string, Value> = {};
    this.#slots(rows).forEach((slot, index) => {
      const targets = new Int32Array(slot.length * width);
      slot.forEach(({ datum, position }, row) => {
        for (let k = 0; k < datum.width; k++) targets[row * width + k] = datum.targets[position * datum.width + k]!;
      });
      inputs[`${name}${index}.rows`] = i32(
        Int32Array.from(slot, ({ row }) => row),
        [slot.length],
      );
      inputs[`${name}${index}.targets`] = i32(targets, [slot.length, width]);
    });
    return inputs;
  }

  dispose(): Promise<void> {
    return this.#programs.dispose();
  }
}

const hasSlope = ({ datum, position }: HeadRow, lossFn: LossFnName): boolean => {
  for (let k = 0; k < datum.width; k++) {
    const { ratio, clipped, constant, gap } = losses[lossFn].slopeTerms(datum.position(position * datum.width + k));
    if (ratio !== 0 || clipped !== 0 || constant !== 0 || gap !== 0) return true;
  }
  return false;
};

/** Slope terms `[terms, rows, width]` of each weighted slot; targets that a narrower datum does not have get none. */
const termInputs = (slots: readonly HeadRow[][], width: number, lossFn: LossFnName): Record<string, Value> => {
  const inputs: Record<string, Value> = {};
  slots.forEach((slot, index) => {
    const plane = slot.length * width;
    const table = new Float32Array(SLOPE_TERMS.length * plane);
    slot.forEach(({ datum, position }, row) => {
      for (let k = 0; k < datum.width; k++) {
        const terms = losses[lossFn].slopeTerms(datum.position(position * datum.width + k));
        SLOPE_TERMS.forEach((term, t) => {
          table[t * plane + row * width + k] = terms[term];
        });
      }
    });
    inputs[`weighted${index}.terms`] = f32(table, [SLOPE_TERMS.length, slot.length, width]);
  });
  return inputs;
};

/** The sparse part of the gradient of the unembedding's B: slope · z at the row of each target. */
const addSparseUnembedding = (
  gradient: Float32Array,
  { layout }: AdapterWeights,
  rows: readonly HeadRow[],
  width: number,
  { slopes, inner }: { slopes: Float32Array; inner: Float32Array },
): void => {
  const { offsetB } = layout.modules.at(-1)!;
  const { rank } = layout;
  rows.forEach(({ datum, position }, row) => {
    for (let k = 0; k < datum.width; k++) {
      const slope = slopes[row * width + k]!;
      const at = offsetB + datum.targets[position * datum.width + k]! * rank;
      for (let i = 0; i < rank; i++) gradient[at + i]! += slope * inner[row * rank + i]!;
    }
  });
};

const summarise = (
  data: readonly CheckedDatum[],
  lossFn: LossFnName,
  logprobs: readonly Float32Array[],
): LossResult => {
  let total = 0;
  let tokens = 0;
  const lossFnOutputs = data.map((datum, index) => {
    const values = Float32Array.from(logprobs[index]!, (logprob, i) => {
      const position = datum.position(i);
      if (position.weight === 0) return 0;
      const value = losses[lossFn].value({ ...position, logprob });
      total += value;
      return value;
    });
    tokens += datum.tokens.length;
    return {
      logprobs: { data: logprobs[index]!, shape: datum.shape },
      elementwise_loss: { data: values, shape: datum.shape },
    };
  });
  return { lossFnOutputs, metrics: { "loss:sum": total, "num_tokens:sum": tokens } };
};
