/**
 * One engine and everything that wants it. Training calls are handed over two at a time, so that the engine never waits for us
 * and nobody's queue builds up inside it; samples fill its batch beside them. Who comes next is decided by fair shares.
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

/** Training calls on the engine at once: one runs, one is ready behind it. */
const trainingDepth = 2;

export interface EngineQueueOptions {
  readonly baseModel: string;
  readonly context: QueueContext;
  /** Opens the engine again after it died. */
  readonly reopen?: () => Promise<Engine>;
  /** Sequences handed to the engine at once. @defaultValue 64, twice its batch */
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

  /** The runner of a model, made from its row when it is first needed. */
  runner(row: ModelRow, order = new SeqOrder<Job>(row.next_seq)): ModelRunner {
    let runner = this.runners.get(row.id);
    if (runner === undefined) {
      runner = new ModelRunner(row, this.#engineContext, order);
      this.runners.set(row.id, runner);
    }
    return runner;
  }

  addTraining(job: Job, runner: ModelRunner): void {
    runner.order.add(job);
    this.pump();
  }

  addSample(job: Job): void {
    this.#samples.add(job);
    this.pump();
  }

  /** Draws sequences beside the stored samples, by the same fair shares. */
  draw(draw: TransientSample): Promise<SampleResult> {
    const drawn = this.#samples.draw(draw);
    this.pump();
    return drawn;
  }

  cancelSample(job: Job): void {
    this.#samples.cancel(job);
  }

  /** Starts what can start. */
  pump(): void {
    if (this.#reopening !== undefined || this.#context.closing.aborted) return;
    while (this.#training < trainingDepth) {
      const runner = this.#trainingShares.pick(this.#readyRunners());
      if (runner === undefined) break;
      this.#trainingShares.charge(runner, Math.max(1, runner.ready()!.tokens));
      this.#training++;
      const releasesBefore = this.#memoryWaitlist.releases();
      const over = (how: "ran" | "no_memory") => {
        this.#training--;
        if (how === "ran") this.#memoryWaitlist.ended(runner);
        else this.#memoryWaitlist.park(runner, releasesBefore);
        this.#watchGap(runner);
        this.pump();
      };
      void runner.run().then(over, () => over("ran"));
    }
    this.#samples.pump();
    for (const runner of this.runners.values()) if (runner.order.size > 0) this.#watchGap(runner);
  }

  /** Where a request stands, in words. */
  explain(job: Job): { state: "active" | "paused_capacity"; reason: string } | undefined {
    if (job.blocked !== undefined) return { state: "paused_capacity", reason: job.blocked };
    if (this.#reopening !== undefined) return { state: "paused_capacity", reason: "The engine is being restarted." };
    if (job.startedAt !== undefined) return { state: "active", reason: "It is running." };
    if (!this.#context.quarantine.mayStart(job)) {
      return {
        state: "paused_capacity",
        reason: "It waits for a request that was running when the server crashed or was killed: that one runs alone.",
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
        reason: `It waits for the request with seq_id ${missing} of this model, which has not arrived; after ${Math.round(this.#context.limits.gapMs / 1000)} s that number is skipped.`,
      };
    }
    return { state: "active", reason: `${runner?.order.ahead(job) ?? 0} requests of this model are before it.` };
  }

  /** Lets models go that have been idle; they come back by themselves. */
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

  /** What an adapter from elsewhere must fit. */
  get peftBase(): PeftBase {
    return { config: readConfig(this.#engine.info.config), maxRank: this.#context.limits.rank };
  }

  /** Takes an adapter from a PEFT folder into the store. @throws EngineError naming what does not fit this base model. */
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

  /** Waits for what the engine is doing and for every commit. */
  async drained(): Promise<void> {
    await Promise.all([...this.runners.values()].map((runner) => runner.drained()));
  }

  /** Waits for what runs and stores every model as it is, so that the next start has nothing to do again. */
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

  /** A number that does not come is waited for, and then given up. */
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
        .catch(() => {}) // the next commit of the model says the same
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
   * Runs an engine call, freeing memory for as long as it wants more and there is some to free.
   *
   * @param user - whose call it is: a model, or a line of samples. Absent for one that does not wait.
   * @throws {@link MemoryBusyError} when its user finds none that is not in use.
   */
  async #withMemory<T>(work: () => Promise<T>, user?: ModelRunner | string): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof MemoryError)) throw error;
        if (await this.#freeMemory(user)) continue;
        const models = [...this.runners.values()].filter((other) => other !== user && other.resident).length;
        const samples = this.#samples.runningBeside(user);
        if (user === undefined || models + samples === 0) throw error;
        const users = `${models} other models and ${samples} other samples`;
        throw new MemoryBusyError(`It waits for room in the engine's memory, which ${users} are using.`);
      }
    }
  }

  /** Frees memory: first a sampler's weights, then the model that has been idle longest, then, for one that has waited, any that pauses. */
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
    // Runners hold the old engine: they are made anew from the store, each with its line of requests as it is.
    await this.drained();
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
