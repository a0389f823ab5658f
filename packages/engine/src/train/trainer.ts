/**
 * Runs losses over batches: checks data, finds what they share, splits them into runs that fit, lays each out, calls the program and puts
 * log-probs, losses and gradients back where they belong. Everything depends on the inputs alone, so the same call gives the same bits.
 */
import { type Adapter, type AdapterWeights, adapterInputs } from "../adapter/adapter.ts";
import { MemoryError } from "../errors.ts";
import type { LoadedModel } from "../model/load.ts";
import { RopeCache } from "../model/rope.ts";
import { f32, i32, type Runtime, type Value } from "../runtime/runtime.ts";
import type { LossFnName, LossRequest, LossResult } from "../types.ts";
import { type CheckedDatum, checkRequest } from "./data.ts";
import {
  addSparseUnembedding,
  collectHeadRows,
  divideRows,
  type HeadRow,
  type HeadRows,
  placeSlots,
  type RunMember,
  slotInputs,
  spreadLogprobs,
  widthOf,
} from "./head-rows.ts";
import { losses } from "./losses.ts";
import { packSequences, planRuns } from "./pack.ts";
import { packTree } from "./pack-tree.ts";
import { planPieces } from "./prefix-tree.ts";
import { type ProgramKey, TrainingPrograms } from "./programs.ts";
import { withSequenceRatio } from "./sequence-ratio.ts";

/** Tokens beyond which a larger run is no faster per token. */
const enoughTokens = 1024;
/** Tokens of a run that shares more than it would repeat if it were cut. */
const mostTokens = 4096;
/** Keys per query from which the attention probabilities outweigh all else that a layer keeps. */
const manyKeys = 512;
/** Bytes of one slot's [rows, vocabulary] matrix that still fit the last-level cache of common machines. */
const slotBytes = 24e6;
/** Rows of a slot: below the smaller number the products become inefficient whatever the cache, beyond the larger no better. */
const slotRows = { least: 256, most: 512 };
const slotCount = 8;

export interface TrainerOptions {
  /** Bytes that activations of one run may take. */
  readonly activationBytes: number;
  readonly contextLength: number;
  /** Awaited before each run of a call; what it throws ends the call. */
  readonly beforeRun?: () => Promise<void>;
}

/** What a run's activations are counted by, for one head where there are several; padding included. */
interface RunSize {
  readonly tokens: number;
  /** Scores of attention. */
  readonly cells: number;
  /** Keys that attention gathers. */
  readonly keys: number;
  /** Targets at the head. */
  readonly columns: number;
}

/** What all runs of a call have in common. */
interface Pass {
  readonly data: readonly CheckedDatum[];
  readonly sequences: readonly Int32Array[];
  readonly logprobs: readonly Float32Array[];
  readonly lossFn: LossFnName;
  readonly adapter: AdapterWeights | undefined;
  /** Absent when only scoring. */
  readonly takeGradient: ((part: Float32Array) => void) | undefined;
}

/** A run, laid out. */
interface Layout {
  readonly members: readonly RunMember[];
  readonly head: HeadRows;
  readonly weighted: readonly HeadRow[][];
  readonly unweighted: readonly HeadRow[][];
  readonly tokenCount: number;
  readonly longest: number;
  readonly key: ProgramKey;
  readonly size: RunSize;
  readonly inputs: () => Record<string, Value>;
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
    return this.#bytesOf({ tokens: 1, cells: length, keys: 1, columns: width }, train);
  }

  /** Bytes that a run takes; keys that occur several times are gathered, and their gradients gathered again to be summed. */
  #bytesOf({ tokens, cells, keys, columns }: RunSize, train: boolean): number {
    const { hiddenSize, heads, kvHeads, headDim, mlpSize, layers, vocabSize } = this.#model.config;
    const keySize = kvHeads * headDim;
    const probabilities = train && cells < manyKeys * tokens ? heads * cells : 0;
    const perToken = 4 * hiddenSize + 3 * heads * headDim + 2 * keySize + 3 * mlpSize;
    const perLayer = tokens * perToken + keys * 2 * keySize + probabilities;
    const perTarget = train ? hiddenSize : 3;
    const transient =
      tokens * (8 * mlpSize + (2 * Math.max(slotBytes, slotRows.most * vocabSize)) / enoughTokens) +
      3 * heads * cells +
      (keys - tokens) * 4 * keySize +
      columns * perTarget;
    return 4 * ((train ? layers : 1) * perLayer + transient);
  }

  /** The loss without gradients. */
  forward(adapter: AdapterWeights | undefined, request: LossRequest): Promise<LossResult> {
    return this.#pass(request, { adapter, takeGradient: undefined });
  }

  /** The loss, its gradient added to the adapter's. On failure the adapter is as it was. */
  async forwardBackward(adapter: Adapter, request: LossRequest): Promise<LossResult> {
    let sum = adapter.gradient;
    const takeGradient = (part: Float32Array): void => {
      // Into the run's own array: what was accumulated before must survive a failure, and usually there is nothing to add.
      if (sum) for (let i = 0; i < part.length; i++) part[i]! += sum[i]!;
      sum = part;
    };
    const result = await this.#pass(request, { adapter, takeGradient });
    if (sum) adapter.gradient = sum;
    return result;
  }

  async #pass(request: LossRequest, parts: Pick<Pass, "adapter" | "takeGradient">): Promise<LossResult> {
    const { contextLength } = this.#options;
    const { data, lossFn } = checkRequest(request, { vocabSize: this.#model.config.vocabSize, contextLength });
    if (lossFn !== "gspo") return summarise(data, lossFn, await this.#logprobs({ ...parts, data, lossFn }));
    const scores = await this.#logprobs({ adapter: parts.adapter, takeGradient: undefined, data, lossFn });
    const related = data.map((datum, index) => withSequenceRatio(datum, scores[index]!));
    if (!parts.takeGradient) return summarise(related, lossFn, scores);
    return summarise(related, lossFn, await this.#logprobs({ ...parts, data: related, lossFn }));
  }

  /** The log-probs of all targets, and their gradients where they are taken. */
  async #logprobs(parts: Omit<Pass, "sequences" | "logprobs">): Promise<readonly Float32Array[]> {
    const { data } = parts;
    const sequences = data.map(({ tokens }) => tokens);
    const logprobs = data.map((datum) => new Float32Array(datum.targets.length));
    const pass: Pass = { ...parts, sequences, logprobs };
    const limit = this.#tokenLimit(pass);
    const pieces = planPieces(sequences, {
      maxTokens: Math.min(enoughTokens, limit),
      mostTokens: Math.min(mostTokens, limit),
    });
    const runs = planRuns(
      pieces.map(({ tokens }) => tokens),
      Math.min(enoughTokens, limit),
    );
    for (const run of runs) {
      await this.#runPieces(
        pass,
        run.map((index) => pieces[index]!.members),
      );
    }
    return logprobs;
  }

  /**
   * Tokens that fit a run of sequences that share nothing.
   * @throws MemoryError when one sequence alone does not.
   */
  #tokenLimit({ data, takeGradient }: Pass): number {
    const { activationBytes } = this.#options;
    const work = { train: takeGradient !== undefined, width: Math.max(...data.map(({ width }) => width)) };
    // Of every length and not of the longest alone: below `manyKeys` a run keeps its probabilities, and may need more.
    let [perToken, needed, hungriest] = [0, 0, 0];
    for (const { tokens } of data) {
      const bytes = this.bytesPerToken(tokens.length, work);
      perToken = Math.max(perToken, bytes);
      if (bytes * tokens.length > needed) [needed, hungriest] = [bytes * tokens.length, tokens.length];
    }
    if (needed > activationBytes) {
      throw new MemoryError(`a sequence of ${hungriest} tokens needs about ${Math.ceil(needed / 1e6)} MB`, {
        neededBytes: needed,
        budgetBytes: activationBytes,
        hint: `shorten it${work.width > 1 ? ", give fewer targets per position" : ""} or raise the memory budget`,
      });
    }
    return Math.floor(activationBytes / perToken);
  }

  /** Runs pieces together, or, where what they really take does not fit, in halves. */
  async #runPieces(pass: Pass, pieces: readonly (readonly number[])[]): Promise<void> {
    const members = pieces.flat().sort((a, b) => a - b);
    const shared = pieces.length < members.length;
    const layout = shared ? this.#layTree(pass, pieces) : this.#layPlain(pass, members);
    const train = pass.takeGradient !== undefined;
    if (shared && this.#bytesOf(layout.size, train) > this.#options.activationBytes) {
      // Members of a piece are in the order given, so that halves of it still share what their own members share.
      const units =
        pieces.length > 1 ? pieces : [members.slice(0, members.length / 2), members.slice(members.length / 2)];
      const middle = Math.ceil(units.length / 2);
      await this.#runPieces(pass, units.slice(0, middle));
      await this.#runPieces(pass, units.slice(middle));
      return;
    }
    await this.#options.beforeRun?.();
    await this.#run(pass, layout);
  }

  /** Sequences end to end. */
  #layPlain(pass: Pass, indices: readonly number[]): Layout {
    const packed = packSequences(
      this.#model.config,
      indices.map((index) => pass.sequences[index]!),
    );
    const rows = indices.map((index, place) => {
      const start = packed.starts[place]!;
      return Int32Array.from(pass.sequences[index]!, (_, t) => start + t);
    });
    const { tokenCount, longest } = packed;
    const size = { tokens: tokenCount, cells: tokenCount * longest, keys: tokenCount };
    return this.#layHead(pass, { ...packed, indices, rows, size, tree: false, inputs: () => packed.inputs });
  }

  /** Distinct tokens only. */
  #layTree(pass: Pass, pieces: readonly (readonly number[])[]): Layout {
    const packed = packTree(this.#model.config, pass.sequences, pieces);
    const { tokenCount: tokens, cells, keys } = packed;
    const indices = pieces.flat().sort((a, b) => a - b);
    const rows = indices.map((index) => packed.rows.get(index)!);
    return this.#layHead(pass, { ...packed, indices, rows, size: { tokens, cells, keys }, tree: true });
  }

  #layHead(
    { data, logprobs, lossFn, adapter, takeGradient }: Pass,
    trunk: Pick<Layout, "tokenCount" | "longest" | "inputs"> & {
      readonly indices: readonly number[];
      readonly rows: readonly Int32Array[];
      readonly size: Omit<RunSize, "columns">;
      readonly tree: boolean;
      readonly groupCount: number;
    },
  ): Layout {
    const { tree, tokenCount, longest, inputs, size, groupCount } = trunk;
    const train = takeGradient !== undefined;
    const members = trunk.indices.map(
      (index, place): RunMember => ({ datum: data[index]!, rows: trunk.rows[place]!, logprobs: logprobs[index]! }),
    );
    const head = collectHeadRows(members, { lossFn, train });
    const weighted = this.#slots(head.rows.filter((row) => row.weighted));
    const unweighted = this.#slots(head.rows.filter((row) => !row.weighted));
    const columns = [...weighted, ...unweighted].reduce((sum, slot) => sum + slot.length * widthOf(slot), 0);
    const key: ProgramKey = {
      kind: train ? "train" : "score",
      ...(adapter ? { targets: adapter.layout.targets } : {}),
      tree,
      groups: groupCount,
      slots: slotCount,
      recomputeAttention: train && (tree ? size.cells >= manyKeys * tokenCount : longest >= manyKeys),
    };
    return { members, head, weighted, unweighted, tokenCount, longest, key, size: { ...size, columns }, inputs };
  }

  async #run({ adapter, takeGradient }: Pass, layout: Layout): Promise<void> {
    const { members, head, weighted, unweighted, tokenCount } = layout;
    const tables = this.#rope.tables(layout.longest);
    const inputs: Record<string, Value> = {
      ...layout.inputs(),
      cos: f32(tables.cos, tables.dims),
      sin: f32(tables.sin, tables.dims),
      ...(adapter ? adapterInputs(adapter) : {}),
      ...slotInputs("unweighted", unweighted),
    };
    placeSlots(unweighted, placeSlots(weighted, 0));
    const inOrder = weighted.flat();
    if (takeGradient) {
      Object.assign(inputs, slotInputs("weighted", weighted, { terms: true }));
      // Row i of the packed axis takes its gradient from row source[i] of the weighted ones, or from the zeros behind them.
      const source = new Int32Array(tokenCount).fill(inOrder.length);
      inOrder.forEach(({ row }, index) => {
        source[row] = index;
      });
      inputs["gradient.rows"] = i32(source, [tokenCount]);
    }
    const program = await this.#programs.get(layout.key);
    const outputs = await program.run(inputs);
    spreadLogprobs(members, head, outputs["logprobs"]!.data as Float32Array);
    if (!takeGradient || !adapter) return;
    const flat = outputs["gradient"]!.data as Float32Array;
    if (outputs["unembed.slopes"]) {
      addSparseUnembedding(flat, adapter, {
        rows: inOrder,
        slopes: outputs["unembed.slopes"].data as Float32Array,
        inner: outputs["unembed.inner"]!.data as Float32Array,
      });
    }
    takeGradient(flat);
  }

  /** Divides head rows over the slots: each as full as the cache allows, or evenly when there are too many. */
  #slots(rows: readonly HeadRow[]): HeadRow[][] {
    const cached = Math.floor(slotBytes / 4 / this.#model.config.vocabSize);
    return divideRows(rows, { slots: slotCount, size: Math.min(slotRows.most, Math.max(slotRows.least, cached)) });
  }

  dispose(): Promise<void> {
    return this.#programs.dispose();
  }
}

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
