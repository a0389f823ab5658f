/**
 * `skyrl OPTIONS`: seconds of a policy-gradient step through the API, on our server and on SkyRL's, taken in turns: the same client,
 * the same data. Prints one line of JSON.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Datum, ModelInput, ServiceClient } from "../../packages/sdk/src/index.ts";
import { resolveModels } from "../../packages/server/src/models.ts";
import { serve } from "../../packages/server/src/serve.ts";
import { conversations } from "./scenarios.mjs";

interface Options {
  /** The model's folder. */
  readonly model: string;
  readonly rounds: number;
  /** Its server and its own copy of the model, whose folder is also its name there. */
  readonly skyrl: { readonly url: string; readonly model: string };
  readonly shape: { readonly count: number; readonly turns: number };
}

const { model, rounds, skyrl, shape } = JSON.parse(process.argv[2] ?? "{}") as Options;

const batchOf = (seed: number): Datum[] =>
  conversations({ ...shape, vocabSize: 4096, seed })
    .flat()
    .map(({ datum }) => {
      const { target_tokens, logprobs, advantages } = datum.lossFnInputs;
      return new Datum({
        modelInput: ModelInput.fromInts(datum.tokens),
        lossFnInputs: { target_tokens: target_tokens.data, logprobs: logprobs.data, advantages: advantages.data },
      });
    });

const through = async (baseUrl: string, baseModel: string) => {
  const service = await ServiceClient.connect({ baseUrl, apiKey: "tml-bench" });
  const trainer = await service.createLoraTrainingClient({ baseModel, rank: 16, seed: 1 });
  const step = async (seed: number) => {
    const data = batchOf(seed);
    const since = performance.now();
    const [passed] = await Promise.all([
      trainer.forwardBackward(data, "importance_sampling"),
      trainer.optimStep({ learningRate: 1e-5 }),
    ]);
    const seconds = (performance.now() - since) / 1000;
    // both must have done the same work: the first log-probs are before any step, the same model's on the same tokens
    return { seconds, logprobs: passed.lossFnOutputs.map((one) => Number(one["logprobs"]?.values.at(-1))) };
  };
  return { step, close: () => service.close() };
};

const work = mkdtempSync(join(tmpdir(), "tinklet-rl-skyrl-"));
const models = await resolveModels([model]);
const server = await serve({ models, dataDir: work, port: 0, log: "off" });
const sides = {
  ours: await through(server.url, models[0]?.name ?? model),
  skyrl: await through(skyrl.url, skyrl.model),
};
const seconds = { ours: [] as number[], skyrl: [] as number[] };
let apart = 0;
for (let round = 0; round <= rounds; round++) {
  const told = { ours: await sides.ours.step(round), skyrl: await sides.skyrl.step(round) };
  if (round === 0) {
    apart = Math.max(...told.ours.logprobs.map((value, i) => Math.abs(value - (told.skyrl.logprobs[i] ?? Number.NaN))));
    continue; // warms up: SkyRL compiles for each shape
  }
  seconds.ours.push(told.ours.seconds);
  seconds.skyrl.push(told.skyrl.seconds);
}
console.log(JSON.stringify({ ...seconds, apart }));
await sides.ours.close();
await sides.skyrl.close();
await server.close();
rmSync(work, { recursive: true, force: true });
process.exit(0);
