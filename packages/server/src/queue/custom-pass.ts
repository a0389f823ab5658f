/**
 * A pass with a loss that a client stored. The engine knows no such loss, so it runs twice: it scores the targets, the loss is
 * run here on their log-probs, and its slopes go back as the constant weights of a cross entropy, whose gradient they then are.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { type AdapterId, type Engine, InputError, type LossRequest, type LossResult } from "@tinklet/engine";
import {
  CustomLossGraph,
  CustomLossInput,
  type ForwardBackwardRequest,
  parseJson,
  type TensorData,
} from "tinklet/wire";
import { bounds } from "../custom-loss/bounds.ts";
import { CustomLossError } from "../custom-loss/custom-loss-error.ts";
import { type ReadLoss, readLoss } from "../custom-loss/read-loss.ts";
import { type LossInput, type LossOfDatum, runLoss } from "../custom-loss/run-loss.ts";
import { getCustomLoss } from "../store/custom-losses.ts";
import type { Sql } from "../store/database.ts";
import { textTokens } from "./engine-input.ts";
import { UserError } from "./job.ts";

/** The stored loss that a pass names; none for a pass with a loss of the engine's. */
export function customLossId(pass: ForwardBackwardRequest): string | undefined {
  const { lossFn, lossFnConfig } = pass.forwardBackwardInput;
  if (lossFn !== "custom") return undefined;
  const id = lossFnConfig?.["loss_id"];
  if (typeof id === "string") return id;
  throw new UserError('loss_fn_config.loss_id: the loss "custom" needs the id that create_custom_loss answered.');
}

/** Inputs and graph as they are stored. */
export function storedLoss(body: string): ReadLoss {
  const { inputs, graph } = parseJson(body) as { inputs: unknown[]; graph: unknown };
  return readLoss(inputs.map(CustomLossInput.decode), CustomLossGraph.decode(graph));
}

/** The loss of a session by its id. @throws {@link UserError} when the session has none of that id. */
export function findLoss(sql: Sql, id: string, sessionId: string): ReadLoss {
  const row = getCustomLoss(sql, id);
  if (row?.session_id !== sessionId) {
    throw new UserError(`loss_fn_config.loss_id: this session has no loss ${JSON.stringify(id.slice(0, 200))}.`);
  }
  return storedLoss(row.body);
}

/** Runs a pass with a stored loss; `backward` says whether gradients are kept. */
export async function customPass(
  engine: Pick<Engine, "forward" | "forwardBackward">,
  adapter: AdapterId,
  pass: ForwardBackwardRequest,
  loss: ReadLoss,
  backward: boolean,
): Promise<LossResult> {
  const { data } = pass.forwardBackwardInput;
  const targets = data.map((datum, i) => {
    const tensor = datum.lossFnInputs["target_tokens"];
    if (tensor === undefined) throw new InputError(`data[${i}].loss_fn_inputs.target_tokens`, "is required");
    return denseOf(tensor, `data[${i}].loss_fn_inputs.target_tokens`);
  });
  const request = (weights: readonly (ArrayLike<number> | undefined)[]): LossRequest => ({
    lossFn: "cross_entropy",
    data: data.map((datum, i) => {
      const { data: tokens, shape } = targets[i] as LossInput;
      return {
        tokens: textTokens(datum.modelInput, `data[${i}].model_input`),
        lossFnInputs: {
          target_tokens: { data: Float64Array.from(tokens), shape },
          weights: { data: Float32Array.from(weights[i] ?? new Float32Array(tokens.length)), shape },
        },
      };
    }),
  });
  const scored = await engine.forward(adapter, request([]));
  const budget = { elements: bounds.passElements };
  const losses: LossOfDatum[] = [];
  for (const [i, datum] of data.entries()) {
    const { data: logprobs, shape } = scored.lossFnOutputs[i]!.logprobs;
    const inputs: Record<string, LossInput> = {};
    for (const { name, rank } of loss.inputs) {
      const given = Object.hasOwn(datum.lossFnInputs, name) ? datum.lossFnInputs[name] : undefined;
      if (given !== undefined) inputs[name] = denseOf(given, `data[${i}].loss_fn_inputs.${name}`, rank === 0);
    }
    try {
      losses.push(runLoss(loss, { ...inputs, logprobs: { data: logprobs, shape, dtype: "float32" } }, budget));
    } catch (error) {
      if (!(error instanceof CustomLossError)) throw error;
      throw new UserError(`The custom loss failed on data[${i}]: ${error.message}`);
    }
    await nextTurn(); // a datum at a time: others are served in between
  }
  const metrics = reduced(losses);
  if (!backward) return { lossFnOutputs: scored.lossFnOutputs, metrics };
  const result = await engine.forwardBackward(adapter, request(losses.map(({ slopes }) => slopes.map((x) => -x))));
  return { lossFnOutputs: result.lossFnOutputs, metrics };
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

/**
 * The tensor without sparseness, refused before it is made when that would be larger than a loss may work with.
 *
 * @param scalar - whether one is expected: the wire writes its shape as it writes none.
 */
function denseOf(tensor: TensorData, field: string, scalar = false): LossInput {
  const size = tensor.shape?.reduce((product, length) => product * length, 1) ?? 0;
  if (size > bounds.elements) throw new InputError(field, `has ${size} elements, more than ${bounds.elements}`);
  const { values, shape = [values.length], dtype } = tensor.toDense();
  const own = scalar && values.length === 1 && shape.length <= 1 ? [] : shape;
  return { data: Float64Array.from(values as ArrayLike<number>, Number), shape: own, dtype };
}
