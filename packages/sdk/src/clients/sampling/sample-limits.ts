/**
 * How much sampling one service dispatches at once, and the pause that a 429 means for all of it. The limits are the
 * server's flags; the pause and what it changes are the contract's.
 */

import type { ClientConfigResponse } from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { ByteBudget, type Release, Semaphore } from "../../transport/byte-budget.ts";

/** Submissions on their way at once; far fewer after a recent 429. */
const dispatchLimit = 400;
const throttledDispatchLimit = 10;
/** After a 429 a prompt's bytes count so many times. */
const throttledByteFactor = 20;
/** How long after the end of a pause the tighter limits stay. */
const throttledForMs = 10_000;
/** Prompts above this pause longer. */
const largePromptBytes = 131_072;
const pauseMs = 1_000;
const largePromptPauseMs = 5_000;
/** Sockets of the retrieve pool that sampling leaves to training. */
const reservedSockets = 64;

export class SampleLimits {
  /** Samples between submission and result. */
  readonly concurrent = new Semaphore(1);
  readonly #clock: Clock;
  readonly #dispatch = new Semaphore(dispatchLimit);
  readonly #throttled = new Semaphore(throttledDispatchLimit);
  readonly #bytes = new ByteBudget(0);
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  configure(config: ClientConfigResponse, retrieveSockets: number): void {
    this.#bytes.resize(config.sampleDispatchBytesSemaphoreSize);
    if (config.sampleUseRetrieveFutures) {
      this.concurrent.limit = Number.POSITIVE_INFINITY; // one long poll serves them all: none holds a socket
      return;
    }
    const reserved = Math.min(reservedSockets, Math.floor(retrieveSockets / 4));
    this.concurrent.limit = Math.max(1, Math.min(config.sampleMaxConcurrentRequests, retrieveSockets - reserved));
  }

  get #recentlyPaused(): boolean {
    return this.#clock.monotonic() - this.#pausedUntilMs < throttledForMs;
  }

  /** A 429: nothing is dispatched for a while. */
  pause(promptBytes: number): void {
    const ms = promptBytes <= largePromptBytes ? pauseMs : largePromptPauseMs;
    this.#pausedUntilMs = this.#clock.monotonic() + ms;
  }

  /** Milliseconds until dispatching may go on; 0 when it may. */
  get pausedForMs(): number {
    return Math.max(this.#pausedUntilMs - this.#clock.monotonic(), 0);
  }

  /** Takes a place among the dispatches. Held while a 429 is waited out, given back once the server has the request. */
  async enter(promptBytes: number, signal: AbortSignal): Promise<Release> {
    const held: Release[] = [];
    const release = () => {
      for (const give of held) give();
    };
    try {
      held.push(await this.#dispatch.acquire(signal));
      if (this.#recentlyPaused) held.push(await this.#throttled.acquire(signal));
      const factor = this.#recentlyPaused ? throttledByteFactor : 1;
      held.push(await this.#bytes.acquire(promptBytes * factor, signal));
      return release;
    } catch (error) {
      release();
      throw error;
    }
  }
}
