/**
 * Traces a loss written with `autodiff` to the graph that a server runs. The function is called once with symbolic values, which have a rank
 * but no data and record each operation by its name on the wire. A loss that reads values, lengths or shapes cannot be traced, because it
 * may depend on the data; the client runs it instead.
 */
import { constant, type Operand, type Shape, Var } from "@tinklet/wire/autodiff";
import type { CustomLossGraph, CustomLossInput, CustomLossNode, JsonValue } from "@tinklet/wire/client";
import { InvalidInputError, TinkerError } from "@tinklet/wire/errors";
import { describe } from "@tinklet/wire/options";

/** A loss that cannot be traced. */
export class TraceError extends TinkerError {
  override readonly name = "TraceError";
  constructor(problem: string) {
    super(`The loss cannot be traced: ${problem}.`, { code: "untraceable" });
  }
}

/** Result of a traced function: a scalar, and scalars under names like `custom/kl:mean`. */
export interface TracedResult {
  readonly loss: Var;
  readonly metrics?: Readonly<Record<string, Var>>;
}

const metricName = /^custom\/[a-z0-9_./-]{1,64}:(sum|mean)$/;
const inputName = /^[a-z_][a-z0-9_]{0,63}$/;
const maxInputs = 16;

/**
 * The graph of a loss.
 *
 * @throws {@link TraceError} when the loss uses an operation that graphs do not have.
 * @throws {@link InvalidInputError} when no server accepts the inputs or results.
 */
export function traceLoss(
  fn: (inputs: Readonly<Record<string, Var>>) => TracedResult,
  inputs: readonly CustomLossInput[],
): CustomLossGraph {
  const trace = new Trace();
  const values = Object.fromEntries(inputs.map(({ name, rank }) => [name, trace.input(name, rank)]));
  const { loss, metrics = {} } = fn(values);
  const metricRefs = Object.entries(metrics).map(([name, value]): [string, JsonValue] => [
    name,
    trace.scalar(value, name),
  ]);
  const result = { tuple: [trace.scalar(loss, "loss"), { dict: Object.fromEntries(metricRefs) }] };
  return {
    format: 1,
    nodes: [...trace.nodes, { op: "output", name: trace.name("output"), target: "output", args: [result], kwargs: {} }],
  };
}

/** Inputs in wire order. @throws {@link InvalidInputError} naming `inputRanks.<name>`. */
export function lossInputs(ranks: Readonly<Record<string, number>>): CustomLossInput[] {
  const names = Object.keys(ranks);
  const first = ranks["logprobs"];
  if (first !== 1 && first !== 2) {
    throw new InvalidInputError("inputRanks.logprobs", `must be 1 ([T]) or 2 ([T, K]), got ${describe(first)}`);
  }
  if (names.length > maxInputs)
    throw new InvalidInputError("inputRanks", `must have at most ${maxInputs} inputs, got ${names.length}`);
  return ["logprobs", ...names.filter((name) => name !== "logprobs")].map((name) => {
    const rank = ranks[name];
    if (!inputName.test(name)) {
      throw new InvalidInputError(`inputRanks.${name}`, "must be a lower-case name of letters, digits and underscores");
    }
    if (rank === 0 || rank === 1 || rank === 2) return { name, rank };
    throw new InvalidInputError(`inputRanks.${name}`, `must be 0, 1 or 2, got ${describe(rank)}`);
  });
}

/** @throws {@link InvalidInputError} for an invalid metric name. */
export function checkMetricName(name: string): void {
  if (metricName.test(name)) return;
  throw new InvalidInputError(
    `metrics.${name}`,
    "must be named custom/<name>:sum or custom/<name>:mean, in lower case",
  );
}

/** Binary operations by their names on the wire. */
const operators: Readonly<Record<string, string>> = {
  add: "operator.add",
  sub: "operator.sub",
  mul: "operator.mul",
  div: "operator.truediv",
  pow: "operator.pow",
};

class Trace {
  readonly nodes: CustomLossNode[] = [];
  readonly #names = new Set<string>();

  /** An unused node name: the word, with a number from the second use, as in PyTorch's tracer. */
  name(word: string): string {
    let name = word;
    for (let number = 1; this.#names.has(name); number++) name = `${word}_${number}`;
    this.#names.add(name);
    return name;
  }

  input(name: string, rank: number): TraceVar {
    this.#names.add(name);
    this.nodes.push({ op: "placeholder", name, target: name, args: [], kwargs: {} });
    return new TraceVar(this, name, rank);
  }

  /** Records a call; the node is named after the last part of the function's name. */
  add(
    target: string,
    args: readonly JsonValue[],
    rank: number,
    kwargs: Readonly<Record<string, JsonValue>> = {},
  ): TraceVar {
    const method = target.startsWith(".");
    const name = this.name(target.slice(target.lastIndexOf(".") + 1));
    const op = method ? "call_method" : "call_function";
    this.nodes.push({ op, name, target: method ? target.slice(1) : target, args, kwargs });
    return new TraceVar(this, name, rank);
  }

  /** A value as an argument: a node, or a number. */
  ref(value: Operand): JsonValue {
    if (value instanceof TraceVar) {
      if (value.trace !== this) throw new TraceError("it uses a value of another loss");
      return { ref: value.node };
    }
    const fixed = constant(value);
    if (fixed.shape.length !== 0) throw new TraceError("it uses an array that is not one of its inputs");
    return number(fixed.item());
  }

  rank(value: Operand): number {
    return value instanceof TraceVar ? value.rank : 0;
  }

  scalar(value: unknown, name: string): JsonValue {
    if (name !== "loss") checkMetricName(name);
    if (value instanceof TraceVar && value.rank === 0) return this.ref(value);
    const found = value instanceof TraceVar ? `of rank ${value.rank}` : describe(value);
    throw new InvalidInputError(name === "loss" ? name : `metrics.${name}`, `must be a scalar Var, not ${found}`);
  }

  call(operation: string, operands: readonly Operand[]): Var {
    const rank = Math.max(...operands.map((operand) => this.rank(operand)));
    const target = operators[operation];
    if (target !== undefined)
      return this.add(
        target,
        operands.map((operand) => this.ref(operand)),
        rank,
      );
    switch (operation) {
      case "max":
      case "min": {
        // PyTorch's functions accept tensors only. Both split the derivative equally at a tie.
        const [like] = operands.filter((operand): operand is TraceVar => operand instanceof TraceVar);
        const sides = operands.map((operand): JsonValue => {
          if (operand instanceof TraceVar) return this.ref(operand);
          return this.ref(this.add("torch.full_like", [this.ref(like!), this.ref(operand)], like!.rank));
        });
        return this.add(operation === "max" ? "torch.maximum" : "torch.minimum", sides, rank);
      }
      case "where": {
        const [mask, yes, no] = operands as [Operand, Operand, Operand];
        return this.add("torch.where", [this.ref(this.chosen(mask)), this.ref(yes), this.ref(no)], rank);
      }
      case "concat": {
        const parts = operands.map((operand) => {
          if (!(operand instanceof TraceVar)) throw new TraceError("it joins an array that is not one of its inputs");
          return operand.rank === 0 ? this.add("torch.unsqueeze", [this.ref(operand), 0], 1) : operand;
        });
        return this.add("torch.cat", [parts.map((part) => this.ref(part))], Math.max(rank, 1));
      }
      case "stack":
        for (const operand of operands) {
          if (!(operand instanceof TraceVar)) throw new TraceError("it joins an array that is not one of its inputs");
        }
        return this.add("torch.stack", [operands.map((operand) => this.ref(operand))], rank + 1);
      default:
        throw new TraceError(`it uses ${operation}, which graphs do not have`);
    }
  }

  /** Positions where a mask is not zero. */
  chosen(mask: Operand): TraceVar {
    if (!(mask instanceof TraceVar)) throw new TraceError("it uses a mask that is not one of its inputs");
    return this.add("operator.ne", [this.ref(mask), 0], mask.rank);
  }
}

const number = (value: number): JsonValue => {
  if (Number.isFinite(value)) return value;
  return { float: Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf" };
};

/** A symbolic value. */
class TraceVar extends Var {
  readonly trace: Trace;
  readonly node: string;
  readonly rank: number;
  override readonly symbolic = {
    call: (operation: string, operands: readonly Operand[]) => this.trace.call(operation, operands),
  };

  constructor(trace: Trace, node: string, rank: number) {
    super(new Float64Array(0), [], "leaf");
    this.trace = trace;
    this.node = node;
    this.rank = rank;
    const refuse = (what: string) => ({
      get: (): never => {
        throw new TraceError(`it reads ${what}, which differ from datum to datum`);
      },
    });
    Object.defineProperty(this, "data", refuse("values"));
    Object.defineProperty(this, "shape", refuse("lengths"));
  }

  override get size(): number {
    throw new TraceError("it reads lengths, which differ from datum to datum");
  }
  override item(): number {
    throw new TraceError("it reads values, which differ from datum to datum");
  }

  #self(): JsonValue {
    return { ref: this.node };
  }
  #each(target: string, ...more: JsonValue[]): TraceVar {
    return this.trace.add(target, [this.#self(), ...more], this.rank);
  }
  #axis(axis: number): number {
    const at = axis < 0 ? axis + this.rank : axis;
    if (Number.isInteger(at) && at >= 0 && at < this.rank) return axis;
    throw new TraceError(`axis ${axis} is out of range for rank ${this.rank}`);
  }
  #along(target: string, axis: number | undefined): TraceVar {
    if (axis === undefined) return this.trace.add(target, [this.#self()], 0);
    return this.trace.add(target, [this.#self()], this.rank - 1, { dim: this.#axis(axis) });
  }

  override add(other: Operand): Var {
    return this.trace.call("add", [this, other]);
  }
  override sub(other: Operand): Var {
    return this.trace.call("sub", [this, other]);
  }
  override mul(other: Operand): Var {
    return this.trace.call("mul", [this, other]);
  }
  override div(other: Operand): Var {
    return this.trace.call("div", [this, other]);
  }
  override max(other: Operand): Var {
    return this.trace.call("max", [this, other]);
  }
  override min(other: Operand): Var {
    return this.trace.call("min", [this, other]);
  }
  override pow(exponent: Operand): Var {
    return this.trace.call("pow", [this, exponent]);
  }
  override neg(): Var {
    return this.#each("operator.neg");
  }
  override abs(): Var {
    return this.#each("torch.abs");
  }
  override exp(): Var {
    return this.#each("torch.exp");
  }
  override expm1(): Var {
    return this.#each("torch.expm1");
  }
  override log(): Var {
    return this.#each("torch.log");
  }
  override log1p(): Var {
    return this.#each("torch.log1p");
  }
  override sqrt(): Var {
    return this.#each("torch.sqrt");
  }
  override sigmoid(): Var {
    return this.#each("torch.sigmoid");
  }
  override softplus(): Var {
    return this.#each("torch._C._nn.softplus");
  }
  override logSigmoid(): Var {
    return this.#each("torch._C._nn.log_sigmoid");
  }
  override tanh(): Var {
    return this.#each("torch.tanh");
  }
  override sin(): Var {
    return this.#each("torch.sin");
  }
  override cos(): Var {
    return this.#each("torch.cos");
  }
  override clamp(bounds: { readonly min?: number; readonly max?: number }): Var {
    const kwargs = Object.fromEntries(
      (["min", "max"] as const).flatMap((key): [string, JsonValue][] =>
        bounds[key] === undefined ? [] : [[key, number(bounds[key])]],
      ),
    );
    if (Object.keys(kwargs).length === 0) return this;
    return this.trace.add("torch.clamp", [this.#self()], this.rank, kwargs);
  }
  override sum(axis?: number): Var {
    return this.#along(".sum", axis);
  }
  override mean(axis?: number): Var {
    return this.#along(".mean", axis);
  }
  override maskedSum(mask: Operand): Var {
    return this.trace.call("where", [mask, this, 0]).sum();
  }
  override maskedMean(mask: Operand): Var {
    if (!(mask instanceof TraceVar) || mask.rank !== this.rank) {
      throw new TraceError("the mask of maskedMean must be an input with the same rank as the value");
    }
    return this.maskedSum(mask).div(this.trace.chosen(mask).sum());
  }
  override logSumExp(axis?: number): Var {
    if (axis !== undefined) return this.#along("torch.logsumexp", axis);
    const dim = Array.from({ length: this.rank }, (_, i) => i);
    return this.trace.add("torch.logsumexp", [this.#self()], 0, { dim });
  }
  override cumsum(axis: number): Var {
    return this.#each("torch.cumsum", this.#axis(axis));
  }
  override dot(other: Operand): Var {
    if (this.trace.rank(other) !== this.rank) throw new TraceError("the operands of dot must have the same shape");
    return this.mul(other).sum();
  }
  override reshape(shape: Shape): Var {
    return this.trace.add(".reshape", [this.#self(), [...shape]], shape.length);
  }
  override slice(start: number, end?: number): Var {
    this.#axis(0);
    return this.#each("operator.getitem", { slice: [start, end ?? null, null] });
  }
  override at(index: number): Var {
    this.#axis(0);
    return this.trace.add("operator.getitem", [this.#self(), index], this.rank - 1);
  }
  override gather(): Var {
    throw new TraceError("it uses gather with explicit positions");
  }
  override pick(): Var {
    throw new TraceError("it uses pick with explicit positions");
  }
  override stopGradient(): Var {
    return this.#each(".detach");
  }
}
