/**
 * The engine itself, on whatever thread it is: puts weights, adapters, trainer and sampler together, and decides in which order work
 * happens. Training calls run strictly one after the other in call order; sampling runs between them, a token at a time. Everything
 * asynchronous about the public API (the worker, messages, signals) is in `engine.ts` and `worker.ts`.
 */
import { readPeft, writePeft, writeTokenizer } from "@tinklet/models";
import { readConfig } from "@tinklet/models/config";
import type { ChatMessage, Tokenizer } from "@tinklet/models/tokenizer";
import { AdapterStore } from "./adapter/adapter-store.ts";
import { writeMerged } from "./adapter/merge.ts";
import { exportState } from "./adapter/state.ts";
import { createCompiler } from "./constrain/constraint.ts";
import { EngineError } from "./errors.ts";
import type { MemoryPlan } from "./memory-plan.ts";
import type { LoadedModel } from "./model/load.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { type SampleHandle, Sampler } from "./sample/sampler.ts";
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
const samplingSliceMs = 50;

export interface CoreOptions extends MemoryPlan {
  readonly model: LoadedModel;
  readonly runtime: Runtime;
  readonly info: ModelInfo;
  /** Where the model lies: its folder, or its GGUF file. Absent for one that is only in memory. */
  readonly path?: string | undefined;
  readonly contextLength: number;
  readonly maxBatch: number;
  readonly loadTokenizer: () => Promise<Tokenizer>;
}

/** An argument, or one that is still on its way: the call keeps its place in line. */
type Coming<T> = T | Promise<T>;

/** A call waiting for its turn. Only `heavy` ones (passes over the model, files) are worth a pause for sampling. */
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
  readonly #queue: QueuedCall[] = [];
  #tokenizer: Promise<Tokenizer> | undefined;
  /** The work that is going on, if any. */
  #working: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: CoreOptions) {
    const { model, runtime, contextLength, activationBytes } = options;
    this.info = options.info;
    this.#options = options;
    this.#adapters = new AdapterStore(model.config, options.adapterBytes);
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
      compiler: async () => createCompiler(await this.#loadTokenizer(), this.info.vocabSize),
    });
  }

  // ---- order of work

  /** Puts a call in line; it runs when all before it have. */
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
        await letMessagesIn();
        await this.#runLight();
        if (this.#queue.length > 0 && performance.now() - start > samplingSliceMs) break;
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

  /** A change after which weights may be gone; what is kept of prompts goes with them. */
  #forgetting<T>(change: () => T): T {
    const result = change();
    this.#sampler.keepPrefixesOf((weights) => this.#adapters.isHeld(weights));
    return result;
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
    return this.#enqueue(() => exportState(this.#adapters.either(id), options));
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

  savePeft(id: AdapterId | SnapshotId, folder: string): Promise<void> {
    return this.#enqueue(async () => {
      await writePeft(folder, exportState(this.#adapters.weights(id)!), this.info.origin);
      if (this.#options.path !== undefined) await writeTokenizer(this.#options.path, folder);
    });
  }

  readPeft(folder: string): Promise<AdapterState> {
    return this.#enqueue(() => readPeft(folder, { config: readConfig(this.info.config) }));
  }

  saveMerged(id: AdapterId | SnapshotId, folder: string): Promise<void> {
    return this.#enqueue(() =>
      writeMerged({
        ...this.#options,
        adapter: this.#adapters.weights(id)!,
        config: this.info.config,
        path: this.#options.path,
        folder,
      }),
    );
  }

  // ---- training

  forward(id: AdapterId | SnapshotId | null, request: LossRequest): Promise<LossResult> {
    return this.#enqueue(() => this.#trainer.forward(this.#adapters.weights(id), request));
  }

  forwardBackward(adapterId: AdapterId, request: LossRequest): Promise<LossResult> {
    return this.#enqueue(() => this.#trainer.forwardBackward(this.#adapters.adapter(adapterId), request));
  }

  optimStep(adapterId: AdapterId, params: AdamParams = {}): Promise<OptimStepResult> {
    return this.#enqueue(() => this.#forgetting(() => optimStep(this.#adapters.adapter(adapterId), params)));
  }

  // ---- sampling

  /**
   * Takes its adapter's weights in turn with training calls (a sample asked for after a step sees that step), then decodes beside
   * whatever else is going on.
   */
  sample(request: SampleRequest, onToken?: (event: TokenEvent) => void): SampleHandle {
    let cancelled: { reason: unknown } | undefined;
    let handle: SampleHandle | undefined;
    const result = this.#enqueue(
      () => {
        if (cancelled) throw cancelled.reason;
        handle = this.#sampler.submit(request, this.#adapters.weights(request.adapter), { onToken });
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
    return Promise.resolve({
      weightsBytes: this.#options.model.bytes,
      adaptersBytes: this.#adapters.bytes,
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
  }
}

const closed = (): EngineError => new EngineError("closed", "the engine is closed");

/** New calls, cancellations, closing. */
const letMessagesIn = (): Promise<void> => new Promise((resume) => setImmediate(resume));
