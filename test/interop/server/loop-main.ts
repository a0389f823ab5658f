/**
 * A training loop in TypeScript, of which test/interop/server/loop_server.py is the same in Python: `loop-main URL BASE_MODEL`. Prints one
 * line of JSON: the losses, what was sampled, and a digest of the adapter.
 */
import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { Datum, ModelInput, ServiceClient } from "../../../packages/sdk/src/index.ts";

const [url, baseModel] = process.argv.slice(2) as [string, string];
await using service = await ServiceClient.connect({ baseUrl: url, apiKey: "tml-loop" });
const training = await service.createLoraTrainingClient({ baseModel, rank: 8, seed: 42 });
const losses: (number | undefined)[] = [];
for (let step = 0; step < 10; step++) {
  const batch = Array.from({ length: 4 }, (_, i) => {
    const tokens = Array.from({ length: 24 }, (_unused, k) => ((7 * step + 3 * i + k * k) % 200) + 1);
    return new Datum({
      modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
      lossFnInputs: {
        target_tokens: tokens.slice(1),
        weights: Array.from({ length: 23 }, (_unused, k) => (k % 3 ? 1 : 0.5)),
      },
    });
  });
  const forward = training.forwardBackward(batch, "cross_entropy");
  await training.optimStep({ learningRate: 3e-3, weightDecay: 0.01, gradClipNorm: 1 });
  losses.push((await forward).metrics["loss:sum"]);
}
const sampler = await training.saveWeightsAndGetSamplingClient();
const response = await sampler.sample(ModelInput.fromInts([5, 6, 7]), {
  numSamples: 3,
  samplingParams: { maxTokens: 12, temperature: 0.8, seed: 7 },
});
const sampled = response.sequences.map(({ tokens }) => tokens);
const saved = await training.saveState("end");
const { url: link } = await service.createRestClient().getCheckpointArchiveUrlFromTinkerPath(saved.path);
const tar = gunzipSync(new Uint8Array(await (await fetch(link)).arrayBuffer()));
const adapter = fileOf(tar, "adapter_model.safetensors");
console.log(JSON.stringify({ losses, sampled, adapter: createHash("sha256").update(adapter).digest("hex") }));

function fileOf(archive: Buffer, wanted: string): Buffer {
  for (let at = 0; at < archive.length; ) {
    const name = archive
      .subarray(at, at + 100)
      .toString()
      .replace(/\0.*$/s, "");
    const size = Number.parseInt(archive.subarray(at + 124, at + 135).toString(), 8);
    if (name === wanted) return archive.subarray(at + 512, at + 512 + size);
    at += 512 + Math.ceil(size / 512) * 512;
  }
  throw new Error(`no ${wanted} in the archive`);
}
