import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  type PolicyGradientOptions,
  type PolicyStepDone,
  type Problem,
  trainPolicyGradient,
} from "./policy-gradient.ts";
import { RunFolder } from "./run-folder.ts";
import { BigramService } from "./testing/bigram-service.ts";

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

  it("takes no step where all rewards are equal", async () => {
    const service = new BigramService(8);
    const { steps } = await run({ ...settings, steps: 2, reward: () => 1 }, service);
    expect(service.calls).toEqual(["open"]);
    expect(steps[0]?.metrics["env/all/by_group/frac_mixed"]).toBe(0);
  });

  it("records metrics and checkpoints, and stops between steps", async () => {
    const folder = await RunFolder.open(join(await mkdtemp(join(tmpdir(), "tinklet-rl-")), "run"));
    const stop = new AbortController();
    const reward = (answer: Answer) => {
      if (answer.tokens.length > 0) stop.abort();
      return evens(answer);
    };
    const { result } = await run({ ...settings, reward, run: folder, signal: stop.signal, saveEvery: 4 });
    expect(result).toMatchObject({ nextStep: 1, stopped: "interrupted", checkpoint: { name: "000001", batch: 1 } });
    expect((await folder.readMetrics()).length).toBe(1);
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
