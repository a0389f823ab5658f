// One side of the `rl` bench: the engine of the build in the folder given, in a process of its own. One JSON command per line in, one
// JSON line out; both sides make their data from the same seeds.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { conversations, groups, sharing, supervised } from "./scenarios.mjs";

const [build, folder, threads] = process.argv.slice(2);
const { openEngine } = await import(pathToFileURL(join(build, "packages/engine/dist/index.js")).href);
const engine = await openEngine(folder, { threads: Number(threads) });
const { vocabSize } = engine.info;
const { adapterId } = await engine.createAdapter({ rank: 16, seed: 1 });

/** As the SDK cuts a batch: no request has more data. */
const chunkSize = 128;
const since = (start) => (performance.now() - start) / 1000;

const trainStep = async (data, lossFn) => {
  const start = performance.now();
  const calls = [];
  for (let at = 0; at < data.length; at += chunkSize) {
    calls.push(engine.forwardBackward(adapterId, { data: data.slice(at, at + chunkSize), lossFn }));
  }
  calls.push(engine.optimStep(adapterId, { learningRate: 1e-5 }));
  await Promise.all(calls);
  return since(start);
};

const sumPrompts = async (count, seed) => {
  const file = join(folder, "data/arithmetic/train.jsonl");
  const lines = readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .slice(seed * count, (seed + 1) * count);
  const asked = lines.map((line) => [JSON.parse(line).messages[0]]);
  return Promise.all(
    asked.map((messages) => engine.tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true })),
  );
};

const commands = {
  async groups({ count, answers, seed }) {
    const prompts = await sumPrompts(count, seed % 20);
    const snapshot = await engine.snapshot(adapterId);
    const start = performance.now();
    const params = { maxTokens: 6, temperature: 1, seed: 1 };
    await Promise.all(
      prompts.map((prompt) => engine.sample({ prompt, adapter: snapshot, numSamples: answers, params })),
    );
    const sampling = since(start);
    await engine.deleteSnapshot(snapshot);
    const data = groups(prompts, { answers, vocabSize, seed });
    return { sampling, training: await trainStep(data, "importance_sampling") };
  },
  /** Every conversation goes its own way: the next turn is asked for when the last was answered. */
  async multiTurn({ count, turns, seed }) {
    const all = conversations({ count, turns, vocabSize, seed });
    const snapshot = await engine.snapshot(adapterId);
    let prefilled = 0;
    const start = performance.now();
    await Promise.all(
      all.map(async (conversation) => {
        for (const { prompt } of conversation) {
          const params = { maxTokens: 40, temperature: 1, seed: 1 };
          const result = await engine.sample({ prompt, adapter: snapshot, params });
          prefilled += prompt.length - result.promptCacheHitTokens;
        }
      }),
    );
    const sampling = since(start);
    await engine.deleteSnapshot(snapshot);
    const data = all.flatMap((conversation) => conversation.map(({ datum }) => datum));
    return { sampling, prefilled, training: await trainStep(data, "importance_sampling") };
  },
  /** The training of some conversations alone. */
  async conversations({ count, turns, seed }) {
    const data = conversations({ count, turns, vocabSize, seed }).flatMap((turn) => turn.map(({ datum }) => datum));
    return { training: await trainStep(data, "importance_sampling") };
  },
  /** Prompts that nobody has asked before, one after the other. */
  async cold({ count, length, seed }) {
    const prompts = sharing({ count, length, shared: 0, vocabSize, seed });
    const start = performance.now();
    for (const prompt of prompts) await engine.sample({ prompt, params: { maxTokens: 1, seed: 1 } });
    return { sampling: since(start) };
  },
  async sharing({ count, length, shared, seed }) {
    const sequences = sharing({ count, length, shared, vocabSize, seed });
    const snapshot = await engine.snapshot(adapterId);
    const start = performance.now();
    const params = { maxTokens: 1, temperature: 1, seed: 1 };
    await Promise.all(sequences.map((prompt) => engine.sample({ prompt, adapter: snapshot, params })));
    const sampling = since(start);
    await engine.deleteSnapshot(snapshot);
    return { sampling, training: await trainStep(supervised(sequences), "cross_entropy") };
  },
};

console.log(JSON.stringify({ ready: true, runtime: engine.info.runtime }));
for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...args } = JSON.parse(line);
  if (name === "quit") break;
  console.log(JSON.stringify(await commands[name](args)));
}
await engine.close();
