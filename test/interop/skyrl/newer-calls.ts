/** Calls that releases after 0.25 brought, against a server that may not have them: each works, or fails with an error that names what is lacking. */
import { ModelInput, ServiceClient, TinkerError } from "tinklet";

/** What became of each call: `works`, or the error's class and code. */
export async function newerCalls(options: {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly baseModel?: string | undefined;
}): Promise<Record<string, string>> {
  const { baseUrl, apiKey } = options;
  const service = await ServiceClient.connect({ baseUrl, apiKey, telemetry: false, maxRetries: 1, logLevel: "off" });
  const { supportedModels } = await service.getServerCapabilities();
  const baseModel = options.baseModel ?? supportedModels[0]?.modelName ?? "";
  const trainer = await service.createLoraTrainingClient({ baseModel, rank: 4, seed: 1 });
  const sampler = await service.createSamplingClient({ baseModel });
  const rest = service.createRestClient();
  const prompt = ModelInput.fromInts([5, 6, 7, 8]);
  const samplingParams = { maxTokens: 2, seed: 1 };
  const calls: Record<string, () => PromiseLike<unknown>> = {
    topkSampleLogprobs: () => sampler.sample(prompt, { numSamples: 1, samplingParams, topkSampleLogprobs: 2 }),
    promptAltTokensK: () => sampler.sample(prompt, { numSamples: 1, samplingParams, promptAltTokensK: 2 }),
    targetPromptLogprobs: () =>
      sampler.sample(prompt, {
        numSamples: 1,
        samplingParams,
        targetPromptLogprobs: { data: [1, 2, 3], shape: [3, 1], dtype: "int64" },
      }),
    createCustomLoss: () => service.createCustomLoss(({ logprobs }) => ({ loss: logprobs.sum() }), { logprobs: 1 }),
    saveWeightsExternal: () => trainer.saveWeightsExternal("newer"),
    copyWeights: () => rest.copyWeights(`tinker://${trainer.modelId}/weights/none`, { destinationProjectId: "p" }),
    searchSessions: () => rest.searchSessions({}),
    close: () => service.close("success"),
  };
  const seen: Record<string, string> = {};
  for (const [name, call] of Object.entries(calls)) {
    try {
      await call();
      seen[name] = "works";
    } catch (error) {
      seen[name] =
        error instanceof TinkerError ? `${error.name} ${error.code}: ${error.message}` : `NOT TYPED: ${String(error)}`;
    }
  }
  return seen;
}
