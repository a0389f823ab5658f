/**
 * `APIFuture`: the handle of a call in progress. It is not a native `Promise`: callers submit several calls before they await the first,
 * and a native promise that rejects before it is awaited ends the process. Contains result, acknowledgement, cancellation, reports of
 * slow and unawaited calls, and `explain()`. The work itself is a function passed to `start`.
 */

import { onAbort, untilAborted } from "@tinklet/wire/abort";
import type { Clock } from "@tinklet/wire/clock";
import { APITimeoutError, type TinkerError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { type Reporter, seconds } from "../transport/report.ts";
import type { PollProgress } from "./poll.ts";

/** A future reports itself as slow once, after this time. */
const slowAfterMs = 10_000;

/** Acknowledgement that the server has accepted the request. */
export interface Acknowledgement {
  /** One id per request that the call became; a large batch becomes several. */
  readonly requestIds: readonly string[];
}

/** State of a call. */
export type FuturePhase = "waiting" | "submitting" | "running" | "done" | "failed";

/** Description of a call's state, from {@link APIFuture.explain}. */
export interface Explanation {
  /** Type of the request, for example `ForwardBackward`. */
  readonly requestType: string;
  readonly subject?: string;
  readonly phase: FuturePhase;
  readonly requestIds: readonly string[];
  readonly waitedMs: number;
  readonly queueState?: string;
  readonly queueReason?: string;
  readonly lastError?: string;
  /** Suggested action, if any. */
  readonly advice: string;
  /** The whole explanation in one line. */
  readonly text: string;
}

/** Shared by all futures without server timings, because thousands may wait concurrently. */
const noTimings: PollProgress["timings"] = [];

/** State that the work updates while it runs. */
export class FutureState implements PollProgress {
  readonly requestType: string;
  readonly subject: string | undefined;
  readonly metadata: PollProgress["metadata"];
  phase: FuturePhase = "waiting";
  requestIds: readonly string[] = [];
  queueState: PollProgress["queueState"] = undefined;
  reason: string | undefined = undefined;
  lastError: Error | undefined = undefined;
  polls = 0;
  timings: PollProgress["timings"] = noTimings;

  constructor(requestType: string, subject: string | undefined, metadata?: PollProgress["metadata"]) {
    this.requestType = requestType;
    this.subject = subject;
    this.metadata = metadata;
  }

  /** Called when the server has acknowledged every request of the call. */
  submitted(requestIds: readonly string[]): void {
    this.requestIds = requestIds;
    this.phase = "running";
    this.onSubmitted?.();
  }

  onSubmitted: (() => void) | undefined = undefined;
  /** Ends the call with an error of the client, which is a failure and no abort. Set by the future. */
  giveUp: ((error: Error) => void) | undefined = undefined;
}

/** Dependencies shared by all futures of a session. */
export interface FutureContext {
  readonly clock: Clock;
  /** The same clock, but its timers do not keep the process alive. */
  readonly background: Clock;
  readonly reporter: Reporter;
}

/** The work behind a future. Ends early when the signal aborts. */
export type FutureWork<T> = (state: FutureState, signal: AbortSignal) => Promise<T>;

export interface FutureOptions {
  readonly requestType: string;
  readonly subject?: string | undefined;
  /** Aborting it rejects the call with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /** Timeout of the wait, in milliseconds. @defaultValue no limit */
  readonly timeoutMs?: number | undefined;
  /** Attached to events. */
  readonly metadata?: Readonly<Record<string, string | number>> | undefined;
}

/**
 * A call in progress. Await it for the result; it can be awaited several times, at any time.
 *
 * @example
 * ```ts
 * const pass = trainer.forwardBackward(batch, "cross_entropy"); // both are on the queue
 * const step = trainer.optimStep({ learningRate: 1e-4 });       // before either is awaited
 * const { metrics } = await pass;
 * await step;
 * ```
 */
export class APIFuture<T> implements Promise<T> {
  readonly #state: FutureState;
  readonly #context: FutureContext;
  readonly #controller = new AbortController();
  readonly #promise: Promise<T>;
  readonly #startedAtMs: number;
  #endedAtMs: number | undefined;
  #acknowledged: Promise<Acknowledgement> | undefined;
  #gaveUp = false;
  #observed = false;
  #submissionObserved = false;

  /** Starts the work. @internal */
  constructor(context: FutureContext, options: FutureOptions, work: FutureWork<T>) {
    this.#context = context;
    this.#state = new FutureState(options.requestType, options.subject, options.metadata);
    this.#startedAtMs = context.clock.monotonic();
    this.#state.giveUp = (error) => {
      this.#gaveUp = true;
      this.#controller.abort(error);
    };
    const { signal, timeoutMs } = options;
    if (signal?.aborted) this.#controller.abort(signal.reason);
    const forget = onAbort(signal, () => this.#controller.abort(signal?.reason));
    const stopSlow = context.background.timer(slowAfterMs, () => this.#reportSlow());
    const stopLate =
      timeoutMs === undefined
        ? () => {}
        : context.clock.timer(timeoutMs, () => this.#controller.abort(this.#late(timeoutMs)));
    this.#promise = this.#run(work).finally(() => {
      stopSlow();
      stopLate();
      forget();
    });
    // Marks the rejection as handled. An outcome that no caller has observed one macrotask later is logged (#reportLost).
    this.#promise.then(
      () => this.#settled(undefined),
      (error: unknown) => this.#settled(error),
    );
  }

  #late(timeoutMs: number): APITimeoutError {
    return new APITimeoutError(`No result within ${seconds(timeoutMs)}. ${this.explain().text}`);
  }

  async #run(work: FutureWork<T>): Promise<T> {
    this.#controller.signal.throwIfAborted();
    const { signal } = this.#controller;
    return untilAborted(work(this.#state, signal), signal);
  }

  /** Calls `listener` at the end, with `undefined` or the error. Does not mark the outcome as observed. @internal */
  settled(listener: (error: unknown) => void): void {
    this.#promise.then(
      () => listener(undefined),
      (error: unknown) => listener(error ?? new Error("failed")),
    );
  }

  /** Whether the call was cancelled, aborted or timed out. @internal */
  get aborted(): boolean {
    return this.#controller.signal.aborted && !this.#gaveUp;
  }

  /** The id of the request, after the server has acknowledged it; the first id if the call became several requests. */
  get requestId(): string | undefined {
    return this.#state.requestIds[0];
  }

  /** State of the call. */
  get phase(): FuturePhase {
    return this.#state.phase;
  }

  /**
   * Resolves when the server has acknowledged the request, before the result is available; rejects when the server refuses it.
   *
   * @example
   * ```ts
   * const save = trainer.saveState("epoch-1");
   * const { requestIds } = await save.submitted; // service.future(id, "SaveWeights") finds it again after a restart
   * const { path } = await save;
   * ```
   */
  get submitted(): Promise<Acknowledgement> {
    this.#submissionObserved = true;
    this.#acknowledged ??= new Promise<Acknowledgement>((resolve, reject) => {
      const taken = () => resolve({ requestIds: this.#state.requestIds });
      if (this.#state.requestIds.length > 0) return taken();
      this.#state.onSubmitted = taken;
      // Work may end without an acknowledgement: it sent no request, or it failed.
      this.#promise.then(taken, reject);
    });
    this.#acknowledged.catch(() => {});
    return this.#acknowledged;
  }

  // biome-ignore lint/suspicious/noThenProperty: a future is awaited
  then<A = T, B = never>(
    onResult?: ((value: T) => A | PromiseLike<A>) | null,
    onError?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#observed = true;
    return this.#promise.then(onResult, onError);
  }

  /** Like `Promise.prototype.catch`; marks the outcome as handled. */
  catch<B = never>(onError?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, onError);
  }

  /** Like `Promise.prototype.finally`; marks the outcome as handled. */
  finally(onEnd?: (() => void) | null): Promise<T> {
    this.#observed = true;
    return this.#promise.finally(onEnd);
  }

  /** Makes futures assignable to `Promise` in TypeScript. */
  get [Symbol.toStringTag](): string {
    return "APIFuture";
  }

  /**
   * Waits for the result for a limited time. The call continues and can be awaited again.
   *
   * @example
   * ```ts
   * const pass = trainer.forwardBackward(batch, "cross_entropy");
   * const output = await pass.result({ timeoutMs: 600_000 }).catch((error) => {
   *   console.error(pass.explain().text); // what it waits for, for how long, and what to do
   *   throw error;
   * });
   * ```
   *
   * @throws {@link APITimeoutError} after `timeoutMs`, `signal.reason` when aborted.
   */
  result(
    options: { readonly timeoutMs?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    this.#observed = true;
    const { timeoutMs, signal } = options;
    if (timeoutMs === undefined && signal === undefined) return this.#promise;
    return new Promise<T>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const forget = onAbort(signal, () => end(() => reject(signal?.reason)));
      const cancelTimer =
        timeoutMs === undefined
          ? () => {}
          : this.#context.clock.timer(timeoutMs, () => end(() => reject(this.#late(timeoutMs))));
      const end = (settle: () => void) => {
        cancelTimer();
        forget();
        settle();
      };
      this.#promise.then(
        (value) => end(() => resolve(value)),
        (error: unknown) => end(() => reject(error)),
      );
    });
  }

  /**
   * Stops waiting for the result. A request that is still queued is not sent. A request that was sent is not undone: the server
   * completes it.
   */
  cancel(reason: unknown = new DOMException("The call was cancelled.", "AbortError")): void {
    this.#controller.abort(reason);
  }

  /** Explains what the call is waiting for, for how long, and what to do about it. */
  explain(): Explanation {
    const { requestType, subject, phase, requestIds, queueState, reason, lastError } = this.#state;
    const waitedMs = (this.#endedAtMs ?? this.#context.clock.monotonic()) - this.#startedAtMs;
    const advice = this.#advice();
    const text = [
      `${requestType}${subject === undefined ? "" : ` of ${subject}`}: ${phaseTexts[phase]}, ${seconds(waitedMs)}`,
      requestIds.length === 0 ? undefined : `request ${requestIds.join(", ")}`,
      queueState === undefined || phase !== "running"
        ? undefined
        : `queue: ${queueState}${reason === undefined ? "" : ` (${reason})`}`,
      lastError === undefined ? undefined : `last error: ${lastError.message}`,
      advice === "" ? undefined : advice,
    ];
    return {
      requestType,
      ...omitUndefined({ subject }),
      phase,
      requestIds,
      waitedMs,
      ...omitUndefined({ queueState }),
      ...omitUndefined({ queueReason: reason }),
      ...omitUndefined({ lastError: lastError?.message }),
      advice,
      text: text.filter((part) => part !== undefined).join("; "),
    };
  }

  #advice(): string {
    const { phase, queueState, reason, lastError } = this.#state;
    const hint = (lastError as Partial<TinkerError> | undefined)?.hint;
    if (phase === "failed") return hint ?? "";
    if (phase === "waiting") {
      if (reason !== undefined) return `The call is ${reason}`;
      return "The call has not been submitted yet: the client is connecting or submitting earlier calls.";
    }
    if (queueState === "paused_rate_limit")
      return "Close training or sampling clients that are no longer needed, or wait.";
    if (queueState === "paused_capacity") return "No action is needed: the service resumes automatically.";
    if (lastError !== undefined) return hint ?? "The connection is being retried. If this persists, check the network.";
    return "";
  }

  #reason(): string | undefined {
    const { phase, reason, lastError } = this.#state;
    if (lastError !== undefined) return lastError.message;
    return phase === "running" ? reason : (reason ?? phaseTexts[phase]);
  }

  #reportSlow(): void {
    const reason = this.#reason();
    this.#context.reporter.report({
      type: "future.slow",
      requestId: this.requestId ?? "",
      requestType: this.#state.requestType,
      ...omitUndefined({ subject: this.#state.subject }),
      waitedMs: this.#context.clock.monotonic() - this.#startedAtMs,
      ...omitUndefined({ reason, metadata: this.#state.metadata }),
    });
  }

  #settled(error: unknown): void {
    const { clock, reporter } = this.#context;
    const { requestType } = this.#state;
    const metadata = omitUndefined({ metadata: this.#state.metadata });
    this.#endedAtMs = clock.monotonic();
    const requestId = this.requestId ?? "";
    if (error === undefined) {
      this.#state.phase = "done";
      const waitedMs = this.#endedAtMs - this.#startedAtMs;
      reporter.report({ type: "future.done", requestId, requestType, waitedMs, ...metadata });
      return;
    }
    this.#state.phase = "failed";
    const failure = error instanceof Error ? error : new Error(String(error));
    this.#state.lastError = failure;
    reporter.report({ type: "future.failed", requestId, requestType, error: failure, ...metadata });
    // A caller that awaits immediately has attached by the next macrotask.
    if (!this.#observed) clock.timer(0, () => this.#reportLost(failure));
  }

  #reportLost(error: Error): void {
    const seen = this.#observed || (this.#submissionObserved && this.requestId === undefined);
    if (seen || this.aborted) return;
    this.#context.reporter.log(
      "error",
      `${this.#state.requestType}${this.requestId === undefined ? "" : ` ${this.requestId}`} failed and is not awaited: ${error.message}`,
    );
  }
}

const phaseTexts: Readonly<Record<FuturePhase, string>> = {
  waiting: "waiting to be submitted",
  submitting: "being submitted",
  running: "waiting for the result",
  done: "done",
  failed: "failed",
};
