/**
 * Metrics for Prometheus. Labels are routes, statuses, kinds and base models, never tenants, sessions or keys.
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

  /** Counts used tokens by kind; for prompts, computed tokens and tokens from the prefix cache are separate kinds. */
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

  /** @param gauges - current values by name, with labels. */
  render(gauges: Readonly<Record<string, number>>): string {
    const lines: string[] = [];
    const head = (name: string, type: string, help: string) =>
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    head("tinklet_http_requests_total", "counter", "Answered requests.");
    for (const [labels, count] of this.#requests) lines.push(`tinklet_http_requests_total{${labels}} ${count}`);
    head("tinklet_http_request_seconds", "histogram", "Time to answer; polls include their wait.");
    for (const [route, histogram] of this.#latency)
      lines.push(...series("tinklet_http_request_seconds", `route="${route}"`, histogram));
    head("tinklet_requests_finished_total", "counter", "Finished asynchronous requests.");
    for (const [labels, count] of this.#finished) lines.push(`tinklet_requests_finished_total{${labels}} ${count}`);
    head(
      "tinklet_tokens_total",
      "counter",
      "Tokens of training, samples and prompts; cached prompt tokens were not computed again.",
    );
    for (const [kind, amount] of this.#tokens) lines.push(`tinklet_tokens_total{kind="${kind}"} ${amount}`);
    head("tinklet_commit_seconds", "histogram", "Time of one group commit, including its sync.");
    lines.push(...series("tinklet_commit_seconds", "", this.#commits));
    head("tinklet_commit_writers_total", "counter", "Writers of all group commits.");
    lines.push(`tinklet_commit_writers_total ${this.#writers}`);
    const named = new Set<string>();
    for (const [name, value] of Object.entries(gauges)) {
      const bare = name.replace(/\{.*/, "");
      if (!named.has(bare)) head(bare, "gauge", "Current value.");
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
