import { ModelInput, SampleResponse } from "@tinklet/sdk";
import { describe, expect, it } from "vitest";
import { trainReinforcement } from "../loops/reinforcement.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { countingPrompts } from "./prompt-tokens.ts";

describe("prompts of a step", () => {
  it("counts each prompt once, and what the server says it had of it", async () => {
    const cached = [0, 3, 2];
    const { sampler, prompts } = countingPrompts({
      sample: async () => new SampleResponse({ sequences: [], promptCacheHitTokens: cached.shift() ?? 0 }),
    });
    for (const tokens of [
      [1, 2, 3],
      [1, 2, 3, 4],
      [1, 2],
    ])
      await sampler.sample(ModelInput.fromInts(tokens), { numSamples: 8 });
    expect(prompts).toEqual({ sent: 9, cached: 5 });
  });

  it("counts nothing of a prompt that was refused", async () => {
    const { sampler, prompts } = countingPrompts({ sample: () => Promise.reject(new Error("too long")) });
    await expect(sampler.sample(ModelInput.fromInts([1, 2]), {})).rejects.toThrow("too long");
    expect(prompts).toEqual({ sent: 0, cached: 0 });
  });

  it("is in the event of a step and stays out of its metrics", async () => {
    const trainer = await new BigramService(8).createLoraTrainingClient();
    const once = {
      initialObservation: () => ({ tokens: [1, 2, 3] }),
      step: () => ({ reward: 1, done: true }),
    };
    const environments = [{ name: "one", makeEnvs: ({ size }: { size: number }) => new Array(size).fill(once) }];
    const told = [];
    for await (const event of trainReinforcement({
      trainer,
      environments,
      steps: 1,
      groupsPerStep: 2,
      learningRate: 1,
    }))
      if (event.type === "step") told.push(event);
    expect(told.map(({ prompts }) => prompts)).toEqual([{ sent: 6, cached: 0 }]);
    expect(Object.keys(told[0]?.metrics ?? {}).filter((name) => name.includes("cached"))).toEqual([]);
  });
});
