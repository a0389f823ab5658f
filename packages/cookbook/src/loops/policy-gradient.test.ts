import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { RunFolder } from "../runs/run-folder.ts";
import { BigramService } from "../testing/bigram-service.ts";
import {
  type Answer,
  type PolicyGradientOptions,
  type PolicyStepDone,
  type Problem,
  trainPolicyGradient,
} from "./policy-gradient.ts";

/** The share of even tokens. */
const evens = ({ tokens }: Answer) => tokens.filter((token) => token % 2 === 0).length / tokens.length;
const problems = [[1], [2, 3], [4, 5, 6]].map((prompt) => ({ prompt }));
const settings = { problems, reward: evens, steps: 12, learningRate: 0.3, groupSize: 8, groupsPerStep: 3, seed: 2 };

async function run(options: Omit<PolicyGradientOptions<Problem>, "trainer">, service = new BigramService(8)) {
  const steps: PolicyStepDone<Problem>[] = [];
  const loop = trainPolicyGradient({ trainer: service.trainer(), samplingParams: { maxTokens: 4 }, ...options });
  for (;;) {
    const { done, value } = await loop.next();
    if (done) return { steps, result: value };
    if (value.type === "step") steps.push(value);
  }
}
const rewards = (steps: readonly PolicyStepDone<Problem>[]) =>
  steps.map(({ metrics }) => metrics["env/all/reward/total"]);

describe("trainPolicyGradient", () => {
  it("makes the reward climb", async () => {
    const { steps } = await run(settings);
    const all = rewards(steps) as number[];
    expect(all[0]).toBeLessThan(0.65);
    expect(all.at(-1)).toBeGreaterThan(0.95);
  });

  it("is repeatable from its seed", async () => {
    const [first, second] = [await run(settings), await run(settings)];
    expect(rewards(second.steps)).toEqual(rewards(first.steps));
    expect(rewards((await run({ ...settings, seed: 3 })).steps)).not.toEqual(rewards(first.steps));
  });

  it("centres rewards within a group and goes round all problems", async () => {
    const { steps } = await run({ ...settings, steps: 2 });
    for (const { groups } of steps) {
      expect(new Set(groups.map(({ problem }) => problem)).size).toBe(3);
      for (const { answers } of groups) {
        expect(answers.reduce((sum, { advantage }) => sum + advantage, 0)).toBeCloseTo(0);
      }
    }
  });

  // The mean of ten times 0.1 is not 0.1 in floating point.
  it.each([1, 0.1, 0.7, -1 / 3])("takes no step where all rewards are equal: %d", async (value) => {
    const service = new BigramService(8);
    const { steps } = await run({ ...settings, steps: 2, groupSize: 10, reward: () => value }, service);
    expect(steps[0]?.groups[0]?.answers.map(({ advantage }) => advantage)).toEqual(new Array(10).fill(0));
    expect(service.calls).toEqual(["open"]);
    expect(steps[0]?.metrics["env/all/by_group/frac_mixed"]).toBe(0);
  });

  it("records metrics and checkpoints, and stops between steps", async () => {
    const folder = await RunFolder.open(join(await mkdtemp(join(tmpdir(), "tinklet-rl-")), "run"));
    const stop = new AbortController();
    const service = new BigramService(8);
    service.onStep = () => stop.abort();
    const { result } = await run({ ...settings, run: folder, signal: stop.signal, saveEvery: 4 }, service);
    expect(result).toMatchObject({ nextStep: 1, stopped: "interrupted", checkpoint: { name: "000001", batch: 1 } });
    expect((await folder.readMetrics()).length).toBe(1);
  });

  it("aborted while it samples, keeps every step trained so far and resumes from there", async () => {
    const folder = await RunFolder.open(join(await mkdtemp(join(tmpdir(), "tinklet-rl-")), "run"));
    const stop = new AbortController();
    const service = new BigramService(8);
    service.onSample = (step) => {
      if (step < 3) return;
      stop.abort();
      stop.signal.throwIfAborted(); // as the SDK's sampler does
    };
    const { result, steps } = await run({ ...settings, run: folder, signal: stop.signal }, service);
    expect(steps.length).toBe(3);
    expect(result).toMatchObject({ nextStep: 3, stopped: "interrupted", checkpoint: { name: "000003", batch: 3 } });
    expect(service.saved.has((await folder.lastCheckpoint())?.state_path ?? "")).toBe(true);
  });

  it("tells of a failure of its own that comes while it is aborted", async () => {
    const stop = new AbortController();
    const reward = () => {
      stop.abort();
      throw new Error("no such answer");
    };
    await expect(run({ ...settings, reward, signal: stop.signal })).rejects.toThrow("no such answer");
  });

  it.each([
    [{ groupSize: 1 }, "groupSize"],
    [{ problems: [] }, "problems"],
    [{ samplingParams: { topK: 3 } }, "temperature, topK and topP"],
    [{ reward: () => Number.NaN }, "reward: must return a finite number"],
  ])("refuses %o", async (wrong, message) => {
    await expect(run({ ...settings, ...wrong })).rejects.toThrow(message);
  });
});
