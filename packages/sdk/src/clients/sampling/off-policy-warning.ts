/**
 * What a service remembers about how it was used, to warn of traps that no single call shows. Says each thing once.
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
    // Greedy answers to a prompt are all the same, so nothing is learned from comparing them: who asks for them evaluates.
    if (temperature === 0 || (temperature === 1 && topK === -1 && topP === 1)) return;
    this.#altered ??= [
      temperature === 1 ? undefined : `temperature ${temperature}`,
      topK === -1 ? undefined : `topK ${topK}`,
      topP === 1 ? undefined : `topP ${topP}`,
    ]
      .filter((part) => part !== undefined)
      .join(", ");
  }

  /** A loss that compares with sampling log-probs is about to be used. */
  trainsOnSamples(lossFn: string): void {
    if (this.#altered === undefined || this.#warned || lossFn === "cross_entropy") return;
    this.#warned = true;
    this.#reporter.log(
      "warn",
      `Samples were drawn with ${this.#altered}, but their log-probs are those of the plain distribution (temperature 1, no top-k, no top-p). Training on them with ${lossFn} is silently off-policy; sample at temperature 1 for that.`,
    );
  }
}
