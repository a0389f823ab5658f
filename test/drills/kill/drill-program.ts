/**
 * What runs while the server is being killed: trains in chunks, saves, samples from what it saved, loads, and goes on. It knows
 * nothing of the kills; the SDK's own retries carry it through. Prints what it has seen, which must be what a calm run sees.
 */
import { createHash } from "node:crypto";
import { Datum, ModelInput, ServiceClient } from "../../../packages/sdk/src/index.ts";

const [url, stepsText] = process.argv.slice(2) as [string, string];
const service = await ServiceClient.connect({ baseUrl: url, apiKey: "tml-drill" });
const training = await service.createLoraTrainingClient({ baseModel: "test/model", rank: 4, seed: 3 });
// Stored on the server and run there: it must be there again after a kill, for passes that are run again too.
const squares = await service.createCustomLoss(
  ({ logprobs, weights }) => ({ loss: logprobs.mul(logprobs).mul(weights).sum().mul(0.5) }),
  { logprobs: 1, weights: 1 },
  { name: "squares" },
);
const seen: unknown[] = [];
const paths: string[] = [];
for (let step = 0; step < Number(stepsText); step++) {
  const batch = Array.from({ length: 3 }, (_, i) => {
    // They begin alike, so that the engine lays them out as a tree.
    const tokens = Array.from({ length: 12 }, (_unused, k) => (11 * step + (k < 8 ? 0 : 5 * i) + k) % 300);
    return new Datum({
      modelInput: ModelInput.fromInts(tokens),
      lossFnInputs: { target_tokens: tokens.map((token) => token + 1), weights: tokens.map(() => 1) },
    });
  });
  // everything of a step is on its way before anything is awaited, as fast programs do it
  const passes = [
    training.forwardBackward(batch, "cross_entropy"),
    training.forward(batch.slice(0, 1), "cross_entropy"),
    ...(step % 2 === 1 ? [training.forwardBackwardCustom(batch.slice(1), squares)] : []),
  ];
  const stepped = training.optimStep({ learningRate: 0.01 });
  for (const pass of passes) seen.push((await pass).metrics);
  seen.push((await stepped).metrics);
  if (step % 3 === 1) {
    const sampler = await training.saveWeightsAndGetSamplingClient();
    const prompt = ModelInput.fromInts([step, 2, 3]);
    const samples = [1, 2, 3].map((seed) =>
      sampler.sample(prompt, { numSamples: 2, samplingParams: { maxTokens: 5, seed } }),
    );
    for (const sample of samples) seen.push((await sample).sequences.map(({ tokens }) => tokens));
    // Turns whose prompts contain all that was said: what the engine has kept of them is gone after a kill.
    let said = Array.from({ length: 70 }, (_, k) => (7 * k + step) % 300);
    for (let turn = 0; turn < 3; turn++) {
      const { sequences } = await sampler.sample(ModelInput.fromInts(said), {
        numSamples: 1,
        samplingParams: { maxTokens: 5, seed: turn },
      });
      const [answer] = sequences;
      seen.push(answer?.tokens, answer?.logprobs);
      said = [...said, ...(answer?.tokens ?? []), ...Array.from({ length: 40 }, (_, k) => (3 * k + turn) % 300)];
    }
  }
  if (step % 4 === 2) paths.push((await training.saveState(`step-${step}`)).path);
  if (step % 5 === 4 && paths.length > 0) await training.loadStateWithOptimizer(paths.at(-1)!);
}
const resumed = await service.createTrainingClientFromStateWithOptimizer(paths.at(-1)!);
const last = new Datum({
  modelInput: ModelInput.fromInts([1, 2]),
  lossFnInputs: { target_tokens: [2, 3], weights: [1, 1] },
});
for (const client of [training, resumed]) seen.push((await client.forward([last], "cross_entropy")).metrics);
for (const client of [training, resumed]) await client.saveWeightsForSampler("final");
console.log(
  JSON.stringify({
    seen: createHash("sha256").update(JSON.stringify(seen)).digest("hex"),
    models: [training.modelId, resumed.modelId],
  }),
);
process.exit(0);
