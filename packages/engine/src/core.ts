/**
 * The engine without threads: combines weights, adapters, trainer and sampler, and decides the order of work. Training calls run one after
 * the other in call order; sampling runs between them, one token at a time. The worker, its messages and signals are in `engine.ts` and
 * `worker/`.
 */
import { readConfig } from "@tinklet/models/config";
import type { ChatMessage, Tokenizer } from "@tinklet/models/tokenizer";
import type { Adapter, AdapterWeights } from "./adapter/adapter.ts";
import { AdapterStore } from "./adapter/adapter-store.ts";
import { exportState } from "./adapter/state.ts";
import { createCompiler } from "./constrain/constraint.ts";
import { EngineError } from "./errors.ts";
import type { MemoryPlan } from "./memory-plan.ts";
import type { LoadedModel } from "./model/load.ts";
import type { ModelFolders } from "./model-folders.ts";
import { nextTurn } from "./next-turn.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { type SampleHandle, Sampler } from "./sample/sampler.ts";
import { DeviceAdapters } from "./train/device-adapters.ts";
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

/** Maximum time of sampling between two waiting training calls. */
const samplingSliceMs = 50;

export interface CoreOptions extends MemoryPlan {
  readonly model: LoadedModel;
  readonly runtime: Runtime;
  readonly info: ModelInfo;
  /** Reads and writes folders; absent in a browser, where `savePeft`, `readPeft` and `saveMerged` fail. */
  readonly folders?: ModelFolders;
  /** Memory of the process; absent where the platform does not report it. */
  readonly residentBytes?: () => number;
  readonly contextLength: number;
  readonly maxBatch: number;
  readonly loadTokenizer: () => Promise<Tokenizer>;
}

/** An argument, or a promise of one that is still being transferred: the call keeps its position in the queue. */
type Coming<T> = T | Promise<T>;

/** A queued call. Sampling runs before `heavy` calls only (passes over the model, files). */
interface QueuedCall {
  readonly heavy: boolean;
  readonly run: () => Promise<void>;
  readonly reject: (reason: unknown) => void;
}

export class EngineCore {
  readonly info: ModelInfo;
  readonly #options: CoreOptions;
  readonly #trainer: Trainer;
  readonly #sampler: Sampler;
  readonly #adapters: AdapterStore;
  /** The adapters' state on the device, if the runtime has one. */
  readonly #onDevice: DeviceAdapters | undefined;
  readonly #queue: QueuedCall[] = [];
  #tokenizer: Promise<Tokenizer> | undefined;
  /** The running work, if any. */
  #working: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: CoreOptions) {
    const { model, runtime, contextLength, activationBytes } = options;
    this.info = options.info;
    this.#options = options;
    this.#adapters = new AdapterStore(model.config, options.adapterBytes);
    this.#onDevice = runtime.device && new DeviceAdapters(model.config, runtime.device);
    const adapters = this.#onDevice && { adapters: this.#onDevice };
    this.#trainer = new Trainer(model, runtime, {
      ...adapters,
      activationBytes,
      contextLength,
      beforeRun: async () => {
        await nextTurn(); // messages (calls, cancellations, close) are received
        if (this.#closing) throw closed();
      },
    });
    this.#sampler = new Sampler(model, runtime, {
      ...options,
      ...adapters,
      eosTokenIds: options.info.eosTokenIds,
      tokenizer: () => this.#loadTokenizer(),
      compiler: async () => createCompiler(await this.#loadTokenizer(), this.info.vocabSize),
    });
  }

  // ---- order of work

  /** Appends a call to the queue. */
  #enqueue<T>(work: () => T | Promise<T>, { heavy = true } = {}): Promise<T> {
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
        await nextTurn(); // messages (calls, cancellations, close) are received
        await this.#runLight();
        if (this.#queue.length > 0 && performance.now() - start > samplingSliceMs) break;
      }
    }
  }

  /** Runs the light calls at the head of the queue, so that samples that arrived together decode together. */
  async #runLight(): Promise<void> {
    for (let turn = this.#queue[0]; turn && !turn.heavy; turn = this.#queue[0]) {
      this.#queue.shift();
      await turn.run();
    }
  }

  // ---- adapters

  /** Runs a change that may free weights, and then drops their prefix cache and their memory on the device. */
  async #forgetting<T>(change: () => T | Promise<T>): Promise<T> {
    const result = await change();
    this.#sampler.keepPrefixesOf((weights) => this.#adapters.isHeld(weights));
    const adapters = new Set(this.#adapters.live);
    const values = [...adapters, ...this.#adapters.snapshots, ...this.#sampler.usedWeights()].map(
      (held) => held.values,
    );
    this.#onDevice?.keepOnly({ values: new Set(values), adapters });
    return result;
  }

  /** The current state of weights in host arrays. */
  async #onHost<Weights extends AdapterWeights | Adapter>(weights: Weights): Promise<Weights> {
    return this.#onDevice ? this.#onDevice.toHost(weights) : weights;
  }

  createAdapter(options: LoraOptions): Promise<AdapterInfo> {
    return this.#enqueue(() => this.#adapters.create(options));
  }

  adapterInfo(adapterId: AdapterId): Promise<AdapterInfo> {
    return this.#enqueue(() => this.#adapters.describe(adapterId));
  }

  deleteAdapter(adapterId: AdapterId): Promise<void> {
    return this.#enqueue(() => this.#forgetting(() => this.#adapters.delete(adapterId)));
  }

  snapshot(adapterId: AdapterId): Promise<SnapshotId> {
    return this.#enqueue(() => this.#adapters.snapshot(adapterId));
  }

  importSnapshot(state: Coming<AdapterState>): Promise<SnapshotId> {
    return this.#enqueue(async () => this.#adapters.importSnapshot(await state));
  }

  deleteSnapshot(snapshotId: SnapshotId): Promise<void> {
    return this.#enqueue(() => this.#forgetting(() => this.#adapters.deleteSnapshot(snapshotId)));
  }

  exportState(id: AdapterId | SnapshotId, options: { optimizer?: boolean } = {}): Promise<AdapterState> {
    return this.#enqueue(async () => exportState(await this.#onHost(this.#adapters.either(id)), options));
  }

  importState(state: Coming<AdapterState>): Promise<AdapterInfo> {
    return this.#enqueue(async () => this.#adapters.import(await state));
  }

  loadState(adapterId: AdapterId, state: Coming<AdapterState>): Promise<AdapterInfo> {
    return this.#enqueue(async () => {
      const whole = await state;
      return this.#forgetting(() => this.#adapters.load(adapterId, whole));
    });
  }

  /** @throws EngineError where there are no files. */
  get #folders(): ModelFolders {
    const { folders } = this.#options;
    if (folders) return folders;
    throw new EngineError("no_files", "there are no folders in a browser", {
      hint: "use exportState and importState, and peftFiles and readPeftFiles of @tinklet/models/bytes",
    });
  }

  savePeft(id: AdapterId | SnapshotId, folder: string): Promise<void> {
    return this.#enqueue(async () =>
      this.#folders.writePeft(folder, exportState(await this.#onHost(this.#adapters.weights(id)!)), this.info.origin),
    );
  }

  readPeft(folder: string): Promise<AdapterState> {
    return this.#enqueue(() => this.#folders.readPeft(folder, { config: readConfig(this.info.config) }));
  }

  saveMerged(id: AdapterId | SnapshotId, folder: string): Promise<void> {
    return this.#enqueue(async () => {
      const { model, runtime } = this.#options;
      const adapter = await this.#onHost(this.#adapters.weights(id)!);
      await this.#folders.writeMerged({ model, runtime, adapter, config: this.info.config, folder });
    });
  }

  // ---- training

  forward(id: AdapterId | SnapshotId | null, request: LossRequest): Promise<LossResult> {
    return this.#enqueue(() => this.#trainer.forward(this.#adapters.weights(id), request));
  }

  forwardBackward(adapterId: AdapterId, request: LossRequest): Promise<LossResult> {
    return this.#enqueue(() => this.#trainer.forwardBackward(this.#adapters.adapter(adapterId), request));
  }

  optimStep(adapterId: AdapterId, params: AdamParams = {}): Promise<OptimStepResult> {
    return this.#enqueue(() =>
      this.#forgetting(() => {
        const adapter = this.#adapters.adapter(adapterId);
        return this.#onDevice ? this.#onDevice.optimStep(adapter, params) : optimStep(adapter, params);
      }),
    );
  }

  // ---- sampling

  /**
   * Queued with training calls, so that a sample requested after a step uses that step's weights; it then decodes concurrently with other
   * work.
   */
  sample(request: SampleRequest, onToken?: (event: TokenEvent) => void): SampleHandle {
    let cancelled: { reason: unknown } | undefined;
    let handle: SampleHandle | undefined;
    const result = this.#enqueue(
      () => {
        if (cancelled) throw cancelled.reason;
        handle = this.#sampler.submit(request, this.#adapters.weights(request.adapter), { onToken });
        return { result: handle.result }; // wrapped in an object, because the queue must not wait for the tokens
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

  // ---- statistics, closing

  stats(): Promise<EngineStats> {
    return Promise.resolve({
      weightsBytes: this.#options.model.bytes,
      adaptersBytes: this.#adapters.bytes + (this.#onDevice?.bytes ?? 0),
      residentBytes: this.#options.residentBytes?.() ?? 0,
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
    // The running program must end before it is released; it stops at its next step.
    await this.#working;
    await this.#sampler.dispose(reason);
    await this.#trainer.dispose();
    await this.#onDevice?.dispose();
    this.#options.runtime.device?.dispose();
    this.#adapters.clear();
  }
}

const closed = (): EngineError => new EngineError("closed", "the engine is closed");
