/**
 * Limits on concurrent samples of one service, and the pause after a 429. The server's configuration sets the limits; the contract
 * defines the pause and the tighter limits after it.
 */

import type { ClientConfigResponse } from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { ByteBudget, type Release, Semaphore } from "../../transport/byte-budget.ts";
import type { SharedLimit } from "./shared-limit.node.ts";

/** Maximum number of concurrent submissions; `throttledDispatchLimit` after a recent 429. */
const dispatchLimit = 400;
const throttledDispatchLimit = 10;
/** After a 429 the bytes of a prompt are multiplied by this factor. */
const throttledByteFactor = 20;
/** The tighter limits last this long after the end of a pause. */
const throttledForMs = 10_000;
/** Prompts above this size cause a longer pause. */
const largePromptBytes = 131_072;
const pauseMs = 1_000;
const largePromptPauseMs = 5_000;
/** Sockets of the retrieve pool reserved for training. */
const reservedSockets = 64;

export class SampleLimits {
  /** Samples between submission and result. */
  readonly concurrent = new Semaphore(1);
  /** The limit that this process keeps together with others, if the option is used. */
  shared: SharedLimit | undefined;
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
      this.concurrent.limit = Number.POSITIVE_INFINITY; // one long poll serves all samples, so none holds a socket
      return;
    }
    const reserved = Math.min(reservedSockets, Math.floor(retrieveSockets / 4));
    this.concurrent.limit = Math.max(1, Math.min(config.sampleMaxConcurrentRequests, retrieveSockets - reserved));
  }

  get #recentlyPaused(): boolean {
    return this.#clock.monotonic() - this.#pausedUntilMs < throttledForMs;
  }

  /** Starts the pause after a 429. */
  pause(promptBytes: number): void {
    const ms = promptBytes <= largePromptBytes ? pauseMs : largePromptPauseMs;
    this.#pausedUntilMs = this.#clock.monotonic() + ms;
  }

  /** Milliseconds until the pause ends; 0 without a pause. */
  get pausedForMs(): number {
    return Math.max(this.#pausedUntilMs - this.#clock.monotonic(), 0);
  }

  /** Acquires a dispatch slot. It is held while waiting after a 429, and released when the server has acknowledged the request. */
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
