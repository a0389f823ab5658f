/** The example losses: their gradients against finite differences, known values, and that training on them works. */

import { bradleyTerry, dpo } from "@tinklet/cookbook";
import fc from "fast-check";
import { autodiff, type CustomLossFn, Datum, gradient, ModelInput, type Var } from "tinklet";
import { describe, expect, test } from "vitest";
import { clippedSurrogate } from "./clipped-surrogate.ts";
import { reverseKl } from "./reverse-kl.ts";
import { runs, train } from "./run.ts";

const datum = (weights: readonly number[]) =>
  new Datum({
    modelInput: ModelInput.fromInts(weights.map(() => 1)),
    lossFnInputs: { target_tokens: weights.map(() => 1), weights: [...weights] },
  });
// two pairs; the masks differ, so that a loss that forgets them is caught
const pairs = [
  [0, 1, 1],
  [1, 1, 0],
  [1, 1, 1],
  [0, 0, 1],
].map(datum);
const rows = [
  [
    [-1, -2, -1.5],
    [-0.5, -3, -1.2],
  ],
];
const ones = pairs.map(() => [1, -0.5, 2]);

const losses: Record<string, { loss: CustomLossFn; data: readonly Datum[]; shapes: number[][] }> = {
  dpo: { loss: dpo({ reference: [-3, -2, -4, -1], beta: 0.7 }), data: pairs, shapes: pairs.map(() => [3]) },
  "bradley-terry": { loss: bradleyTerry({ temperature: 0.5 }), data: pairs, shapes: pairs.map(() => [3]) },
  "reverse-kl": { loss: reverseKl({ teacher: rows }), data: [datum([1])], shapes: [[2, 3]] },
  "reverse-kl, masked": {
    loss: reverseKl({ teacher: rows, positions: [[0, 1]] }),
    data: [datum([1])],
    shapes: [[2, 3]],
  },
  "clipped-surrogate": {
    loss: clippedSurrogate({ sampling: pairs.map(() => [-1, -1.5, -2]), advantages: ones, epsilon: 0.3 }),
    data: pairs,
    shapes: pairs.map(() => [3]),
  },
};

/** The scalar loss of flat values, cut into one array per datum. */
async function evaluate(name: string, flat: readonly number[]): Promise<{ loss: Var; leaves: Var[] }> {
  const { loss, data, shapes } = losses[name]!;
  let at = 0;
  const leaves = shapes.map((shape) => {
    const size = shape.reduce((a, b) => a * b, 1);
    at += size;
    return autodiff.leaf(flat.slice(at - size, at), shape);
  });
  const result = await loss(data, leaves);
  return { loss: result.loss as Var, leaves };
}

describe("M-604 gradients of the example losses", () => {
  test.each(Object.keys(losses))("%s: as by finite differences", async (name) => {
    const count = losses[name]!.shapes.reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0);
    // on a grid that stays away from the clipped surrogate's corners, where the slope jumps
    const value = fc.integer({ min: -30, max: -1 }).map((tenths) => tenths / 10 + 0.013);
    await fc.assert(
      fc.asyncProperty(fc.array(value, { minLength: count, maxLength: count }), async (flat) => {
        const { loss, leaves } = await evaluate(name, flat);
        const slopes = gradient(loss, leaves).flatMap((grad) => [...grad]);
        for (const [i, slope] of slopes.entries()) {
          const shifted = async (by: number) =>
            (
              await evaluate(
                name,
                flat.map((x, j) => (i === j ? x + by : x)),
              )
            ).loss.item();
          const difference = ((await shifted(1e-5)) - (await shifted(-1e-5))) / 2e-5;
          expect(Math.abs(slope - difference)).toBeLessThan(1e-6 * Math.max(1, Math.abs(difference)));
        }
      }),
      { numRuns: 15 },
    );
  });
});

describe("known values", () => {
  test("dpo at the reference is log 2, and its metrics follow the margin", async () => {
    const loss = dpo({ reference: [-2, -3], beta: 2 });
    const at = (chosen: number) => loss([datum([1]), datum([1])], [autodiff.leaf([chosen]), autodiff.leaf([-3])]);
    expect(((await at(-2)).loss as Var).item()).toBeCloseTo(Math.LN2, 12);
    expect((await at(-1)).metrics).toMatchObject({ "dpo/accuracy": 1, "dpo/margin": 2, "dpo/chosen_reward": 2 });
    expect((await at(-2.5)).metrics).toMatchObject({ "dpo/accuracy": 0 });
  });
  test("reverse KL of equal rows is zero", async () => {
    const { loss } = await evaluate("reverse-kl", rows.flat(2));
    expect(loss.item()).toBeCloseTo(0, 12);
  });
  test("the clipped surrogate stops pushing beyond its bounds", async () => {
    const loss = clippedSurrogate({ sampling: [[0, 0]], advantages: [[1, -1]] });
    const lp = autodiff.leaf([Math.log(2), Math.log(0.5)]);
    const result = await loss([datum([1, 1])], [lp]);
    expect((result.loss as Var).item()).toBeCloseTo(-(1.2 - 0.8), 12);
    expect([...gradient(result.loss as Var, [lp])[0]!]).toEqual([-0, -0].map(() => expect.closeTo(0, 12)));
    expect(result.metrics).toEqual({ "ppo/clip_fraction": 1 });
  });
});

test.each(Object.keys(runs))("training a table with %s lowers its loss", async (name) => {
  const seen = await train(name);
  expect(seen.every(Number.isFinite)).toBe(true);
  expect(seen.at(-1)).toBeLessThan(seen[0]! - 0.1);
});
