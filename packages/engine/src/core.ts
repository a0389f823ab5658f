/**
 * The engine itself, on whatever thread it is: owns the weights, the adapters, the trainer and the sampler, and decides in which
 * order work happens. Training calls run strictly one after the other in call order; sampling runs between them, a token at a
 * time. Everything asynchronous about the public API (the worker, messages, signals) is in `engine.ts` and `worker.ts`.
 */
import { type Adapter, type AdapterWeights, checkLora, createAdapter, freeze } from "./adapter/adapter.ts";
import { writeMerged } from "./adapter/merge.ts";
import { readPeft, writePeft } from "./adapter/peft.ts";
import { exportState, importState } from "./adapter/state.ts";
import { EngineError, InputError } from "./errors.ts";
import type { LoadedModel } from "./model/load.ts";
import { drawSeed } from "./random.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { type SampleHandle, Sampler } from "./sample/sampler.ts";
import type { ChatMessage, Tokenizer } from "./tokenizer/index.ts";
import { optimStep } from "./train/optimizer.ts";
import { Trainer } from "./train/trainer.ts";
import type {
  AdamParams,
  AdapterId,
  AdapterInfo,
  AdapterState,
  EngineStats,
  LoraOptions,
  LossRequest,
  LossResult,
  ModelInfo,
  OptimStepResult,
  SampleRequest,
  SampleResult,
  SnapshotId,
  TokenEvent,
} from "./types.ts";

/** How long sampling may go on between two training calls that both wait. */
const SAMPLING_SLICE_MS = 50;

export interface CoreOptions {
  readonly model: LoadedModel;
  readonly runtime: Runtime;
  readonly info: ModelInfo;
  readonly contextLength: number;
  readonly maxBatch: number;
  readonly activationBytes: number;
  readonly cacheBytes: number;
  readonly packWeights: boolean;
  readonly loadTokenizer: () => Promise<Tokenizer>;
}

/** A call waiting for its turn. Only `heavy` ones (passes over the model, files) are worth a pause for sampling. */
interface Turn {
  readonly heavy: boolean;
  readonly run: () => Promise<void>;
  readonly reject: (reason: unknown) => void;
}

export class EngineCore {
  readonly info: ModelInfo;
  readonly #options: CoreOptions;
  readonly #trainer: Trainer;
  readonly #sampler: Sampler;
  readonly #adapters = new Map<AdapterId, Adapter>();
  readonly #snapshots = new Map<SnapshotId, AdapterWeights>();
  readonly #queue: Turn[] = [];
  #tokenizer: Promise<Tokenizer> | undefined;
  /** The work that is going on, if any. */
  #working: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #nextId = 1;

  constructor(options: CoreOptions) {
    const { model, runtime, contextLength, activationBytes } = options;
    this.info = options.info;
    this.#options = options;
    this.#trainer = new Trainer(model, runtime, {
      activationBytes,
      contextLength,
      beforeRun: async () => {
        await letMessagesIn();
        if (this.#closing) throw closed();
      },
    });
    this.#sampler = new Sampler(model, runtime, {
      ...options,
      eosTokenIds: options.info.eosTokenIds,
      tokenizer: () => this.#loadTokenizer(),
    });
  }

  // ---- order of work

  /** Puts a call in line; it runs when all before it have. */
  #inTurn<T>(work: () => T | Promise<T>, { heavy = true } = {}): Promise<T> {
    if (this.#closing) return Promise.reject(closed());
    const result = new Promise<T>((resolve, reject) => {
      const run = async (): Promise<void> => {
        try {
          resolve(await work());
        } catch (error) {
          reject(error);
        }
      };
      this.#queue.push({ heavy, run, reject });
    });
    this.#pump();
    return result;
  }

  #pump(): void {
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
      if (!this.#closing && (this.#queue.length > 0 || this.#sampler.busy)) this.#pump();
    });
  }

  async #work(): Promise<void> {
    while (!this.#closing && (this.#queue.length > 0 || this.#sampler.busy)) {
      await this.#queue.shift()?.run();
      await this.#runLight();
      const start = performance.now();
      while (!this.#closing && this.#sampler.busy) {
        await this.#sampler.step();
        await letMessagesIn();
        await this.#runLight();
        if (this.#queue.length > 0 && performance.now() - start > SAMPLING_SLICE_MS) break;
      }
    }
  }

  /** Calls in front that cost next to nothing. Above all, samples that came together then decode together. */
  async #runLight(): Promise<void> {
    for (let turn = this.#queue[0]; turn && !turn.heavy; turn = this.#queue[0]) {
      this.#queue.shift();
      await turn.run();
    }
  }

  // ---- adapters

  #adapter(id: AdapterId): Adapter {
    const adapter = this.#adapters.get(id);
    if (!adapter) throw new InputError("adapter", `there is no adapter ${JSON.stringify(id)}`, { code: "no_adapter" });
    return adapter;
  }

  /** Weights of an adapter as they are now, of a snapshot, or none for the base model. */
  #weights(id: AdapterId | SnapshotId | null | undefined): AdapterWeights | undefined {
    if (id === null || id === undefined) return undefined;
    return this.#snapshots.get(id) ?? freeze(this.#adapter(id));
  }

  #describe(adapterId: AdapterId, { lora, layout, step }: Adapter): AdapterInfo {
    return { adapterId, lora, parameters: layout.size, step };
  }

  #register(adapter: Adapter): AdapterInfo {
    const adapterId = `adapter-${this.#nextId++}`;
    this.#adapters.set(adapterId, adapter);
    return this.#describe(adapterId, adapter);
  }

  createAdapter(options: LoraOptions): Promise<AdapterInfo> {
    return this.#inTurn(() => this.#register(createAdapter(this.#options.model.config, checkLora(options, drawSeed))));
  }

  adapterInfo(adapterId: AdapterId): Promise<AdapterInfo> {
    return this.#inTurn(() => this.#describe(adapterId, this.#adapter(adapterId)));
  }

  deleteAdapter(adapterId: AdapterId): Promise<void> {
    return this.#inTurn(() => {
      this.#adapter(adapterId);
      this.#adapters.delete(adapterId);
    });
  }

  snapshot(adapterId: AdapterId): Promise<SnapshotId> {
    return this.#inTurn(() => this.#keep(freeze(this.#adapter(adapterId))));
  }

  importSnapshot(state: AdapterState): Promise<SnapshotId> {
    return this.#inTurn(() => this.#keep(freeze(importState(this.#options.model.config, state))));
  }

  #keep(weights: AdapterWeights): SnapshotId {
    const id = `snapshot-${this.#nextId++}`;
    this.#snapshots.set(id, weights);
    return id;
  }

  deleteSnapshot(snapshotId: SnapshotId): Promise<void> {
    return this.#inTurn(() => {
      if (!this.#snapshots.delete(snapshotId)) {
        throw new InputError("snapshot", `there is no snapshot ${JSON.stringify(snapshotId)}`, { code: "no_snapshot" });
      }
    });
  }

  exportState(id: AdapterId | SnapshotId, options: { optimizer?: boolean } = {}): Promise<AdapterState> {
    return this.#inTurn(() => exportState(this.#snapshots.get(id) ?? this.#adapter(id), options));
  }

  importState(state: AdapterState): Promise<AdapterInfo> {
    return this.#inTurn(() => this.#register(importState(this.#options.model.config, state)));
  }

  loadState(adapterId: AdapterId, state: AdapterState): Promise<AdapterInfo> {
    return this.#inTurn(() => {
      this.#adapter(adapterId);
      const adapter = importState(this.#options.model.config, state);
      this.#adapters.set(adapterId, adapter);
      return this.#describe(adapterId, adapter);
    });
  }

  savePeft(id: AdapterId | SnapshotId, folder: string): Promise<void> {
    return this.#inTurn(() => writePeft(folder, exportState(this.#weights(id)!), this.info.origin));
  }

  readPeft(folder: string): Promise<AdapterState> {
    return this.#inTurn(() => readPeft(folder));
  }

  saveMerged(id: AdapterId | SnapshotId, folder: string): Promise<void> {
    return this.#inTurn(() =>
      writeMerged({
        ...this.#options,
        adapter: this.#weights(id)!,
        config: this.info.config,
        origin: this.info.origin,
        folder,
      }),
    );
  }

  // ---- training

  forward(id: AdapterId | SnapshotId | null, request: LossRequest): Promise<LossResult> {
    return this.#inTurn(() => this.#trainer.forward(this.#weights(id), request));
  }

  forwardBackward(adapterId: AdapterId, request: LossRequest): Promise<LossResult> {
    return this.#inTurn(() => this.#trainer.forwardBackward(this.#adapter(adapterId), request));
  }

  optimStep(adapterId: AdapterId, params: AdamParams = {}): Promise<OptimStepResult> {
    return this.#inTurn(() => optimStep(this.#adapter(adapterId), params));
  }

  // ---- sampling

  /**
   * Takes its adapter's weights in turn with training calls (a sample asked for after a step sees that step), then decodes beside
   * whatever else is going on.
   */
  sample(request: SampleRequest, onToken?: (event: TokenEvent) => void): SampleHandle {
    let cancelled: { reason: unknown } | undefined;
    let handle: SampleHandle | undefined;
    const result = this.#inTurn(
      () => {
        if (cancelled) throw cancelled.reason;
        handle = this.#sampler.submit(request, this.#weights(request.adapter), onToken);
        return { result: handle.result }; // not the promise itself: the line must not wait for the tokens
      },
      { heavy: false },
    ).then(({ result: tokens }): Promise<SampleResult> => tokens);
    return {
      result,
      cancel: (reason) => {
        cancelled = { reason };
        handle?.cancel(reason);
      },
    };
  }

  // ---- text

  #loadTokenizer(): Promise<Tokenizer> {
    this.#tokenizer ??= this.#options.loadTokenizer();
    return this.#tokenizer;
  }

  async encode(text: string, options: { addSpecialTokens?: boolean } = {}): Promise<number[]> {
    return (await this.#loadTokenizer()).encode(text, options);
  }

  async decode(ids: Int32Array | readonly number[], options: { skipSpecialTokens?: boolean } = {}): Promise<string> {
    return (await this.#loadTokenizer()).decode(ids, options);
  }

  async applyChatTemplate(
    messages: readonly ChatMessage[],
    options: { addGenerationPrompt?: boolean } = {},
  ): Promise<number[]> {
    return (await this.#loadTokenizer()).applyChatTemplate(messages, { ...options, tokenize: true });
  }

  // ---- the rest

  stats(): Promise<EngineStats> {
    const arrays = new Set<Float32Array>();
    for (const { values } of this.#snapshots.values()) arrays.add(values);
    for (const { values, gradient, m, v } of this.#adapters.values()) {
      for (const array of [values, gradient, m, v]) if (array) arrays.add(array);
    }
    let adaptersBytes = 0;
    for (const array of arrays) adaptersBytes += array.byteLength;
    return Promise.resolve({
      weightsBytes: this.#options.model.bytes,
      adaptersBytes,
      residentBytes: process.memoryUsage.rss(),
      ...this.#sampler.stats,
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  async #shutDown(): Promise<void> {
    const reason = closed();
    for (const { reject } of this.#queue.splice(0)) reject(reason);
    // What is running ends first, at its next step: a program must not be released under it.
    await this.#working;
    await this.#sampler.dispose(reason);
    await this.#trainer.dispose();
    this.#adapters.clear();
    this.#snapshots.clear();
  }
}

const closed = (): EngineError => new EngineError("closed", "the engine is closed");

/** New calls, cancellations, closing. */
const letMessagesIn = (): Promise<void> => new Promise((resume) => setImmediate(resume));
