/**
 * A pass with a custom loss, in three steps: the engine computes the log-probs of the targets; a separate thread computes the loss and its
 * gradient with respect to the log-probs; the engine runs cross entropy with the negated gradient as constant weights, which has the same
 * gradient.
 */
import { type AdapterId, type Engine, InputError, type LossRequest, type LossResult } from "@tinklet/engine";
import type { Datum, ForwardBackwardRequest, TensorData } from "@tinklet/wire";
import { bounds, extentOf } from "../../custom-loss/bounds.ts";
import type { LossInput, LossOfDatum } from "../../custom-loss/run-loss.ts";
import type { Sql } from "../../store/database.ts";
import { getCustomLoss } from "../../store/tables/custom-losses.ts";
import { type SideThread, TaskError, ThreadDied } from "../../thread/side-thread.ts";
import type { SentDatum, SentTensor } from "../../thread/tasks.ts";
import { textTokens } from "../engine-input.ts";
import { UserError } from "../job.ts";

/** The id of the custom loss of a pass; `undefined` for a loss of the engine. */
export function customLossId(pass: ForwardBackwardRequest): string | undefined {
  const { lossFn, lossFnConfig } = pass.forwardBackwardInput;
  if (lossFn !== "custom") return undefined;
  const id = lossFnConfig?.["loss_id"];
  if (typeof id === "string") return id;
  throw new UserError(
    'loss_fn_config.loss_id is required for the loss "custom": the id that create_custom_loss returned.',
  );
}

/** The body of a custom loss of a session. @throws {@link UserError} when the session has no loss with that id. */
export function findLoss(sql: Sql, id: string, sessionId: string): string {
  const row = getCustomLoss(sql, id);
  if (row?.session_id !== sessionId) {
    throw new UserError(`loss_fn_config.loss_id: this session has no loss ${JSON.stringify(id.slice(0, 200))}.`);
  }
  return row.body;
}

export interface CustomPass {
  readonly engine: Pick<Engine, "forward" | "forwardBackward">;
  readonly thread: SideThread;
  readonly adapter: AdapterId;
  readonly pass: ForwardBackwardRequest;
  /** The body of the loss, as JSON. */
  readonly loss: string;
  /** Whether gradients are accumulated. */
  readonly backward: boolean;
}

/** Runs a pass with a custom loss. */
export async function customPass({ engine, thread, adapter, pass, loss, backward }: CustomPass): Promise<LossResult> {
  const { data } = pass.forwardBackwardInput;
  const targets = targetsOf(data).map((tensor) => {
    const { values, shape = [values.length] } = tensor.toDense();
    return { data: Float64Array.from(values as ArrayLike<number>, Number), shape };
  });
  const request = (weightsOf: (i: number, length: number) => Float32Array): LossRequest => ({
    lossFn: "cross_entropy",
    data: data.map((datum, i) => {
      const target = targets[i]!;
      const { shape } = target;
      return {
        tokens: textTokens(datum.modelInput, `data[${i}].model_input`),
        lossFnInputs: { target_tokens: target, weights: { data: weightsOf(i, target.data.length), shape } },
      };
    }),
  });
  const scored = await engine.forward(
    adapter,
    request((_, length) => new Float32Array(length)),
  );
  const losses = await lossesOf(thread, loss, data, scored);
  const metrics = reduced(losses);
  if (!backward) return { lossFnOutputs: scored.lossFnOutputs, metrics };
  const result = await engine.forwardBackward(
    adapter,
    request((i) => Float32Array.from(losses[i]!.slopes, (slope) => -slope)),
  );
  return { lossFnOutputs: result.lossFnOutputs, metrics };
}

/** The targets of a pass, not yet dense. Checks the limits on their dense size. */
function targetsOf(data: readonly Datum[]): TensorData[] {
  let elements = 0;
  return data.map(({ lossFnInputs: { target_tokens: tensor } }, i) => {
    const field = `data[${i}].loss_fn_inputs.target_tokens`;
    if (tensor === undefined) throw new InputError(field, "is required");
    elements += checkSize(tensor, field);
    if (elements <= bounds.targetElements) return tensor;
    throw new InputError(
      field,
      `a pass must have at most ${bounds.targetElements} target elements, got ${elements} or more; send fewer data`,
    );
  });
}

/** Tensor bytes per message to the thread: some milliseconds of copying. A single datum may be larger. */
const messageBytes = 4 * 1024 * 1024;

/** The loss of every datum, computed by the thread in messages of about {@link messageBytes}. */
async function lossesOf(
  thread: SideThread,
  body: string,
  data: readonly Datum[],
  scored: LossResult,
): Promise<LossOfDatum[]> {
  const losses: LossOfDatum[] = [];
  let elements: number = bounds.passElements;
  try {
    const names = (await thread.run("readLoss", body)).filter((name) => name !== "logprobs");
    while (losses.length < data.length) {
      const batch: SentDatum[] = [];
      for (let bytes = 0, index = losses.length; index < data.length && bytes < messageBytes; index++) {
        const inputs = sentInputs(data[index]!, names, index);
        const logprobs: LossInput = { ...scored.lossFnOutputs[index]!.logprobs, dtype: "float32" };
        bytes += Object.values(inputs).reduce((sum, { values }) => sum + values.byteLength, 0);
        batch.push({ index, inputs, logprobs });
      }
      const made = await thread.run("runLosses", { body, data: batch, elements });
      losses.push(...made.losses);
      ({ elements } = made);
    }
  } catch (error) {
    if (error instanceof TaskError && error.task === "CustomLossError") {
      throw new UserError(`The custom loss failed on ${error.message}`);
    }
    if (error instanceof ThreadDied) {
      throw new UserError(
        "The custom loss crashed its thread twice: it needs too much memory. Send fewer or shorter data.",
      );
    }
    throw error;
  }
  return losses;
}

/** The tensors of a datum that the loss reads, copied: sending a view would copy the whole buffer that it is a view of. */
function sentInputs(datum: Datum, names: readonly string[], index: number): Record<string, SentTensor> {
  const inputs: Record<string, SentTensor> = {};
  for (const name of names) {
    const tensor = Object.hasOwn(datum.lossFnInputs, name) ? datum.lossFnInputs[name] : undefined;
    if (tensor === undefined) continue;
    checkSize(tensor, `data[${index}].loss_fn_inputs.${name}`);
    const { dtype, values, shape, sparseCrowIndices, sparseColIndices } = tensor.copy();
    inputs[name] = { dtype, values, shape, sparseCrowIndices, sparseColIndices };
  }
  return inputs;
}

/** The sum of the losses; metrics are averaged over the data if their name ends in `:mean`, else summed. */
function reduced(losses: readonly LossOfDatum[]): Record<string, number> {
  const metrics: Record<string, number> = { "loss:sum": losses.reduce((sum, { loss }) => sum + loss, 0) };
  for (const { metrics: datumMetrics } of losses) {
    for (const [name, value] of datumMetrics) {
      metrics[name] = (metrics[name] ?? 0) + (name.endsWith(":mean") ? value / losses.length : value);
    }
  }
  return metrics;
}

/** Returns the dense size of a tensor. @throws InputError when it exceeds the limit of custom losses. */
function checkSize({ values, shape = [] }: TensorData, field: string): number {
  const size = Math.max(values.length, extentOf(shape));
  if (size > bounds.elements) throw new InputError(field, `must have at most ${bounds.elements} elements, got ${size}`);
  return size;
}
