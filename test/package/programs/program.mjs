// One small job through the public SDK, the same in every runtime and in a page: teach the bundled model a row of tokens, then ask for
// it. Everything it returns comes from the server, so that two runtimes that say the same were given the same.
import { Datum, ModelInput, ServiceClient } from "@tinklet/sdk";

const lesson = [17, 301, 44, 902, 13, 77, 1205, 350, 61, 8, 2040, 519];

export async function trainAndSample(baseUrl) {
  const service = await ServiceClient.connect({ apiKey: "tml-package-check", baseUrl });
  const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 16, seed: 1 });
  const datum = new Datum({
    modelInput: ModelInput.fromInts(lesson.slice(0, -1)),
    lossFnInputs: { target_tokens: lesson.slice(1), weights: lesson.slice(1).map(() => 1) },
  });
  const losses = [];
  for (let step = 0; step < 40; step++) {
    const { loss } = await trainer.step([datum], "cross_entropy", { learningRate: 5e-3 });
    losses.push(loss);
  }
  const sampler = await trainer.saveWeightsAndGetSamplingClient();
  const { sequences } = await sampler.sample(ModelInput.fromInts(lesson.slice(0, 2)), {
    samplingParams: { maxTokens: lesson.length - 2, temperature: 0 },
  });
  await service.close();
  return { losses, sampled: [...sequences[0].tokens], wanted: lesson.slice(2) };
}
