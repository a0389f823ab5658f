/** Regularizers and `combineLosses`: closed forms, finite differences, metrics, the traced graph and the checks. */
import { Datum, TensorData } from "@tinklet/wire";
import { constant, gradient, leaf, type Var } from "@tinklet/wire/autodiff";
import { describe, expect, it } from "vitest";
import { traceLoss } from "./clients/training/custom-loss/trace-loss.ts";
import {
  combineLosses,
  consistency,
  entropy,
  klForward,
  klReverse,
  klSampled,
  klSymmetric,
  type LossTerm,
} from "./losses.ts";

const reference = "ref_logprobs";
/** Two positions with three candidates each: a policy and a reference, both normalised. */
const p = [
  [0.2, 0.3, 0.5],
  [0.7, 0.1, 0.2],
];
const q = [
  [0.3, 0.3, 0.4],
  [0.5, 0.25, 0.25],
];
const logs = (rows: number[][]) => rows.map((row) => row.map(Math.log));
const kl = (a: number[], b: number[]) => a.reduce((sum, x, i) => sum + x * Math.log(x / b[i]!), 0);

/** The value of a term at [T, K] log-probs of the policy. */
const at = (term: LossTerm, l: number[][], extra: Record<string, Var> = {}) =>
  term.value({ logprobs: constant(l), [reference]: constant(logs(q)), ...extra }).item();

describe("values", () => {
  it.each([
    ["klForward", klForward({ reference }), kl(q[0]!, p[0]!) + kl(q[1]!, p[1]!)],
    ["klReverse", klReverse({ reference }), kl(p[0]!, q[0]!) + kl(p[1]!, q[1]!)],
    [
      "klSymmetric",
      klSymmetric({ reference }),
      (kl(q[0]!, p[0]!) + kl(q[1]!, p[1]!) + kl(p[0]!, q[0]!) + kl(p[1]!, q[1]!)) / 2,
    ],
    ["entropy", entropy(), -p.flat().reduce((sum, x) => sum + x * Math.log(x), 0)],
  ])("%s is its closed form over whole distributions", (_, term, expected) => {
    expect(at(term, logs(p))).toBeCloseTo(expected, 12);
  });

  it("the divergences are 0 for equal distributions", () => {
    for (const term of [klForward({ reference }), klReverse({ reference }), klSymmetric({ reference })]) {
      expect(at(term, logs(q))).toBeCloseTo(0, 12);
    }
  });

  it("a mask weighs positions; the mean divides by its sum", () => {
    const mask = { weights: constant([2, 0]) };
    const options = { reference, mask: "weights" };
    expect(at(klReverse(options), logs(p), mask)).toBeCloseTo(2 * kl(p[0]!, q[0]!), 12);
    expect(at(klReverse({ ...options, reduction: "mean" }), logs(p), mask)).toBeCloseTo(kl(p[0]!, q[0]!), 12);
    expect(at(klReverse({ reference, reduction: "mean" }), logs(p))).toBeCloseTo(
      (kl(p[0]!, q[0]!) + kl(p[1]!, q[1]!)) / 2,
      12,
    );
  });

  it("klSampled estimates the reverse divergence without bias, and is never negative", () => {
    const term = klSampled({ reference });
    const one = (token: number) =>
      term
        .value({ logprobs: constant([Math.log(p[0]![token]!)]), [reference]: constant([Math.log(q[0]![token]!)]) })
        .item();
    expect([0, 1, 2].every((token) => one(token) >= 0)).toBe(true);
    expect([0, 1, 2].reduce((sum, token) => sum + p[0]![token]! * one(token), 0)).toBeCloseTo(kl(p[0]!, q[0]!), 12);
  });
});

describe("gradients", () => {
  const h = 1e-6;
  it.each([klForward({ reference }), klReverse({ reference }), klSymmetric({ reference }), entropy()])(
    "$name: finite differences",
    (term) => {
      const l = leaf(logs(p));
      const [slope] = gradient(term.value({ logprobs: l, [reference]: constant(logs(q)) }), [l]);
      for (let t = 0; t < 2; t++) {
        for (let k = 0; k < 3; k++) {
          const moved = (by: number) => logs(p).map((row, i) => row.map((x, j) => (i === t && j === k ? x + by : x)));
          expect(slope![3 * t + k]).toBeCloseTo((at(term, moved(h)) - at(term, moved(-h))) / (2 * h), 7);
        }
      }
    },
  );

  it.each([klSampled({ reference }), consistency({ reference })])("$name: finite differences", (term) => {
    const values = [-0.5, -1.5, -3];
    const r = constant([-0.7, -1.4, -2]);
    const l = leaf(values);
    const [slope] = gradient(term.value({ logprobs: l, [reference]: r }), [l]);
    for (const [t] of values.entries()) {
      const moved = (by: number) =>
        term.value({ logprobs: constant(values.map((x, i) => (i === t ? x + by : x))), [reference]: r });
      expect(slope![t]).toBeCloseTo((moved(h).item() - moved(-h).item()) / (2 * h), 7);
    }
  });
});

describe("combineLosses", () => {
  const base = ({ logprobs, weights }: Record<"logprobs" | "weights", Var>) => ({
    loss: logprobs.mul(weights).sum().neg(),
  });
  const inputRanks = { logprobs: 1, weights: 1 } as const;
  const terms = [klSampled({ reference, weight: 0.5 }), consistency({ reference, weight: 2, mask: "weights" })];
  const loss = combineLosses({ base, inputRanks, terms });
  const datum = (weights: number[], r: number[]): Datum =>
    new Datum({
      modelInput: [1, 2],
      lossFnInputs: { target_tokens: [2, 3], weights, [reference]: TensorData.from(r, { dtype: "float32" }) },
    });
  const data = [datum([1, 0], [-1, -2]), datum([1, 1], [-0.5, -0.25])];
  const leaves = () => [leaf([-0.5, -1]), leaf([-2, -0.125])];

  it("adds weighted terms, and reports values and gradient norms by name", async () => {
    const l = leaves();
    const result = (await loss.lossFn(data, l)) as { loss: Var; metrics: Record<string, number> };
    const k3 = (x: number) => Math.exp(x) - x - 1;
    const k = k3(-0.5) + k3(-1) + k3(1.5) + k3(-0.125);
    const c = 0.25 + (2.25 + 0.015625);
    expect(result.metrics["custom/kl_sampled:sum"]).toBeCloseTo(k, 12);
    expect(result.metrics["custom/consistency:sum"]).toBeCloseTo(c, 12);
    expect(result.loss.item()).toBeCloseTo(0.5 + 2 + 0.125 + 0.5 * k + 2 * c, 12);
    expect(result.metrics["grad_norm/base"]).toBeCloseTo(Math.sqrt(3), 12);
    const norm = (xs: number[]) => Math.hypot(...xs);
    const slopes = [-0.5, -1, 1.5, -0.125].map((x) => 0.5 * (1 - Math.exp(x)));
    expect(result.metrics["grad_norm/kl_sampled"]).toBeCloseTo(norm(slopes), 12);
    expect(result.metrics["grad_norm/total"]).toBeCloseTo(norm(gradient(result.loss, l).flatMap((g) => [...g])), 12);
  });

  it("is traced for servers that run custom losses", () => {
    expect(loss.inputRanks).toEqual({ logprobs: 1, weights: 1, [reference]: 1 });
    const graph = traceLoss(
      loss.fn as never,
      Object.entries(loss.inputRanks).map(([name, rank]) => ({ name, rank })) as never,
    );
    expect(JSON.stringify(graph)).toContain("custom/kl_sampled:sum");
  });

  it.each([
    ["terms[0].name: must consist of", [klSampled({ reference, name: "KL" })]],
    ["terms[1].name: is used twice or reserved", [klSampled({ reference }), klSampled({ reference })]],
    ["terms[0].name: is used twice or reserved", [klSampled({ reference, name: "total" })]],
    ["terms[0].weight: must be a finite number", [klSampled({ reference, weight: Number.NaN })]],
    ["terms[0].inputRanks.logprobs: must be 1", [klForward({ reference })]],
  ])("refuses %s", (message, wrong) => {
    expect(() => combineLosses({ base, inputRanks, terms: wrong })).toThrow(message);
  });

  it("names a missing input", () => {
    const bare = new Datum({ modelInput: [1, 2], lossFnInputs: { target_tokens: [2, 3], weights: [1, 1] } });
    expect(() => loss.lossFn([bare], [leaf([-1, -1])])).toThrow("data[0].lossFnInputs.ref_logprobs: is required");
  });
});
