/**
 * Schedules one engine: which training request or sample of which tenant runs next, by fair share. At most two training calls are on the
 * engine at once: the second keeps it busy without a round trip, and more would fix an order that fair share could no longer change.
 * Samples fill the engine's batch in parallel. It also frees engine memory and restarts an engine that has died.
 */
import { type Engine, EngineError, MemoryError, type SampleResult } from "@tinklet/engine";
import type { PeftBase } from "@tinklet/models";
import { readConfig } from "@tinklet/models/config";
import { writeAdapter } from "../../store/files/adapter-files.ts";
import { newFolderId } from "../../store/files/file-store.ts";
import { getModel, type Lora, type ModelRow, skipNumbers } from "../../store/tables/models.ts";
import type { Job, QueueContext } from "../job.ts";
import { AdapterCache } from "../sampling/adapter-cache.ts";
import { SampleRunner } from "../sampling/sample-runner.ts";
import type { TransientSample } from "../sampling/transient-sample.ts";
import { completeAdapter, readPeftFolder } from "../training/import-adapter.ts";
import { type EngineContext, ModelRunner } from "../training/model-runner.ts";
import { SeqOrder } from "../training/seq-order.ts";
import { FairShare } from "./fair-share.ts";
import { MemoryBusyError, MemoryWaitlist } from "./memory-waitlist.ts";

/** Training calls on the engine at once: one runs, the next is ready. */
const trainingDepth = 2;

export interface EngineQueueOptions {
  readonly baseModel: string;
  readonly context: QueueContext;
  /** Opens a new engine after the current one has died. Absent: its requests fail. */
  readonly reopen?: () => Promise<Engine>;
  /** Sequences on the engine at once. @defaultValue 64, twice the engine's batch */
  readonly maxSequences?: number;
}

export class EngineQueue {
  readonly baseModel: string;
  readonly runners = new Map<string, ModelRunner>();
  readonly #context: QueueContext;
  readonly #reopen: (() => Promise<Engine>) | undefined;
  #engine: Engine;
  #engineContext: EngineContext;
  readonly #trainingShares = new FairShare();
  #training = 0;
  #reopening: Promise<void> | undefined;
  readonly #memoryWaitlist: MemoryWaitlist<ModelRunner | string>;
  readonly #samples: SampleRunner;

  constructor(engine: Engine, options: EngineQueueOptions) {
    this.baseModel = options.baseModel;
    this.#context = options.context;
    this.#reopen = options.reopen;
    this.#engine = engine;
    this.#memoryWaitlist = new MemoryWaitlist(options.context.clock, () => this.pump());
    this.#engineContext = this.#engineContextOf(engine);
    this.#samples = new SampleRunner({
      context: options.context,
      baseModel: options.baseModel,
      engineContext: () => this.#engineContext,
      maxSequences: options.maxSequences ?? 64,
      memoryWaitlist: this.#memoryWaitlist,
      ended: () => this.pump(),
    });
  }

  get engine(): Engine {
    return this.#engine;
  }

  /** Requests that have not started. */
  get waiting(): { training: number; sampling: number } {
    let training = 0;
    for (const runner of this.runners.values()) training += runner.order.size;
    return { training, sampling: this.#samples.waiting };
  }

  /** The runner of a model; created from the model's row at the first call. */
  runner(row: ModelRow, order = new SeqOrder<Job>(row.next_seq)): ModelRunner {
    let runner = this.runners.get(row.id);
    if (runner === undefined) {
      runner = new ModelRunner(row, this.#engineContext, order);
      this.runners.set(row.id, runner);
    }
    return runner;
  }

  addSample(job: Job): void {
    this.#samples.add(job);
    this.pump();
  }

  /** Runs a transient sample; it shares the engine with stored samples by the same fair share. */
  sampleTransient(sample: TransientSample): Promise<SampleResult> {
    const result = this.#samples.addTransient(sample);
    this.pump();
    return result;
  }

  cancelSample(job: Job): void {
    this.#samples.cancel(job);
  }

  /** Starts all requests that may start now. Called whenever a request arrives or a condition that held one back has changed. */
  pump(): void {
    if (this.#reopening !== undefined || this.#context.closing.aborted) return;
    while (this.#training < trainingDepth) {
      const runner = this.#trainingShares.pick(this.#readyRunners());
      if (runner === undefined) break;
      this.#trainingShares.charge(runner, Math.max(1, runner.ready()!.tokens));
      this.#training++;
      const releasesBefore = this.#memoryWaitlist.releases();
      const onEnd = (outcome: "ran" | "no_memory") => {
        this.#training--;
        if (outcome === "ran") this.#memoryWaitlist.ended(runner);
        else this.#memoryWaitlist.park(runner, releasesBefore);
        this.#watchGap(runner);
        this.pump();
      };
      void runner.run().then(onEnd, () => onEnd("ran"));
    }
    this.#samples.pump();
    for (const runner of this.runners.values()) if (runner.order.size > 0) this.#watchGap(runner);
  }

  /** The queue state of a request and its reason, for `retrieve_future`. */
  explain(job: Job): { state: "active" | "paused_capacity"; reason: string } | undefined {
    if (job.blocked !== undefined) return { state: "paused_capacity", reason: job.blocked };
    if (this.#reopening !== undefined) return { state: "paused_capacity", reason: "The engine is being restarted." };
    if (job.startedAt !== undefined) return { state: "active", reason: "It is running." };
    if (!this.#context.quarantine.mayStart(job)) {
      return {
        state: "paused_capacity",
        reason: "Waits for a request that was running when the server crashed or was killed; that request runs alone.",
      };
    }
    if (job.modelId === undefined) {
      return { state: "active", reason: `${this.#samples.ahead(job)} samples of this session are before it.` };
    }
    const runner = this.runners.get(job.modelId);
    const missing = runner?.order.missing;
    if (missing !== undefined) {
      return {
        state: "paused_capacity",
        reason: `Waits for the request with seq_id ${missing} of this model, which has not arrived; it is skipped after ${Math.round(this.#context.limits.gapMs / 1000)} s.`,
      };
    }
    return { state: "active", reason: `${runner?.order.ahead(job) ?? 0} requests of this model are before it.` };
  }

  /** Evicts idle models. Their next request restores them. */
  async evictIdle(isStale: (runner: ModelRunner) => boolean): Promise<number> {
    let count = 0;
    for (const runner of [...this.runners.values()]) {
      if (!runner.idle || !isStale(runner)) continue;
      if (runner.resident) {
        await runner.evict();
        count++;
      }
      if (runner.idle && !runner.resident) this.runners.delete(runner.id);
    }
    return count;
  }

  /** What an imported adapter must match: the configuration of the base model and the maximum rank. */
  get peftBase(): PeftBase {
    return { config: readConfig(this.#engine.info.config), maxRank: this.#context.limits.rank };
  }

  /** Imports an adapter from a PEFT folder into the store. @throws EngineError naming what does not match this base model. */
  async importAdapter(folder: string): Promise<{ filesId: string; bytes: number; lora: Lora }> {
    const { store, imports } = this.#context;
    const { adapterCache } = this.#engineContext;
    const read = await readPeftFolder(imports, folder, this.peftBase);
    const state = await this.#withMemory(() => completeAdapter(this.#engine, read));
    const snapshot = await this.#withMemory(() => this.#engine.importSnapshot(state)); // checks every tensor
    const filesId = newFolderId();
    adapterCache.adopt(filesId, snapshot);
    const bytes = await writeAdapter(store.files, filesId, state, this.baseModel);
    return { filesId, bytes, lora: state.lora };
  }

  /** Waits for the running training requests and their commits. */
  async drained(): Promise<void> {
    await Promise.all([...this.runners.values()].map((runner) => runner.drained()));
  }

  /** Waits for running requests and stores a snapshot of every model, so that the next start replays nothing. */
  async settled(): Promise<void> {
    await this.drained();
    if (this.#context.store.durable) await Promise.all([...this.runners.values()].map((runner) => runner.settle()));
  }

  *#readyRunners(): Iterable<ModelRunner> {
    for (const runner of this.runners.values()) {
      const job = runner.ready();
      if (job !== undefined && this.#memoryWaitlist.mayStart(runner) && this.#context.quarantine.mayStart(job))
        yield runner;
    }
  }

  /** Skips a missing seq_id after `limits.gapMs`. */
  #watchGap(runner: ModelRunner): void {
    const { clock, limits, log, store } = this.#context;
    const missing = runner.order.missing;
    if (missing === undefined) {
      runner.gapTimer?.();
      runner.gapTimer = undefined;
      return;
    }
    runner.gapTimer ??= clock.timer(limits.gapMs, () => {
      runner.gapTimer = undefined;
      if (runner.order.missing !== missing) return this.#watchGap(runner);
      const skipped = runner.order.skipMissing();
      if (skipped === undefined) return;
      log.warn("seq.skipped", { model: runner.id, from: skipped.from, before: skipped.to });
      void store.db
        .write((sql) => skipNumbers(sql, runner.id, skipped.to))
        .catch(() => {}) // the next commit of the model stores the same number
        .finally(() => this.pump());
    });
  }

  #engineContextOf(engine: Engine): EngineContext {
    const { store, limits } = this.#context;
    return {
      context: this.#context,
      engine,
      adapterCache: new AdapterCache({
        engine,
        files: store.files,
        limit: limits.residentAdapters,
        withMemory: (work, sampler) => this.#withMemory(work, sampler),
      }),
      withMemory: (work, runner) => this.#withMemory(work, runner),
      wake: () => {
        this.#memoryWaitlist.noteRelease();
        this.pump();
      },
      engineGone: (error) => this.#engineGone(error),
    };
  }

  /**
   * Runs an engine call. When the engine is out of memory, frees some and repeats the call.
   *
   * @param user - the model or the sample queue that makes the call; absent for a call that does not wait for memory.
   * @throws {@link MemoryBusyError} when all remaining memory is in use by others.
   * @throws MemoryError when no other user holds memory, or without `user`.
   */
  async #withMemory<T>(work: () => Promise<T>, user?: ModelRunner | string): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof MemoryError)) throw error;
        if (await this.#freeMemory(user)) continue;
        // A model that is being restored or evicted is not resident, and its adapter takes memory.
        const holds = (other: ModelRunner) => other.resident || !other.quiet;
        const models = [...this.runners.values()].filter((other) => other !== user && holds(other)).length;
        const samples = this.#samples.runningExcept(user);
        if (user === undefined || models + samples === 0) throw error;
        const users = `${models} other models and ${samples} other samples`;
        throw new MemoryBusyError(`Waits for engine memory, which is in use by ${users}.`);
      }
    }
  }

  /**
   * Evicts one adapter: a cached sampler adapter first, then the model that has been idle longest. For the user that has the memory
   * reservation, also a model that has waiting requests but none running.
   */
  async #freeMemory(user: ModelRunner | string | undefined): Promise<boolean> {
    if (this.#engineContext.adapterCache.evictOne()) return true;
    const mayPause = user !== undefined && this.#memoryWaitlist.isReserved(user);
    const [idle] = [...this.runners.values()]
      .filter((other) => other !== user && other.resident && (mayPause ? other.quiet : other.idle))
      .sort((a, b) => a.lastUsedAt - b.lastUsedAt);
    if (idle === undefined) return false;
    this.#context.log.info("model.evicted", { model: idle.id });
    await idle.evict();
    return true;
  }

  #engineGone(error: unknown): boolean {
    if (!(error instanceof EngineError) || !/^(closed|worker_)/.test(error.code) || this.#reopen === undefined)
      return false;
    this.#reopening ??= this.#restart();
    return true;
  }

  async #restart(): Promise<void> {
    const { log, clock, closing } = this.#context;
    for (let attempt = 1; !closing.aborted; attempt++) {
      log.error("engine.died", { model: this.baseModel, attempt });
      try {
        this.#engine = await this.#reopen!();
        break;
      } catch (error) {
        log.error("engine.restart_failed", { model: this.baseModel, error: String(error) });
        await clock.sleep(Math.min(1000 * 2 ** attempt, 30_000), closing).catch(() => {});
      }
    }
    this.#engineContext = this.#engineContextOf(this.#engine);
    // Runners refer to the old engine: they are replaced by runners made from the store, which keep their waiting requests.
    await this.drained().catch((error: unknown) => log.error("commit.failed", { error: String(error) }));
    this.#memoryWaitlist.clear();
    for (const old of [...this.runners.values()]) {
      this.runners.delete(old.id);
      old.gapTimer?.();
      const row = getModel(this.#context.store.db.sql, old.id);
      if (row !== undefined) this.runner(row, old.order);
    }
    this.#reopening = undefined;
    this.pump();
  }
}
