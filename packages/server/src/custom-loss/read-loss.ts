/**
 * Parses a traced loss and rejects invalid graphs: checks the structure, the names, the operations, and then the ranks of all nodes. In the
 * result names are resolved: each node has its operation, and each reference is an index.
 */
import type { CustomLossGraph, CustomLossInput } from "@tinklet/wire";
import { type Argument, quoted, readArgument, resolve } from "./argument.ts";
import { addArrangements } from "./arrangement-operations.ts";
import { bounds } from "./bounds.ts";
import { CustomLossError } from "./custom-loss-error.ts";
import { addElementwise } from "./elementwise-operations.ts";
import { addFunctional } from "./functional-operations.ts";
import { Kit } from "./kit.ts";
import { bind, type Operation, Operations } from "./operation.ts";
import { addReductions } from "./reduction-operations.ts";
import { describeValue, Tensor, type Value } from "./values.ts";

/** The allow-list. */
export const operations = new Operations();
addElementwise(operations);
addReductions(operations);
addArrangements(operations);
addFunctional(operations);

/** One call of a checked graph. */
export interface LossCall {
  readonly name: string;
  readonly operation: Operation;
  readonly args: readonly Argument[];
  readonly kwargs: ReadonlyMap<string, Argument>;
}

/** A checked loss. */
export interface ReadLoss {
  readonly inputs: readonly CustomLossInput[];
  readonly calls: readonly LossCall[];
  /** Index of the loss node; inputs come first, then calls. `metrics` has indices too. */
  readonly loss: number;
  readonly metrics: ReadonlyMap<string, number>;
}

const nodeName = /^[A-Za-z_]\w{0,127}$/;
const inputName = /^[a-z_][a-z0-9_]{0,63}$/;
const metricName = /^custom\/[a-z0-9_./-]{1,64}:(sum|mean)$/;

/** @throws {@link CustomLossError} naming the node, input or metric, and the problem. */
export function readLoss(inputs: readonly CustomLossInput[], graph: CustomLossGraph): ReadLoss {
  checkInputs(inputs);
  const { nodes } = graph;
  if (nodes.length > bounds.nodes)
    throw new CustomLossError(`a graph must have at most ${bounds.nodes} nodes, got ${nodes.length}`);
  const places = new Map<string, number>();
  const calls: LossCall[] = [];
  for (const [i, node] of nodes.slice(0, -1).entries()) {
    if (!nodeName.test(node.name)) throw new CustomLossError(`${quoted(node.name)} is not a valid node name`);
    if (places.has(node.name)) throw new CustomLossError("two nodes have this name", quoted(node.name));
    if (i < inputs.length) checkPlaceholder(node, inputs[i] as CustomLossInput);
    else calls.push(inNode(node.name, () => readCall(node, (name) => places.get(name))));
    places.set(node.name, i);
  }
  const output = nodes.at(-1);
  if (places.size < inputs.length || output?.op !== "output") {
    throw new CustomLossError("a graph must consist of its inputs in order, then calls, then one output");
  }
  const read = { inputs, calls, ...inNode("output", () => readOutput(output.args, places)) };
  checkRanks(read);
  return read;
}

function checkInputs(inputs: readonly CustomLossInput[]): void {
  if (inputs.length === 0 || inputs.length > bounds.inputs) {
    throw new CustomLossError(`a loss must have 1 to ${bounds.inputs} inputs, got ${inputs.length}`);
  }
  if (inputs[0]?.name !== "logprobs" || inputs[0].rank === 0) {
    throw new CustomLossError("the first input must be logprobs, of rank 1 or 2");
  }
  for (const { name, rank } of inputs) {
    if (!inputName.test(name)) throw new CustomLossError(`${quoted(name)} is not a valid input name`);
    if (![0, 1, 2].includes(rank)) throw new CustomLossError(`its rank must be 0, 1 or 2, got ${quoted(rank)}`, name);
  }
  if (new Set(inputs.map(({ name }) => name)).size !== inputs.length)
    throw new CustomLossError("two inputs have the same name");
}

type Node = CustomLossGraph["nodes"][number];

function checkPlaceholder(node: Node, { name }: CustomLossInput): void {
  if (node.op !== "placeholder" || node.target !== name) {
    throw new CustomLossError(
      `the input ${quoted(name)} is expected here, not ${node.op} ${quoted(node.target)}`,
      node.name,
    );
  }
  if (node.args.length > 0 || Object.keys(node.kwargs).length > 0) {
    throw new CustomLossError("an input must have no arguments", node.name);
  }
}

function readCall(node: Node, nodeOf: (name: string) => number | undefined): LossCall {
  if (node.op !== "call_function" && node.op !== "call_method") {
    throw new CustomLossError(`${quoted(node.op)} ${quoted(node.target)} is not allowed in a custom loss`);
  }
  const operation = operations.find(node.op, node.target);
  if (node.args.length > bounds.items) throw new CustomLossError(`it must have at most ${bounds.items} arguments`);
  const kwargs = Object.entries(node.kwargs);
  if (kwargs.length > bounds.items) throw new CustomLossError(`it must have at most ${bounds.items} arguments`);
  return {
    name: node.name,
    operation,
    args: node.args.map((arg) => readArgument(arg, nodeOf)),
    kwargs: new Map(kwargs.map(([key, arg]) => [key, readArgument(arg, nodeOf)])),
  };
}

function readOutput(args: readonly unknown[], places: ReadonlyMap<string, number>) {
  const expected = "it must be (loss, metrics): a node, and a dict of nodes";
  const [pair] = args;
  const items = Array.isArray(pair) ? pair : (pair as { tuple?: unknown } | null | undefined)?.tuple;
  if (args.length !== 1 || !Array.isArray(items) || items.length !== 2) throw new CustomLossError(expected);
  const placeOf = (wire: unknown): number => {
    const argument = readArgument(wire, (name) => places.get(name));
    if (argument.kind !== "ref") throw new CustomLossError(expected);
    return argument.node;
  };
  const dict = (items[1] as { dict?: unknown } | null)?.dict;
  if (typeof dict !== "object" || dict === null || Array.isArray(dict)) throw new CustomLossError(expected);
  const metrics = Object.entries(dict);
  if (metrics.length > bounds.items)
    throw new CustomLossError(`a loss must have at most ${bounds.items} metrics, got ${metrics.length}`);
  for (const [name] of metrics) {
    if (!metricName.test(name)) {
      throw new CustomLossError(`the metric ${quoted(name)} must be named custom/<name>:sum or custom/<name>:mean`);
    }
  }
  return { loss: placeOf(items[0]), metrics: new Map(metrics.map(([name, wire]) => [name, placeOf(wire)])) };
}

/** Runs the calls with ranks only, without allocating tensors. */
function checkRanks(loss: ReadLoss): void {
  const kit = new Kit(false);
  // An input other than logprobs may be int64 or float32; int64 is accepted by more operations.
  const inputs = loss.inputs.map(({ rank }, i) => new Tensor(i === 0 ? "float32" : "int64", rank));
  const values = runCalls(kit, loss, inputs);
  const total = values[loss.loss] as Value;
  if (!(total instanceof Tensor) || total.rank !== 0) {
    throw new CustomLossError(`the loss must be a scalar, not ${describeValue(total)}`, "output");
  }
  for (const [name, place] of loss.metrics) {
    const metric = values[place] as Value;
    if (!(metric instanceof Tensor))
      throw new CustomLossError(`it must be a tensor, not ${describeValue(metric)}`, name);
  }
}

/** The values of all nodes, inputs first. */
export function runCalls(kit: Kit, loss: Pick<ReadLoss, "calls">, inputs: readonly Tensor[]): Value[] {
  const values: Value[] = [...inputs];
  for (const { name, operation, args, kwargs } of loss.calls) {
    values.push(
      inNode(name, () => {
        const positional = args.map((arg) => resolve(arg, values));
        const byName = new Map([...kwargs].map(([key, arg]) => [key, resolve(arg, values)]));
        return operation.run(kit, bind(operation, positional, byName));
      }),
    );
  }
  return values;
}

/** Adds the name of the node to an error. */
function inNode<T>(node: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof CustomLossError) && (error as Error)?.name !== "ShapeError") throw error;
    throw new CustomLossError((error as Error).message, `node ${quoted(node)}`);
  }
}
