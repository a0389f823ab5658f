/**
 * One long poll for all samples of a client: `retrieve_futures` says which of them are over, and only then is each result fetched.
 * Polls while somebody waits; where the server fails for good at it, the samples are asked for one by one. Loaded where the
 * server's configuration asks for it.
 */
import { onAbort } from "@tinklet/wire/abort";
import { loadRoute, type SamplingSessionFuturesTarget } from "@tinklet/wire/client";
import { APIConnectionError, type APIStatusError, isRetryableStatus } from "@tinklet/wire/errors";
import { billingRetryMs } from "../../transport/billing-pause.ts";
import type { HttpResponse } from "../../transport/exchange.ts";
import type { Session } from "./session.ts";

/** A sample that is over. */
export interface Completed {
  /** How large its result is, where the server says so. */
  readonly payloadBytes?: number | undefined;
}

/** A failed poll is tried again after so long. */
const retryMs = 1_000;
/** A 400 may be a proxy's; so many in a row are tried again. */
const badRequestBudget = 3;
/** The more samples wait, the more of them one poll may gather: polls begin at least this long apart, for each that waits. */
const paceMsPerSample = 4;
const longestPaceMs = 1_000;
/** What was fetched is told with the next poll, or on its own after so long without one. */
const reportMs = 1_000;
/** Completions kept that no sample waits for: of samples whose acknowledgement is still on its way, or that were given up. */
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

  /** Completions that were dropped because too many were kept. */
  get dropped(): number {
    return this.#dropped;
  }

  /**
   * Resolves when a sample is over, once for each; with nothing when that must be found out by asking for it alone.
   *
   * @param dropped - what {@link FuturesPoller.dropped} was before the sample was first submitted. A completion dropped since
   * then may be this sample's, and is not reported again.
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

  /** The server may forget a result. */
  fetched(requestId: string): void {
    if (this.#failed) return;
    this.#fetched.add(requestId);
    this.#cancelReport?.();
    this.#cancelReport = this.#session.background.timer(reportMs, () => {
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

  /** One poll. @param timeout - seconds that the server may hold it; its own choice unless given */
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
        `retrieve_futures does not work here, so samples are asked for one by one: ${error.message}`,
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
