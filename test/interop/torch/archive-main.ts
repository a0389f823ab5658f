/**
 * Trains through the server, and what it says of a sequence: `archive-main URL BASE_MODEL`. Prints one line of JSON with the
 * checkpoint's path, its archive's address, and log-probs of the base model and of the adapter. With a folder as third argument, the
 * adapter in it is imported instead of trained.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Datum, ModelInput, ServiceClient } from "../../../packages/sdk/src/index.ts";

const [url, baseModel, folder] = process.argv.slice(2) as [string, string, string?];
const apiKey = "tml-archive";
await using service = await ServiceClient.connect({ baseUrl: url, apiKey });
const tokens = Array.from({ length: 24 }, (_, i) => (i * 37 + 11) % 60);

async function trained(): Promise<string> {
  const training = await service.createLoraTrainingClient({ baseModel, rank: 8, seed: 1 });
  const datum = new Datum({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: { target_tokens: tokens.slice(1) },
  });
  for (let step = 0; step < 5; step++) {
    const pass = training.forwardBackward([datum], "cross_entropy");
    await training.optimStep({ learningRate: 0.01 });
    await pass;
  }
  return (await training.saveWeightsForSampler("trained")).path;
}

async function imported(from: string): Promise<string> {
  const form = new FormData();
  form.set("name", "back");
  form.set("base_model", baseModel);
  for (const file of ["adapter_config.json", "adapter_model.safetensors"]) {
    form.set(file, new Blob([await readFile(join(from, file))]), file);
  }
  const headers = { "x-api-key": apiKey };
  const answer = await fetch(`${url}/api/v1/tinklet/import_adapter`, { method: "POST", headers, body: form });
  const told = (await answer.json()) as { tinker_path?: string };
  if (told.tinker_path === undefined) throw new Error(JSON.stringify(told));
  return told.tinker_path;
}

const logprobs = async (from: { baseModel?: string; modelPath?: string }) => {
  const sampler = await service.createSamplingClient(from);
  return (await sampler.computeLogprobs(ModelInput.fromInts(tokens))).slice(1);
};
const path = folder === undefined ? await trained() : await imported(folder);
const { url: archive } = await service.createRestClient().getCheckpointArchiveUrlFromTinkerPath(path);
const [base, adapted] = [await logprobs({ baseModel }), await logprobs({ modelPath: path })];
console.log(JSON.stringify({ path, archive, tokens, base, adapted }));
