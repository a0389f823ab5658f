/**
 * Runs the samples of one engine: they wait in a queue per sampling session and fill the engine's batch by fair share. Stored samples end
 * with `finish`, like training requests; transient samples of the chat endpoints are not stored.
 */
import { overflowSlots, type SampleResult, type TokenEvent } from "@tinklet/engine";
import { SampleRequest } from "@tinklet/wire";
import { getSampler } from "../../store/tables/sessions.ts";
import { jsonPayload, sampleRequest, sampleResult } from "../engine-input.ts";
import { finish, type Result } from "../finish.ts";
import { type Job, payloadOf, type QueueContext, UserError } from "../job.ts";
import type { Outcome } from "../outcome.ts";
import { checkDeaths } from "../scheduling/crash-quarantine.ts";
import { FairShare } from "../scheduling/fair-share.ts";
import { MemoryBusyError, type MemoryWaitlist } from "../scheduling/memory-waitlist.ts";
import type { EngineContext, ModelRunner } from "../training/model-runner.ts";
import { SortedNumbers } from "../training/sorted-numbers.ts";
import { fedToken } from "./token-feed.ts";
import { runTransientSample, type TransientSample } from "./transient-sample.ts";

export interface SampleRunnerOptions {
  readonly context: QueueContext;
  readonly baseModel: string;
  /** The current engine context; it changes when the engine restarts. */
  readonly engineContext: () => EngineContext;
  /** Sequences on the engine at once. */
  readonly maxSequences: number;
  /** Waiters for engine memory; a sample queue waits under its id. */
  readonly memoryWaitlist: MemoryWaitlist<ModelRunner | string>;
  /** Called when a sample has ended or waits again. */
  readonly ended: () => void;
}

/** A stored or transient sample that waits for the engine. */
interface QueuedSample {
  /** Increasing within its queue. */
  readonly id: number;
  readonly tenant: string;
  readonly queueId: string;
  /** Prompt tokens. */
  readonly tokens: number;
  readonly sequences: number;
  /** Runs the sample. Calls `charge` with its sampled tokens. Resolves with `no_memory` when it waits again. */
  readonly run: (charge: (tokens: number) => void) => Promise<"ran" | "no_memory">;
}

/** The waiting samples of one sampling session, or of one tenant without a session, in order of arrival. */
class SampleQueue {
  readonly tenant: string;
  readonly id: string;
  readonly #queued = new Map<number, QueuedSample>();
  readonly #ids = new SortedNumbers();

  constructor(tenant: string, id: string) {
    this.tenant = tenant;
    this.id = id;
  }

  get size(): number {
    return this.#ids.size;
  }

  /** Adds a sample, or puts one back at its previous position. */
  add(sample: QueuedSample): void {
    this.#queued.set(sample.id, sample);
    this.#ids.add(sample.id);
  }

  /** The first waiting sample. */
  peek(): QueuedSample | undefined {
    const { lowest } = this.#ids;
    return lowest === undefined ? undefined : this.#queued.get(lowest);
  }

  get(id: number): QueuedSample | undefined {
    return this.#queued.get(id);
  }

  /** Removes a sample; returns whether it was waiting. */
  remove(id: number): boolean {
    this.#ids.delete(id);
    return this.#queued.delete(id);
  }

  ahead({ id }: Job): number {
    return this.#ids.countBelow(id);
  }
}

/** Moving average of the decode speed of one sequence. */
class DecodeRate {
  #tokensPerMs: number | undefined;

  add(tokens: number, ms: number): void {
    if (ms <= 0) return;
    const rate = tokens / ms;
    this.#tokensPerMs = this.#tokensPerMs === undefined ? rate : this.#tokensPerMs + (rate - this.#tokensPerMs) / 16;
  }

  tokensIn(ms: number): number {
    return (this.#tokensPerMs ?? 0) * ms;
  }
}

/** Engine deaths during a sample after which the sample fails instead of running again. */
const maxEngineDeaths = 2;

/** The queue of a stored sample: one per sampling session, and one per tenant for samples without a session. */
const queueIdOf = (job: Job): string => job.samplerId ?? `tenant:${job.tenant}`;

/** Requests that an older release stored may lack the number. */
const sequencesOf = ({ resolvedParams }: Job): number => resolvedParams.sequences ?? 1;

export class SampleRunner {
  readonly #options: SampleRunnerOptions;
  readonly #shares = new FairShare();
  readonly #decodeRate = new DecodeRate();
  /** Queues that are not empty, by id. */
  readonly #queues = new Map<string, SampleQueue>();
  /** Stored samples on the engine, with the controllers that cancel them. */
  readonly #running = new Map<Job, AbortController>();
  /** Number of transient samples on the engine, by queue id. */
  readonly #runningTransient = new Map<string, number>();
  /** Number of samples on the engine, by tenant. */
  readonly #runningByTenant = new Map<string, number>();
  #lastTransientId = 0;
  /** Sequences on the engine. */
  #sequences = 0;

  constructor(options: SampleRunnerOptions) {
    this.#options = options;
  }

  /** Samples that have not started. */
  get waiting(): number {
    let count = 0;
    for (const { size } of this.#queues.values()) count += size;
    return count;
  }

  /** Number of samples on the engine, without those of one queue. */
  runningExcept(queueId: unknown): number {
    let count = 0;
    for (const job of this.#running.keys()) if (queueIdOf(job) !== queueId) count++;
    for (const [id, running] of this.#runningTransient) if (id !== queueId) count += running;
    return count;
  }

  add(job: Job): void {
    const { id, tenant, tokens } = job;
    const run: QueuedSample["run"] = (charge) => this.#run(job, charge);
    this.#enqueue({ id, tenant, queueId: queueIdOf(job), tokens, sequences: sequencesOf(job), run });
  }

  /** Adds a transient sample and resolves with its result. Its signal ends it, waiting or running. */
  addTransient(request: TransientSample): Promise<SampleResult> {
    const { tenant, signal } = request;
    return new Promise<SampleResult>((resolve, reject) => {
      const leave = () => {
        const queue = this.#queues.get(sample.queueId);
        if (queue === undefined || !this.#remove(queue, sample.id)) return; // it runs: the engine listens to the signal
        if (queue.size === 0) this.#options.memoryWaitlist.ended(queue.id);
        reject(signal.reason as Error);
      };
      const sample: QueuedSample = {
        id: ++this.#lastTransientId,
        tenant,
        queueId: `transient:${tenant}`,
        tokens: request.request.prompt.length,
        sequences: request.request.numSamples ?? 1,
        run: async (charge) => {
          this.#countTransient(sample.queueId, 1);
          const onToken = (event: TokenEvent) => {
            charge(1);
            request.onToken(event);
          };
          try {
            resolve(await runTransientSample({ ...request, onToken }, sample.queueId, this.#options.engineContext()));
          } catch (error) {
            if (error instanceof MemoryBusyError && !signal.aborted) {
              this.#enqueue(sample);
              return "no_memory";
            }
            reject(error as Error);
          } finally {
            this.#countTransient(sample.queueId, -1);
          }
          signal.removeEventListener("abort", leave);
          return "ran";
        },
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#enqueue(sample);
    });
  }

  #countTransient(queueId: string, by: 1 | -1): void {
    const count = (this.#runningTransient.get(queueId) ?? 0) + by;
    if (count === 0) this.#runningTransient.delete(queueId);
    else this.#runningTransient.set(queueId, count);
  }

  #enqueue(sample: QueuedSample): void {
    const queue = this.#queues.get(sample.queueId) ?? new SampleQueue(sample.tenant, sample.queueId);
    this.#queues.set(sample.queueId, queue);
    queue.add(sample);
  }

  /** Number of samples before this one in its queue. */
  ahead(job: Job): number {
    return this.#queues.get(queueIdOf(job))?.ahead(job) ?? 0;
  }

  /** Cancels a stored sample, waiting or running; its future fails. A finished sample is not changed. */
  cancel(job: Job): void {
    const reason = new UserError("The sample was cancelled by its client.");
    const running = this.#running.get(job);
    if (running !== undefined) {
      running.abort(reason);
      return;
    }
    const queue = this.#queues.get(queueIdOf(job));
    if (queue === undefined || !this.#remove(queue, job.id)) return;
    if (queue.size === 0) this.#options.memoryWaitlist.ended(queue.id); // an empty queue must not keep a reservation
    job.startedAt = this.#options.context.clock.now();
    void this.#finish(job, { ok: false, error: reason });
  }

  /** Starts samples while the engine's batch has free slots. */
  pump(): void {
    const { first } = this.#options.context.quarantine;
    if (first !== undefined) {
      const queue = this.#queues.get(queueIdOf(first));
      const sample = queue?.get(first.id);
      if (queue !== undefined && sample !== undefined && this.#options.memoryWaitlist.mayStart(queue.id))
        this.#start(queue, sample);
      return;
    }
    const { maxSequences } = this.#options;
    while (this.#sequences < maxSequences + overflowSlots) {
      const isFull = this.#sequences >= maxSequences;
      const queue = this.#shares.pick(isFull ? this.#overflowQueues() : this.#readyQueues());
      const sample = queue?.peek();
      if (queue === undefined || sample === undefined) return;
      this.#start(queue, sample);
    }
  }

  #start(queue: SampleQueue, sample: QueuedSample): void {
    const { memoryWaitlist, ended } = this.#options;
    this.#remove(queue, sample.id);
    const size = sample.sequences;
    // The prompt is computed once for all its sequences. Sampled tokens are charged when they are known.
    const prompt = Math.max(1, sample.tokens);
    const charge = (tokens: number) => this.#shares.charge(queue, tokens);
    charge(prompt);
    this.#sequences += size;
    this.#countRunning(sample.tenant, 1);
    const releasesBefore = memoryWaitlist.releases();
    const onEnd = (outcome: "ran" | "no_memory") => {
      this.#sequences -= size;
      this.#countRunning(sample.tenant, -1);
      if (outcome === "ran") memoryWaitlist.ended(queue.id);
      else {
        charge(-prompt);
        memoryWaitlist.park(queue.id, releasesBefore);
      }
      ended();
    };
    void sample.run(charge).then(onEnd, () => onEnd("ran"));
  }

  #countRunning(tenant: string, by: 1 | -1): void {
    const count = (this.#runningByTenant.get(tenant) ?? 0) + by;
    if (count === 0) this.#runningByTenant.delete(tenant);
    else this.#runningByTenant.set(tenant, count);
  }

  /** Ready queues of tenants without a sample on the engine: they use overflow slots instead of waiting for a full batch. */
  *#overflowQueues(): Iterable<SampleQueue> {
    for (const queue of this.#readyQueues()) if (!this.#runningByTenant.has(queue.tenant)) yield queue;
  }

  *#readyQueues(): Iterable<SampleQueue> {
    for (const queue of this.#queues.values()) if (this.#options.memoryWaitlist.mayStart(queue.id)) yield queue;
  }

  #remove(queue: SampleQueue, id: number): boolean {
    const isRemoved = queue.remove(id);
    if (queue.size === 0) this.#queues.delete(queue.id);
    return isRemoved;
  }

  /** Runs a stored sample to its end, or until it waits again. */
  async #run(job: Job, charge: (tokens: number) => void): Promise<"ran" | "no_memory"> {
    const { context, engineContext } = this.#options;
    const { clock } = context;
    job.startedAt = clock.now();
    const started = clock.monotonic();
    job.blocked = undefined;
    const stop = new AbortController();
    this.#running.set(job, stop);
    const { engineGone } = engineContext();
    let result: Result;
    try {
      context.onPoint?.("execute.before");
      const outcome = await this.#execute(job, stop.signal);
      result = { ok: true, value: outcome };
      const tokens = outcome.usage?.sampling_sample ?? 0;
      this.#decodeRate.add(tokens / sequencesOf(job), clock.monotonic() - started);
      charge(tokens);
      context.onPoint?.("execute.after");
    } catch (error) {
      // The engine may die at the same time; a cancelled sample must not run again.
      result = { ok: false, error: stop.signal.aborted ? stop.signal.reason : error };
      // The number of tokens that a cancelled sample has decoded is unknown: estimated from the average decode rate.
      if (stop.signal.aborted) charge(this.#decodeRate.tokensIn(clock.monotonic() - started) * sequencesOf(job));
    }
    this.#running.delete(job);
    if (!result.ok) context.store.running.end(job.id);
    if (!result.ok && context.closing.aborted) return "ran"; // it stays pending and runs after the next start
    if (!result.ok && !stop.signal.aborted && result.error instanceof MemoryBusyError) {
      job.startedAt = undefined;
      job.blocked = result.error.message;
      this.add(job);
      return "no_memory";
    }
    if (!result.ok && engineGone(result.error) && job.engineDeaths++ < maxEngineDeaths) {
      job.startedAt = undefined;
      this.add(job);
      return "ran";
    }
    await this.#finish(job, result);
    return "ran";
  }

  async #finish(job: Job, result: Result): Promise<void> {
    const { context, baseModel } = this.#options;
    const finishedAt = context.clock.now();
    try {
      await finish(context, job, { result, baseModel, startedAt: job.startedAt ?? finishedAt, finishedAt });
    } catch (error) {
      if (context.closing.aborted) return;
      context.log.error("commit.failed", { request: job.id, error: String(error) });
      // The result cannot be stored: the request fails, so that it does not stay pending.
      if (result.ok) await this.#finish(job, { ok: false, error });
    }
  }

  /** Runs the engine call of a stored sample and counts its tokens. */
  async #execute(job: Job, signal: AbortSignal): Promise<Outcome> {
    const { context, engineContext } = this.#options;
    checkDeaths(job);
    context.store.running.begin(job.id);
    const { engine, adapterCache } = engineContext();
    const request = SampleRequest.decode(jsonPayload(payloadOf(context, job)));
    const filesId = this.#filesOf(job);
    // Not wrapped in withMemory: KV caches have a memory limit of their own, which evicting an adapter does not raise.
    const call = (adapter: string | undefined) => {
      const { feeds } = context;
      if (job.resolvedParams.stream) feeds.begin(job.id);
      // The prefix cache is per tenant: response times must not reveal the prompts of other tenants.
      const scoped = { ...sampleRequest(request, adapter, job.resolvedParams.seed ?? 1), scope: job.tenant };
      return engine.sample(scoped, {
        signal,
        ...(job.resolvedParams.stream ? { onToken: (event: TokenEvent) => feeds.add(job.id, fedToken(event)) } : {}),
      });
    };
    const result =
      filesId === undefined ? await call(undefined) : await adapterCache.use(filesId, queueIdOf(job), call);
    const cached = Math.min(result.promptCacheHitTokens, job.tokens);
    return {
      body: sampleResult(request, result),
      type: "proto",
      usage: {
        sampling_prefill: job.tokens - cached,
        sampling_prefill_cached: cached,
        sampling_sample: result.sequences.reduce((sum, { tokens }) => sum + tokens.length, 0),
      },
    };
  }

  #filesOf(job: Job): string | undefined {
    if (job.samplerId === undefined) return job.resolvedParams.filesId;
    const sampler = getSampler(this.#options.context.store.db.sql, job.samplerId);
    if (sampler === undefined)
      throw new UserError(`The sampling session ${job.samplerId} has ended: save the weights again.`);
    return sampler.files_id ?? undefined;
  }
}
