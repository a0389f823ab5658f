/** Losses as graphs: run by the server's own reader they must give what `autodiff` gives; what cannot be one says why. */
import { describe, expect, it } from "vitest";
import { readLoss } from "../../../server/src/custom-loss/read-loss.ts";
import { runLoss } from "../../../server/src/custom-loss/run-loss.ts";
import { concat, constant, gradient, leaf, stack, type Var, where } from "../autodiff/index.ts";
import { InvalidInputError } from "../errors.ts";
import { CustomLossGraph } from "../wire/custom-loss.ts";
import { lossInputs, type TracedResult, TraceError, traceLoss } from "./trace-loss.ts";

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

  const untraceable: Record<string, (inputs: Inputs) => Var> = {
    "reads a value": ({ logprobs }) => logprobs.mul(logprobs.sum().item() > 0 ? 1 : 2).sum(),
    "reads its numbers": ({ logprobs }) => logprobs.mul(logprobs.data[0]!).sum(),
    "reads a length": ({ logprobs }) => logprobs.sum().div(logprobs.size),
    "reads a shape": ({ logprobs }) => logprobs.sum().div(logprobs.shape[0]!),
    "captures numbers": ({ logprobs }) => logprobs.mul([1, 2, 3]).sum(),
    "captures a mask": ({ logprobs }) => logprobs.maskedSum([1, 0, 1]),
    "picks by positions": ({ logprobs }) => logprobs.gather([0, 2]).sum(),
    "sums an axis that is not there": ({ logprobs }) => logprobs.sum(1).sum(),
  };
  it.each(Object.entries(untraceable))("refuses a loss that %s", (_, fn) => {
    expect(() => traceLoss(only(fn) as never, lossInputs(ranks))).toThrow(TraceError);
  });

  it("refuses results and inputs that no server takes, by their field", () => {
    const inputs = lossInputs({ logprobs: 1 });
    const field = (work: () => unknown) => {
      try {
        work();
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidInputError);
        return (error as InvalidInputError).field;
      }
      return undefined;
    };
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
    expect(lossInputs({ a: 0, logprobs: 2 }).map(({ name }) => name)).toEqual(["logprobs", "a"]);
  });
});
