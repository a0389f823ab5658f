/**
 * Counters for Prometheus. Labels name routes, statuses and base models, never tenants, sessions or keys. Reading them costs
 * nothing but their text.
 */
import type { Usage } from "../store/tables/usage.ts";

const latencyBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60];

interface Histogram {
  readonly counts: number[];
  sum: number;
  count: number;
}

export class Metrics {
  readonly #requests = new Map<string, number>();
  readonly #latency = new Map<string, Histogram>();
  readonly #finished = new Map<string, number>();
  readonly #tokens = new Map<string, number>();
  readonly #commits: Histogram = emptyHistogram();
  #writers = 0;

  request(route: string, status: number, seconds: number): void {
    const key = `route="${route}",status="${status}"`;
    this.#requests.set(key, (this.#requests.get(key) ?? 0) + 1);
    let histogram = this.#latency.get(route);
    if (histogram === undefined) {
      histogram = emptyHistogram();
      this.#latency.set(route, histogram);
    }
    observe(histogram, seconds);
  }

  finished(kind: string, outcome: string): void {
    const key = `kind="${kind}",outcome="${outcome}"`;
    this.#finished.set(key, (this.#finished.get(key) ?? 0) + 1);
  }

  /** Counts what was used, by kind: of prompts, tokens that were computed apart from those that were found in the prefix cache. */
  used(amounts: Usage): void {
    for (const [kind, amount] of Object.entries(amounts)) {
      if (kind === "checkpoint") continue; // not a number of tokens
      this.#tokens.set(kind, (this.#tokens.get(kind) ?? 0) + amount);
    }
  }

  commit(seconds: number, writers: number): void {
    observe(this.#commits, seconds);
    this.#writers += writers;
  }

  /** @param gauges - values as they are now, by name (labels included). */
  render(gauges: Readonly<Record<string, number>>): string {
    const lines: string[] = [];
    const head = (name: string, type: string, help: string) =>
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    head("tinklet_http_requests_total", "counter", "Answered requests.");
    for (const [labels, count] of this.#requests) lines.push(`tinklet_http_requests_total{${labels}} ${count}`);
    head("tinklet_http_request_seconds", "histogram", "Time to answer; polls include their wait.");
    for (const [route, histogram] of this.#latency)
      lines.push(...series("tinklet_http_request_seconds", `route="${route}"`, histogram));
    head("tinklet_requests_finished_total", "counter", "Asynchronous requests that are over.");
    for (const [labels, count] of this.#finished) lines.push(`tinklet_requests_finished_total{${labels}} ${count}`);
    head(
      "tinklet_tokens_total",
      "counter",
      "Tokens trained on, sampled and of prompts; cached ones were not computed again.",
    );
    for (const [kind, amount] of this.#tokens) lines.push(`tinklet_tokens_total{kind="${kind}"} ${amount}`);
    head("tinklet_commit_seconds", "histogram", "Time of one group commit, with its sync.");
    lines.push(...series("tinklet_commit_seconds", "", this.#commits));
    head("tinklet_commit_writers_total", "counter", "Writers that shared the commits.");
    lines.push(`tinklet_commit_writers_total ${this.#writers}`);
    const named = new Set<string>();
    for (const [name, value] of Object.entries(gauges)) {
      const bare = name.replace(/\{.*/, "");
      if (!named.has(bare)) head(bare, "gauge", "As it is now.");
      named.add(bare);
      lines.push(`${name} ${value}`);
    }
    return `${lines.join("\n")}\n`;
  }
}

const emptyHistogram = (): Histogram => ({ counts: latencyBuckets.map(() => 0), sum: 0, count: 0 });

function observe(histogram: Histogram, seconds: number): void {
  const slot = latencyBuckets.findIndex((bound) => seconds <= bound);
  if (slot >= 0) histogram.counts[slot]!++;
  histogram.sum += seconds;
  histogram.count++;
}

function series(name: string, labels: string, { counts, sum, count }: Histogram): string[] {
  let below = 0;
  const comma = labels === "" ? "" : `${labels},`;
  const braces = labels === "" ? "" : `{${labels}}`;
  return [
    ...latencyBuckets.map((bound, i) => {
      below += counts[i]!;
      return `${name}_bucket{${comma}le="${bound}"} ${below}`;
    }),
    `${name}_bucket{${comma}le="+Inf"} ${count}`,
    `${name}_sum${braces} ${sum}`,
    `${name}_count${braces} ${count}`,
  ];
}
