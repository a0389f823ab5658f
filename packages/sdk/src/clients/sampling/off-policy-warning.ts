/**
 * Warns once when samples drawn from a modified distribution (temperature, top-k, top-p) are used for training on log-probs.
 */

import type { SamplingParams } from "@tinklet/wire/client";
import type { Reporter } from "../../transport/report.ts";

export class OffPolicyWarning {
  readonly #reporter: Reporter;
  #altered: string | undefined;
  #warned = false;

  constructor(reporter: Reporter) {
    this.#reporter = reporter;
  }

  sampledWith({ temperature, topK, topP }: SamplingParams): void {
    // Temperature 0 is for evaluation: greedy samples of a prompt are identical, so they are not used for training.
    if (temperature === 0 || (temperature === 1 && topK === -1 && topP === 1)) return;
    this.#altered ??= [
      temperature === 1 ? undefined : `temperature ${temperature}`,
      topK === -1 ? undefined : `topK ${topK}`,
      topP === 1 ? undefined : `topP ${topP}`,
    ]
      .filter((part) => part !== undefined)
      .join(", ");
  }

  /** Called before a pass with a loss that reads sampling log-probs. */
  trainsOnSamples(lossFn: string): void {
    if (this.#altered === undefined || this.#warned || lossFn === "cross_entropy") return;
    this.#warned = true;
    this.#reporter.log(
      "warn",
      `Samples were drawn with ${this.#altered}, but their log-probs are those of the unmodified distribution (temperature 1, no top-k, no top-p). Training on them with ${lossFn} is off-policy; sample with temperature 1, without topK and topP.`,
    );
  }
}
