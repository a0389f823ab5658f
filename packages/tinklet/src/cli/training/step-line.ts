/** The line that tells how a run goes: step, loss, tokens per second, time left. */
import { formatCount, formatDuration } from "../output/format.ts";

/** How much of the prompts the server had computed before, as a figure of the line; nothing where it was none. */
export const cachedShare = (prompts: { readonly sent: number; readonly cached: number } | undefined) =>
  prompts === undefined || prompts.cached === 0
    ? {}
    : { cached: `${Math.round((100 * prompts.cached) / prompts.sent)} %` };

/** Counts time and tokens of a run, from the first step of this process. */
export class StepLine {
  readonly #total: number;
  readonly #startMs: number;
  #first: number | undefined;
  #tokens = 0;

  /** @param startMs - when the run began, on the monotonic clock; now, unless told */
  constructor(totalSteps: number, startMs = performance.now()) {
    this.#total = totalSteps;
    this.#startMs = startMs;
  }

  /** Seconds since the run began here. */
  get seconds(): number {
    return (performance.now() - this.#startMs) / 1000;
  }

  get tokensPerSecond(): number {
    return this.#tokens / Math.max(this.seconds, 1e-9);
  }

  /** @param step - the step that is done, counted from 0. @param tokens - its tokens. @param figures - what to show of it */
  text(step: number, tokens: number, figures: Readonly<Record<string, string>>): string {
    this.#first ??= step;
    this.#tokens += tokens;
    const left = (this.seconds / (step - this.#first + 1)) * (this.#total - step - 1);
    const shown = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
    const rate = `${formatCount(this.tokensPerSecond)} tokens/s`;
    return [`step ${step + 1}/${this.#total}`, ...shown, rate, `${formatDuration(left)} left`].join("  ");
  }
}
