/**
 * The result of one training step, from the metrics of its pass and its optimizer step.
 */

import type { ForwardBackwardOutput, OptimStepResponse } from "@tinklet/wire/client";
import { omitUndefined } from "@tinklet/wire/options";
import type { ServerTiming } from "../../futures/server-timing.ts";

/** The result of {@link TrainingClient.step}. */
export interface StepResult {
  /** The loss from the server's metrics; `loss:sum` is a sum over tokens. */
  readonly loss: number | undefined;
  /** Norm of the gradient before clipping, if the server reports it. */
  readonly gradNorm?: number;
  /** Input tokens of the batch. */
  readonly tokens: number;
  /** The metrics of the pass and of the optimizer step. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Time from the call to the result, in milliseconds. */
  readonly waitMs: number;
  /**
   * Time that the pass was queued on the server, in milliseconds, if the server reports it (`Server-Timing` entry `queue`, or a metric
   * `queue_ms`).
   */
  readonly queueMs?: number;
  /**
   * Compute time of the pass and the optimizer step, in milliseconds, if the server reports it (`Server-Timing` entry `compute`, or a
   * metric `compute_ms`).
   */
  readonly computeMs?: number;
  /** The result of the pass, with outputs per datum. */
  readonly output: ForwardBackwardOutput;
}

/** Names under which servers report the norm of the gradient. */
const gradNormNames = ["unclipped_grad_l2", "grad_norm", "grad_l2"];

export function stepResult(
  tokens: number,
  output: ForwardBackwardOutput,
  optimized: OptimStepResponse,
  time: ServerTiming & { readonly waitMs: number },
): StepResult {
  const metrics = { ...output.metrics, ...optimized.metrics };
  const gradNorm = named(metrics, gradNormNames);
  const queueMs = time.queueMs ?? named(metrics, ["queue_ms"]);
  const computeMs = time.computeMs ?? named(metrics, ["compute_ms"]);
  return {
    loss: output.loss,
    ...omitUndefined({ gradNorm }),
    tokens,
    metrics,
    waitMs: time.waitMs,
    ...omitUndefined({ queueMs, computeMs }),
    output,
  };
}

/** A metric by its name, with any reduction. */
function named(metrics: Readonly<Record<string, number>>, names: readonly string[]): number | undefined {
  for (const name of names) {
    for (const [key, value] of Object.entries(metrics)) if (key === name || key.startsWith(`${name}:`)) return value;
  }
  return undefined;
}
