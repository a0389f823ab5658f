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

/** What the stub says of itself, to both SDKs. */
export const stubConfig = { fwdbwd_max_chunk_len: 2, sample_join_sampling_session: true };

/** What 0.36.0 brought; program_newer.py is the same with the official SDK. */
export async function newerProgram(sdk, url) {
  const { AdminClient, Datum, ModelInput, RestClient, SamplingClient, ServiceClient, TensorData } = sdk;
  const quiet = { apiKey: "tml-conversation", baseUrl: url, telemetry: false, logLevel: "error" };
  const service = new ServiceClient({ ...quiet, userMetadata: { run: "1" }, displayName: "a talk", projectId: "p1" });
  const baseModel = "stub/model";
  const trainer = await service.createLoraTrainingClient({
    baseModel,
    rank: 8,
    seed: 3,
    optimizer: { type: "dimuon", version: 1 },
  });
  const datum = new Datum({ modelInput: [1, 2, 3], lossFnInputs: { target_tokens: [2, 3, 4], weights: [1, 1, 1] } });
  const sequenceId = "s:0";
  const traced = datum.withProvenance({
    modelInput: [
      { type: "prompt", sequenceId, length: 2 },
      { type: "sampled", sequenceId, length: 1 },
    ],
    lossFnInputs: [
      { type: "prompt", sequenceId, offset: 1, length: 1 },
      { type: "sampled", sequenceId, length: 2 },
    ],
  });
  await trainer.forwardBackward([traced], "stable_reinforce", { lossFnConfig: { mode: "text" } });
  await trainer.optimStep({ type: "dimuon", learningRate: 0.5, gradClipNorm: 1 });
  await trainer.saveState("ck", { userMetadata: { a: "b" } });
  await trainer.saveWeightsForSampler("sw", { userMetadata: { c: "d" } });
  await trainer.saveWeightsExternal("ext", { ttlSeconds: 3600, ageEncryptionRecipients: ["age1x"] });
  await service.createLoraTrainingClient({ baseModel, rank: 4, seed: 1 });
  const sampler = await service.createSamplingClient({ baseModel, recordStabilityInfo: true });
  const prompt = ModelInput.fromInts([1, 2, 3]);
  const samplingParams = { maxTokens: 4, seed: 7, stop: [] };
  const targetPromptLogprobs = TensorData.from([[5], [-1]], { dtype: "int64" });
  // The stub has none of it: the official client goes on without, this one says so.
  await sampler.sample(prompt, { samplingParams, topkSampleLogprobs: 2, targetPromptLogprobs }).catch(() => {});
  await sampler.computeLogprobs(prompt, { promptLogprobsLastN: 2 });
  const other = await SamplingClient.fromSamplerHandle(await sampler.getSamplerHandle(), {
    ...quiet,
    baseUrl: undefined,
  });
  await other.sample(prompt, { samplingParams });
  const rest = new RestClient(quiet);
  const path = "tinker://session-1:train:0/weights/ck";
  await rest.copyWeights(path, { destinationProjectId: "p2", ttlSeconds: 7200, weightsAccessToken: "tml-theirs" });
  await service.copyWeights(path);
  await rest.getExternalWeightsUrls("tinker://session-1:train:0/external_weights/ext");
  await rest.searchSessions({
    displayName: "a talk",
    userMetadata: { run: "1" },
    statuses: [{ type: "active" }],
    limit: 3,
  });
  await rest.listTrainingRuns({ limit: 5, projectId: "p1" });
  await rest.getWeightsInfoByTinkerPath(path);
  await rest.setCheckpointTtlFromTinkerPath(path, 60);
  await rest.publishCheckpointFromTinkerPath(path);
  await rest.unpublishCheckpointFromTinkerPath(path);
  const admin = new AdminClient(quiet);
  await admin.getCurrentCheckpointStorageUsage({ projectId: "p1" });
  await admin.getAuditLog({ eventType: "projects", day: "2026-07-13" });
  await Promise.all([other.close(), rest.close(), admin.close()]);
  await service.close("success", "three epochs");
}
