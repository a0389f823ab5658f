/**
 * Computes losses and gradients over batches: validates data, finds common prefixes, divides the data into runs, lays out each run,
 * executes the program, and stores log-probs, losses and gradients. Depends only on the inputs, so equal calls have equal bits.
 */
import { type Adapter, type AdapterWeights, adapterInputs } from "../adapter/adapter.ts";
import { DeviceError, MemoryError } from "../errors.ts";
import type { LoadedModel } from "../model/load.ts";
import { RopeCache } from "../model/rope.ts";
import { cpuSlot, type DeviceOutputs, type DevicePlan, type DeviceProgram, type RunInput } from "../runtime/device.ts";
import { f32, i32, type Runtime, type Value } from "../runtime/runtime.ts";
import type { LossFnName, LossRequest, LossResult } from "../types.ts";
import { type CheckedDatum, checkRequest } from "./data.ts";
import type { DeviceAdapters } from "./device-adapters.ts";
import { type DeviceGradient, deviceGradient, type HostGradient, hostGradient } from "./gradient-sum.ts";
import {
  addSparseUnembedding,
  collectHeadRows,
  divideRows,
  fillSlots,
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
import { ResidentTables } from "./resident-tables.ts";
import { withSequenceRatio } from "./sequence-ratio.ts";
import { unembeddingInputs } from "./unembedding-sums.ts";

/** Sizes of runs on a CPU: larger runs exceed its caches and are no faster per token. */
const cpuPlan: Pick<DevicePlan, "trainingTokens" | "mostTrainingTokens" | "slot"> = {
  trainingTokens: 1024,
  mostTrainingTokens: 4096,
  slot: cpuSlot,
};
/** Number of keys per query above which the attention probabilities are larger than a layer's other activations. */
const manyKeys = 512;
/** Rows of a slot below which products are inefficient. */
const leastSlotRows = 256;
const slotCount = 8;

export interface TrainerOptions {
  /** Maximum bytes of the activations of one run. */
  readonly activationBytes: number;
  readonly contextLength: number;
  /** Awaited before each run of a call; if it throws, the call rejects. */
  readonly beforeRun?: () => Promise<void>;
  /** The adapters on the device, if the runtime has one. */
  readonly adapters?: DeviceAdapters;
}

/** Sizes that determine a run's activations, per head where there are several; padding included. */
interface RunSize {
  readonly tokens: number;
  /** Attention scores. */
  readonly cells: number;
  /** Keys gathered by attention. */
  readonly keys: number;
  /** Targets of the head. */
  readonly columns: number;
}

/** Common state of all runs of a call. */
interface Pass {
  readonly data: readonly CheckedDatum[];
  readonly sequences: readonly Int32Array[];
  readonly logprobs: readonly Float32Array[];
  readonly lossFn: LossFnName;
  readonly adapter: AdapterWeights | undefined;
  /** Undefined when only scoring. */
  readonly gradient: HostGradient | DeviceGradient | undefined;
}

/** The layout of a run. */
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
  readonly #plan: typeof cpuPlan;
  /** Tables kept on the device, if there is one. */
  readonly #tables: ResidentTables | undefined;
  /** Factor on planned run sizes and on the memory for activations; lowered once after the device runs out of memory. */
  #share = 1;

  constructor(model: LoadedModel, runtime: Runtime, options: TrainerOptions) {
    this.#model = model;
    this.#programs = new TrainingPrograms(model, runtime);
    this.#rope = new RopeCache(model.config);
    this.#options = options;
    this.#plan = runtime.device?.plan ?? cpuPlan;
    this.#tables = runtime.device && new ResidentTables(runtime.device);
  }

  get #activationBytes(): number {
    return this.#options.activationBytes * this.#share;
  }

  /**
   * Bytes of one token's activations in a run of sequences of this length. Training keeps the activations of every layer for the backward
   * pass and, in the head, a row of the unembedding for each of `width` targets; scoring keeps one layer at a time.
   */
  bytesPerToken(length: number, { train = true, width = 1 } = {}): number {
    return this.#bytesOf({ tokens: 1, cells: length, keys: 1, columns: width }, train);
  }

  /** Bytes of a run. Keys that occur several times are gathered, and their gradients are gathered again to be summed. */
  #bytesOf({ tokens, cells, keys, columns }: RunSize, train: boolean): number {
    const { hiddenSize, heads, kvHeads, headDim, mlpSize, layers, vocabSize } = this.#model.config;
    const { slot, trainingTokens } = this.#plan;
    const keySize = kvHeads * headDim;
    const probabilities = train && cells < manyKeys * tokens ? heads * cells : 0;
    const perToken = 4 * hiddenSize + 3 * heads * headDim + 2 * keySize + 3 * mlpSize;
    const perLayer = tokens * perToken + keys * 2 * keySize + probabilities;
    const perTarget = train ? hiddenSize : 3;
    const transient =
      tokens * (8 * mlpSize + (2 * Math.max(slot.bytes, slot.rows * vocabSize)) / trainingTokens) +
      3 * heads * cells +
      (keys - tokens) * 4 * keySize +
      columns * perTarget;
    return 4 * ((train ? layers : 1) * perLayer + transient);
  }

  /** Computes the loss without gradients. */
  forward(adapter: AdapterWeights | undefined, request: LossRequest): Promise<LossResult> {
    return this.#pass(request, { adapter, gradient: undefined });
  }

  /** Computes the loss and adds its gradient to the adapter's. On failure the adapter is unchanged. */
  async forwardBackward(adapter: Adapter, request: LossRequest): Promise<LossResult> {
    const { adapters } = this.#options;
    const gradient = adapters ? deviceGradient(adapter, adapters) : hostGradient(adapter);
    try {
      const result = await this.#pass(request, { adapter, gradient });
      await gradient.commit();
      return result;
    } finally {
      gradient.discard();
    }
  }

  async #pass(request: LossRequest, parts: Pick<Pass, "adapter" | "gradient">): Promise<LossResult> {
    const { contextLength } = this.#options;
    const { data, lossFn } = checkRequest(request, { vocabSize: this.#model.config.vocabSize, contextLength });
    if (lossFn !== "gspo") return summarise(data, lossFn, await this.#logprobs({ ...parts, data, lossFn }));
    const scores = await this.#logprobs({ adapter: parts.adapter, gradient: undefined, data, lossFn });
    const related = data.map((datum, index) => withSequenceRatio(datum, scores[index]!));
    if (!parts.gradient) return summarise(related, lossFn, scores);
    return summarise(related, lossFn, await this.#logprobs({ ...parts, data: related, lossFn }));
  }

  /**
   * The log-probs of all targets and, in training, their gradients. If a device runs out of memory, the call is repeated once with smaller
   * runs.
   */
  async #logprobs(parts: Omit<Pass, "sequences" | "logprobs">): Promise<readonly Float32Array[]> {
    try {
      return await this.#runAll(parts);
    } catch (error) {
      if (!(error instanceof DeviceError && error.code === "device_memory")) throw error;
      if (this.#share < 1) throw this.#tooLarge(error);
    }
    this.#share = 0.5;
    parts.gradient?.discard();
    try {
      return await this.#runAll(parts);
    } catch (error) {
      throw error instanceof DeviceError && error.code === "device_memory" ? this.#tooLarge(error) : error;
    }
  }

  #tooLarge(cause: DeviceError): MemoryError {
    const budgetBytes = Math.floor(this.#activationBytes);
    const error = new MemoryError(
      `a training run of ${Math.floor(this.#plan.trainingTokens * this.#share)} tokens, planned with ${Math.floor(budgetBytes / 1e6)} MB for its activations, does not fit: ${cause.message}`,
      { budgetBytes, hint: "lower memoryBudgetBytes so that smaller runs are planned, or free memory on the device" },
    );
    error.cause = cause;
    return error;
  }

  async #runAll(parts: Omit<Pass, "sequences" | "logprobs">): Promise<readonly Float32Array[]> {
    const { data } = parts;
    const sequences = data.map(({ tokens }) => tokens);
    const logprobs = data.map((datum) => new Float32Array(datum.targets.length));
    const pass: Pass = { ...parts, sequences, logprobs };
    const limit = this.#tokenLimit(pass);
    const { trainingTokens, mostTrainingTokens } = this.#plan;
    const maxTokens = Math.min(trainingTokens * this.#share, limit);
    const pieces = planPieces(sequences, {
      maxTokens,
      mostTokens: Math.min(mostTrainingTokens * this.#share, limit),
    });
    const runs = planRuns(
      pieces.map(({ tokens }) => tokens),
      maxTokens,
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
   * Maximum tokens of a run of sequences without common prefixes.
   * @throws MemoryError if a single sequence does not fit
   */
  #tokenLimit({ data, gradient }: Pass): number {
    const activationBytes = this.#activationBytes;
    const work = { train: gradient !== undefined, width: Math.max(...data.map(({ width }) => width)) };
    // Checks every length, not only the longest: below `manyKeys` a run keeps its probabilities and may need more memory.
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

  /** Runs pieces together or, if their exact memory does not fit, in halves. */
  async #runPieces(pass: Pass, pieces: readonly (readonly number[])[]): Promise<void> {
    const members = pieces.flat().sort((a, b) => a - b);
    const shared = pieces.length < members.length;
    const layout = shared ? this.#layTree(pass, pieces) : this.#layPlain(pass, members);
    const train = pass.gradient !== undefined;
    if (shared && this.#bytesOf(layout.size, train) > this.#activationBytes) {
      // Members of a piece keep the given order, so that neighbours with a common prefix stay in the same half.
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

  /** Sequences are concatenated. */
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

  /** Only distinct tokens. */
  #layTree(pass: Pass, pieces: readonly (readonly number[])[]): Layout {
    const packed = packTree(this.#model.config, pass.sequences, pieces);
    const { tokenCount: tokens, cells, keys } = packed;
    const indices = pieces.flat().sort((a, b) => a - b);
    const rows = indices.map((index) => packed.rows.get(index)!);
    return this.#layHead(pass, { ...packed, indices, rows, size: { tokens, cells, keys }, tree: true });
  }

  #layHead(
    { data, logprobs, lossFn, adapter, gradient }: Pass,
    trunk: Pick<Layout, "tokenCount" | "longest" | "inputs"> & {
      readonly indices: readonly number[];
      readonly rows: readonly Int32Array[];
      readonly size: Omit<RunSize, "columns">;
      readonly tree: boolean;
      readonly groupCount: number;
    },
  ): Layout {
    const { tree, tokenCount, longest, inputs, size, groupCount } = trunk;
    const train = gradient !== undefined;
    const onDevice = this.#tables !== undefined;
    const members = trunk.indices.map(
      (index, place): RunMember => ({ datum: data[index]!, rows: trunk.rows[place]!, logprobs: logprobs[index]! }),
    );
    const head = collectHeadRows(members, { lossFn, train });
    const [weighted, unweighted] = [true, false].map((isWeighted) => {
      const slots = this.#slots(head.rows.filter((row) => row.weighted === isWeighted));
      return onDevice ? fillSlots(slots, isWeighted === train ? 1 : 0) : slots;
    }) as [HeadRow[][], HeadRow[][]];
    const columns = [...weighted, ...unweighted].reduce((sum, slot) => sum + slot.length * widthOf(slot), 0);
    const key: ProgramKey = {
      kind: train ? "train" : "score",
      ...(adapter ? { targets: adapter.layout.targets } : {}),
      tree,
      groups: groupCount,
      slots: { weighted: weighted.length, unweighted: unweighted.length },
      onDevice,
      recomputeAttention: train && (tree ? size.cells >= manyKeys * tokenCount : longest >= manyKeys),
    };
    return { members, head, weighted, unweighted, tokenCount, longest, key, size: { ...size, columns }, inputs };
  }

  async #run({ adapter, gradient }: Pass, layout: Layout): Promise<void> {
    const { members, head, weighted, unweighted, tokenCount } = layout;
    const tables = this.#rope.tables(layout.longest);
    const inputs: Record<string, Value> = {
      ...layout.inputs(),
      cos: f32(tables.cos, tables.dims),
      sin: f32(tables.sin, tables.dims),
      ...slotInputs("unweighted", unweighted),
    };
    placeSlots(unweighted, placeSlots(weighted, 0));
    const inOrder = weighted.flat();
    if (gradient) {
      Object.assign(inputs, slotInputs("weighted", weighted, { terms: true }));
      // Row i of the packed axis takes its gradient from row source[i] of the weighted rows, or from the zeros after them.
      const source = new Int32Array(tokenCount).fill(inOrder.length);
      inOrder.forEach(({ row, isPadding }, index) => {
        if (!isPadding) source[row] = index;
      });
      inputs["gradient.rows"] = i32(source, [tokenCount]);
    }
    const program = await this.#programs.get(layout.key);
    if (this.#tables) {
      const { values } = await this.#runOnDevice(program as DeviceProgram, { inputs, layout, adapter, gradient });
      return spreadLogprobs(members, head, values["logprobs"]!.data as Float32Array);
    }
    const outputs = await program.run({ ...inputs, ...(adapter ? adapterInputs(adapter) : {}) });
    spreadLogprobs(members, head, outputs["logprobs"]!.data as Float32Array);
    if (!gradient || !adapter) return;
    const flat = outputs["gradient"]!.data as Float32Array;
    if (outputs["unembed.slopes"]) {
      addSparseUnembedding(flat, adapter, {
        rows: inOrder,
        slopes: outputs["unembed.slopes"].data as Float32Array,
        inner: outputs["unembed.inner"]!.data as Float32Array,
      });
    }
    (gradient as HostGradient).add(flat);
  }

  /** The same, with tables, adapter and gradient on the device. */
  async #runOnDevice(
    program: DeviceProgram,
    {
      inputs,
      layout,
      adapter,
      gradient,
    }: Pick<Pass, "adapter" | "gradient"> & { inputs: Record<string, Value>; layout: Layout },
  ): Promise<Pick<DeviceOutputs, "values">> {
    const given: Record<string, RunInput> = { ...inputs };
    for (const name of ["cos", "sin"]) given[name] = await this.#tables!.get(name, inputs[name]!);
    if (adapter) Object.assign(given, await this.#options.adapters!.trainingInputs(adapter));
    if (gradient && adapter?.layout.targets.unembed) {
      const { vocabSize } = this.#model.config;
      Object.assign(given, unembeddingInputs(layout.weighted, { vocabSize, rank: adapter.layout.rank }));
    }
    const { values, resident } = await program.runOnDevice(given);
    if (resident["gradient"]) await (gradient as DeviceGradient).add(resident["gradient"]);
    return { values };
  }

  /** Divides head rows into slots: as large as planned, or evenly if there are too many. */
  #slots(rows: readonly HeadRow[]): HeadRow[][] {
    const { slot } = this.#plan;
    const fitting = Math.floor(slot.bytes / 4 / this.#model.config.vocabSize);
    return divideRows(rows, { slots: slotCount, size: Math.min(slot.rows, Math.max(leastSlotRows, fitting)) });
  }

  dispose(): Promise<void> {
    this.#tables?.release();
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
