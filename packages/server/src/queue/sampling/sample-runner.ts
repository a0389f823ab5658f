/**
 * The samples of one engine: they wait in lines, one for each sampling session, fill the engine's batch by fair shares, and end like
 * every other request. Beside {@link ModelRunner}, which does the same for what changes a model.
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
  /** The engine as it is now: another one, should it have died. */
  readonly engineContext: () => EngineContext;
  /** Sequences handed to the engine at once. */
  readonly maxSequences: number;
  /** Who waits for the engine's memory, lines of samples by their id. */
  readonly memoryWaitlist: MemoryWaitlist<ModelRunner | string>;
  /** Called when one is over, or waits again. */
  readonly ended: () => void;
}

/** Something that wants sequences of the engine: a stored sample, or a draw. */
interface QueuedSample {
  /** Grows within its line. */
  readonly id: number;
  readonly tenant: string;
  readonly line: string;
  /** Of its prompt. */
  readonly tokens: number;
  readonly sequences: number;
  /** Runs it to its end, or until it waits again. `drawn` is told of tokens as soon as they are known. */
  readonly run: (drawn: (tokens: number) => void) => Promise<"ran" | "no_memory">;
}

/** The turns of one line, in order of arrival: their ids grow. */
class Line {
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

  /** Adds one, or puts it back to where it was. */
  add(sample: QueuedSample): void {
    this.#queued.set(sample.id, sample);
    this.#ids.add(sample.id);
  }

  /** The first, if there is one. */
  peek(): QueuedSample | undefined {
    const { lowest } = this.#ids;
    return lowest === undefined ? undefined : this.#queued.get(lowest);
  }

  get(id: number): QueuedSample | undefined {
    return this.#queued.get(id);
  }

  /** Takes one out; returns whether it was there. */
  take(id: number): boolean {
    this.#ids.delete(id);
    return this.#queued.delete(id);
  }

  ahead({ id }: Job): number {
    return this.#ids.countBelow(id);
  }
}

/** Tokens that a sequence draws in a millisecond, of late. */
class Pace {
  #tokensPerMs: number | undefined;

  note(tokens: number, ms: number): void {
    if (ms <= 0) return;
    const now = tokens / ms;
    this.#tokensPerMs = this.#tokensPerMs === undefined ? now : this.#tokensPerMs + (now - this.#tokensPerMs) / 16;
  }

  tokensIn(ms: number): number {
    return (this.#tokensPerMs ?? 0) * ms;
  }
}

/** A request under which the engine dies more often than this is at fault itself. */
const maxEngineDeaths = 2;

/** The line that a sample waits in: its sampling session's, or one for all of a tenant's samples without one. */
const lineOf = (job: Job): string => job.samplerId ?? `tenant:${job.tenant}`;

export class SampleRunner {
  readonly #options: SampleRunnerOptions;
  readonly #shares = new FairShare();
  readonly #pace = new Pace();
  /** Waiting samples by line, in order of arrival. */
  readonly #lines = new Map<string, Line>();
  /** Samples that are on the engine, and what stops them. */
  readonly #running = new Map<Job, AbortController>();
  /** Draws that are on the engine, by line. */
  readonly #drawing = new Map<string, number>();
  /** Turns that are on the engine, by tenant. */
  readonly #turnsOf = new Map<string, number>();
  #drawn = 0;
  #sequences = 0;

  constructor(options: SampleRunnerOptions) {
    this.#options = options;
  }

  /** Samples that have not started. */
  get waiting(): number {
    let count = 0;
    for (const { size } of this.#lines.values()) count += size;
    return count;
  }

  /** Samples that are on the engine, but for those of one line. */
  runningBeside(line: unknown): number {
    let count = 0;
    for (const job of this.#running.keys()) if (lineOf(job) !== line) count++;
    for (const [id, draws] of this.#drawing) if (id !== line) count += draws;
    return count;
  }

  add(job: Job): void {
    const { id, tenant, tokens, resolvedParams } = job;
    const run: QueuedSample["run"] = (drawn) => this.#run(job, drawn);
    this.#enqueue({ id, tenant, line: lineOf(job), tokens, sequences: resolvedParams.sequences ?? 1, run });
  }

  /** Draws sequences for somebody who waits for them: nothing is stored. Ends when the draw's signal says so, waiting or running. */
  draw(draw: TransientSample): Promise<SampleResult> {
    const { tenant, request, signal } = draw;
    return new Promise<SampleResult>((resolve, reject) => {
      const leave = () => {
        const line = this.#lines.get(sample.line);
        if (line === undefined || !this.#take(line, sample.id)) return; // it runs: the engine hears the signal itself
        if (line.size === 0) this.#options.memoryWaitlist.ended(line.id);
        reject(signal.reason as Error);
      };
      const settled = () => signal.removeEventListener("abort", leave);
      const sample: QueuedSample = {
        id: ++this.#drawn,
        tenant,
        line: `transient:${tenant}`,
        tokens: request.prompt.length,
        sequences: request.numSamples ?? 1,
        run: async (drawn) => {
          this.#countDraws(sample.line, 1);
          const onToken = (event: TokenEvent) => {
            drawn(1);
            draw.onToken(event);
          };
          try {
            resolve(await runTransientSample({ ...draw, onToken }, sample.line, this.#options.engineContext()));
          } catch (error) {
            if (error instanceof MemoryBusyError && !signal.aborted) {
              this.#enqueue(sample);
              return "no_memory";
            }
            reject(error as Error);
          } finally {
            this.#countDraws(sample.line, -1);
          }
          settled();
          return "ran";
        },
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#enqueue(sample);
    });
  }

  #countDraws(line: string, by: 1 | -1): void {
    const count = (this.#drawing.get(line) ?? 0) + by;
    if (count === 0) this.#drawing.delete(line);
    else this.#drawing.set(line, count);
  }

  #enqueue(sample: QueuedSample): void {
    const line = this.#lines.get(sample.line) ?? new Line(sample.tenant, sample.line);
    this.#lines.set(sample.line, line);
    line.add(sample);
  }

  /** How many of its line are before it. */
  ahead(job: Job): number {
    return this.#lines.get(lineOf(job))?.ahead(job) ?? 0;
  }

  /** Ends a sample that nobody waits for: its future says so. One that is over already is left as it is. */
  cancel(job: Job): void {
    const reason = new UserError("The sample was cancelled by its client.");
    const running = this.#running.get(job);
    if (running !== undefined) {
      running.abort(reason);
      return;
    }
    const line = this.#lines.get(lineOf(job));
    if (line === undefined || !this.#take(line, job.id)) return;
    if (line.size === 0) this.#options.memoryWaitlist.ended(line.id); // nobody is left there to wait for room
    job.startedAt = this.#options.context.clock.now();
    void this.#finish(job, { ok: false, error: reason });
  }

  /** Starts what there is room for. */
  pump(): void {
    const { first } = this.#options.context.quarantine;
    if (first !== undefined) {
      const line = this.#lines.get(lineOf(first));
      const sample = line?.get(first.id);
      if (line !== undefined && sample !== undefined && this.#options.memoryWaitlist.mayStart(line.id))
        this.#start(line, sample);
      return;
    }
    const { maxSequences } = this.#options;
    while (this.#sequences < maxSequences + overflowSlots) {
      const isFull = this.#sequences >= maxSequences;
      const line = this.#shares.pick(isFull ? this.#guestLines() : this.#readyLines());
      const sample = line?.peek();
      if (line === undefined || sample === undefined) return;
      this.#start(line, sample);
    }
  }

  #start(line: Line, sample: QueuedSample): void {
    const { memoryWaitlist, ended } = this.#options;
    this.#take(line, sample.id);
    const size = sample.sequences;
    // The prompt is computed once for all its sequences. What they draw is charged as it is known.
    const prompt = Math.max(1, sample.tokens);
    const charge = (tokens: number) => this.#shares.charge(line, tokens);
    charge(prompt);
    this.#sequences += size;
    this.#countRunning(sample.tenant, 1);
    const releasesBefore = memoryWaitlist.releases();
    const over = (how: "ran" | "no_memory") => {
      this.#sequences -= size;
      this.#countRunning(sample.tenant, -1);
      if (how === "ran") memoryWaitlist.ended(line.id);
      else {
        charge(-prompt);
        memoryWaitlist.park(line.id, releasesBefore);
      }
      ended();
    };
    void sample.run(charge).then(over, () => over("ran"));
  }

  #countRunning(tenant: string, by: 1 | -1): void {
    const count = (this.#turnsOf.get(tenant) ?? 0) + by;
    if (count === 0) this.#turnsOf.delete(tenant);
    else this.#turnsOf.set(tenant, count);
  }

  /** Lines of tenants that have nothing on the engine: they do not wait for the end of another's replies. */
  *#guestLines(): Iterable<Line> {
    for (const line of this.#readyLines()) if (!this.#turnsOf.has(line.tenant)) yield line;
  }

  *#readyLines(): Iterable<Line> {
    for (const line of this.#lines.values()) if (this.#options.memoryWaitlist.mayStart(line.id)) yield line;
  }

  #take(line: Line, id: number): boolean {
    const taken = line.take(id);
    if (line.size === 0) this.#lines.delete(line.id);
    return taken;
  }

  /** Runs one to its end, or until it waits again. */
  async #run(job: Job, drawn: (tokens: number) => void): Promise<"ran" | "no_memory"> {
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
      this.#pace.note(tokens / (job.resolvedParams.sequences ?? 1), clock.monotonic() - started);
      drawn(tokens);
      context.onPoint?.("execute.after");
    } catch (error) {
      result = { ok: false, error };
      // What was drawn until then is not known: about as much as others draw in that time.
      if (stop.signal.aborted)
        drawn(this.#pace.tokensIn(clock.monotonic() - started) * (job.resolvedParams.sequences ?? 1));
    }
    this.#running.delete(job);
    if (!result.ok) context.store.running.end(job.id);
    if (!result.ok && context.closing.aborted) return "ran"; // stays pending: it runs after the next start
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
      if (!context.closing.aborted) context.log.error("commit.failed", { request: job.id, error: String(error) });
    }
  }

  /** Draws a sample and counts its tokens. */
  async #execute(job: Job, signal: AbortSignal): Promise<Outcome> {
    const { context, engineContext } = this.#options;
    checkDeaths(job);
    context.store.running.begin(job.id);
    const { engine, adapterCache } = engineContext();
    const request = SampleRequest.decode(jsonPayload(payloadOf(context, job)));
    const filesId = this.#filesOf(job);
    // Not with room made for it: caches have a share of their own, and no adapter that leaves makes it larger.
    const call = (adapter: string | undefined) => {
      const { feeds } = context;
      if (job.resolvedParams.stream) feeds.begin(job.id);
      // What one tenant has asked must not make another's answer faster.
      const asked = { ...sampleRequest(request, adapter, job.resolvedParams.seed ?? 1), scope: job.tenant };
      return engine.sample(asked, {
        signal,
        ...(job.resolvedParams.stream ? { onToken: (event: TokenEvent) => feeds.add(job.id, fedToken(event)) } : {}),
      });
    };
    const result = filesId === undefined ? await call(undefined) : await adapterCache.use(filesId, lineOf(job), call);
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
      throw new UserError(`The sampling session ${job.samplerId} has ended; save the weights again.`);
    return sampler.files_id ?? undefined;
  }
}
