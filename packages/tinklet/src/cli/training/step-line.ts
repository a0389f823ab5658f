/** The progress line of a run: step, figures, tokens per second, time left. */
import { formatCount, formatDuration } from "../output/format.ts";

/** The share of prompt tokens that came from the prefix cache, as a figure of the line; empty if it is zero. */
export const cachedShare = (prompts: { readonly sent: number; readonly cached: number } | undefined) =>
  prompts === undefined || prompts.cached === 0
    ? {}
    : { cached: `${Math.round((100 * prompts.cached) / prompts.sent)} %` };

/** Measures time and tokens since the start of this process's part of the run. */
export class StepLine {
  readonly #total: number;
  #startMs: number | undefined;
  #first: number | undefined;
  #tokens = 0;

  /**
   * @param startMs - start of the first step, on the monotonic clock. Without it rate and remaining time are measured from the end of
   *   the first step, and shown from the second one on
   */
  constructor(totalSteps: number, startMs?: number) {
    this.#total = totalSteps;
    this.#startMs = startMs;
  }

  /** Seconds since the start. */
  get seconds(): number {
    return this.#startMs === undefined ? 0 : (performance.now() - this.#startMs) / 1000;
  }

  get tokensPerSecond(): number {
    return this.#tokens / Math.max(this.seconds, 1e-9);
  }

  /** @param step - the finished step, from 0. @param tokens - tokens of the step. @param figures - further values to show */
  text(step: number, tokens: number, figures: Readonly<Record<string, string>>): string {
    const shown = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
    const line = [`step ${step + 1}/${this.#total}`, ...shown];
    if (this.#startMs === undefined) {
      this.#startMs = performance.now();
      this.#first = step + 1;
      return line.join("  ");
    }
    this.#first ??= step;
    this.#tokens += tokens;
    const left = (this.seconds / (step - this.#first + 1)) * (this.#total - step - 1);
    return [...line, `${formatCount(this.tokensPerSecond)} tokens/s`, `${formatDuration(left)} left`].join("  ");
  }
}
