// The program whose requests are compared: this SDK's side. program.py is the same program with the official SDK.
export async function program(sdk, url) {
  const { ServiceClient, ModelInput, Datum } = sdk;
  const datum = (first) => {
    const tokens = [first, first + 1, first + 2];
    return new Datum({
      modelInput: ModelInput.fromInts(tokens),
      lossFnInputs: { target_tokens: tokens.map((token) => token + 1), weights: [1, 0.5, 1] },
    });
  };
  const service = new ServiceClient({
    apiKey: "tml-conversation",
    baseUrl: url,
    userMetadata: { run: "1" },
    projectId: "p1",
    telemetry: false,
    logLevel: "error",
  });
  const baseModel = "stub/model";
  const trainer = await service.createLoraTrainingClient({ baseModel, rank: 8, seed: 3, userMetadata: { x: "y" } });
  for (let i = 0; i < 3; i++) {
    const batch = Array.from({ length: 5 }, (_, n) => datum(10 * i + n));
    const pass = trainer.forwardBackward(batch, "cross_entropy");
    const step = trainer.optimStep({ learningRate: 1e-4 * (i + 1) });
    await pass;
    await step;
  }
  await trainer.saveState("ck", { ttlSeconds: 60 });
  await trainer.saveWeightsForSampler("sw");
  const sampler = await trainer.saveWeightsAndGetSamplingClient();
  const samplingParams = { maxTokens: 4, seed: 7, stop: [1, 2], temperature: 0.5 };
  const prompts = Array.from({ length: 50 }, (_, n) => ModelInput.fromInts([n, n + 1]));
  await Promise.all(prompts.map((prompt) => sampler.sample(prompt, { numSamples: 2, samplingParams })));
  await sampler.computeLogprobs(prompts[0]);
  await trainer.forwardBackwardCustom([datum(1), datum(5)], (_, logprobs) => ({
    loss: logprobs.map((lp) => lp.mul(lp).sum()).reduce((a, b) => a.add(b)),
    metrics: { mine: 7 },
  }));
  await trainer.optimStep({});
  await trainer.getInfo();
  await service.createSamplingClient({ baseModel });
  const again = await service.createTrainingClientFromState("tinker://session-1:train:0/weights/ck");
  await again.optimStep({ learningRate: 0.5, gradClipNorm: 1 });
  const rest = service.createRestClient();
  const path = "tinker://session-1:train:0/weights/ck";
  await rest.listTrainingRuns({ limit: 5, projectId: "p1" });
  await rest.listUserCheckpoints({ limit: 7, offset: 1 });
  await rest.listCheckpoints("session-1:train:0");
  await rest.setCheckpointTtlFromTinkerPath(path, null);
  await rest.getCheckpointArchiveUrlFromTinkerPath(path);
  await rest.publishCheckpointFromTinkerPath(path);
  await rest.deleteCheckpointFromTinkerPath(path);
  await rest.listSessions();
  await service.close();
}
