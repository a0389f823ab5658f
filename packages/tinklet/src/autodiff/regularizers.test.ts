import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addPenalties,
  consistency,
  constant,
  elasticNet,
  entropy,
  gradient,
  kl,
  klEstimate,
  l1,
  l2,
  leaf,
  ShapeError,
  type Var,
} from "./index.ts";
import { checkGradient } from "./testing/finite-difference.ts";

const normalized = (x: Var) => x.sub(x.logSumExp(-1).reshape([...x.shape.slice(0, -1), 1]));
const other = constant([
  [-1, -2, -0.5],
  [-0.3, -1.1, -2.2],
]);

const terms: Record<string, (x: Var) => Var> = {
  l1: (x) => l1(x),
  "l1, sum": (x) => l1(x, { reduction: "sum" }),
  l2: (x) => l2(x),
  elasticNet: (x) => elasticNet(x, { l1Ratio: 0.25 }),
  entropy: (x) => entropy(normalized(x)),
  "kl, reverse": (x) => kl(normalized(x), normalized(other)),
  "kl, forward": (x) => kl(normalized(other), normalized(x)),
  "klEstimate k1": (x) => klEstimate(x, other, { estimator: "k1" }),
  "klEstimate k2": (x) => klEstimate(x, other, { estimator: "k2" }),
  "klEstimate k3": (x) => klEstimate(x, other),
  consistency: (x) => consistency(x, other),
  "consistency, absolute": (x) => consistency(x, other, { distance: "absolute" }),
};

describe("M-604 regularisers", () => {
  // kept from 0 and from the other side's values, where absolute values have no slope
  const value = fc.double({ min: -2.9, max: -0.05, noNaN: true }).map((x) => Math.round(x * 10) / 10 - 0.037);
  test.each(Object.entries(terms))("%s against finite differences", (_, term) => {
    fc.assert(
      fc.property(fc.array(value, { minLength: 6, maxLength: 6 }), (values) => checkGradient(term, values, [2, 3])),
      { numRuns: 40 },
    );
  });

  test("known values", () => {
    const half = Math.log(0.5);
    expect(l1(constant([1, -3])).item()).toBe(2);
    expect(l2(constant([1, -3])).item()).toBe(5);
    expect(elasticNet(constant([1, -3])).item()).toBe(3.5);
    expect(entropy(constant([half, half])).item()).toBeCloseTo(Math.LN2, 15);
    expect(kl([half, half], [Math.log(0.25), Math.log(0.75)]).item()).toBeCloseTo(0.5 * Math.log(4 / 3), 15);
    expect(consistency([1, 2], [1, 4]).item()).toBe(2);
  });
  test("what is impossible under p counts nothing", () => {
    const x = leaf([0, -Infinity]);
    expect(entropy(x).item()).toBe(0);
    expect(kl(x, [-1, -2]).item()).toBe(1);
    expect(gradient(entropy(x), [x])[0]!.every(Number.isFinite)).toBe(true);
  });
  test("k3 is never negative and k1 has its mean", () => {
    const ratios = fc.array(fc.double({ min: -5, max: 5, noNaN: true }), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(
        ratios,
        (r) =>
          klEstimate(
            r,
            r.map(() => 0),
          ).item() >= 0,
      ),
    );
    expect(klEstimate([1, 3], [0, 0], { estimator: "k1" }).item()).toBe(2);
  });
  test("penalties add up and are reported", () => {
    const x = leaf([1, -2]);
    const { loss, metrics } = addPenalties(x.sum(), {
      l1: { weight: 0.5, value: l1(x, { reduction: "sum" }) },
      l2: { weight: 2, value: l2(x, { reduction: "sum" }) },
    });
    expect(loss.item()).toBe(-1 + 1.5 + 10);
    expect(metrics).toEqual({ loss_unpenalized: -1, l1: 3, l2: 5 });
    expect([...gradient(loss, [x])[0]!]).toEqual([1 + 0.5 + 4, 1 - 0.5 - 8]);
  });
  test("shapes must match", () => {
    expect(() => kl([1, 2], [1])).toThrow(ShapeError);
    expect(() => klEstimate([1, 2], [1])).toThrow(/^klEstimate: /);
    expect(() => consistency([1, 2], 1)).toThrow(/^consistency: /);
    expect(() => entropy(constant(1))).toThrow(/^entropy: /);
  });
});
