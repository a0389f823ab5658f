/**
 * Counters and latency percentiles of a client's requests to the API, per operation, in memory of fixed size. `ServiceClient.metrics()` returns a
 * snapshot; OpenTelemetry (`clients/session/open-telemetry.ts`) is independent of it.
 */
import type { Operation } from "@tinklet/wire/client";

/** Counters of one route, or of all. */
export interface RequestCounts {
  /** HTTP requests sent, including retries and polls. */
  readonly requests: number;
  /** Requests that repeated an earlier attempt of the same call. */
  readonly retries: number;
  /** Requests without a response, or with a status of 400 and above other than 408, the response to a poll of an unfinished result. */
  readonly failures: number;
  /** Bytes of request bodies. */
  readonly bytesSent: number;
  /** Bytes of response bodies, after decompression. */
  readonly bytesReceived: number;
}

/** Counters and latencies of one route. Percentiles are those of completed responses, within 5 %. */
export interface RouteMetrics extends RequestCounts {
  readonly p50Ms: number | undefined;
  readonly p95Ms: number | undefined;
  readonly p99Ms: number | undefined;
}

/** Ratio of the bounds of a histogram bucket. A percentile is at most 5 % off. */
const growth = 1.1;
/** Shorter times share the first bucket. */
const shortestMs = 0.1;

class RouteCounter {
  requests = 0;
  retries = 0;
  failures = 0;
  bytesSent = 0;
  bytesReceived = 0;
  #responses = 0;
  /** Number of responses per bucket; bucket i holds times up to `growth ** i` milliseconds. */
  readonly #buckets = new Map<number, number>();

  response(ms: number): void {
    const bucket = Math.ceil(Math.log(Math.max(ms, shortestMs)) / Math.log(growth));
    this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + 1);
    this.#responses++;
  }

  /** The nearest-rank percentile. */
  percentile(share: number): number | undefined {
    let rank = Math.ceil(share * this.#responses);
    for (const [bucket, count] of [...this.#buckets].sort(([a], [b]) => a - b)) {
      rank -= count;
      if (rank <= 0) return (2 * growth ** bucket) / (1 + growth); // has the same relative distance to both bounds
    }
    return undefined;
  }
}

const countNames = ["requests", "retries", "failures", "bytesSent", "bytesReceived"] as const;

export class RequestMetrics {
  readonly #routes = new Map<Operation, RouteCounter>();

  /** Counts a request that is about to be sent. Returns the counter of its route. */
  sent(operation: Operation, { retry, bytes }: { readonly retry: boolean; readonly bytes: number }): RouteCounter {
    let route = this.#routes.get(operation);
    if (route === undefined) {
      route = new RouteCounter();
      this.#routes.set(operation, route);
    }
    route.requests++;
    route.bytesSent += bytes;
    if (retry) route.retries++;
    return route;
  }

  snapshot(): RequestCounts & { readonly routes: Readonly<Record<string, RouteMetrics>> } {
    const total = { requests: 0, retries: 0, failures: 0, bytesSent: 0, bytesReceived: 0 };
    const routes: Record<string, RouteMetrics> = {};
    for (const [operation, route] of this.#routes) {
      for (const name of countNames) total[name] += route[name];
      const { requests, retries, failures, bytesSent, bytesReceived } = route;
      const [p50Ms, p95Ms, p99Ms] = [0.5, 0.95, 0.99].map((share) => route.percentile(share));
      routes[operation] = { requests, retries, failures, bytesSent, bytesReceived, p50Ms, p95Ms, p99Ms };
    }
    return { ...total, routes };
  }
}
