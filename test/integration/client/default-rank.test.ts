/** The bundled model at the default rank: trained, saved and sampled from through the SDK, with prompts of several runs. */
import { ModelInput, type SampleResponse, type SamplingClient, ServiceClient, type TrainingClient } from "tinklet";
import { afterAll, beforeAll, expect, it } from "vitest";

const tokensOf = (length: number, seed: number): number[] =>
  Array.from({ length }, (_, i) => 10 + ((i * 7919 + seed * 104_729 + (i % 13) * seed) % 4000));

let service: ServiceClient;
beforeAll(async () => {
  service = await ServiceClient.local({ dataDir: "memory", logLevel: "error" });
});
afterAll(() => service.close());

/** A sampler of an adapter after one step. */
const trained = async (options: { rank?: number; seed: number }): Promise<[TrainingClient, SamplingClient]> => {
  const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", ...options });
  const tokens = tokensOf(60, options.seed);
  const pass = trainer.forwardBackward(
    [
      {
        modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
        lossFnInputs: { target_tokens: tokens.slice(1), weights: tokens.slice(1).map(() => 1) },
      },
    ],
    "cross_entropy",
  );
  const step = trainer.optimStep({ learningRate: 1e-3 });
  expect(Number.isFinite((await pass).metrics["loss:sum"])).toBe(true);
  await step;
  return [trainer, await trainer.saveWeightsAndGetSamplingClient()];
};

const expectSamples = ({ sequences }: SampleResponse, count: number): void => {
  expect(sequences).toHaveLength(count);
  for (const { tokens, logprobs } of sequences) {
    expect(tokens.length).toBeGreaterThan(0);
    expect(logprobs).toHaveLength(tokens.length);
    expect(logprobs?.every(Number.isFinite)).toBe(true);
  }
};

/** What must not depend on what else is asked; each answer has ids of its own. */
const drawn = ({ sequences }: SampleResponse) => sequences.map(({ tokens, logprobs }) => [tokens, logprobs]);

it("trains a step and samples long prompts, scored and not, alone and beside adapters of other ranks", async () => {
  const [trainer, sampler] = await trained({ seed: 1 });
  expect((await trainer.getInfo()).loraRank).toBe(32);
  const samplingParams = { maxTokens: 4, temperature: 1, seed: 1 };
  for (const length of [600, 1000]) {
    const prompt = ModelInput.fromInts(tokensOf(length, 2));
    const plain = await sampler.sample(prompt, { numSamples: 3, samplingParams });
    expectSamples(plain, 3);
    const scored = await sampler.sample(prompt, {
      numSamples: 3,
      samplingParams,
      includePromptLogprobs: true,
      topkPromptLogprobs: 2,
    });
    expect(drawn(scored)).toEqual(drawn(plain));
    expect(scored.promptLogprobs).toHaveLength(length);
    expect(scored.promptLogprobs?.[0]).toBeNull();
    expect(scored.promptLogprobs?.slice(1).every(Number.isFinite)).toBe(true);
    expect(scored.topkPromptLogprobs).toHaveLength(length);
    const tokens = tokensOf(length, 2);
    const { lossFnOutputs } = await trainer.forward(
      [{ modelInput: ModelInput.fromInts(tokens.slice(0, -1)), lossFnInputs: { target_tokens: tokens.slice(1) } }],
      "cross_entropy",
    );
    const forward = [...(lossFnOutputs[0]?.["logprobs"]?.data ?? [])] as number[];
    expect(forward).toHaveLength(length - 1);
    // The same tokens are scored. How close the values are is tested in the engine.
    for (const [i, value] of forward.entries()) {
      expect(Math.abs(value - (scored.promptLogprobs?.[i + 1] ?? Number.NaN))).toBeLessThan(0.01);
    }
  }

  const others = await Promise.all([1, 17, 128].map(async (rank) => (await trained({ rank, seed: rank }))[1]));
  const base = await service.createSamplingClient({ baseModel: "tinklet/base" });
  const asked = [sampler, ...others, base].map((each, i) => {
    const prompt = ModelInput.fromInts(tokensOf(600 - i, i));
    const options = { numSamples: 2, samplingParams, includePromptLogprobs: i % 2 === 1 };
    return { ask: () => each.sample(prompt, options) };
  });
  const together = await Promise.all(asked.map(({ ask }) => ask()));
  for (const [i, response] of together.entries()) {
    expectSamples(response, 2);
    expect(drawn(await asked[i]!.ask())).toEqual(drawn(response));
  }
});
