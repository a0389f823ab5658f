/**
 * The queue as the HTTP layer sees it: submit, retrieve, recover. Accepting a request is one transaction (is its number new, and
 * if not, is it the same request?), after which it belongs to a engine queue. Nothing is acknowledged before it is durable.
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
  finishRequest,
  getRequest,
  type NewRequest,
  overNumbers,
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
  /** Where stored losses run. */
  readonly losses: SideThread;
  /** Where adapters from elsewhere are read. */
  readonly imports: SideThread;
  /** Bytes that the data folder may take up. @defaultValue no bound */
  readonly maxDiskBytes?: number | undefined;
  readonly onPoint?: ((point: string) => void) | undefined;
  readonly onFinished?: (job: Job, outcome: "done" | "failed") => void;
  readonly onUsed?: (usage: Usage) => void;
}

/** What `retrieve_future` found. */
export type Retrieved =
  | { readonly kind: "done"; readonly body: Uint8Array; readonly type: PayloadType; readonly timing?: Timing }
  | { readonly kind: "pending"; readonly queueState: "active" | "paused_capacity"; readonly reason: string }
  /** It is not over, and this server will not finish it: polls that are held no longer must not come back at once. */
  | { readonly kind: "closing" }
  | { readonly kind: "expired" }
  | { readonly kind: "unknown" };

/** Rows of one transaction of a sweep. */
const sweepBatch = 200;

type Accepted = { readonly id: number; readonly isNew: boolean };

export class Queue {
  readonly context: QueueContext;
  readonly engineQueues = new Map<string, EngineQueue>();
  readonly #ids: RequestIds;
  readonly #closing = new AbortController();
  /** What ends each draw that is under way. */
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

  /** Accepts a request of a model that exists, with its pass where it was decoded already. Its turn comes by `seq`. */
  async submitTraining(
    request: NewRequest & { readonly modelId: string },
    model: ModelRow,
    pass?: ForwardBackwardRequest,
  ): Promise<string> {
    this.#checkRoom(request);
    const engineQueue = this.engineQueues.get(model.base_model);
    const runner = engineQueue && this.#runner(engineQueue, model);
    const { seq } = request;
    const next = runner?.order.next ?? model.next_seq;
    let entry: NewRequest = request;
    const accepted = await this.#accept((sql) => {
      const known = this.#known(sql, "model_id", request.modelId, request);
      if (known !== undefined) return known;
      if (entry.failure === undefined && seq !== undefined && seq < next) {
        const error = `seq_id ${seq} of ${request.modelId} came after the model had gone on to ${next}: it was given up as lost.`;
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
      if (engineQueue !== undefined) engineQueue.addTraining(job, this.#runner(engineQueue, model));
      this.context.steps.changed(request.tenant, request.modelId);
    }
    return this.#ids.make(accepted.id, request.tenant);
  }

  /** What a model is doing, and what its next request waits for. */
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

  /** Uses up the number of a request that is refused: its future, should anybody ask, says why. */
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

  /** Accepts the request that creates a model; the row of the model is stored with it. */
  async submitModel(model: NewModel, request: NewRequest): Promise<string> {
    this.#checkRoom(request);
    const entry = { ...request, modelId: model.id, seq: 0 };
    const accepted = await this.#accept((sql) => {
      const known = this.#known(sql, "model_id", model.id, entry);
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
      if (engineQueue !== undefined && row !== undefined) engineQueue.addTraining(job, this.#runner(engineQueue, row));
      this.context.steps.changed(request.tenant, model.id);
    }
    return this.#ids.make(accepted.id, request.tenant);
  }

  async submitSample(request: NewRequest, baseModel: string): Promise<{ requestId: string; id: number }> {
    this.#checkRoom(request);
    const accepted = await this.#accept((sql) => {
      const known = request.samplerId && this.#known(sql, "sampler_id", request.samplerId, request);
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
      const { id, kind, deaths } = job;
      if (isGivenUp(job)) this.context.log.warn("request.given_up", { request: id, kind, deaths });
      this.engineQueues.get(baseModel)?.addSample(job);
    } else if (!this.#jobs.has(accepted.id)) this.#noteCompletion(accepted.id, request);
    return { requestId: this.#ids.make(accepted.id, request.tenant), id: accepted.id };
  }

  /**
   * Draws sequences for a client that waits for them. Not stored: closing the server, or the draw's signal, ends it. Its use is booked.
   *
   * @throws {@link Refusal} 503 when the server closes or the engine dies under it; the signal's reason when that ends it.
   */
  async draw(baseModel: string, draw: TransientSample): Promise<SampleResult> {
    const engineQueue = this.engineQueues.get(baseModel);
    if (engineQueue === undefined) throw new Refusal(503, "not_loaded", `The base model ${baseModel} is not loaded.`);
    const { store, closing, clock } = this.context;
    const unpin = draw.filesId === undefined ? undefined : store.pin(draw.filesId);
    if (draw.filesId !== undefined && !hasFiles(store.db.sql, draw.filesId)) {
      unpin?.();
      throw new Refusal(404, "model_not_found", "The checkpoint was deleted while this request was being read.", {
        param: "model",
      });
    }
    const stop = new AbortController();
    const abort = () => stop.abort(draw.signal.reason);
    draw.signal.addEventListener("abort", abort, { once: true });
    this.#transientSamples.add(stop);
    let drawn = 0;
    let cached = 0;
    try {
      if (draw.signal.aborted) abort();
      if (closing.aborted) stop.abort(shuttingDown());
      stop.signal.throwIfAborted();
      const counted = (event: TokenEvent) => {
        drawn++;
        cached = Math.min(event.promptCacheHitTokens, draw.request.prompt.length);
        draw.onToken?.(event);
      };
      return await engineQueue.draw({ ...draw, signal: stop.signal, onToken: counted });
    } finally {
      draw.signal.removeEventListener("abort", abort);
      this.#transientSamples.delete(stop);
      unpin?.();
      if (drawn > 0 && !closing.aborted) {
        const account = { tenant: draw.tenant, sessionId: "", baseModel, now: clock.now() };
        const usage = {
          sampling_prefill: draw.request.prompt.length - cached,
          sampling_prefill_cached: cached,
          sampling_sample: drawn,
        };
        this.context.onUsed(draw.tenant, usage);
        store.db
          .write((sql) => addUsage(sql, account, usage))
          .catch((error: unknown) => this.context.log.warn("usage.lost", { tokens: drawn, error: String(error) }));
      }
    }
  }

  /** Accepts a request that needs no engine: its result is stored with it, in one transaction with what it changes. */
  async answered(request: NewRequest, result: Uint8Array, effects: (sql: Sql) => void): Promise<string> {
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

  /** The result of a request, waiting for it for at most `pollMs`. */
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

  /** Which samples of a sampling session are over. @throws {@link Refusal} 503 when the server is shutting down and has nothing to tell. */
  async completions(query: CompletionQuery, retrieved: readonly string[]): Promise<CompletionPage> {
    for (const requestId of retrieved) {
      const id = this.#ids.read(requestId, query.tenant);
      if (id !== undefined) this.#fetched.add(id);
    }
    const page = await this.context.completions.next(query);
    if (page.completions.length === 0 && this.#closing.signal.aborted) {
      throw new Refusal(503, "shutting_down", "The server is shutting down; the requests are kept.", {
        retryAfterSeconds: 1,
      });
    }
    return page;
  }

  /** The id of a request as its tenant knows it. */
  requestIdOf(id: number, tenant: string): string {
    return this.#ids.make(id, tenant);
  }

  /** The tokens of a sample from the `after`-th on, waiting for one for at most `pollMs`; none when they are not kept. */
  async tokens(requestId: string, tenant: string, after: number, signal?: AbortSignal) {
    const id = this.#ids.read(requestId, tenant);
    return id === undefined ? undefined : this.context.feeds.read(id, after, this.context.limits.pollMs, signal);
  }

  /** Puts back into the engine queues what was pending when the server stopped. Call once, when every engine queue is there. */
  recover(): { readonly requests: number } {
    const { sql } = this.context.store.db;
    const pending = pendingRequests(sql);
    const perRunner: (() => void)[] = [];
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
          perRunner.push(() => engineQueue.pump());
        }
      } else {
        const baseModel =
          job.samplerId === undefined ? job.resolvedParams.baseModel : getSampler(sql, job.samplerId)?.base_model;
        const engineQueue = baseModel === undefined ? undefined : this.engineQueues.get(baseModel);
        if (engineQueue === undefined) continue;
        this.context.quarantine.consider(job);
        perRunner.push(() => engineQueue.addSample(job));
      }
    }
    const { first } = this.context.quarantine;
    if (first !== undefined) {
      const { id, kind, deaths } = first;
      this.context.log.warn("request.suspect", {
        request: id,
        kind,
        deaths,
        meaning: "the server ended while it ran this: it runs alone",
      });
    }
    for (const start of perRunner) start();
    return { requests: pending.length };
  }

  /** Stores which results were fetched, and deletes those that nobody can ask for any more; in pieces, so that others come between. */
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
   * Ends a sample that its client gave up. One that is over, or is no sample, is left alone.
   *
   * @returns false when there is no such request of this tenant.
   */
  cancel(requestId: string, tenant: string): boolean {
    const id = this.#ids.read(requestId, tenant);
    if (id === undefined) return false;
    const job = this.#jobs.get(id);
    if (job?.kind === "sample") this.#engineQueueOfSample(job)?.cancelSample(job);
    return true;
  }

  /** Ends the samples of a session that its client has finished. Training goes on: its checkpoints may be wanted. */
  cancelSamples(sessionId: string): void {
    for (const job of [...this.#jobs.values()]) {
      if (job.kind === "sample" && job.sessionId === sessionId) this.#engineQueueOfSample(job)?.cancelSample(job);
    }
  }

  /** Lets polls go, starts nothing more, and waits for what is being stored. What is pending stays pending. */
  async close(graceMs = 5000): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new Error("The server is shutting down."));
    for (const draw of [...this.#transientSamples]) draw.abort(shuttingDown());
    this.context.futures.close();
    this.context.feeds.close();
    this.context.completions.close();
    const patience = this.context.clock.sleep(graceMs);
    const settled = Promise.all([...this.engineQueues.values()].map((engineQueue) => engineQueue.settled())).catch(
      (error: unknown) => {
        this.context.log.warn("close.unsettled", { error: String(error) }); // nothing is lost: the next start replays it
      },
    );
    await Promise.race([settled, patience]);
    await this.sweep().catch(() => {});
  }

  /** The runner of a model, with the numbers that are already over taken out of its line. */
  #runner(engineQueue: EngineQueue, model: ModelRow): ModelRunner {
    const existing = engineQueue.runners.get(model.id);
    if (existing !== undefined) return existing;
    const { sql } = this.context.store.db;
    const fresh = getModel(sql, model.id) ?? model;
    const runner = engineQueue.runner(fresh);
    for (const seq of overNumbers(sql, model.id, fresh.next_seq)) runner.order.consume(seq);
    return runner;
  }

  async #accept(work: (sql: Sql) => Accepted): Promise<Accepted> {
    const { onPoint } = this.context;
    onPoint?.("accept.before");
    const accepted = await this.context.store.db.write(work);
    onPoint?.("accept.after");
    return accepted;
  }

  /** The earlier request with this number: the same one again, or a clash. */
  #known(sql: Sql, of: "model_id" | "sampler_id", owner: string, request: NewRequest): Accepted | undefined {
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

  /** Tells of a sample that was over when it was accepted, or is sent again after it was over. */
  #noteCompletion(id: number, { samplerId, resolvedParams }: NewRequest): void {
    const target = targetOf({ samplerId, resolvedParams: resolvedParams ?? {} });
    const row = target && getRequest(this.context.store.db.sql, id);
    if (target === undefined || row === undefined || row.state === "pending" || row.result === undefined) return;
    this.context.completions.note(target, { id, state: row.state, bytes: row.result.byteLength });
  }

  #count(job: Job, by: 1 | -1): void {
    if (by === -1) this.#jobs.delete(job.id);
    this.#pendingBytes += by * job.bytes;
    const own = this.#pendingByTenant.get(job.tenant) ?? { count: 0, bytes: 0 };
    own.count += by;
    own.bytes += by * job.bytes;
    if (own.count === 0) this.#pendingByTenant.delete(job.tenant);
    else this.#pendingByTenant.set(job.tenant, own);
  }

  /** @throws {@link Refusal} 507 when the data folder has no room for so many bytes more. */
  checkDisk(tenant: string, bytes: number): void {
    this.#disk.check(tenant, bytes);
  }

  #checkRoom(request: NewRequest): void {
    const { limits } = this.context;
    if (request.failure === undefined) this.checkDisk(request.tenant, request.payload.byteLength);
    const own = this.#pendingByTenant.get(request.tenant) ?? { count: 0, bytes: 0 };
    const { byteLength } = request.payload;
    const full =
      own.count >= limits.pendingPerTenant ||
      own.bytes + byteLength > limits.pendingBytesPerTenant ||
      this.#jobs.size >= limits.pending ||
      this.#pendingBytes + byteLength > limits.pendingBytes;
    if (full) {
      const held = `${own.count} unfinished requests of this key, ${Math.ceil(own.bytes / 1e6)} MB`;
      throw new Refusal(429, "queue_full", `The queue is full (${held}).`, { retryAfterSeconds: 1 });
    }
  }

  #explain(id: number): { queueState: "active" | "paused_capacity"; reason: string } {
    const job = this.#jobs.get(id);
    if (job === undefined) return { queueState: "active", reason: "It is being stored." };
    for (const engineQueue of this.engineQueues.values()) {
      const mine =
        job.modelId === undefined
          ? this.#engineQueueOfSample(job) === engineQueue
          : engineQueue.runners.has(job.modelId);
      const told = mine ? engineQueue.explain(job) : undefined;
      if (told !== undefined) return { queueState: told.state, reason: told.reason };
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

/** The last owner of files was deleted between the look at it and the transaction that wanted to own them too. */
const filesGone = (): UserError => new UserError("The checkpoint was deleted while this request was being accepted.");

const reused = (what: string, owner: string): Refusal =>
  new Refusal(422, "number_reused", `${what} of ${owner} was used for another request.`);
