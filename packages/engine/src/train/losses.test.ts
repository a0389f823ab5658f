/** Each loss: its slope against finite differences, and the graph's common formula against the slope. */
import { describe, expect, it } from "vitest";
import type { LossFnName } from "../types.ts";
import { type LossPosition, losses, type SlopeTerms } from "./losses.ts";

const positions: LossPosition[] = [];
for (const gap of [-2, -0.5, -0.1, 0.05, 0.3, 1.7]) {
  for (const advantage of [-1.5, 0, 0.7]) {
    for (const weight of [1, 0.25]) {
      positions.push({
        logprob: -1.3 + gap,
        samplingLogprob: -1.3,
        advantage,
        weight,
        clipLow: 0.8,
        clipHigh: 1.2,
        beta: 0.05,
      });
    }
  }
}

const formula = (terms: SlopeTerms, logprob: number): number => {
  const ratio = Math.exp(logprob - terms.samplingLogprob);
  const inside = ratio <= terms.windowHigh && ratio >= terms.windowLow;
  return (
    (inside ? terms.ratio * ratio : 0) +
    terms.clipped * Math.min(Math.max(ratio, terms.clipLow), terms.clipHigh) +
    terms.constant +
    terms.gap * (logprob - terms.samplingLogprob)
  );
};

describe.each(Object.keys(losses) as LossFnName[])("%s", (name) => {
  const loss = losses[name];

  it("has the slope that a finite difference shows", () => {
    for (const position of positions) {
      const at = (delta: number): number => {
        const moved = { ...position, logprob: position.logprob + delta };
        if (name !== "cispo") return loss.value(moved);
        // cispo's clipped ratio is a constant for the derivative: keep it fixed.
        const held = Math.min(
          Math.max(Math.exp(position.logprob - position.samplingLogprob), position.clipLow),
          position.clipHigh,
        );
        return -position.weight * held * moved.logprob * position.advantage;
      };
      expect(loss.slope(position)).toBeCloseTo((at(1e-6) - at(-1e-6)) / 2e-6, 6);
    }
  });

  it("is a case of the one formula that graphs evaluate", () => {
    for (const position of positions) {
      expect(formula(loss.slopeTerms(position), position.logprob)).toBeCloseTo(loss.slope(position), 12);
    }
  });
});

it("ppo is flat only where clipping makes the objective smaller", () => {
  const base = { samplingLogprob: 0, weight: 1, clipLow: 0.8, clipHigh: 1.2, beta: 0 };
  expect(losses.ppo.slope({ ...base, advantage: 1, logprob: Math.log(1.5) })).toBe(0);
  expect(losses.ppo.slope({ ...base, advantage: 1, logprob: Math.log(0.5) })).toBeCloseTo(-0.5);
  expect(losses.ppo.slope({ ...base, advantage: -1, logprob: Math.log(0.5) })).toBe(0);
  expect(losses.ppo.slope({ ...base, advantage: -1, logprob: Math.log(1.5) })).toBeCloseTo(1.5);
});
