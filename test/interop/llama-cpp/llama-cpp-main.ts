// Writes models as GGUF into a folder, and beside them what our engine makes of each: greedy continuations with their log-probs, and texts of
// tokens.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Engine, openEngine, type SnapshotId } from "@tinklet/engine";
import {
  bundledModel,
  bundledModelFolder,
  type ExportOptions,
  exportModel,
  readPeft,
  writePeft,
} from "@tinklet/models";
import { readConfig, weightShapes } from "@tinklet/models/config";
import { createRandom } from "../../fixtures/models/random.ts";
import { families, randomModel } from "../../fixtures/models/random-model.ts";

const folder = process.argv[2] as string;
const maxTokens = 16;
/** As in llama-cpp.mjs: two of them apart, the order cannot change. */
const tolerance = 1e-2;
const models: unknown[] = [];

const texts = [
  "Once upon a time",
  "The sea was",
  "What is 2 + 3?",
  "Ahoy, captain!",
  "def add(a, b):",
  "The answer is",
  "A small boat",
  "One, two, three,",
  "I don't know",
  "Why is the sky blue?",
  "Her name was",
  "In the morning",
  "12 * 4 =",
  "你好",
  "naïve café",
  "\n\n",
  'He said: "',
  "It's 2024 and",
  "Tell me a story about a dog.",
  "The end",
];

/** Exports and describes one model. */
async function describe(
  name: string,
  base: string,
  adapter: string,
  prompts: readonly (readonly number[])[],
  options: Pick<ExportOptions, "dtype">,
) {
  const file = `${name.replaceAll(" ", "-")}.gguf`;
  await exportModel(base, join(folder, file), { ...options, format: "gguf", adapter });
  const live = await openEngine(base, { inThread: true, threads: 1 });
  const snapshot = await live.importSnapshot(await readPeft(adapter));
  const before = await Promise.all(prompts.map((prompt) => continued(live, prompt, snapshot)));
  await live.close();
  // The same numbers that llama.cpp reads: what is compared is how they are used.
  const engine = await openEngine(join(folder, file), { inThread: true, threads: 1 });
  try {
    const after = await Promise.all(prompts.map((prompt) => continued(engine, prompt)));
    models.push({
      name,
      file,
      exact: options.dtype === "f16",
      isBundled: base === bundledModel,
      isLive: before.every((one, at) => sameBeginning(one.continuation, after[at]!.continuation)),
      prompts: after,
      vocabulary: await vocabularyOf(engine),
    });
  } finally {
    await engine.close();
  }
}

/** Near ties may end one of them earlier. */
const sameBeginning = (a: readonly number[], b: readonly number[]) =>
  a.slice(0, b.length).every((token, at) => token === b[at]);

/** Our greedy continuation. Random models have near ties, where rounding decides: it ends before the first one. */
async function continued(engine: Engine, prompt: readonly number[], adapter?: SnapshotId) {
  const params = { temperature: 0, maxTokens, stop: [] };
  const { sequences } = await engine.sample({ prompt, ...(adapter && { adapter }), params, topkSampleLogprobs: 2 });
  const { tokens, logprobs, topkLogprobs } = sequences[0]!;
  const isTie = (at: number) => topkLogprobs!.logprobs[2 * at]! - topkLogprobs!.logprobs[2 * at + 1]! < 2 * tolerance;
  const end = tokens.findIndex((_, at) => isTie(at));
  const length = end < 0 ? tokens.length : end;
  return { prompt, continuation: [...tokens.slice(0, length)], logprobs: [...logprobs.slice(0, length)] };
}

/** What some tokens stand for: those that are text of their own. */
async function vocabularyOf(engine: Engine) {
  const ids = Array.from({ length: 200 }, (_, id) => id);
  const all = await Promise.all(ids.map(async (id) => ({ id, text: await engine.tokenizer.decode([id]) })));
  return all.filter(({ text }) => text !== "" && !text.includes("\ufffd"));
}

for (const [name, family] of Object.entries(families)) {
  const base = join(folder, name.replaceAll(" ", "-"));
  const { adapter, config } = await randomModel(base, family);
  const random = createRandom(11);
  const prompts = Array.from({ length: 20 }, (_, i) =>
    Array.from({ length: 3 + i }, () => random.integer(config.vocabSize)),
  );
  await describe(name, base, adapter, prompts, { dtype: "f16" });
}

const engine = await openEngine(bundledModelFolder(), { inThread: true, threads: 1 });
const prompts = await Promise.all(texts.map((text) => engine.tokenizer.encode(text)));
const shapes = weightShapes(readConfig(engine.info.config));
await engine.close();
const random = createRandom(5);
const weights = Object.fromEntries(
  [...shapes]
    .filter(([, { length }]) => length === 2)
    .filter(([name]) => name !== "model.embed_tokens.weight")
    .flatMap(([name, [outSize = 0, inSize = 0]]) => {
      const module = `base_model.model.${name.replace(/\.weight$/, "")}`;
      const values = (size: number) => Float32Array.from({ length: size }, () => 0.015 * random.normal());
      return [
        [`${module}.lora_A.weight`, { shape: [4, inSize], data: values(4 * inSize) }],
        [`${module}.lora_B.weight`, { shape: [outSize, 4], data: values(4 * outSize) }],
      ];
    }),
);
const adapter = join(folder, "bundled-adapter");
await writePeft(adapter, { lora: { rank: 4, alpha: 8 }, weights }, bundledModel);
await describe("the bundled model", bundledModel, adapter, prompts, { dtype: "f16" });
await describe("the bundled model in q8_0", bundledModel, adapter, prompts, { dtype: "q8_0" });
writeFileSync(join(folder, "expected.json"), JSON.stringify(models));
