/** Losses as graphs: run by the server's own reader they must give what `autodiff` gives; what cannot be one says why. */

import { CustomLossGraph } from "@tinklet/wire";
import { concat, constant, gradient, leaf, stack, type Var, where } from "@tinklet/wire/autodiff";
import { InvalidInputError } from "@tinklet/wire/errors";
import { describe, expect, it } from "vitest";
import { readLoss } from "../../../../../server/src/custom-loss/read-loss.ts";
import { runLoss } from "../../../../../server/src/custom-loss/run-loss.ts";
import { checkMetricName, lossInputs, type TracedResult, TraceError, traceLoss } from "./trace-loss.ts";

type Inputs = Readonly<Record<"logprobs" | "other" | "mask" | "beta", Var>>;
const ranks = { logprobs: 1, other: 1, mask: 1, beta: 0 };
const only =
  (loss: (inputs: Inputs) => Var) =>
  (inputs: Inputs): TracedResult => ({ loss: loss(inputs) });

const losses: Record<string, (inputs: Inputs) => TracedResult> = {
  "cross entropy": only(({ logprobs, other }) => logprobs.mul(other).sum().neg()),
  "a clipped ratio": ({ logprobs, other, mask }) => {
    const ratio = logprobs.sub(other).exp();
    const clipped = ratio.clamp({ min: 0.8, max: 1.2 });
    return {
      loss: ratio.mul(mask).min(clipped.mul(mask)).sum().neg(),
      metrics: { "custom/ratio:mean": ratio.mean(), "custom/tokens:sum": mask.sum() },
    };
  },
  "a KL estimate": only(({ logprobs, other }) => {
    const ratio = logprobs.sub(other);
    return ratio.neg().expm1().add(ratio).mean();
  }),
  "a preference": only(({ logprobs, other, beta }) => logprobs.sub(other).sum().mul(beta).logSigmoid().neg()),
  masked: only(({ logprobs, mask, beta }) => logprobs.maskedMean(mask).add(logprobs.exp().maskedSum(mask).mul(beta))),
  "chosen by a mask": only(({ logprobs, other, mask }) => where(mask, logprobs.mul(2), other.mul(logprobs)).sum()),
  "every function": only(({ logprobs: x }) =>
    stack([
      x.abs().sum(),
      x.expm1().sum(),
      x.neg().log().sum(),
      x.neg().log1p().sum(),
      x.neg().sqrt().sum(),
      x.sigmoid().sum(),
      x.softplus().sum(),
      x.tanh().sum(),
      x.sin().sum(),
      x.cos().sum(),
      x.pow(2).sum(),
      x.div(x.add(-3)).sum(),
      x.max(-1).sum(),
      x.min(-1).sum(),
      x.logSumExp(),
      x.cumsum(0).mul(x).sum(),
      x.dot(x),
      x.stopGradient().mul(x).mean(),
    ]).sum(),
  ),
  "parts of it": only(({ logprobs: x }) =>
    concat([x.slice(1), x.slice(0, -1).mul(2), x.at(0), x.at(-1).mul(3)])
      .pow(2)
      .sum(),
  ),
  "a constant on the left": only(({ logprobs }) =>
    constant(2).mul(logprobs).sum().add(constant(1).sub(logprobs.mean())),
  ),
  "a number that JSON has not": only(({ logprobs }) => logprobs.clamp({ max: Infinity }).sum()),
  "numbers on either side": only(({ logprobs, beta }) =>
    constant(-1).max(logprobs).sum().add(constant(-1.2).min(logprobs).sum()).add(beta.max(0.1)).add(beta.min(0.1)),
  ),
  "one bound": only(({ logprobs }) => logprobs.clamp({ min: -1.2 }).sum().add(logprobs.clamp({}).mean())),
  "a mask of numbers that are not 0 or 1": only(({ logprobs, mask }) => logprobs.maskedMean(mask.mul(-7))),
};

/** Losses of several targets per token: log-probs, weights and mask are `[T, 2]`, `row` is `[T]`. */
type Wide = Readonly<Record<"logprobs" | "weights" | "mask" | "row", Var>>;
const wideLosses: Record<string, (inputs: Wide) => Var> = {
  "sums along an axis": ({ logprobs: x }) =>
    x.sum(0).pow(2).sum().add(x.sum(1).pow(3).sum()).add(x.sum(-1).exp().sum()),
  "means along an axis": ({ logprobs: x }) => x.mean(0).pow(2).sum().add(x.mean(-2).exp().sum()).add(x.mean()),
  "the log of a sum along an axis": ({ logprobs: x }) => x.logSumExp(1).sum().add(x.logSumExp(0).pow(2).sum()),
  "the log of the whole sum": ({ logprobs: x }) => x.logSumExp(),
  "running sums": ({ logprobs: x, weights }) => x.cumsum(1).mul(weights).sum().add(x.cumsum(-2).pow(2).sum()),
  "products with weights": ({ logprobs: x, weights }) => x.dot(weights),
  "rows of it": ({ logprobs: x }) => x.at(0).pow(2).sum().add(x.at(-1).at(1)).add(x.slice(1, -1).exp().sum()),
  "joined matrices": ({ logprobs: x, weights }) =>
    concat([x, x.mul(weights)])
      .pow(2)
      .sum(),
  "vectors as a matrix": ({ logprobs: x, row }) =>
    stack([x.sum(1), row])
      .pow(2)
      .sum(1)
      .exp()
      .sum(),
  "a column beside a matrix": ({ logprobs: x, weights, mask }) => where(mask, x, weights.mul(x)).sum(),
  "a masked mean": ({ logprobs: x, mask }) => x.maskedMean(mask).add(x.maskedSum(mask)),
  "a shape of its own": ({ logprobs: x }) => x.sum().reshape([1, 1]).pow(2).sum(0).sum(0),
};

describe("traceLoss", () => {
  it.each(Object.entries(losses))("%s: the graph gives what the function gives, at two lengths", (_, fn) => {
    const inputs = lossInputs(ranks);
    const graph = CustomLossGraph.decode(
      JSON.parse(JSON.stringify(CustomLossGraph.encode(traceLoss(fn as never, inputs)))),
    );
    const read = readLoss(inputs, graph);
    for (const length of [3, 6]) {
      const wave = (shift: number) => Array.from({ length }, (_unused, i) => Math.sin(1.3 * i + shift) - 1.5);
      const values = { logprobs: wave(0), other: wave(2), mask: wave(0).map((_unused, i) => i % 2), beta: [0.3] };
      const logprobs = leaf(values.logprobs);
      const ours = fn({
        logprobs,
        other: constant(values.other),
        mask: constant(values.mask),
        beta: constant(0.3),
      });
      const [slopes] = gradient(ours.loss, [logprobs], { unused: "zero" });
      const tensors = Object.fromEntries(
        Object.entries(values).map(([name, data]) => [
          name,
          { data, shape: name === "beta" ? [] : [length], dtype: "float32" as const },
        ]),
      );
      const theirs = runLoss(read, tensors);
      expect(theirs.loss).toBeCloseTo(ours.loss.item(), 10);
      for (const [i, slope] of (slopes as Float64Array).entries()) expect(theirs.slopes[i]).toBeCloseTo(slope, 10);
      for (const [name, value] of Object.entries(ours.metrics ?? {})) {
        expect(theirs.metrics.get(name)).toBeCloseTo(value.item(), 10);
      }
    }
  });

  it.each(Object.entries(wideLosses))("%s: the same for a matrix of log-probs", (_, fn) => {
    const inputs = lossInputs({ logprobs: 2, weights: 2, mask: 2, row: 1 });
    const read = readLoss(
      inputs,
      traceLoss((given) => ({ loss: fn(given as Wide) }), inputs),
    );
    for (const length of [2, 5]) {
      const wave = (count: number, shift: number) =>
        Array.from({ length: count }, (_unused, i) => Math.sin(1.3 * i + shift) - 1.5);
      const wide = (data: number[]) => ({ data, shape: [length, 2], dtype: "float32" as const });
      const tensors = {
        logprobs: wide(wave(2 * length, 0)),
        weights: wide(wave(2 * length, 2)),
        mask: wide(wave(2 * length, 0).map((_unused, i) => Number(i % 3 === 0))),
        row: { data: wave(length, 1), shape: [length], dtype: "float32" as const },
      };
      const logprobs = leaf(tensors.logprobs.data, [length, 2]);
      const fixed = (name: "weights" | "mask" | "row") => constant(tensors[name].data, tensors[name].shape);
      const ours = fn({ logprobs, weights: fixed("weights"), mask: fixed("mask"), row: fixed("row") });
      const [slopes] = gradient(ours, [logprobs]);
      const theirs = runLoss(read, tensors);
      expect(theirs.loss).toBeCloseTo(ours.item(), 10);
      for (const [i, slope] of (slopes as Float64Array).entries()) expect(theirs.slopes[i]).toBeCloseTo(slope, 10);
    }
  });

  it("writes nodes as the official tracer does", () => {
    const { nodes } = traceLoss(
      ({ logprobs, weights }) => ({ loss: logprobs!.mul(weights!).mul(2).sum() }),
      [
        { name: "logprobs", rank: 1 },
        { name: "weights", rank: 1 },
      ],
    );
    expect(nodes.map(({ op, name, target, args }) => [op, name, target, args])).toEqual([
      ["placeholder", "logprobs", "logprobs", []],
      ["placeholder", "weights", "weights", []],
      ["call_function", "mul", "operator.mul", [{ ref: "logprobs" }, { ref: "weights" }]],
      ["call_function", "mul_1", "operator.mul", [{ ref: "mul" }, 2]],
      ["call_method", "sum", "sum", [{ ref: "mul_1" }]],
      ["output", "output", "output", [{ tuple: [{ ref: "sum" }, { dict: {} }] }]],
    ]);
  });

  /** What a loss's calls are written as: what is called, with which arguments. */
  const written = (fn: (inputs: Inputs) => Var) =>
    traceLoss(only(fn) as never, lossInputs(ranks))
      .nodes.slice(4, -1)
      .map(({ op, target, args, kwargs }) => [op, target, args, kwargs]);

  it("writes numbers that JSON has not, slices and axes in the wire's words", () => {
    const x = { ref: "logprobs" };
    expect(written(({ logprobs }) => logprobs.mul(Number.NaN).add(Infinity).sub(-Infinity).sum())).toEqual([
      ["call_function", "operator.mul", [x, { float: "nan" }], {}],
      ["call_function", "operator.add", [{ ref: "mul" }, { float: "inf" }], {}],
      ["call_function", "operator.sub", [{ ref: "add" }, { float: "-inf" }], {}],
      ["call_method", "sum", [{ ref: "sub" }], {}],
    ]);
    expect(written(({ logprobs }) => logprobs.slice(2).slice(0, -1).sum(-1))).toEqual([
      ["call_function", "operator.getitem", [x, { slice: [2, null, null] }], {}],
      ["call_function", "operator.getitem", [{ ref: "getitem" }, { slice: [0, -1, null] }], {}],
      ["call_method", "sum", [{ ref: "getitem_1" }], { dim: -1 }],
    ]);
    expect(written(({ logprobs }) => logprobs.clamp({ min: -2 }).clamp({}).clamp({ max: 0 }).at(0))).toEqual([
      ["call_function", "torch.clamp", [x], { min: -2 }],
      ["call_function", "torch.clamp", [{ ref: "clamp" }], { max: 0 }],
      ["call_function", "operator.getitem", [{ ref: "clamp_1" }, 0], {}],
    ]);
    expect(written(({ logprobs }) => logprobs.stopGradient().mean().reshape([1]).sum())).toEqual([
      ["call_method", "detach", [x], {}],
      ["call_method", "mean", [{ ref: "detach" }], {}],
      ["call_method", "reshape", [{ ref: "mean" }, [1]], {}],
      ["call_method", "sum", [{ ref: "reshape" }], {}],
    ]);
  });

  it("writes what PyTorch takes where it is stricter than we are", () => {
    const x = { ref: "logprobs" };
    expect(written(({ logprobs }) => constant(-1).max(logprobs).min(2).logSumExp())).toEqual([
      ["call_function", "torch.full_like", [x, -1], {}], // maximum and minimum of tensors only
      ["call_function", "torch.maximum", [{ ref: "full_like" }, x], {}],
      ["call_function", "torch.full_like", [{ ref: "maximum" }, 2], {}],
      ["call_function", "torch.minimum", [{ ref: "maximum" }, { ref: "full_like_1" }], {}],
      ["call_function", "torch.logsumexp", [{ ref: "minimum" }], { dim: [0] }], // every axis by its number
    ]);
    const wide = lossInputs({ logprobs: 2 });
    const last = (fn: (x: Var) => Var) => traceLoss((given) => ({ loss: fn(given["logprobs"]!) }), wide).nodes.at(-2);
    expect(last((matrix) => matrix.logSumExp())?.kwargs).toEqual({ dim: [0, 1] });
    expect(last((matrix) => concat([matrix, matrix]).sum(1).sum())?.op).toBe("call_method"); // still a matrix
  });

  it("gives every node a unique name, for any names of the inputs", () => {
    const inputs = lossInputs({ logprobs: 1, mul: 1, sum_1: 1, output: 1 });
    const graph = traceLoss(
      ({ logprobs, mul, sum_1, output }) => ({
        loss: logprobs!.mul(mul!).sum().add(logprobs!.mul(output!).sum()).add(sum_1!.sum()),
      }),
      inputs,
    );
    const names = graph.nodes.map(({ name }) => name);
    expect(names.slice(4)).toEqual(["mul_1", "sum", "mul_2", "sum_2", "add", "sum_3", "add_1", "output_1"]);
    expect(readLoss(inputs, graph).calls).toHaveLength(7);
  });

  const other = { kept: undefined as Var | undefined };
  const differ = "which differ from datum to datum.";
  const untraceable: Record<string, [(inputs: Inputs) => Var, string]> = {
    "reads a value": [({ logprobs: x }) => x.mul(x.sum().item() > 0 ? 1 : 2).sum(), `it reads values, ${differ}`],
    "reads its numbers": [({ logprobs: x }) => x.mul(x.data[0]!).sum(), `it reads values, ${differ}`],
    "reads a length": [({ logprobs: x }) => x.sum().div(x.size), `it reads lengths, ${differ}`],
    "reads a shape": [({ logprobs: x }) => x.sum().div(x.shape[0]!), `it reads lengths, ${differ}`],
    "captures numbers": [({ logprobs: x }) => x.mul([1, 2, 3]).sum(), "it uses an array that is not one of its inputs"],
    "captures a mask": [({ logprobs: x }) => x.maskedSum([1, 0, 1]), "it uses a mask that is not one of its inputs."],
    "takes a number for a mask": [
      ({ logprobs: x }) => where(1, x, x).sum(),
      "it uses a mask that is not one of its inputs.",
    ],
    "takes the mean of a captured mask": [({ logprobs: x }) => x.maskedMean([1, 0]), "the mask of maskedMean must be"],
    "takes the mean of a mask of another rank": [
      ({ logprobs: x, beta }) => x.maskedMean(beta),
      "must be an input with the same rank as the value.",
    ],
    "joins numbers": [({ logprobs: x }) => concat([x, [1]]).sum(), "it joins an array that is not one of its inputs."],
    "stacks numbers": [
      ({ logprobs: x }) => stack([x.sum(), 1]).sum(),
      "it joins an array that is not one of its inputs.",
    ],
    "multiplies vectors and scalars as if they were alike": [
      ({ logprobs: x, beta }) => x.dot(beta),
      "the operands of dot must have the same shape.",
    ],
    "picks by positions": [({ logprobs: x }) => x.gather([0, 2]).sum(), "it uses gather with explicit positions."],
    "rearranges by positions": [({ logprobs: x }) => x.pick([0], [1]).sum(), "it uses pick with explicit positions."],
    "sums an axis that is not there": [({ logprobs: x }) => x.sum(1).sum(), "axis 1 is out of range for rank 1."],
    "counts axes too far from the last": [({ logprobs: x }) => x.mean(-2).sum(), "axis -2 is out of range for rank 1."],
    "runs along half an axis": [({ logprobs: x }) => x.cumsum(0.5).sum(), "axis 0.5 is out of range for rank 1."],
    "takes a row of a scalar": [({ beta }) => beta.at(0), "axis 0 is out of range for rank 0."],
    "takes rows of a scalar": [({ beta }) => beta.slice(0).sum(), "axis 0 is out of range for rank 0."],
    "does what has no word": [
      ({ logprobs: x }) => x.symbolic!.call("sort", [x]),
      "it uses sort, which graphs do not have.",
    ],
    "uses another loss's value": [({ logprobs: x }) => x.mul(other.kept!).sum(), "it uses a value of another loss."],
  };
  it.each(Object.entries(untraceable))("refuses a loss that %s, and says so", (_, [fn, why]) => {
    const keep = ({ logprobs }: Inputs) => {
      other.kept = logprobs;
      return logprobs.sum();
    };
    traceLoss(only(keep) as never, lossInputs(ranks));
    const attempt = () => traceLoss(only(fn) as never, lossInputs(ranks));
    expect(attempt).toThrow(TraceError);
    expect(attempt).toThrow(expect.objectContaining({ name: "TraceError", code: "untraceable" }));
    expect(attempt).toThrow(/^The loss cannot be traced: /);
    expect(attempt).toThrow(why);
  });

  it("refuses results and inputs that no server takes, by their field", () => {
    const inputs = lossInputs({ logprobs: 1 });
    const problem = (work: () => unknown) => {
      try {
        work();
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidInputError);
        return error as InvalidInputError;
      }
      return undefined;
    };
    const field = (work: () => unknown) => problem(work)?.field;
    expect(field(() => traceLoss(({ logprobs }) => ({ loss: logprobs! }), inputs))).toBe("loss");
    expect(field(() => traceLoss(() => ({ loss: 1 as never }), inputs))).toBe("loss");
    const metric = (name: string) => () =>
      traceLoss(({ logprobs }) => ({ loss: logprobs!.sum(), metrics: { [name]: logprobs!.sum() } }), inputs);
    expect(field(metric("loss:sum"))).toBe("metrics.loss:sum");
    expect(field(metric("custom/A:sum"))).toBe("metrics.custom/A:sum");
    expect(field(metric("custom/a:sum"))).toBeUndefined();
    expect(field(() => lossInputs({ weights: 1 }))).toBe("inputRanks.logprobs");
    expect(field(() => lossInputs({ logprobs: 0 }))).toBe("inputRanks.logprobs");
    expect(field(() => lossInputs({ logprobs: 1, W: 1 }))).toBe("inputRanks.W");
    expect(field(() => lossInputs({ logprobs: 1, w: 3 }))).toBe("inputRanks.w");
    expect(lossInputs({ a: 0, logprobs: 2 })).toEqual([
      { name: "logprobs", rank: 2 },
      { name: "a", rank: 0 },
    ]);
    // and what is wrong with them
    const message = (work: () => unknown) => problem(work)?.message;
    expect(message(() => traceLoss(({ logprobs }) => ({ loss: logprobs! }), inputs))).toContain("not of rank 1");
    expect(message(() => traceLoss(() => ({ loss: constant(1) }), inputs))).toContain("must be a scalar Var");
    const vector = (name: string) => () =>
      traceLoss(({ logprobs }) => ({ loss: logprobs!.sum(), metrics: { [name]: logprobs! } }), inputs);
    expect(field(vector("custom/a:sum"))).toBe("metrics.custom/a:sum");
    expect(message(vector("a"))).toContain("must be named custom/<name>:sum or custom/<name>:mean");
    expect(message(() => lossInputs({ logprobs: 3 }))).toContain("must be 1 ([T]) or 2 ([T, K])");
    expect(message(() => lossInputs({ logprobs: 1, "a b": 1 }))).toContain("letters, digits and underscores");
    expect(message(() => lossInputs({ logprobs: 1, a: -1 }))).toContain("must be 0, 1 or 2");
  });

  it("takes names and numbers of inputs and metrics up to the server's bounds, and none beyond", () => {
    const refused = (work: () => unknown) => {
      try {
        work();
      } catch (error) {
        return (error as InvalidInputError).field;
      }
      return undefined;
    };
    const named = (name: string) => refused(() => lossInputs({ logprobs: 1, [name]: 1 }));
    for (const name of ["a", "_", "a_1", "a".repeat(64)]) expect(named(name), name).toBeUndefined();
    for (const name of ["1a", "a-b", "aB", "a".repeat(65), ""]) expect(named(name), name).toBe(`inputRanks.${name}`);
    for (const name of ["custom/a:sum", "custom/a/b.c-d_0:mean", `custom/${"a".repeat(64)}:sum`]) {
      expect(
        refused(() => checkMetricName(name)),
        name,
      ).toBeUndefined();
    }
    for (const name of [
      "acustom/a:sum",
      "custom/:sum",
      "custom/a:max",
      "custom/a:sums",
      `custom/${"a".repeat(65)}:sum`,
    ]) {
      expect(
        refused(() => checkMetricName(name)),
        name,
      ).toBe(`metrics.${name}`);
    }
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`i${i}`, 1]));
    expect(lossInputs({ logprobs: 1, ...many(15) })).toHaveLength(16);
    expect(refused(() => lossInputs({ logprobs: 1, ...many(16) }))).toBe("inputRanks");
    expect(() => lossInputs({ logprobs: 1, ...many(16) })).toThrow("must have at most 16 inputs, got 17");
  });
});
