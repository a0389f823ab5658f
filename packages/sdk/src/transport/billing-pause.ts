/**
 * The pause after a 402: all requests of the client wait and retry every few seconds until billing is resolved. All calls share one
 * countdown per incident.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { Reporter } from "./report.ts";

/** Delay between two attempts while paused. */
export const billingRetryMs = 5_000;
/** An incident ends after this time without a 402. */
const incidentResetMs = 300_000;

export class BillingPause {
  /** Maximum duration of a pause; the server's client configuration may change it. */
  maxPauseMs = 3_600_000;
  readonly #clock: Clock;
  readonly #reporter: Reporter;
  #since: number | undefined;
  #last = 0;

  constructor(clock: Clock, reporter: Reporter) {
    this.#clock = clock;
    this.#reporter = reporter;
  }

  /** Records a 402. Returns false when the pause has exceeded its maximum and the error must be thrown. */
  met(operation: string): boolean {
    const now = this.#clock.monotonic();
    if (this.#since === undefined || now - this.#last > incidentResetMs) this.#since = now;
    this.#last = now;
    const elapsedMs = now - this.#since;
    if (elapsedMs >= this.maxPauseMs) {
      this.#reporter.logSometimes(
        "error",
        "billing over",
        "The billing pause exceeded its maximum duration; calls fail now.",
      );
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
