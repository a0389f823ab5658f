/**
 * Sums the passes of a model until its next optimizer step, which becomes one row of the run's loss curve. Receives every finished request
 * in order.
 */
import type { LossResult } from "@tinklet/engine";
import type { ForwardBackwardRequest } from "@tinklet/wire";
import type { NewStep } from "../../store/tables/steps.ts";

/** The part of an optimizer step that one finished request contributes. */
export type StepPart =
  | { readonly kind: "pass"; readonly lossSum: number; readonly weight: number; readonly tokens: number }
  | { readonly kind: "step"; readonly gradientNorm: number | undefined; readonly learningRate: number };

/** When a request was accepted, started and finished, in milliseconds since the epoch. */
export interface PartTimes {
  readonly acceptedAt: number;
  readonly startedAt: number;
  readonly finishedAt: number;
}

/** The row of an optimizer step without its owner. */
export type StepTotals = Omit<NewStep, "model_id" | "session_id" | "tenant">;

const finite = (value: number | undefined): number | null =>
  value !== undefined && Number.isFinite(value) ? value : null;

export class StepMeter {
  #lossSum = 0;
  #weight = 0;
  #tokens = 0;
  #queueMs = 0;
  #computeMs = 0;

  /** @returns the totals when the part is an optimizer step. */
  add(part: StepPart, times?: PartTimes): StepTotals | undefined {
    if (times !== undefined) {
      this.#queueMs = Math.max(this.#queueMs, times.startedAt - times.acceptedAt);
      this.#computeMs += times.finishedAt - times.startedAt;
    }
    if (part.kind === "pass") {
      this.#lossSum += part.lossSum;
      this.#weight += part.weight;
      this.#tokens += part.tokens;
      return undefined;
    }
    const totals = {
      at: times?.finishedAt ?? 0,
      tokens: this.#tokens,
      loss: this.#weight > 0 ? finite(this.#lossSum / this.#weight) : null,
      gradient_norm: finite(part.gradientNorm),
      learning_rate: finite(part.learningRate),
      queue_ms: Math.max(0, Math.round(this.#queueMs)),
      compute_ms: Math.max(0, Math.round(this.#computeMs)),
    };
    this.reset();
    return totals;
  }

  reset(): void {
    this.#lossSum = 0;
    this.#weight = 0;
    this.#tokens = 0;
    this.#queueMs = 0;
    this.#computeMs = 0;
  }
}

/** The contribution of a pass. The curve shows the loss per weighted token. */
export function passPart(pass: ForwardBackwardRequest, result: LossResult, tokens: number): StepPart {
  let weight = 0;
  for (const { lossFnInputs } of pass.forwardBackwardInput.data) {
    const weights = lossFnInputs["weights"]?.values;
    if (weights === undefined) {
      weight = 0;
      break;
    }
    for (let i = 0; i < weights.length; i++) weight += Math.abs(Number(weights[i]));
  }
  // Without weights, the loss is averaged over the positions where it is not zero.
  if (weight === 0) {
    for (const { elementwise_loss: loss } of result.lossFnOutputs) {
      const values = loss?.data ?? [];
      for (let i = 0; i < values.length; i++) if (values[i] !== 0) weight++;
    }
  }
  return { kind: "pass", lossSum: result.metrics["loss:sum"] ?? Number.NaN, weight, tokens };
}
