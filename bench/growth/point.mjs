// One point of the `growth` bench, in a process of its own so that its peak memory is its own: `point FOLDER JSON`, where the JSON has
// `do` ("train" or "sample"), `sequences`, `length`, `new`, `rank`, `adapters` and `repeats`. Prints one line of JSON.
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { openEngine } from "@tinklet/engine";
import { seededRandom } from "@tinklet/wire/entropy";

const [folder, text] = process.argv.slice(2);
const point = JSON.parse(text);
const random = seededRandom(point.seed ?? 1);
const engine = await openEngine(folder, { threads: availableParallelism(), maxBatch: 64 });
const { vocabSize } = engine.info;
const ids = (length) => Int32Array.from({ length }, () => Math.floor(random() * vocabSize));
const memory = (field) =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;

const adapters = [];
for (let i = 0; i < point.adapters; i++) {
  adapters.push((await engine.createAdapter({ rank: point.rank, seed: i, trainUnembed: false })).adapterId);
}

/** Every adapter trains its share of the sequences. */
const train = async () => {
  const share = Math.max(1, Math.ceil(point.sequences / adapters.length));
  await Promise.all(
    adapters.flatMap((adapterId) => [
      engine.forwardBackward(adapterId, {
        lossFn: "cross_entropy",
        data: Array.from({ length: share }, () => ({
          tokens: ids(point.length),
          lossFnInputs: { target_tokens: { data: ids(point.length) } },
        })),
      }),
      engine.optimStep(adapterId, { learningRate: 1e-5 }),
    ]),
  );
  return share * adapters.length * point.length;
};

/** Sequences with prompts of their own, which take turns with the adapters. */
const sample = async () => {
  await Promise.all(
    Array.from({ length: point.sequences }, (_, i) =>
      engine.sample({
        prompt: ids(point.length - point.new),
        adapter: adapters[i % adapters.length],
        params: { maxTokens: point.new, temperature: 1, seed: i },
      }),
    ),
  );
  return point.sequences * point.length;
};

const open = memory("VmRSS");
const work = { train, sample }[point.do];
await work(); // compiles
const seconds = [];
let tokens = 0;
for (let i = 0; i < point.repeats; i++) {
  const start = performance.now();
  tokens = await work();
  seconds.push((performance.now() - start) / 1000);
}
const bytes = memory("VmHWM") - open;
console.log(JSON.stringify({ seconds: seconds.sort((a, b) => a - b), tokens, bytes }));
await engine.close();
