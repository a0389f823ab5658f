/**
 * One long poll for all samples of a client: `retrieve_futures` reports which samples are complete, and only then is each result fetched.
 * Polls while samples wait. If the route fails permanently, samples are polled one by one. Loaded if the server's configuration enables
 * it.
 */
import { onAbort } from "@tinklet/wire/abort";
import { loadRoute, type SamplingSessionFuturesTarget } from "@tinklet/wire/client";
import { APIConnectionError, type APIStatusError, isRetryableStatus } from "@tinklet/wire/errors";
import { billingRetryMs } from "../../transport/billing-pause.ts";
import type { HttpResponse } from "../../transport/exchange.ts";
import type { Session } from "./session.ts";

/** A completed sample. */
export interface Completed {
  /** Size of the result, if the server reports it. */
  readonly payloadBytes?: number | undefined;
}

/** Delay after a failed poll. */
const retryMs = 1_000;
/** Maximum number of consecutive 400s that are retried, because a proxy may cause them. */
const badRequestBudget = 3;
/** Minimum interval between polls, multiplied by the number of waiting samples, so that one poll reports several completions. */
const paceMsPerSample = 4;
const longestPaceMs = 1_000;
/** Fetched results are acknowledged with the next poll, or in a separate request after this time without a poll. */
const reportMs = 1_000;
/** Maximum number of completions kept for samples that are not waiting: not acknowledged yet, or aborted. */
const mostUnclaimed = 4_096;

export class FuturesPoller {
  readonly #session: Session;
  readonly #target: SamplingSessionFuturesTarget;
  readonly #waiting = new Map<string, (completed: Completed | undefined) => void>();
  readonly #unclaimed = new Map<string, Completed>();
  readonly #fetched = new Set<string>();
  #cursor = 0;
  #polling: AbortController | undefined;
  #running = false;
  #failed = false;
  #cancelReport: (() => void) | undefined;
  #dropped = 0;

  constructor(session: Session, samplingSessionId: string, clonedSamplerId: number) {
    this.#session = session;
    this.#target = { type: "sampling_session", samplingSessionId, clonedSamplerId };
  }

  /** Number of completions dropped because of the limit. */
  get dropped(): number {
    return this.#dropped;
  }

  /**
   * Resolves when a sample is complete; with `undefined` if the sample must be polled individually.
   *
   * @param dropped - {@link FuturesPoller.dropped} before the sample was first submitted. A completion dropped since then may be this
   * sample's, and is not reported again.
   */
  waitFor(
    requestId: string,
    { signal, dropped }: { readonly signal: AbortSignal; readonly dropped: number },
  ): Promise<Completed | undefined> {
    const known = this.#unclaimed.get(requestId);
    if (known !== undefined || this.#failed || dropped !== this.#dropped) {
      this.#unclaimed.delete(requestId);
      return Promise.resolve(known);
    }
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const forget = onAbort(signal, () => {
        this.#waiting.delete(requestId);
        if (this.#waiting.size === 0) this.#polling?.abort();
        reject(signal.reason);
      });
      this.#waiting.set(requestId, (completed) => {
        forget();
        resolve(completed);
      });
      if (!this.#running) void this.#run();
    });
  }

  /** Acknowledges a fetched result, so that the server may delete it. */
  fetched(requestId: string): void {
    if (this.#failed) return;
    this.#fetched.add(requestId);
    this.#cancelReport?.();
    this.#cancelReport = this.#session.later(reportMs, () => {
      if (!this.#running && this.#fetched.size > 0) void this.#poll(0).catch(() => {});
    });
  }

  async #run(): Promise<void> {
    const { clock, transport } = this.#session;
    this.#running = true;
    let badRequests = 0;
    try {
      while (this.#waiting.size > 0) {
        const startedAtMs = clock.monotonic();
        const outcome = await this.#poll();
        if (outcome === "left") continue;
        if (outcome === "done") {
          badRequests = 0;
          const paceMs = Math.min(this.#waiting.size * paceMsPerSample, longestPaceMs);
          const leftMs = startedAtMs + paceMs - clock.monotonic();
          if (leftMs > 0 && this.#waiting.size > 0) await transport.sleep(leftMs);
          continue;
        }
        if (outcome.kind === "unpaid" && transport.billing.met("retrieveFutures")) {
          await transport.sleep(billingRetryMs);
        } else if (outcome.kind === "passing" || (outcome.kind === "suspicious" && badRequests++ < badRequestBudget)) {
          await transport.sleep(retryMs);
        } else throw outcome.error;
      }
    } catch (error) {
      this.#fail(error as Error);
    } finally {
      this.#running = false;
    }
  }

  /** One poll. @param timeout - maximum hold time in seconds. @defaultValue the server's */
  async #poll(timeout?: number): Promise<"done" | "left" | Problem> {
    const { transport } = this.#session;
    await loadRoute("retrieveFutures");
    const reported = [...this.#fetched].sort();
    const request = transport.prepare("retrieveFutures", {
      target: this.#target,
      prevCursor: this.#cursor,
      retrievedRequestIds: reported,
      ...(timeout === undefined ? {} : { timeout }),
    });
    const polling = new AbortController();
    this.#polling = polling;
    let response: HttpResponse;
    try {
      response = await transport.attempt(request, { signal: polling.signal });
    } catch (error) {
      if (polling.signal.aborted) return "left";
      if (error instanceof APIConnectionError && error.code !== "closed") return { kind: "passing", error };
      throw error;
    } finally {
      this.#polling = undefined;
    }
    if (response.status >= 300) return problem(transport.failure(request, response));
    const { completions, cursor } = transport.decode("retrieveFutures", response);
    for (const requestId of reported) this.#fetched.delete(requestId);
    this.#cursor = cursor;
    for (const completion of completions) {
      const payloadBytes = completion.state === "finished" ? completion.responsePayloadUncompressedSize : undefined;
      this.#complete(completion.requestId, { payloadBytes });
    }
    return "done";
  }

  #complete(requestId: string, completed: Completed): void {
    const wake = this.#waiting.get(requestId);
    this.#waiting.delete(requestId);
    wake?.(completed);
    if (wake !== undefined) return;
    this.#unclaimed.set(requestId, completed);
    for (const oldest of this.#unclaimed.keys()) {
      if (this.#unclaimed.size <= mostUnclaimed) break;
      this.#unclaimed.delete(oldest);
      this.#dropped++;
    }
  }

  #fail(error: Error): void {
    this.#failed = true;
    this.#cancelReport?.();
    if ((error as { code?: string }).code !== "closed") {
      this.#session.reporter.log(
        "warn",
        `retrieve_futures failed permanently; samples are polled one by one: ${error.message}`,
      );
    }
    for (const wake of [...this.#waiting.values()]) wake(undefined);
    this.#waiting.clear();
  }
}

interface Problem {
  readonly kind: "passing" | "suspicious" | "unpaid" | "fatal";
  readonly error: Error;
}

function problem(error: APIStatusError): Problem {
  const { status } = error;
  if (status === 402) return { kind: "unpaid", error };
  if (status === 400) return { kind: "suspicious", error };
  return { kind: isRetryableStatus(status) ? "passing" : "fatal", error };
}
