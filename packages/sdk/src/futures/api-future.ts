/**
 * `APIFuture`: the handle of a call that is under way. A `PromiseLike`, not a `Promise`: two calls are submitted before
 * either is awaited, and a native promise that fails while nobody is looking yet would end the process. Owns result,
 * acknowledgement, cancellation, the report of slow and lost outcomes, and `explain()`; the work itself is given to it.
 */

import { onAbort, untilAborted } from "@tinklet/wire/abort";
import type { Clock } from "@tinklet/wire/clock";
import { APITimeoutError, type TinkerError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { type Reporter, seconds } from "../transport/report.ts";
import type { PollProgress } from "./poll.ts";

/** A future that waits longer than this says so, once. */
const slowAfterMs = 10_000;

/** Acknowledgement that the server has accepted the request. */
export interface Acknowledgement {
  /** One id per request that the call became; a large batch becomes several. */
  readonly requestIds: readonly string[];
}

/** State of a call. */
export type FuturePhase = "waiting" | "submitting" | "running" | "done" | "failed";

/** State of a call in words, from {@link APIFuture.explain}. */
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

/** One for all futures whose server tells no times: thousands may wait at once. */
const noTimings: PollProgress["timings"] = [];

/** What the work tells its future while it runs. */
export class FutureState implements PollProgress {
  readonly requestType: string;
  readonly subject: string | undefined;
  phase: FuturePhase = "waiting";
  requestIds: readonly string[] = [];
  queueState: PollProgress["queueState"] = undefined;
  reason: string | undefined = undefined;
  lastError: Error | undefined = undefined;
  polls = 0;
  timings: PollProgress["timings"] = noTimings;

  constructor(requestType: string, subject: string | undefined) {
    this.requestType = requestType;
    this.subject = subject;
  }

  /** Called once the server has taken the whole call. */
  submitted(requestIds: readonly string[]): void {
    this.requestIds = requestIds;
    this.phase = "running";
    this.onSubmitted?.();
  }

  onSubmitted: (() => void) | undefined = undefined;
}

/** What futures share. */
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
  /** Ends the waiting after so long. @defaultValue never */
  readonly timeoutMs?: number | undefined;
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
  #observed = false;
  #submissionObserved = false;

  private constructor(context: FutureContext, options: FutureOptions, work: FutureWork<T>) {
    this.#context = context;
    this.#state = new FutureState(options.requestType, options.subject);
    this.#startedAtMs = context.clock.monotonic();
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
    // Marks the rejection as handled: whether anybody looks is decided one macrotask after it (#reportLost).
    this.#promise.then(
      () => this.#settled(undefined),
      (error: unknown) => this.#settled(error),
    );
  }

  /** Starts work. @internal */
  static start<T>(context: FutureContext, options: FutureOptions, work: FutureWork<T>): APIFuture<T> {
    return new APIFuture(context, options, work);
  }

  #late(timeoutMs: number): APITimeoutError {
    return new APITimeoutError(`No result within ${seconds(timeoutMs)}. ${this.explain().text}`);
  }

  async #run(work: FutureWork<T>): Promise<T> {
    this.#controller.signal.throwIfAborted();
    const { signal } = this.#controller;
    return untilAborted(work(this.#state, signal), signal);
  }

  /** Hears of the end: `undefined`, or what it failed with. Does not count as looking at the outcome. @internal */
  settled(listener: (error: unknown) => void): void {
    this.#promise.then(
      () => listener(undefined),
      (error: unknown) => listener(error ?? new Error("failed")),
    );
  }

  /** Whether the waiting was given up. @internal */
  get aborted(): boolean {
    return this.#controller.signal.aborted;
  }

  /** The id of the request, once the server has taken it; the first one where a call became several. */
  get requestId(): string | undefined {
    return this.#state.requestIds[0];
  }

  /** State of the call. */
  get phase(): FuturePhase {
    return this.#state.phase;
  }

  /**
   * Resolves when the server has accepted the request, before the result is there; rejects when it is refused.
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
      // Work that ends without an acknowledgement has nothing to acknowledge, or failed.
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

  /** Like `Promise.prototype.catch`; the outcome then counts as handled. */
  catch<B = never>(onError?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, onError);
  }

  /** Like `Promise.prototype.finally`; the outcome then counts as handled. */
  finally(onEnd?: (() => void) | null): Promise<T> {
    this.#observed = true;
    return this.#promise.finally(onEnd);
  }

  /** What makes a future a `Promise` to the compiler. */
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
   * Stops waiting for the result. A request that is still in line is not sent; one that was sent is not undone: the server
   * finishes it.
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
    const { phase, queueState, lastError } = this.#state;
    const hint = (lastError as Partial<TinkerError> | undefined)?.hint;
    if (phase === "failed") return hint ?? "";
    if (phase === "waiting")
      return "It has not been submitted yet: the client connects, or submits earlier calls, first.";
    if (queueState === "paused_rate_limit")
      return "Close training or sampling clients that are no longer needed, or wait.";
    if (queueState === "paused_capacity") return "Nothing to do but wait; the service goes on by itself.";
    if (lastError !== undefined) return hint ?? "The connection is being retried; check the network if this lasts.";
    return "";
  }

  #reason(): string | undefined {
    const { phase, reason, lastError } = this.#state;
    if (lastError !== undefined) return lastError.message;
    if (phase !== "running") return phaseTexts[phase];
    return reason;
  }

  #reportSlow(): void {
    const reason = this.#reason();
    this.#context.reporter.report({
      type: "future.slow",
      requestId: this.requestId ?? "",
      requestType: this.#state.requestType,
      ...omitUndefined({ subject: this.#state.subject }),
      waitedMs: this.#context.clock.monotonic() - this.#startedAtMs,
      ...omitUndefined({ reason }),
    });
  }

  #settled(error: unknown): void {
    const { clock, reporter } = this.#context;
    const { requestType } = this.#state;
    this.#endedAtMs = clock.monotonic();
    const requestId = this.requestId ?? "";
    if (error === undefined) {
      this.#state.phase = "done";
      reporter.report({ type: "future.done", requestId, requestType, waitedMs: this.#endedAtMs - this.#startedAtMs });
      return;
    }
    this.#state.phase = "failed";
    const failure = error instanceof Error ? error : new Error(String(error));
    this.#state.lastError = failure;
    reporter.report({ type: "future.failed", requestId, requestType, error: failure });
    // A caller who awaits at once has attached by the next macrotask.
    if (!this.#observed) clock.timer(0, () => this.#reportLost(failure));
  }

  #reportLost(error: Error): void {
    const seen = this.#observed || (this.#submissionObserved && this.requestId === undefined);
    if (seen || this.#controller.signal.aborted) return;
    this.#context.reporter.log(
      "error",
      `${this.#state.requestType}${this.requestId === undefined ? "" : ` ${this.requestId}`} failed and nobody awaits it: ${error.message}`,
    );
  }
}

const phaseTexts: Readonly<Record<FuturePhase, string>> = {
  waiting: "waiting for its turn",
  submitting: "being submitted",
  running: "waiting for the result",
  done: "done",
  failed: "failed",
};
