/** The checks on real models; see real.mjs for how to run them. A check that fails throws. */

import { deepStrictEqual, ok } from "node:assert";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openEngine } from "../../../../packages/engine/src/index.ts";
import type { EngineTokenizer } from "../../../../packages/engine/src/types.ts";
import { createTextStream, type Tokenizer } from "../../../../packages/models/src/tokenizer/index.ts";
import { openModel } from "../../../../packages/models/src/weights/open-model.ts";
import { checkGreedy, checkLearning } from "./engine-checks.ts";
import { BOS, convertLlama2c, encodeByScores } from "./llama2c.ts";

export interface RealModels {
  /** llama2.c's file with weights and vocabulary. */
  readonly stories: string;
  /** Where its conversion goes. */
  readonly storiesFolder: string;
  /** SmolLM2 as GGUF. */
  readonly smollm: string;
}

const texts = [
  "Once upon a time, there was a little girl named Lily.",
  "Hello world! 123",
  "  two spaces,\ttabs\nand\r\n\r\nlines  ",
  "don't I'm we've THEY'LL",
  "naïve café — “quotes” … €5.50",
  "日本語 中文 한국어 العربية हिन्दी",
  "👩‍👩‍👧 🦊 e\u0301 \u0000 \u{10ffff}",
  "for (let i = 0; i < 10; i++) { x[i] += 1; }",
  "a".repeat(200),
];

export async function runReal(models: RealModels): Promise<void> {
  await checkStories(models);
  await checkSmollm(models);
  await useEngine("stories15M", models.storiesFolder, {
    prompt: (tokenizer) => tokenizer.encode("Once upon a time, there was a brave"),
    expected: greedyStory,
    steps: 20,
  });
  await useEngine("SmolLM2-135M", models.smollm, {
    prompt: (tokenizer) =>
      tokenizer.applyChatTemplate([{ role: "user", content: "What is the capital of France?" }], {
        addGenerationPrompt: true,
      }),
    expected: [504, 3575, 282, 4649, 314, 7042, 30, 2],
    steps: 8,
  });
}

/** What transformers 5.22 writes in float32 from the converted folder. */
const greedyStory = [
  2217, 7826, 4257, 365, 2354, 29889, 2296, 18012, 304, 1708, 5377, 322, 26987, 278, 3186, 2820, 902, 29889, 3118, 2462,
  29892, 1183, 1476, 263, 528, 4901, 7679, 373, 278, 5962, 29889, 2296, 18691, 372, 701, 322, 10018, 372, 304, 902,
  16823, 29889, 13, 29908, 14959, 29892, 341, 290, 1357, 29991, 306, 1476, 263, 5051, 7679, 3850, 365, 2354, 1497,
  29889,
];

interface EngineTask {
  prompt(tokenizer: EngineTokenizer): Promise<number[]>;
  readonly expected: readonly number[];
  readonly steps: number;
}

async function useEngine(name: string, source: string, task: EngineTask): Promise<void> {
  const start = performance.now();
  const engine = await openEngine(source, { inThread: true, onNotice: report });
  try {
    report(`${name}: opened in ${seconds(performance.now() - start)} on the ${engine.info.runtime} runtime`);
    const text = await checkGreedy(engine, await task.prompt(engine.tokenizer), task.expected);
    report(`${name}: ${task.expected.length} greedy tokens equal transformers': ${JSON.stringify(text)}`);
    const sampled = await engine.sample({
      prompt: await task.prompt(engine.tokenizer),
      params: { temperature: 0.7, topP: 0.9, maxTokens: 80, seed: 7 },
    });
    report(
      `${name}: sampled: ${JSON.stringify(await engine.tokenizer.decode([...(sampled.sequences[0]?.tokens ?? [])]))}`,
    );
    const learned = await checkLearning(engine, task.steps);
    const rate = (learned.tokens / learned.seconds).toFixed(0);
    report(
      `${name}: held-out loss ${learned.before.toFixed(3)} → ${learned.after.toFixed(3)} per token after ${learned.steps} steps ` +
        `(${learned.tokens} tokens, ${rate} tokens/s)`,
    );
  } finally {
    await engine.close();
  }
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

async function checkStories({ stories, storiesFolder }: RealModels): Promise<void> {
  const vocabulary = await convertLlama2c(stories, storiesFolder);
  ok(existsSync(join(storiesFolder, "model.safetensors")));
  const model = await openModel(storiesFolder);
  const tokenizer = await model.loadTokenizer();
  for (const text of texts) {
    deepStrictEqual(tokenizer.encode(text), [BOS, ...encodeByScores(text, vocabulary)], text);
    checkRoundTrip(tokenizer, text);
  }
  report(
    `stories15M: ${model.weights.tensors.size} tensors, tokenizer agrees with SentencePiece's rule on ${texts.length} texts`,
  );
  model.close();
}

async function checkSmollm({ smollm }: RealModels): Promise<void> {
  const model = await openModel(smollm);
  let parameters = 0;
  for (const name of model.weights.tensors.keys()) parameters += model.weights.readFloat32(name).length;
  deepStrictEqual(parameters, 134_515_008);
  const tokenizer = await model.loadTokenizer();
  // As published for this tokenizer.
  deepStrictEqual(tokenizer.encode("Hello world! 123"), [19556, 905, 17, 216, 33, 34, 35]);
  deepStrictEqual(tokenizer.encode("The capital of France is"), [504, 3575, 282, 4649, 314]);
  for (const text of texts) checkRoundTrip(tokenizer, text);
  const chat = tokenizer.applyChatTemplate([{ role: "user", content: "Hi" }], {
    addGenerationPrompt: true,
    tokenize: false,
  });
  ok(chat.endsWith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"), chat);
  report(
    `SmolLM2-135M: ${model.weights.tensors.size} tensors, ${parameters} values, tokenizer round-trips, chat template renders`,
  );
  model.close();
}

function checkRoundTrip(tokenizer: Tokenizer, text: string): void {
  const ids = tokenizer.encode(text, { addSpecialTokens: false });
  deepStrictEqual(tokenizer.decode(ids), text);
  const stream = createTextStream(tokenizer);
  deepStrictEqual(ids.map((id) => stream.push(id)).join("") + stream.end(), text);
}

function report(line: string): void {
  console.log(line);
}
