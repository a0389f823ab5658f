/** Every defect is named and no healthy run is accused, on synthetic curves whose seeds were not used to choose the thresholds (1 to 40 and 1201 to 1640 were). */

import { seededRandom } from "@tinklet/wire/entropy";
import { expect, test } from "vitest";
import { Diagnosis, type FindingCode } from "./diagnosis.ts";

const seeds = [101, 102, 103, 104, 105];
type Metrics = Record<string, number>;
/** Metrics of a step; `noise` is normal. */
type Curve = (step: number, noise: () => number) => Metrics;

/** The first findings of a synthetic run. */
function found(curve: Curve, steps: number, seed: number, from = 0): FindingCode[] {
  const random = seededRandom(seed);
  const noise = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const diagnosis = new Diagnosis();
  const codes: FindingCode[] = [];
  for (let step = from; step < steps; step++) {
    for (const { code } of diagnosis.observe(step, steps, curve(step, noise))) codes.push(code);
  }
  return codes;
}

const decay = (from: number, to: number, steps: number) => (step: number) => to + (from - to) * Math.exp(-step / steps);
const sft =
  (train: (step: number) => number, evaluate: (step: number) => number, relativeNoise = 0.1, every = 10): Curve =>
  (step, noise) => ({
    train_mean_nll: Math.max(0, train(step) * (1 + relativeNoise * noise())),
    ...(step % every === 0 ? { "test/nll": evaluate(step) * (1 + 0.004 * noise()) } : {}),
  });
const rl =
  (
    reward: (step: number) => number,
    mixed: (step: number) => number,
    kl: (step: number) => number = () => 0.002,
  ): Curve =>
  (step, noise) => ({
    "env/all/reward/total": Math.min(1, Math.max(0, reward(step) + 0.05 * noise())),
    "env/all/by_group/frac_mixed": mixed(step),
    "optim/kl_sample_train_v1": kl(step) * (1 + 0.3 * noise()),
  });
const rising = (from: number, to: number, steps: number) => (step: number) =>
  to - (to - from) * Math.exp(-step / steps);
const constant = (value: number) => () => value;

const healthy: Record<string, [curve: Curve, steps: number, from?: number]> = {
  "a loss that falls fast": [sft(decay(4, 0.1, 10), decay(4, 0.5, 12)), 60],
  "a loss that falls slowly": [sft(decay(2.5, 1.6, 60), decay(2.6, 1.8, 60)), 100],
  "noisy small batches": [sft(decay(3, 0.8, 25), decay(3, 1, 25), 0.3), 120],
  "a test loss that levels off": [sft(decay(3, 0.2, 15), (step) => decay(3, 1.5, 10)(step) + 0.0002 * step), 150],
  "a short run": [sft(decay(3, 1, 8), decay(3, 1.2, 8), 0.1, 5), 12],
  "a resumed run near its end": [sft(constant(0.9), constant(1)), 100, 60],
  "a reward that rises": [rl(rising(0.2, 0.7, 20), constant(0.6)), 60],
  "a reward that is reached: groups agree at the end": [rl(rising(0.3, 1.05, 8), (step) => (step < 25 ? 0.5 : 0)), 60],
  "a hard task: one group in ten differs": [rl(constant(0.04), (step) => (step % 3 === 0 ? 0.1 : 0)), 60],
  "sampled ahead of training": [rl(rising(0.2, 0.6, 25), constant(0.5), constant(0.03)), 60],
};

const broken: Record<string, [code: FindingCode, curve: Curve, steps: number]> = {
  "overfitting, forty examples": [
    "overfitting",
    sft(decay(3, 0.05, 10), (s) => (s < 20 ? 3 : 3 + 0.02 * (s - 20))),
    100,
  ],
  "overfitting, late": [
    "overfitting",
    sft(decay(3, 0.1, 20), (s) => decay(3, 1, 15)(s) + (s > 60 ? 0.02 * (s - 60) : 0)),
    120,
  ],
  "overfitting, at once": ["overfitting", sft(decay(2, 0.05, 5), (s) => 2 + 0.05 * s), 60],
  "overfitting, rare evaluations": ["overfitting", sft(decay(2, 0.05, 9), (s) => 2 + 0.01 * s, 0.1, 25), 150],
  "a learning rate of nearly zero": ["loss_not_falling", sft(constant(3), constant(3)), 60],
  "a learning rate of zero, noisy": ["loss_not_falling", sft(constant(2), constant(2), 0.15), 100],
  "nothing is learned": ["loss_not_falling", sft((s) => 1.2 - 0.00001 * s, constant(1.2), 0.05), 80],
  "a flat loss, long run": ["loss_not_falling", sft(constant(0.7), constant(0.7), 0.1, 50), 300],
  "a rate that explodes": ["diverging", sft((s) => 2 * Math.exp(s / 30), constant(2)), 60],
  "a rate that explodes after a good start": [
    "diverging",
    sft((s) => (s < 20 ? decay(3, 1, 10)(s) : 3 + 0.2 * (s - 20)), constant(3)),
    80,
  ],
  "a loss that is not a number": ["diverging", sft((s) => (s < 10 ? 2 : Number.NaN), constant(2)), 20],
  "a loss that settles high": ["diverging", sft((s) => (s < 9 ? 2 : 7), constant(2)), 40],
  "every reward is 0": ["no_signal", rl(constant(-1), constant(0)), 20],
  "every reward is 1": ["no_signal", rl(constant(2), constant(0)), 20],
  "rewards of a group are always equal": ["no_signal", rl(constant(0.5), constant(0)), 20],
  "a policy that collapsed": [
    "no_signal",
    rl(
      (s) => (s < 20 ? 0.5 : 0),
      (s) => (s < 20 ? 0.5 : 0),
    ),
    40,
  ],
  "a reward that falls again": [
    "reward_falling",
    rl((s) => (s < 40 ? rising(0.2, 0.8, 10)(s) : 0.3), constant(0.5)),
    80,
  ],
  "a reward that decays": ["reward_falling", rl((s) => 0.8 * Math.exp(-s / 20), constant(0.5)), 80],
  "weights that are far ahead": ["kl_growing", rl(rising(0.2, 0.5, 20), constant(0.5), (s) => 0.02 * s), 60],
  "a sampler of other weights": ["kl_growing", rl(constant(0.3), constant(0.5), constant(0.8)), 30],
};

const steep: Record<string, [code: FindingCode | undefined, norm: (step: number) => number]> = {
  "gradients that explode": ["gradients_exploding", (s) => (s < 30 ? 1 : 60)],
  "gradients that explode at once": ["gradients_exploding", (s) => (s < 12 ? 0.2 : 30 * s)],
  "gradients that are infinite": ["gradients_exploding", (s) => (s < 20 ? 1 : Number.POSITIVE_INFINITY)],
  "gradients that fall with the loss": [undefined, (s) => 10 * Math.exp(-s / 8)],
  "one steep step": [undefined, (s) => (s === 30 ? 100 : 1)],
  "steps without a signal": [undefined, (s) => (s % 3 === 0 ? 2 : 0)],
  "gradients that return to those of the first steps": [undefined, (s) => (s < 10 ? 20 : s < 40 ? 0.1 : 15)],
};
test.each(Object.entries(steep))("%s: %s", (_, [code, norm]) => {
  for (const seed of seeds) {
    const curve: Curve = (step, noise) => ({ "unclipped_grad_l2:mean": norm(step) * Math.exp(0.3 * noise()) });
    expect(found(curve, 60, seed), `seed ${seed}`).toEqual(code === undefined ? [] : [code]);
  }
});

test("answers that end at the token limit are named after five steps, a few of them are not", () => {
  const cut =
    (share: number): Curve =>
    () => ({ "env/all/frac_cut": share });
  expect(found(cut(0.9), 5, 1)).toEqual(["answers_cut"]);
  expect(found(cut(0.9), 4, 1)).toEqual([]);
  expect(found(cut(0.7), 60, 1)).toEqual([]);
});

test("a run of three steps whose rewards were all equal is named at its end", () => {
  expect(found(rl(constant(-1), constant(0)), 3, 1)).toEqual(["no_signal"]);
  expect(
    found(
      rl(constant(0.5), (s) => (s === 1 ? 0.1 : 0)),
      3,
      1,
    ),
  ).toEqual([]);
  expect(found(rl(constant(2), constant(0)), 3, 1, 2)).toEqual([]); // resumed at the last step
});

test("there are ten healthy runs and twenty with a defect", () => {
  expect([Object.keys(healthy).length, Object.keys(broken).length]).toEqual([10, 20]);
});

test.each(Object.entries(healthy))("%s: nothing is found", (_, [curve, steps, from]) => {
  for (const seed of seeds) expect(found(curve, steps, seed, from), `seed ${seed}`).toEqual([]);
});

test.each(Object.entries(broken))("%s: is named", (_, [code, curve, steps]) => {
  for (const seed of seeds) expect(found(curve, steps, seed), `seed ${seed}`).toContain(code);
});

test("each finding comes once, with its numbers and a remedy", () => {
  const diagnosis = new Diagnosis();
  const findings = Array.from({ length: 30 }, (_, step) =>
    diagnosis.observe(step, 30, { "env/all/reward/total": 0, "env/all/by_group/frac_mixed": 0 }),
  ).flat();
  expect(findings).toEqual([
    {
      code: "no_signal",
      step: 4,
      message: expect.stringContaining(
        "In the last 5 steps all answers of each group got the same reward (0.00 on average)",
      ),
      remedy: expect.stringContaining("reward function"),
    },
  ]);
});
