/**
 * The queue as the HTTP layer uses it: submit, retrieve, cancel, recover. A request is accepted in one transaction, which also detects a
 * retry (the same seq_id and fingerprint) or a clash; then it is handed to the engine queue of its base model. No request is acknowledged
 * before it is durable.
 *
 *     Queue                      one per server: accepts requests, holds those that are pending, answers polls
 *     ├─ QueueContext            what all parts share: store, clock, limits, futures, feeds, quarantine
 *     └─ EngineQueue             one per base model: decides what its engine runs next, frees memory, restarts the engine
 *        ├─ EngineContext        what the runners of one engine process share; replaced when the engine restarts
 *        │  └─ AdapterCache      saved adapters in the engine's memory, for sampling
 *        ├─ FairShare, MemoryWaitlist
 *        ├─ ModelRunner          one per model in training: order of its requests, commits, snapshots, replay
 *        │  └─ SeqOrder, StepMeter
 *        └─ SampleRunner         one per engine: a queue of samples per sampling session, and transient samples
 *
 * Both runners end a request with `finish`, which stores its result and then answers the polls that wait for it.
 */
import type { SampleResult, TokenEvent } from "@tinklet/engine";
import { decodeSampleResponse, type ForwardBackwardRequest } from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";
import { omitUndefined } from "@tinklet/wire/options";
import type { Limits } from "../limits.ts";
import type { Log } from "../log.ts";
import type { Sql } from "../store/database.ts";
import type { Store } from "../store/store.ts";
import { addModel, getModel, hasFiles, type ModelRow, type NewModel } from "../store/tables/models.ts";
import {
  addRequest,
  deleteSpent,
  expireResults,
  failureBytes,
  findRequest,
  finishedSamples,
  finishedSeqs,
  finishRequest,
  getRequest,
  type NewRequest,
  type PayloadType,
  pendingRequests,
  type RequestKind,
  storeRetrieved,
} from "../store/tables/requests.ts";
import { getSampler } from "../store/tables/sessions.ts";
import { addUsage, type Usage } from "../store/tables/usage.ts";
import type { SideThread } from "../thread/side-thread.ts";
import { Futures, type Timing, timingOf } from "./futures.ts";
import { failureOf, type Job, jobOf, PayloadCache, type QueueContext, targetOf, UserError } from "./job.ts";
import { Refusal } from "./refusal.ts";
import { RequestIds } from "./request-id.ts";
import { type CompletionPage, type CompletionQuery, Completions } from "./sampling/finished-samples.ts";
import { TokenFeeds } from "./sampling/token-feed.ts";
import { TokenRateMeter } from "./sampling/token-rates.ts";
import { shuttingDown, type TransientSample } from "./sampling/transient-sample.ts";
import { CrashQuarantine, isGivenUp } from "./scheduling/crash-quarantine.ts";
import { DiskGuard } from "./scheduling/disk-guard.ts";
import type { EngineQueue } from "./scheduling/engine-queue.ts";
import type { ModelRunner } from "./training/model-runner.ts";
import { StepFeed } from "./training/step-feed.ts";

export interface QueueOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Limits;
  /** The thread that runs custom losses. */
  readonly losses: SideThread;
  /** The thread that reads imported adapters. */
  readonly imports: SideThread;
  /** Maximum size of the data folder in bytes. @defaultValue unlimited */
  readonly maxDiskBytes?: number | undefined;
  readonly onPoint?: ((point: string) => void) | undefined;
  readonly onFinished?: (job: Job, outcome: "done" | "failed") => void;
  readonly onUsed?: (usage: Usage) => void;
}

/** What `retrieve_future` found. */
export type Retrieved =
  | { readonly kind: "done"; readonly body: Uint8Array; readonly type: PayloadType; readonly timing?: Timing }
  | { readonly kind: "pending"; readonly queueState: "active" | "paused_capacity"; readonly reason: string }
  /** Unfinished, and the server is shutting down: the client must back off before it polls again. */
  | { readonly kind: "closing" }
  | { readonly kind: "expired" }
  | { readonly kind: "unknown" };

/** Rows per transaction of a sweep. */
const sweepBatch = 200;

type Accepted = { readonly id: number; readonly isNew: boolean };

export class Queue {
  readonly context: QueueContext;
  readonly engineQueues = new Map<string, EngineQueue>();
  readonly #ids: RequestIds;
  readonly #closing = new AbortController();
  /** Aborts the running transient samples. */
  readonly #transientSamples = new Set<AbortController>();
  readonly #jobs = new Map<number, Job>();
  readonly #pendingByTenant = new Map<string, { count: number; bytes: number }>();
  #pendingBytes = 0;
  readonly #fetched = new Set<number>();
  readonly #disk: DiskGuard;

  constructor({ store, clock, log, limits, losses, imports, maxDiskBytes, onPoint, onFinished, onUsed }: QueueOptions) {
    this.#disk = new DiskGuard(store, clock, maxDiskBytes);
    this.#ids = new RequestIds(store.secret);
    this.context = {
      store,
      clock,
      log,
      limits,
      futures: new Futures(clock),
      feeds: new TokenFeeds(clock),
      completions: new Completions({
        clock,
        known: (target) => finishedSamples(store.db.sql, target).filter(({ id }) => !this.#fetched.has(id)),
      }),
      payloads: new PayloadCache(),
      losses,
      imports,
      quarantine: new CrashQuarantine(),
      steps: new StepFeed(),
      rates: new TokenRateMeter(clock),
      closing: this.#closing.signal,
      onPoint,
      onUsed: (tenant, usage) => {
        this.context.rates.add(tenant, usage);
        onUsed?.(usage);
      },
      onFinished: (job, outcome) => {
        this.context.store.running.end(job.id);
        this.#count(job, -1);
        if (job.modelId !== undefined) this.context.steps.changed(job.tenant, job.modelId);
        if (this.context.quarantine.cleared(job))
          for (const engineQueue of this.engineQueues.values()) engineQueue.pump();
        onFinished?.(job, outcome);
      },
    };
  }

  /** Unfinished requests. */
  get pending(): number {
    return this.#jobs.size;
  }

  /**
   * Accepts a request of an existing model. Requests of a model run in the order of `seq`.
   *
   * @param pass - the decoded payload, where the handler has decoded it already.
   */
  async submitTraining(
    request: NewRequest & { readonly modelId: string },
    model: ModelRow,
    pass?: ForwardBackwardRequest,
  ): Promise<string> {
    this.#checkLimits(request);
    const engineQueue = this.engineQueues.get(model.base_model);
    const runner = engineQueue && this.#runner(engineQueue, model);
    const { seq } = request;
    let entry: NewRequest = request;
    const accepted = await this.#accept((sql) => {
      const known = this.#duplicateOf(sql, "model_id", request.modelId, request);
      if (known !== undefined) return known;
      const next = runner?.order.next ?? model.next_seq;
      if (entry.failure === undefined && seq !== undefined && seq < next) {
        const error = `seq_id ${seq} of ${request.modelId} arrived too late: it was skipped after ${Math.round(this.context.limits.gapMs / 1000)} s, and the next seq_id is ${next}.`;
        entry = { ...entry, failure: { error, category: "user" } };
      }
      return { id: addRequest(sql, entry), isNew: true };
    });
    if (accepted.isNew && entry.failure !== undefined) {
      this.context.futures.settle(accepted.id, {
        tenant: request.tenant,
        body: failureBytes(entry.failure),
        type: "json",
      });
      if (runner !== undefined && typeof seq === "number") {
        runner.order.consume(seq);
        engineQueue!.pump();
      }
    } else if (accepted.isNew) {
      const job = this.#track(accepted.id, entry, pass);
      if (engineQueue !== undefined) {
        this.#runner(engineQueue, model).order.add(job);
        engineQueue.pump();
      }
      this.context.steps.changed(request.tenant, request.modelId);
    }
    return this.#ids.make(accepted.id, request.tenant);
  }

  /** How many requests of a model run and wait, and why the next one waits. */
  modelState(model: Pick<ModelRow, "id" | "base_model">): {
    readonly running: number;
    readonly waiting: number;
    readonly reason: string | undefined;
  } {
    const engineQueue = this.engineQueues.get(model.base_model);
    const runner = engineQueue?.runners.get(model.id);
    if (engineQueue === undefined || runner === undefined) return { running: 0, waiting: 0, reason: undefined };
    const [job] = runner.running.size > 0 ? runner.running : [runner.order.first];
    return {
      running: runner.running.size,
      waiting: runner.order.size,
      reason: job === undefined ? undefined : engineQueue.explain(job)?.reason,
    };
  }

  /** Consumes the seq_id of a rejected request, so that later requests do not wait for it. Its future returns the error. */
  async refuse(
    { kind, seq, tenant }: { readonly kind: RequestKind; readonly seq: number; readonly tenant: string },
    model: ModelRow,
    error: unknown,
  ): Promise<void> {
    const request = {
      tenant,
      sessionId: model.session_id,
      kind,
      modelId: model.id,
      seq,
      fingerprint: `refused ${kind}`,
      payload: new Uint8Array(0),
      payloadType: "json",
      tokens: 0,
      now: this.context.clock.now(),
      failure: failureOf(error),
    } as const;
    await this.submitTraining(request, model);
  }

  /** Accepts the request that creates a model, and stores the model's row in the same transaction. */
  async submitModel(model: NewModel, request: NewRequest): Promise<string> {
    this.#checkLimits(request);
    const entry = { ...request, modelId: model.id, seq: 0 };
    const accepted = await this.#accept((sql) => {
      const known = this.#duplicateOf(sql, "model_id", model.id, entry);
      if (known !== undefined) return known;
      if (getModel(sql, model.id) !== undefined) throw reused(`model_seq_id ${model.modelSeq}`, model.sessionId);
      if (model.from !== undefined && !hasFiles(sql, model.from.filesId)) throw filesGone();
      addModel(sql, model);
      return { id: addRequest(sql, entry), isNew: true };
    });
    if (accepted.isNew) {
      const job = this.#track(accepted.id, entry);
      const engineQueue = this.engineQueues.get(model.baseModel);
      const row = getModel(this.context.store.db.sql, model.id);
      if (engineQueue !== undefined && row !== undefined) {
        this.#runner(engineQueue, row).order.add(job);
        engineQueue.pump();
      }
      this.context.steps.changed(request.tenant, model.id);
    }
    return this.#ids.make(accepted.id, request.tenant);
  }

  async submitSample(request: NewRequest, baseModel: string): Promise<{ requestId: string; id: number }> {
    this.#checkLimits(request);
    const accepted = await this.#accept((sql) => {
      const known = request.samplerId && this.#duplicateOf(sql, "sampler_id", request.samplerId, request);
      if (known) return known;
      if (request.filesId !== undefined && !hasFiles(sql, request.filesId)) throw filesGone();
      return { id: addRequest(sql, request), isNew: true };
    });
    if (accepted.isNew && request.failure !== undefined) {
      const body = failureBytes(request.failure);
      this.context.futures.settle(accepted.id, { tenant: request.tenant, body, type: "json" });
      this.#noteCompletion(accepted.id, request);
    } else if (accepted.isNew) {
      const job = this.#track(accepted.id, request);
      if (job.resolvedParams.stream) this.context.feeds.open(job.id);
      this.engineQueues.get(baseModel)?.addSample(job);
    } else if (!this.#jobs.has(accepted.id)) this.#noteCompletion(accepted.id, request);
    return { requestId: this.#ids.make(accepted.id, request.tenant), id: accepted.id };
  }

  /**
   * Samples for a client that waits for the result. The request is not stored: it ends with the server or with its signal. Its usage is
   * recorded.
   *
   * @throws {@link Refusal} 503 when the server closes or the engine dies; the signal's reason when the signal is aborted.
   */
  async sampleTransient(baseModel: string, sample: TransientSample): Promise<SampleResult> {
    const engineQueue = this.engineQueues.get(baseModel);
    if (engineQueue === undefined) throw new Refusal(503, "not_loaded", `The base model ${baseModel} is not loaded.`);
    const { store, closing, clock } = this.context;
    const unpin = sample.filesId === undefined ? undefined : store.pin(sample.filesId);
    if (sample.filesId !== undefined && !hasFiles(store.db.sql, sample.filesId)) {
      unpin?.();
      throw new Refusal(404, "model_not_found", "The checkpoint was deleted while this request was being read.", {
        param: "model",
      });
    }
    const stop = new AbortController();
    const abort = () => stop.abort(sample.signal.reason);
    sample.signal.addEventListener("abort", abort, { once: true });
    this.#transientSamples.add(stop);
    let sampled = 0;
    let cached = 0;
    try {
      if (sample.signal.aborted) abort();
      if (closing.aborted) stop.abort(shuttingDown());
      stop.signal.throwIfAborted();
      const onToken = (event: TokenEvent) => {
        sampled++;
        cached = Math.min(event.promptCacheHitTokens, sample.request.prompt.length);
        sample.onToken?.(event);
      };
      return await engineQueue.sampleTransient({ ...sample, signal: stop.signal, onToken });
    } finally {
      sample.signal.removeEventListener("abort", abort);
      this.#transientSamples.delete(stop);
      unpin?.();
      if (sampled > 0 && !closing.aborted) {
        const account = { tenant: sample.tenant, sessionId: "", baseModel, now: clock.now() };
        const usage = {
          sampling_prefill: sample.request.prompt.length - cached,
          sampling_prefill_cached: cached,
          sampling_sample: sampled,
        };
        this.context.onUsed(sample.tenant, usage);
        store.db
          .write((sql) => addUsage(sql, account, usage))
          .catch((error: unknown) => this.context.log.warn("usage.lost", { tokens: sampled, error: String(error) }));
      }
    }
  }

  /** Accepts a request that needs no engine. The request, its result and `effects` are stored in one transaction. */
  async submitAnswered(request: NewRequest, result: Uint8Array, effects: (sql: Sql) => void): Promise<string> {
    const { id } = await this.#accept((sql) => {
      effects(sql);
      const added = addRequest(sql, request);
      const at = { startedAt: request.now, finishedAt: request.now };
      finishRequest(sql, {
        id: added,
        state: "done",
        result,
        resultType: "json",
        keepPayload: false,
        position: null,
        ...at,
      });
      return { id: added, isNew: true };
    });
    this.context.futures.settle(id, { tenant: request.tenant, body: result, type: "json" });
    return this.#ids.make(id, request.tenant);
  }

  /** The result of a request; waits for it for at most `pollMs`. */
  async retrieve(requestId: string, tenant: string, signal?: AbortSignal): Promise<Retrieved> {
    const id = this.#ids.read(requestId, tenant);
    if (id === undefined) return { kind: "unknown" };
    const { futures, limits } = this.context;
    if (this.#jobs.has(id)) await futures.wait(id, limits.pollMs, signal);
    const recent = futures.recent(id);
    if (recent !== undefined) {
      this.#fetched.add(id);
      return { kind: "done", ...recent };
    }
    const row = getRequest(this.context.store.db.sql, id);
    if (row === undefined || (row.state !== "pending" && row.result === undefined)) return { kind: "expired" };
    if (row.result !== undefined) {
      this.#fetched.add(id);
      const done = { kind: "done", body: row.result, type: row.result_type ?? "json" } as const;
      const { accepted_at, started_at, finished_at } = row;
      if (started_at === null || finished_at === null) return done;
      const isSample = row.kind === "sample" && done.type === "proto";
      const cachedTokens = isSample ? decodeSampleResponse(row.result).promptCacheHitTokens : undefined;
      return {
        ...done,
        timing: { ...timingOf(accepted_at, started_at, finished_at), ...omitUndefined({ cachedTokens }) },
      };
    }
    if (this.#closing.signal.aborted) return { kind: "closing" };
    return { kind: "pending", ...this.#explain(id) };
  }

  /** The finished samples of a sampling session. @throws {@link Refusal} 503 when none is finished and the server is shutting down. */
  async completions(query: CompletionQuery, retrieved: readonly string[]): Promise<CompletionPage> {
    for (const requestId of retrieved) {
      const id = this.#ids.read(requestId, query.tenant);
      if (id !== undefined) this.#fetched.add(id);
    }
    const page = await this.context.completions.next(query);
    if (page.completions.length === 0 && this.#closing.signal.aborted) {
      throw new Refusal(503, "shutting_down", "The server is shutting down. Accepted requests run after its restart.", {
        retryAfterSeconds: 1,
      });
    }
    return page;
  }

  /** The request id that the tenant's clients use. */
  requestIdOf(id: number, tenant: string): string {
    return this.#ids.make(id, tenant);
  }

  /** The tokens of a sample from index `after`; waits at most `pollMs` for one. `undefined` when the feed is unknown or was dropped. */
  async tokens(requestId: string, tenant: string, after: number, signal?: AbortSignal) {
    const id = this.#ids.read(requestId, tenant);
    return id === undefined ? undefined : this.context.feeds.read(id, after, this.context.limits.pollMs, signal);
  }

  /** Adds the requests that were pending when the server stopped to the engine queues. Call once, after all engine queues exist. */
  recover(): { readonly requests: number } {
    const { sql } = this.context.store.db;
    const pending = pendingRequests(sql);
    const starts: (() => void)[] = [];
    for (const row of pending) {
      const job = jobOf(row);
      this.#jobs.set(job.id, job);
      this.#count(job, 1);
      const target = targetOf(job);
      if (target !== undefined) this.context.completions.begin(target);
      if (job.resolvedParams.stream) this.context.feeds.open(job.id);
      const { id, kind, deaths } = job;
      if (isGivenUp(job)) this.context.log.warn("request.given_up", { request: id, kind, deaths });
      if (job.modelId !== undefined) {
        const model = getModel(sql, job.modelId);
        const engineQueue = model && this.engineQueues.get(model.base_model);
        if (model !== undefined && engineQueue !== undefined) {
          const runner = this.#runner(engineQueue, model);
          runner.order.add(job);
          this.context.quarantine.consider(job);
          starts.push(() => engineQueue.pump());
        }
      } else {
        const baseModel =
          job.samplerId === undefined ? job.resolvedParams.baseModel : getSampler(sql, job.samplerId)?.base_model;
        const engineQueue = baseModel === undefined ? undefined : this.engineQueues.get(baseModel);
        if (engineQueue === undefined) continue;
        this.context.quarantine.consider(job);
        starts.push(() => engineQueue.addSample(job));
      }
    }
    const { first } = this.context.quarantine;
    if (first !== undefined) {
      const { id, kind, deaths } = first;
      const meaning = "it was running when the server crashed or was killed: it runs alone";
      this.context.log.warn("request.quarantined", { request: id, kind, deaths, meaning });
    }
    for (const start of starts) start();
    return { requests: pending.length };
  }

  /** Stores which results were retrieved and deletes expired ones, in short transactions between which other requests are stored. */
  async sweep(): Promise<void> {
    const now = this.context.clock.now();
    const fetched = [...this.#fetched];
    this.#fetched.clear();
    this.context.futures.forget();
    const { db } = this.context.store;
    for (let at = 0, more = true; more; at += sweepBatch) {
      const expired = await db.write((sql) => {
        storeRetrieved(sql, fetched.slice(at, at + sweepBatch), now);
        return expireResults(sql, now, sweepBatch);
      });
      more = expired >= sweepBatch || at + sweepBatch < fetched.length;
    }
    let after: number | undefined = 0;
    while (after !== undefined) {
      const from: number = after;
      after = await db.write((sql) => deleteSpent(sql, from, sweepBatch));
    }
  }

  /**
   * Cancels a sample. A finished sample and a request of another kind are not changed.
   *
   * @returns false when the tenant has no such request.
   */
  cancel(requestId: string, tenant: string): boolean {
    const id = this.#ids.read(requestId, tenant);
    if (id === undefined) return false;
    const job = this.#jobs.get(id);
    if (job?.kind === "sample") this.#engineQueueOfSample(job)?.cancelSample(job);
    return true;
  }

  /** Cancels the samples of a finished session. Its training requests continue, because their checkpoints may be used later. */
  cancelSamples(sessionId: string): void {
    for (const job of [...this.#jobs.values()]) {
      if (job.kind === "sample" && job.sessionId === sessionId) this.#engineQueueOfSample(job)?.cancelSample(job);
    }
  }

  /** Answers all polls, starts nothing more and waits at most `graceMs` for running commits. Pending requests stay stored. */
  async close(graceMs = 5000): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new Error("The server is shutting down."));
    for (const sample of [...this.#transientSamples]) sample.abort(shuttingDown());
    this.context.futures.close();
    this.context.feeds.close();
    this.context.completions.close();
    const timeout = this.context.clock.sleep(graceMs);
    const settled = Promise.all([...this.engineQueues.values()].map((engineQueue) => engineQueue.settled())).catch(
      (error: unknown) => {
        this.context.log.warn("snapshot.failed", { error: String(error) }); // the next start replays the requests instead
      },
    );
    await Promise.race([settled, timeout]);
    await this.sweep().catch(() => {});
  }

  /** The runner of a model. A new runner does not wait for seq_ids that are finished already. */
  #runner(engineQueue: EngineQueue, model: ModelRow): ModelRunner {
    const existing = engineQueue.runners.get(model.id);
    if (existing !== undefined) return existing;
    const { sql } = this.context.store.db;
    const fresh = getModel(sql, model.id) ?? model;
    const runner = engineQueue.runner(fresh);
    for (const seq of finishedSeqs(sql, model.id, fresh.next_seq)) runner.order.consume(seq);
    return runner;
  }

  async #accept(work: (sql: Sql) => Accepted): Promise<Accepted> {
    const { onPoint } = this.context;
    onPoint?.("accept.before");
    const accepted = await this.context.store.db.write(work);
    onPoint?.("accept.after");
    return accepted;
  }

  /** The stored request with this seq_id. @throws {@link Refusal} 422 when its fingerprint differs. */
  #duplicateOf(sql: Sql, of: "model_id" | "sampler_id", owner: string, request: NewRequest): Accepted | undefined {
    if (request.seq === undefined) return undefined;
    const known = findRequest(sql, of, owner, request.seq);
    if (known === undefined) return undefined;
    if (known.fingerprint !== request.fingerprint) throw reused(`seq_id ${request.seq}`, owner);
    return { id: known.id, isNew: false };
  }

  #track(id: number, request: NewRequest, pass?: ForwardBackwardRequest): Job {
    this.context.payloads.set(id, request.payload, pass);
    const job: Job = {
      id,
      tenant: request.tenant,
      sessionId: request.sessionId,
      kind: request.kind,
      modelId: request.modelId,
      samplerId: request.samplerId,
      seq: typeof request.seq === "number" ? request.seq : undefined,
      payloadType: request.payloadType,
      resolvedParams: request.resolvedParams ?? {},
      tokens: request.tokens,
      bytes: request.payload.byteLength,
      acceptedAt: request.now,
      startedAt: undefined,
      blocked: undefined,
      engineDeaths: 0,
      recovered: false,
      deaths: 0,
    };
    this.#jobs.set(id, job);
    this.#count(job, 1);
    const target = targetOf(job);
    if (target !== undefined) this.context.completions.begin(target);
    return job;
  }

  /** Reports a sample that failed when it was accepted, or that was sent again after it had finished. */
  #noteCompletion(id: number, { samplerId, resolvedParams }: NewRequest): void {
    const target = targetOf({ samplerId, resolvedParams: resolvedParams ?? {} });
    const row = target && getRequest(this.context.store.db.sql, id);
    if (target === undefined || row === undefined || row.state === "pending" || row.result === undefined) return;
    this.context.completions.note(target, { id, state: row.state, bytes: row.result.byteLength });
  }

  #count(job: Job, by: 1 | -1): void {
    if (by === -1) this.#jobs.delete(job.id);
    this.#pendingBytes += by * job.bytes;
    const pending = this.#pendingByTenant.get(job.tenant) ?? { count: 0, bytes: 0 };
    pending.count += by;
    pending.bytes += by * job.bytes;
    if (pending.count === 0) this.#pendingByTenant.delete(job.tenant);
    else this.#pendingByTenant.set(job.tenant, pending);
  }

  /** @throws {@link Refusal} 507 when `bytes` more would exceed the limit of the data folder. */
  checkDisk(tenant: string, bytes: number): void {
    this.#disk.check(tenant, bytes);
  }

  #checkLimits(request: NewRequest): void {
    const { limits } = this.context;
    if (request.failure === undefined) this.checkDisk(request.tenant, request.payload.byteLength);
    const pending = this.#pendingByTenant.get(request.tenant) ?? { count: 0, bytes: 0 };
    const { byteLength } = request.payload;
    const reached: readonly (readonly [isReached: boolean, what: string])[] = [
      [
        pending.count >= limits.pendingPerTenant,
        `this key has ${pending.count} unfinished requests; the limit is ${limits.pendingPerTenant}`,
      ],
      [
        pending.bytes + byteLength > limits.pendingBytesPerTenant,
        `this key has ${pending.bytes} bytes of unfinished requests; the limit is ${limits.pendingBytesPerTenant}`,
      ],
      [
        this.#jobs.size >= limits.pending,
        `the unfinished requests of all keys have reached the limit of ${limits.pending}`,
      ],
      [
        this.#pendingBytes + byteLength > limits.pendingBytes,
        `the unfinished requests of all keys have reached the limit of ${limits.pendingBytes} bytes`,
      ],
    ];
    const [, what] = reached.find(([isReached]) => isReached) ?? [];
    if (what === undefined) return;
    const message = `The queue is full: ${what}. Wait for results before sending more.`;
    throw new Refusal(429, "queue_full", message, { retryAfterSeconds: 1 });
  }

  #explain(id: number): { queueState: "active" | "paused_capacity"; reason: string } {
    const job = this.#jobs.get(id);
    if (job === undefined) return { queueState: "active", reason: "Its result is being stored." };
    for (const engineQueue of this.engineQueues.values()) {
      const hasJob =
        job.modelId === undefined
          ? this.#engineQueueOfSample(job) === engineQueue
          : engineQueue.runners.has(job.modelId);
      const status = hasJob ? engineQueue.explain(job) : undefined;
      if (status !== undefined) return { queueState: status.state, reason: status.reason };
    }
    return { queueState: "paused_capacity", reason: "Its base model is not loaded in this server." };
  }

  #engineQueueOfSample(job: Job): EngineQueue | undefined {
    const { sql } = this.context.store.db;
    const base =
      job.samplerId === undefined ? job.resolvedParams.baseModel : getSampler(sql, job.samplerId)?.base_model;
    return base === undefined ? undefined : this.engineQueues.get(base);
  }
}

/** The checkpoint was deleted after the handler looked it up and before the transaction that refers to its files. */
const filesGone = (): UserError => new UserError("The checkpoint was deleted while this request was being accepted.");

const reused = (number: string, owner: string): Refusal =>
  new Refusal(422, "number_reused", `${number} of ${owner} was used for another request.`);
