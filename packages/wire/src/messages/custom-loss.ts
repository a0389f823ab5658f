/**
 * Messages about losses that run on the server: a loss is traced into a graph of operations, sent once, and referenced by its id in
 * the passes that use it. Newer than 0.25.
 */
import { int, json, list, literal, map, oneOf, string, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { message } from "../schema/message.ts";

/** A loss input's rank: 0 is a scalar, 1 is `[T]`, 2 is `[T, K]`. */
export type CustomLossInputRank = 0 | 1 | 2;

/** One input of a custom loss, with the rank of its value in every datum. */
export interface CustomLossInput {
  /** `logprobs`, or the key of `lossFnInputs` that the loss reads. */
  readonly name: string;
  readonly rank: CustomLossInputRank;
}
export const CustomLossInput = message<CustomLossInput>("CustomLossInput", {
  name: string(),
  rank: oneOf(0, 1, 2),
});

/** The kind of a node, as in `torch.fx`. */
export type CustomLossNodeOp = "placeholder" | "get_attr" | "call_function" | "call_method" | "call_module" | "output";

/** One node of a traced loss. */
export interface CustomLossNode {
  readonly op: CustomLossNodeOp;
  /** Unique within the graph; later nodes refer to this one by it. */
  readonly name: string;
  /** The input's name, the function's full name (`torch.exp`, `operator.mul`), the method's name, or `output`. */
  readonly target: string;
  /**
   * Numbers, strings, null and lists are literal values. Anything else is an object with one key: `{ ref }` for a node,
   * `{ tuple }`, `{ dict }`, `{ slice }`, `{ ellipsis }`, `{ float }` for NaN and infinities, `{ dtype }`, `{ device }`, `{ layout }`,
   * `{ memory_format }`.
   */
  readonly args: readonly JsonValue[];
  /** Arguments by name, in the same form. */
  readonly kwargs: Readonly<Record<string, JsonValue>>;
}
export const CustomLossNode = message<CustomLossNode, "args" | "kwargs">("CustomLossNode", {
  op: oneOf("placeholder", "get_attr", "call_function", "call_method", "call_module", "output"),
  name: string(),
  target: string(),
  args: withDefault(list(json()), []),
  kwargs: withDefault(map(json()), {}),
});

/** A traced loss: its nodes in execution order. */
export interface CustomLossGraph {
  readonly format: 1;
  readonly nodes: readonly CustomLossNode[];
}
export const CustomLossGraph = message<CustomLossGraph, "format">("CustomLossGraph", {
  format: literal(1),
  nodes: list(CustomLossNode.field),
});

/** Stores a loss for the session's models. */
export interface CreateCustomLossRequest {
  readonly sessionId: string;
  readonly customLossSeqId: number;
  readonly name: string;
  /** The graph's inputs in order, `logprobs` first. */
  readonly inputs: readonly CustomLossInput[];
  readonly graph: CustomLossGraph;
  readonly type: "create_custom_loss";
}
export const CreateCustomLossRequest = message<CreateCustomLossRequest, "type">("CreateCustomLossRequest", {
  sessionId: string(),
  customLossSeqId: int(),
  name: string(),
  inputs: list(CustomLossInput.field),
  graph: CustomLossGraph.field,
  type: literal("create_custom_loss"),
});

/** A loss was stored. */
export interface CreateCustomLossResponse {
  /** The id to use in `forward_backward` requests of the same session. */
  readonly lossId: string;
  readonly type: "create_custom_loss";
}
export const CreateCustomLossResponse = message<CreateCustomLossResponse, "type">("CreateCustomLossResponse", {
  lossId: string(),
  type: literal("create_custom_loss"),
});
