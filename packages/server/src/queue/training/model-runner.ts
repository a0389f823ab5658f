/**
 * One model on its engine: runs its requests in order, commits their results in order, takes snapshots, and restores the model from the
 * store when it is not in memory. A restored model is bit-identical: its snapshot plus a replay of the requests after it.
 */
import type { AdapterId, AdapterState, Engine, LossResult } from "@tinklet/engine";
import { type ForwardBackwardRequest, OptimStepRequest } from "@tinklet/wire";
import type { Sql } from "../../store/database.ts";
import { readAdapter, verifyAdapter, writeAdapter } from "../../store/files/adapter-files.ts";
import { newFolderId } from "../../store/files/file-store.ts";
import {
  addFiles,
  advanceModel,
  failModel,
  getModel,
  type Lora,
  type ModelRow,
  moveSnapshot,
  readyModel,
  unloadModel,
} from "../../store/tables/models.ts";
import { replayRequests } from "../../store/tables/requests.ts";
import { addStep, type StepRow } from "../../store/tables/steps.ts";
import { decodePass, jsonPayload, lossRequest, passResult } from "../engine-input.ts";
import { finish, type Result } from "../finish.ts";
import { type Job, markOwned, passOf, payloadOf, type QueueContext, UserError, untilStored } from "../job.ts";
import { jsonOutcome, type Outcome } from "../outcome.ts";
import type { AdapterCache } from "../sampling/adapter-cache.ts";
import { checkDeaths } from "../scheduling/crash-quarantine.ts";
import { MemoryBusyError } from "../scheduling/memory-waitlist.ts";
import { loadWeights, saveExternal, saveForSampler, saveWeights } from "./checkpoint-jobs.ts";
import { customLossId, customPass, findLoss } from "./custom-pass.ts";
import type { SeqOrder } from "./seq-order.ts";
import { passPart, StepMeter } from "./step-meter.ts";

/** What the runners of one engine process share. */
export interface EngineContext {
  readonly context: QueueContext;
  readonly engine: Engine;
  readonly adapterCache: AdapterCache;
  /** Runs an engine call; frees memory of other models and samplers while the engine is out of memory. */
  readonly withMemory: <T>(work: () => Promise<T>, runner: ModelRunner) => Promise<T>;
  /** Starts waiting requests after a condition that held them back has ended. */
  readonly wake: () => void;
  /** Whether an error means that the engine itself died; if so, starts its restart. */
  readonly engineGone: (error: unknown) => boolean;
}

/** Results that wait for their commit before the model pauses. */
const maxUncommitted = 8;
/** Engine deaths during a request after which the request fails instead of running again. */
const maxEngineDeaths = 2;

export class ModelRunner {
  readonly id: string;
  readonly tenant: string;
  readonly sessionId: string;
  readonly baseModel: string;
  readonly lora: Lora;
  readonly order: SeqOrder<Job>;
  /** When a request last started, in milliseconds since the epoch. */
  lastUsedAt: number;
  /** Cancels the timer that runs while requests wait for a missing seq_id. */
  gapTimer: (() => void) | undefined;
  readonly running = new Set<Job>();

  readonly #engineContext: EngineContext;
  #state: ModelRow["state"] = "creating";
  #error: string | undefined;
  #adapter: AdapterId | undefined;
  /** Position of the last request whose result is stored. */
  #executed = 0;
  #snapshot: { filesId: string; executed: number; optimizer: boolean } | undefined;
  #gradientsClean = true;
  #unsavedMs = 0;
  #snapshotCostMs = 0;
  #snapshotting = false;
  #exclusive = false;
  #uncommitted = 0;
  #settled: Promise<unknown> = Promise.resolve();
  #lastFinishedAt = 0;
  readonly #meter = new StepMeter();
  #committed: Promise<unknown> = Promise.resolve();

  constructor(row: ModelRow, engineContext: EngineContext, order: SeqOrder<Job>) {
    this.id = row.id;
    this.tenant = row.tenant;
    this.sessionId = row.session_id;
    this.baseModel = row.base_model;
    this.lora = JSON.parse(row.lora) as Lora;
    this.order = order;
    this.lastUsedAt = row.last_request_at;
    this.#engineContext = engineContext;
    this.#readRow(row);
  }

  #readRow(row: ModelRow): void {
    const { snapshot_files: filesId, snapshot_executed: executed, snapshot_optimizer: optimizer } = row;
    this.#state = row.state;
    this.#error = row.error ?? undefined;
    this.#executed = row.executed;
    this.#snapshot = filesId === null ? undefined : { filesId, executed, optimizer: optimizer === 1 };
  }

  get resident(): boolean {
    return this.#adapter !== undefined;
  }

  get idle(): boolean {
    return this.order.size === 0 && this.quiet;
  }

  /** Whether no request is running or being stored; requests may wait. */
  get quiet(): boolean {
    return this.running.size === 0 && this.#uncommitted === 0 && !this.#snapshotting && !this.#exclusive;
  }

  /** The request that may start now. */
  ready(): Job | undefined {
    if (this.#exclusive || this.#uncommitted >= maxUncommitted) return undefined;
    const job = this.order.peek();
    return job === undefined || (this.running.size > 0 && this.#needsAlone(job)) ? undefined : job;
  }

  /**
   * Starts the request that {@link ready} returns. Resolves with `ran` when the engine has finished it (its commit may still be running), or
   * with `no_memory` when the engine had no memory for the model and the request waits again.
   */
  async run(): Promise<"ran" | "no_memory"> {
    const job = this.order.peek();
    if (job === undefined) return "ran";
    const alone = this.#needsAlone(job);
    const takeSnapshot = job.kind === "optim_step" && this.#snapshotDue();
    this.order.take();
    const { context } = this.#engineContext;
    job.startedAt = context.clock.now();
    job.blocked = undefined;
    this.lastUsedAt = job.startedAt;
    this.running.add(job);
    this.#exclusive = alone;
    context.onPoint?.("execute.before");
    const outcome: Promise<Result> = this.#execute(job).then(
      (value) => ({ ok: true, value }),
      (error: unknown) => ({ ok: false, error }),
    );
    const previous = this.#settled;
    // Results are handled in the order of the calls, even when a later call fails earlier.
    const settled = outcome.then(async (result) => {
      const finishedAt = context.clock.now();
      await previous;
      return this.#conclude(job, result, { alone, takeSnapshot, finishedAt });
    });
    this.#settled = settled;
    return settled;
  }

  async #conclude(
    job: Job,
    result: Result,
    run: { alone: boolean; takeSnapshot: boolean; finishedAt: number },
  ): Promise<"ran" | "no_memory"> {
    const { context, engineGone } = this.#engineContext;
    // A pass is given to the engine while the previous one runs, so its compute time starts when the previous one finished.
    const { finishedAt } = run;
    const startedAt = Math.min(finishedAt, Math.max(job.startedAt ?? finishedAt, this.#lastFinishedAt));
    this.#lastFinishedAt = finishedAt;
    let state: AdapterState | undefined;
    if (result.ok && run.takeSnapshot) state = await this.#export().catch(() => undefined);
    context.onPoint?.("execute.after");
    this.running.delete(job);
    if (!result.ok) context.store.running.end(job.id);
    if (run.alone) this.#exclusive = false;
    if (!result.ok && context.closing.aborted) return "ran"; // it stays pending and runs after the next start
    if (!result.ok && result.error instanceof MemoryBusyError) {
      job.startedAt = undefined;
      job.blocked = result.error.message;
      this.order.putBack(job);
      return "no_memory";
    }
    if (!result.ok && engineGone(result.error) && job.engineDeaths++ < maxEngineDeaths) {
      this.order.putBack(job);
      return "ran";
    }
    this.#commit(job, result, { startedAt, finishedAt });
    if (state !== undefined) this.#keepSnapshot(state);
    return "ran";
  }

  /** Waits for the running requests and their commits. */
  async drained(): Promise<void> {
    while (this.running.size > 0) await this.#settled;
    await this.#committed;
  }

  /**
   * Stores a snapshot, so that a restore needs no replay. Does nothing when nothing has changed, or while gradients are accumulated,
   * because snapshots do not contain gradients.
   */
  async settle(): Promise<void> {
    const settled = this.running.size === 0 && this.#uncommitted === 0 && !this.#snapshotting;
    if (!settled || this.#adapter === undefined || this.#unsavedMs === 0 || !this.#gradientsClean) return;
    this.#keepSnapshot(await this.#export());
    await this.#committed;
  }

  /** Removes the model from the engine's memory. The next request restores it. */
  async evict(): Promise<void> {
    const adapter = this.#adapter;
    if (adapter === undefined || !this.quiet) return;
    this.#exclusive = true;
    try {
      await this.settle();
      this.#adapter = undefined;
      await this.#engineContext.engine.deleteAdapter(adapter);
    } finally {
      this.#exclusive = false;
      this.#engineContext.wake();
    }
  }

  #dropAdapter(): void {
    const adapter = this.#adapter;
    this.#adapter = undefined;
    if (adapter !== undefined) void this.#engineContext.engine.deleteAdapter(adapter).catch(() => {});
  }

  #needsAlone(job: Job): boolean {
    const pass = job.kind === "forward" || job.kind === "forward_backward" || job.kind === "optim_step";
    // A custom loss takes two engine calls, and no other call of the model may run between them. A recovered request may have crashed the
    // last process: it runs alone so that a second crash is not attributed to another request.
    if (job.resolvedParams.customLoss !== undefined || job.recovered) return true;
    return !pass || this.#adapter === undefined || (job.kind === "optim_step" && this.#snapshotDue());
  }

  #snapshotDue(): boolean {
    const { snapshotWorthMs, snapshotOverhead } = this.#engineContext.context.limits;
    const worth = Math.max(snapshotWorthMs, this.#snapshotCostMs / snapshotOverhead);
    return !this.#snapshotting && this.#unsavedMs > worth;
  }

  async #execute(job: Job): Promise<Outcome> {
    checkDeaths(job);
    this.#engineContext.context.store.running.begin(job.id);
    if (this.#state === "failed") throw new UserError(`The model ${this.id} could not be created: ${this.#error}`);
    if (job.kind === "unload_model") {
      const adapter = this.#adapter;
      this.#adapter = undefined;
      if (adapter !== undefined) await this.#engineContext.engine.deleteAdapter(adapter);
      return jsonOutcome({ model_id: this.id, type: "unload_model" }, (sql) => {
        this.#state = "unloaded";
        this.#snapshot = undefined;
        unloadModel(sql, this.id);
      });
    }
    if (this.#state === "unloaded") {
      throw new UserError(
        `The model ${this.id} was unloaded. Create a new model, from a checkpoint of this one if there is one.`,
      );
    }
    const adapter = this.#adapter ?? (await this.#restore());
    const { context, engine } = this.#engineContext;
    const parts = { ...this.#engineContext, job, adapter, model: this };
    switch (job.kind) {
      case "create_model":
        return jsonOutcome({ model_id: this.id, type: "create_model" }, (sql) => this.#markReady(sql));
      case "forward": {
        const pass = passOf(context, job);
        const result = await this.#pass(adapter, pass, false);
        return { body: passResult(result), type: "proto", usage: { training: job.tokens } };
      }
      case "forward_backward": {
        const pass = passOf(context, job);
        const result = await this.#timed(this.#pass(adapter, pass, true));
        this.#gradientsClean = false;
        const part = passPart(pass, result, job.tokens);
        return { body: passResult(result), type: "proto", usage: { training: job.tokens }, part };
      }
      case "optim_step": {
        const params = optimParams(payloadOf(context, job));
        const { metrics } = await this.#timed(engine.optimStep(adapter, params));
        this.#gradientsClean = true;
        const gradientNorm = metrics["unclipped_grad_l2:mean"];
        return {
          ...jsonOutcome({ metrics: finiteOnly(metrics), type: "optim_step" }),
          part: { kind: "step", gradientNorm, learningRate: params.learningRate },
        };
      }
      case "save_weights":
        return saveWeights(parts);
      case "save_weights_for_sampler":
        return saveForSampler(parts);
      case "save_weights_external":
        return saveExternal(parts);
      case "load_weights": {
        if (this.#state === "creating") {
          // A model created from a checkpoint: #restore has just loaded it, because the checkpoint is its snapshot.
          return jsonOutcome({ model_id: this.id, type: "load_weights" }, (sql) => this.#markReady(sql));
        }
        const loaded = await loadWeights(parts);
        this.#gradientsClean = true;
        this.#unsavedMs = 0;
        return {
          ...loaded.outcome,
          effects: (sql, position) => {
            this.#moveSnapshot(sql, { ...loaded.from, executed: position });
          },
          release: loaded.unpin,
        };
      }
      case "sample":
      case "create_custom_loss":
        throw new Error(`${job.kind} does not belong to a model`);
    }
  }

  /** One pass, with a loss of the engine or a custom loss. */
  #pass(adapter: AdapterId, pass: ForwardBackwardRequest, backward: boolean): Promise<LossResult> {
    const { context, engine } = this.#engineContext;
    const id = customLossId(pass);
    if (id !== undefined) {
      const loss = findLoss(context.store.db.sql, id, this.sessionId);
      return customPass({ engine, thread: context.losses, adapter, pass, loss, backward });
    }
    const request = lossRequest(pass);
    return backward ? engine.forwardBackward(adapter, request) : engine.forward(adapter, request);
  }

  /** Loads the snapshot into the engine and replays the finished requests after it. */
  async #restore(): Promise<AdapterId> {
    const { context, engine, withMemory } = this.#engineContext;
    const started = context.clock.monotonic();
    const from = this.#snapshot;
    const state = from && (await readAdapter(context.store.files, from.filesId, { optimizer: from.optimizer }));
    const make = () => (state === undefined ? engine.createAdapter(this.lora) : engine.importState(state));
    const { adapterId: adapter } = await withMemory(make, this);
    let replayed = 0;
    try {
      replayed = await this.#replay(adapter, from?.executed ?? 0);
    } catch (error) {
      await engine.deleteAdapter(adapter).catch(() => {}); // a dead engine no longer holds it
      throw error;
    }
    this.#adapter = adapter;
    if (from !== undefined || replayed > 0) {
      context.log.info("model.restored", {
        model: this.id,
        replayed,
        ms: Math.round(context.clock.monotonic() - started),
      });
    }
    return adapter;
  }

  /** Replays the finished requests after position `after`; returns how many. */
  async #replay(adapter: AdapterId, after: number): Promise<number> {
    const { context, engine } = this.#engineContext;
    this.#gradientsClean = true;
    this.#unsavedMs = 0;
    this.#meter.reset();
    let count = 0;
    for (const row of replayRequests(context.store.db.sql, this.id, after)) {
      const payload = row.payload!;
      if (row.kind === "optim_step") {
        await this.#timed(engine.optimStep(adapter, optimParams(payload)));
        this.#gradientsClean = true;
        this.#meter.reset();
      } else if (row.kind === "forward_backward") {
        const pass = decodePass(payload, row.payload_type);
        const result = await this.#timed(this.#pass(adapter, pass, true));
        this.#gradientsClean = false;
        this.#meter.add(passPart(pass, result, row.tokens));
      }
      count++;
    }
    return count;
  }

  /** Adds the time of a call of the engine to the time that a restore would take. */
  async #timed<T>(call: Promise<T>): Promise<T> {
    const started = this.#engineContext.context.clock.monotonic();
    const value = await call;
    this.#unsavedMs += this.#engineContext.context.clock.monotonic() - started;
    return value;
  }

  /** Stores a result after all earlier results of the model, then answers the polls that wait for it. */
  #commit(job: Job, result: Result, at: { readonly startedAt: number; readonly finishedAt: number }): void {
    const { context } = this.#engineContext;
    // Two requests may run at once, so the order may have advanced past a request that has no result yet.
    const next = Math.min(this.order.next, ...[...this.running].map((later) => later.seq ?? Number.POSITIVE_INFINITY));
    const isCreation = job.kind === "create_model" || (job.kind === "load_weights" && this.#state === "creating");
    this.#uncommitted++;
    this.#committed = this.#committed
      .then(async () => {
        const position = this.#executed + 1;
        const part = result.ok ? result.value.part : undefined;
        const totals = part && this.#meter.add(part, { acceptedAt: job.acceptedAt, ...at });
        let step: StepRow | undefined;
        await finish(context, job, {
          result,
          baseModel: this.baseModel,
          ...at,
          position,
          keepPayload: job.kind === "forward_backward" || job.kind === "optim_step",
          alsoStore: (sql, failure) => {
            if (failure !== undefined && isCreation) {
              this.#state = "failed";
              this.#error = failure.error;
              failModel(sql, this.id, failure.error);
            }
            advanceModel(sql, this.id, { executed: position, nextSeq: next, now: context.clock.now() });
            if (totals !== undefined) {
              const { id: model_id, sessionId: session_id, tenant } = this;
              step = addStep(sql, { model_id, session_id, tenant, ...totals }, context.limits.stepsPerRun);
            }
          },
        });
        this.#executed = position;
        if (step !== undefined) context.steps.stored(step);
      })
      .catch((error: unknown) => {
        if (context.closing.aborted) return;
        context.log.error("commit.failed", { request: job.id, error: String(error) });
        // The result cannot be stored: the request fails, so that it does not stay pending. Its effect on the model in memory is undone by
        // dropping the adapter, which the next request restores from the store.
        if (result.ok) {
          this.#dropAdapter();
          // The effects of the result changed the state and the snapshot here before their transaction was rolled back.
          const row = getModel(context.store.db.sql, this.id);
          if (row !== undefined) this.#readRow(row);
          this.#commit(job, { ok: false, error }, at);
        }
      })
      .finally(() => {
        if (result.ok) result.value.release?.();
        this.#uncommitted--;
        this.#engineContext.wake();
      });
  }

  #markReady(sql: Sql): void {
    this.#state = "ready";
    readyModel(sql, this.id);
  }

  #export(): Promise<AdapterState> {
    return this.#engineContext.engine.exportState(this.#adapter!, { optimizer: true });
  }

  /** Writes a snapshot while requests continue. After it is stored, the payloads of the requests that it covers are deleted. */
  #keepSnapshot(state: AdapterState): void {
    const { context } = this.#engineContext;
    const job = { id: 0, blocked: undefined };
    const adapter = this.#adapter;
    this.#snapshotting = true;
    this.#unsavedMs = 0;
    context.onPoint?.("snapshot.exported");
    const started = context.clock.monotonic();
    const filesId = newFolderId();
    const written = untilStored(context, job, () => writeAdapter(context.store.files, filesId, state, this.baseModel));
    written.catch(() => {});
    this.#committed = this.#committed
      .then(async () => {
        // All requests up to the snapshot's optimizer step are committed here, so `executed` is the position of that step.
        const executed = this.#executed;
        const bytes = await written;
        if (this.#adapter !== adapter) {
          // The adapter was dropped because the result of that step could not be stored, or it was unloaded.
          await context.store.files.removeFolder(filesId);
          return;
        }
        if (context.store.durable) await this.#checked(filesId);
        context.onPoint?.("snapshot.before-commit");
        const unused = await untilStored(context, job, () =>
          context.store.db.write((sql) => {
            addFiles(sql, filesId, bytes, context.clock.now());
            return this.#moveSnapshot(sql, { filesId, executed, optimizer: true });
          }),
        );
        await markOwned(context, filesId);
        if (unused !== undefined) await context.store.collect();
      })
      .catch((error: unknown) => {
        if (!context.closing.aborted) context.log.error("snapshot.failed", { model: this.id, error: String(error) });
      })
      .finally(() => {
        this.#snapshotCostMs = context.clock.monotonic() - started;
        this.#snapshotting = false;
        this.#engineContext.wake();
      });
  }

  /** Verifies a written snapshot before the payloads that it replaces are deleted. */
  async #checked(filesId: string): Promise<void> {
    const { files } = this.#engineContext.context.store;
    try {
      await verifyAdapter(files, filesId);
    } catch (error) {
      await files.removeFolder(filesId);
      throw error;
    }
  }

  /** Stores new snapshot files and deletes the payloads that they cover. Returns the files of the previous snapshot. */
  #moveSnapshot(sql: Sql, to: { filesId: string; executed: number; optimizer: boolean }): string | undefined {
    const before = this.#snapshot?.filesId;
    moveSnapshot(sql, this.id, to);
    this.#snapshot = to;
    return before;
  }
}

/** The AdamW parameters of a stored request. */
function optimParams(payload: Uint8Array) {
  const { adamParams } = OptimStepRequest.decode(jsonPayload(payload));
  if (adamParams === undefined) throw new UserError("adam_params is required: this server's optimizer is AdamW.");
  return adamParams;
}

/** JSON cannot represent NaN, and the official client rejects a result that contains it. */
const finiteOnly = (metrics: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)));
