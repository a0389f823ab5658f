/**
 * `train OPTIONS`: tokens per second of the bare engine, through our server's API, and (with `skyrlUrl`) through SkyRL's, taken in
 * turns. Also how long the process's event loop, which is the server's and the client's here, was held up meanwhile. Prints one line
 * of JSON.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine } from "../../packages/engine/src/index.ts";
import { Datum, ModelInput, ServiceClient } from "../../packages/sdk/src/index.ts";
import { serve } from "../../packages/server/src/serve.ts";
import { watchLoop } from "../../test/fixtures/programs/loop-delay.ts";

interface Options {
  /** The model's folder. */
  readonly model: string;
  readonly rounds: number;
  readonly skyrlUrl?: string;
}

const { model, rounds, skyrlUrl } = JSON.parse(process.argv[2] ?? "{}") as Options;
const steps = 4;
const rank = 16;
const rows = Array.from({ length: 4 }, (_, i) =>
  Array.from({ length: 256 }, (_unused, k) => 5 + ((i * 31 + k * 7) % 200)),
);
/** Tokens per second of some steps. */
const rateOf = async (work: () => Promise<void>): Promise<number> => {
  const started = performance.now();
  await work();
  return (rows.length * 256 * steps) / ((performance.now() - started) / 1000);
};

const engine = await openEngine(model);
const { adapterId } = await engine.createAdapter({ rank, seed: 1 });
const bare = async () => {
  for (let step = 0; step < steps; step++) {
    await engine.forwardBackward(adapterId, {
      lossFn: "cross_entropy",
      data: rows.map((row) => ({
        tokens: row,
        lossFnInputs: { target_tokens: { data: row }, weights: { data: row.map(() => 1) } },
      })),
    });
    await engine.optimStep(adapterId, { learningRate: 1e-4 });
  }
};

const batch = rows.map(
  (row) =>
    new Datum({
      modelInput: ModelInput.fromInts(row),
      lossFnInputs: { target_tokens: row, weights: row.map(() => 1) },
    }),
);
/** Training by a client: all steps are on the queue before the first is awaited. */
const through = async (baseUrl: string, baseModel: string) => {
  const service = await ServiceClient.connect({ baseUrl, apiKey: "tml-bench" });
  const training = await service.createLoraTrainingClient({ baseModel, rank, seed: 1 });
  const run = async () => {
    const pending = [];
    for (let step = 0; step < steps; step++)
      pending.push(training.forwardBackward(batch, "cross_entropy"), training.optimStep({ learningRate: 1e-4 }));
    for (const future of pending) await future;
  };
  return { run, close: () => service.close() };
};

const work = mkdtempSync(join(tmpdir(), "tinklet-train-"));
// the same engine behind the server, so that both have the same threads and caches
const server = await serve({
  models: [{ name: "bench/model", open: async () => engine }],
  dataDir: work,
  port: 0,
  log: "off",
});
const ours = await through(server.url, "bench/model");
const theirs = skyrlUrl === undefined ? undefined : await through(skyrlUrl, model);
const measured = { bare: [] as number[], api: [] as number[], skyrl: [] as number[] };
for (const run of [bare, ours.run, ...(theirs === undefined ? [] : [theirs.run])]) await run(); // warm
const loop = watchLoop();
for (let i = 0; i < rounds; i++) {
  // who comes first changes from round to round
  const turns = [
    async () => measured.bare.push(await rateOf(bare)),
    async () => measured.api.push(await rateOf(ours.run)),
  ];
  for (const turn of i % 2 === 0 ? turns : turns.reverse()) await turn();
  if (theirs !== undefined) measured.skyrl.push(await rateOf(theirs.run));
}
console.log(JSON.stringify({ ...measured, loop: loop() }));
await ours.close();
await theirs?.close();
await server.close();
rmSync(work, { recursive: true, force: true });
process.exit(0);
