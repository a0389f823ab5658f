/**
 * The pause that a 402 means: work of the whole service stops, is tried again every few seconds, and goes on by itself
 * once billing is in order. One incident has one countdown, shared by all calls.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { Reporter } from "./report.ts";

/** Between two tries while paused. */
export const billingRetryMs = 5_000;
/** An incident is over when no 402 was met for so long. */
const incidentResetMs = 300_000;

export class BillingPause {
  /** How long an incident is waited out; the server's client config may change it. */
  maxPauseMs = 3_600_000;
  readonly #clock: Clock;
  readonly #reporter: Reporter;
  #since: number | undefined;
  #last = 0;

  constructor(clock: Clock, reporter: Reporter) {
    this.#clock = clock;
    this.#reporter = reporter;
  }

  /** Notes a 402. False when the pause has lasted too long and the error is to be thrown. */
  met(operation: string): boolean {
    const now = this.#clock.monotonic();
    if (this.#since === undefined || now - this.#last > incidentResetMs) this.#since = now;
    this.#last = now;
    const elapsedMs = now - this.#since;
    if (elapsedMs >= this.maxPauseMs) {
      this.#reporter.logSometimes("error", "billing over", "The billing pause lasted too long; giving up.");
      return false;
    }
    this.#reporter.report({
      type: "billing.paused",
      operation,
      elapsedMs,
      remainingMs: this.maxPauseMs - elapsedMs,
    });
    return true;
  }
}
