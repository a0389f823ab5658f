/** What the compiler knows of inputs and results; checked by `npm run typecheck`, never run. */

import type { SampleResponse } from "@tinklet/wire";
import type { SampleStream, StreamedText, StreamedToken } from "./sampling/sample-stream.ts";
import type { SamplingClient } from "./sampling/sampling-client.ts";
import type { ServiceClient } from "./service-client.ts";
import type { TrainingClient } from "./training/training-client.ts";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Equal<A, B>): void => {};

export async function results(trainer: TrainingClient, sampler: SamplingClient): Promise<void> {
  const lossFnInputs = { target_tokens: [2, 3], weights: [0, 1] };
  const entropy = await trainer.forwardBackward([{ modelInput: [1, 2], lossFnInputs }], "cross_entropy");
  for (const { logprobs, elementwise_loss } of entropy.outputs) {
    same<typeof logprobs, Float32Array>(true);
    same<typeof elementwise_loss, Float32Array>(true);
  }
  same<(typeof entropy.lossFnOutputs)[0], Readonly<Record<string, import("@tinklet/wire").TensorData>>>(true);

  const policy = { target_tokens: [2, 3], logprobs: [0, 0], advantages: new Float32Array(2) };
  const ppo = await trainer.forward([{ modelInput: Int32Array.of(1, 2), lossFnInputs: policy }], "ppo");
  for (const output of ppo.outputs) {
    same<typeof output.logprobs, Float32Array>(true);
    // @ts-expect-error: this loss does not promise it, so that it may be undefined
    same<(typeof output)["elementwise_loss"], never>(true);
  }
  // @ts-expect-error: ppo needs logprobs and advantages
  trainer.forward([{ modelInput: [1, 2], lossFnInputs }], "ppo");

  await sampler.sample([5, 6, 7]);
  await sampler.computeLogprobs(Int32Array.of(5, 6, 7));
  same<ReturnType<typeof sampler.stream>, SampleStream>(true);
  for await (const token of sampler.stream([5])) same<typeof token, StreamedToken>(true);
  for await (const { text } of sampler.stream([5], { tokenizer: { decode: () => "" } }))
    same<typeof text, string>(true);
  same<StreamedText["token"], number>(true);
  // @ts-expect-error: text must be encoded first
  await sampler.sample("text");
}

/** A call goes wherever a promise goes. */
export function asPromise(sampler: SamplingClient): Promise<SampleResponse> {
  return sampler.sample([1]);
}

/** Under `exactOptionalPropertyTypes`, an option that is undefined is one that was not given. */
export async function undefinedOptions(
  service: ServiceClient,
  trainer: TrainingClient,
  sampler: SamplingClient,
): Promise<void> {
  const retryConfig = { maxConnections: undefined, jitterFactor: undefined };
  await service.createSamplingClient({ modelPath: undefined, baseModel: "m", retryConfig, signal: undefined });
  await service.createSamplingClient({ modelPath: "tinker://r/sampler_weights/x", baseModel: undefined });
  await trainer.saveWeightsAndGetSamplingClient({ retryConfig: undefined, recordStabilityInfo: undefined });
  await trainer.createSamplingClient("tinker://r/sampler_weights/x", { recordStabilityInfo: true });
  await sampler.sample([1], {
    numSamples: undefined,
    samplingParams: { maxTokens: undefined, temperature: undefined, stop: undefined, seed: undefined },
    targetPromptLogprobs: undefined,
  });
  await trainer.optimStep({ learningRate: 1, gradClipNorm: undefined, weightDecay: undefined });
  await service.createRestClient().listTrainingRuns({ limit: undefined, offset: undefined, accessScope: undefined });
}
