/**
 * A pass with a loss that a client stored. The engine knows no such loss, so it runs twice: it scores the targets, the loss is
 * run on their log-probs by a thread of its own, and its slopes go back as the constant weights of a cross entropy, whose gradient they
 * then are.
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

/** The stored loss that a pass names; none for a pass with a loss of the engine's. */
export function customLossId(pass: ForwardBackwardRequest): string | undefined {
  const { lossFn, lossFnConfig } = pass.forwardBackwardInput;
  if (lossFn !== "custom") return undefined;
  const id = lossFnConfig?.["loss_id"];
  if (typeof id === "string") return id;
  throw new UserError('loss_fn_config.loss_id: the loss "custom" needs the id that create_custom_loss answered.');
}

/** The text of a session's loss by its id. @throws {@link UserError} when the session has none of that id. */
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
  /** The text of the loss. */
  readonly loss: string;
  /** Whether gradients are kept. */
  readonly backward: boolean;
}

/** Runs a pass with a stored loss. */
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

/** The targets of a pass as they came, within the bounds that they have when they are dense. */
function targetsOf(data: readonly Datum[]): TensorData[] {
  let elements = 0;
  return data.map(({ lossFnInputs: { target_tokens: tensor } }, i) => {
    const field = `data[${i}].loss_fn_inputs.target_tokens`;
    if (tensor === undefined) throw new InputError(field, "is required");
    elements += checkSize(tensor, field);
    if (elements <= bounds.targetElements) return tensor;
    throw new InputError(
      field,
      `the targets of a pass have at most ${bounds.targetElements} elements; send fewer data`,
    );
  });
}

/** Bytes of tensors that go to the thread at once: some milliseconds of copying. One datum may be larger. */
const messageBytes = 4 * 1024 * 1024;

/** The loss of every datum, made by the thread: as many data at once as fit into a message. */
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
      throw new UserError("The custom loss ended the thread that it ran in, twice: it needs too much memory.");
    }
    throw error;
  }
  return losses;
}

/** A datum's tensors that the loss reads, each over memory of its own: a view would take along all that it is a view of. */
function sentInputs(datum: Datum, names: readonly string[], index: number): Record<string, SentTensor> {
  const inputs: Record<string, SentTensor> = {};
  for (const name of names) {
    const given = Object.hasOwn(datum.lossFnInputs, name) ? datum.lossFnInputs[name] : undefined;
    if (given === undefined) continue;
    checkSize(given, `data[${index}].loss_fn_inputs.${name}`);
    const { dtype, values, shape, sparseCrowIndices, sparseColIndices } = given.copy();
    inputs[name] = { dtype, values, shape, sparseCrowIndices, sparseColIndices };
  }
  return inputs;
}

/** The losses summed, and each metric over the data as its name says. */
function reduced(losses: readonly LossOfDatum[]): Record<string, number> {
  const metrics: Record<string, number> = { "loss:sum": losses.reduce((sum, { loss }) => sum + loss, 0) };
  for (const { metrics: own } of losses) {
    for (const [name, value] of own) {
      metrics[name] = (metrics[name] ?? 0) + (name.endsWith(":mean") ? value / losses.length : value);
    }
  }
  return metrics;
}

/** Refuses a tensor that would be larger than a loss may work with, before it is made dense; its elements. */
function checkSize({ values, shape = [] }: TensorData, field: string): number {
  const size = Math.max(values.length, extentOf(shape));
  if (size > bounds.elements) throw new InputError(field, `has ${size} elements, more than ${bounds.elements}`);
  return size;
}
