import { InvalidInputError } from "@tinklet/sdk";
import { describe, expect, it } from "vitest";
import type { PolicyTokens, TrajectoryGroup } from "../environments/index.ts";
import { addKlAdvantages, futureSums, type KlOptions } from "./kl-advantages.ts";

const group: TrajectoryGroup = { name: "g", tags: [], trajectories: [], totalRewards: [] } as never;
/** One sequence of five targets; the third is a tool's result. */
const sequence = (): PolicyTokens => ({
  tokens: [1, 2, 3, 4, 5, 6],
  logprobs: [-1, -1, 0, -1, -1],
  advantages: [0.5, 0.5, 0, 0.5, 0.5],
  mask: [1, 1, 0, 1, 1],
  actions: [],
});
/** Log π - log π_ref is 1, 2, -, 3, 4 (mean 2.5). */
const reference = { computeLogprobs: async () => [null, -2, -3, -9, -4, -5] };
const advantages = async (options: Omit<KlOptions, "reference" | "coefficient">) => {
  const one = sequence();
  await addKlAdvantages([{ group, sequences: [one] }], { reference, coefficient: 0.1, ...options });
  return one.advantages.map((value) => Number(value.toFixed(6)));
};

describe("addKlAdvantages", () => {
  it("takes the distance of each sampled token off its advantage, centred or not", async () => {
    expect(await advantages({})).toEqual([0.65, 0.55, 0, 0.45, 0.35]);
    expect(await advantages({ centred: false })).toEqual([0.4, 0.3, 0, 0.2, 0.1]);
  });

  it("with a discount counts what follows, over every position, as the official kl_discount_factor does", async () => {
    // Own terms, centred: 0.15, 0.05, 0, -0.05, -0.15.
    const last = -0.15;
    const fourth = -0.05 + 0.5 * last;
    const second = 0.05 + 0.25 * fourth;
    const first = 0.15 + 0.5 * second;
    const expected = [first, second, undefined, fourth, last].map((term) => (term === undefined ? 0 : 0.5 + term));
    expect(await advantages({ discount: 0.5 })).toEqual(expected.map((value) => Number(value.toFixed(6))));
    expect(futureSums([1, 1, 1], 1)).toEqual([3, 2, 1]);
    expect(futureSums([], 0.9)).toEqual([]);
  });

  it.each([-0.1, 1.1, Number.NaN])("refuses a discount of %f", async (discount) => {
    await expect(advantages({ discount })).rejects.toThrow(InvalidInputError);
  });
});
