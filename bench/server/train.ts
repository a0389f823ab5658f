/** `train MODEL_FOLDER`: tokens per second of the bare engine and through the server's API, taken in turns. Prints one line of JSON. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine } from "../../packages/engine/src/index.ts";
import { serve } from "../../packages/server/src/serve.ts";
import { Datum, ModelInput, ServiceClient } from "../../packages/tinklet/src/index.ts";

const [folder] = process.argv.slice(2) as [string];
const steps = 4;
const data = Array.from({ length: 4 }, (_, i) =>
  Array.from({ length: 256 }, (_unused, k) => 5 + ((i * 31 + k * 7) % 200)),
);
const tokens = data.length * 256 * steps;
const engine = await openEngine(folder);
const { adapterId } = await engine.createAdapter({ rank: 16, seed: 1 });
const bare = async () => {
  const started = performance.now();
  for (let step = 0; step < steps; step++) {
    await engine.forwardBackward(adapterId, {
      lossFn: "cross_entropy",
      data: data.map((row) => ({
        tokens: row,
        lossFnInputs: { target_tokens: { data: row }, weights: { data: row.map(() => 1) } },
      })),
    });
    await engine.optimStep(adapterId, { learningRate: 1e-4 });
  }
  return tokens / ((performance.now() - started) / 1000);
};
const work = mkdtempSync(join(tmpdir(), "tinklet-train-"));
// the same engine behind the server, so that both have the same threads and caches
const server = await serve({
  models: [{ name: "bench/model", open: async () => engine }],
  dataDir: work,
  port: 0,
  log: "off",
});
const service = await ServiceClient.connect({ baseUrl: server.url, apiKey: "tml-bench" });
const training = await service.createLoraTrainingClient({ baseModel: "bench/model", rank: 16, seed: 1 });
const batch = data.map(
  (row) =>
    new Datum({
      modelInput: ModelInput.fromInts(row),
      lossFnInputs: { target_tokens: row, weights: row.map(() => 1) },
    }),
);
const api = async () => {
  const started = performance.now();
  const pending = [];
  for (let step = 0; step < steps; step++)
    pending.push(training.forwardBackward(batch, "cross_entropy"), training.optimStep({ learningRate: 1e-4 }));
  for (const future of pending) await future;
  return tokens / ((performance.now() - started) / 1000);
};
await bare();
await api();
const measured = { bare: [] as number[], api: [] as number[] };
for (let i = 0; i < 5; i++) {
  measured.bare.push(await bare());
  measured.api.push(await api());
}
const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
console.log(JSON.stringify({ bare: median(measured.bare), api: median(measured.api) }));
await service.close();
await server.close();
rmSync(work, { recursive: true, force: true });
process.exit(0);
