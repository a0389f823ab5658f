/** The checks on real models; see real.mjs for how to run them. A check that fails throws. */

import { deepStrictEqual, ok } from "node:assert";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createTextStream, type Tokenizer } from "../../../packages/engine/src/tokenizer/index.ts";
import { openModel } from "../../../packages/engine/src/weights/index.ts";
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
}

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
  const chat = tokenizer.applyChatTemplate([{ role: "user", content: "Hi" }], { addGenerationPrompt: true });
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
