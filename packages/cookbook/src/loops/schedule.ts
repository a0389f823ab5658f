/** Learning-rate schedules, and the recommended initial rate. */

import { InvalidInputError } from "@tinklet/sdk";
import { checkOptions } from "@tinklet/wire/options";

/** The schedules of the official cookbook. */
export type Schedule = "constant" | "linear" | "cosine";
export const schedules: readonly Schedule[] = ["constant", "linear", "cosine"];

/**
 * The factor of the learning rate at a step (counted from 0). Without warm-up it is exactly the official cookbook's:
 * `linear` and `cosine` would reach 0 at `totalSteps`. A warm-up rises to 1 in equal steps, then the shape spans the rest.
 *
 * @example
 * ```ts
 * scheduleFactor("cosine", { step: 50, totalSteps: 100 }); // 0.5
 * ```
 */
export function scheduleFactor(
  schedule: Schedule,
  at: { readonly step: number; readonly totalSteps: number; readonly warmupSteps?: number | undefined },
): number {
  checkOptions("scheduleFactor", at, { step: true, totalSteps: true, warmupSteps: true });
  const { step, totalSteps, warmupSteps = 0 } = at;
  if (totalSteps <= 0) throw new InvalidInputError("totalSteps", `must be above 0, got ${totalSteps}`);
  if (step < warmupSteps) return (step + 1) / warmupSteps;
  const done = (step - warmupSteps) / Math.max(totalSteps - warmupSteps, 1);
  if (schedule === "linear") return 1 - done;
  if (schedule === "cosine") return 0.5 * (1 + Math.cos(Math.PI * done));
  if (schedule === "constant") return 1;
  throw new InvalidInputError("schedule", `must be one of ${schedules.join(", ")}, got ${String(schedule)}`);
}

/** How much the best rate falls with the width of the model, by family; measured by the official cookbook's authors. */
const widthExponents: readonly (readonly [RegExp, number])[] = [
  [/llama/i, 0.781],
  [/qwen/i, 0.0775],
];

/**
 * The official cookbook's rule of thumb for LoRA: ten times a rate of 5e-5 for full fine-tuning, corrected by the width of
 * the model against 2000. Undefined for families without a measured rate: sweep, starting near 1e-4.
 *
 * @example
 * ```ts
 * recommendedLearningRate("Qwen/Qwen3-8B", { hiddenSize: 4096 }); // 0.00047…
 * ```
 */
export function recommendedLearningRate(
  modelName: string,
  model: { readonly hiddenSize: number; readonly isLora?: boolean },
): number | undefined {
  checkOptions("recommendedLearningRate", model, { hiddenSize: true, isLora: true });
  const exponent = widthExponents.find(([family]) => family.test(modelName))?.[1];
  if (exponent === undefined) return undefined;
  return 5e-5 * (model.isLora === false ? 1 : 10) * (2000 / model.hiddenSize) ** exponent;
}
