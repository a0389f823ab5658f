// `npm run eval:base -- [FILE] [--model FOLDER]`: what the bundled model (or one rebuilt into FOLDER) can do, measured through
// our own engine: held-out perplexity per token and bits per byte by domain (the latter can be compared across tokenizers),
// additions by size, chat form, repetition, fifty fixed prompts, fifty stories, and what eval-base-abilities.mjs measures: everyday
// questions, instructions, tool calls, JSON by schema, a support fine-tune. Prints a table and writes everything, outputs included, to
// FILE. tools/pretrain/evaluate.py asks transformers all but the last five; the two should agree within sampling noise.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { modelPath } from "@tinklet/base-model";
import { openEngine } from "@tinklet/engine";
import { seededRandom } from "@tinklet/wire/entropy";
import { perplexity } from "../bench/base-model/recipes.mjs";
import { abilities, abilityRows } from "./eval-base-abilities.mjs";
import {
  complete as completeWith,
  END_OF_TEXT,
  IM_END,
  IM_START,
  prompts as promptsFor,
} from "./eval-base-sampling.mjs";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { model: { type: "string" } } });
const near = (path) => fileURLToPath(new URL(path, import.meta.url));
const readJson = (path) => JSON.parse(readFileSync(near(path), "utf8"));

const folder = values.model ?? modelPath;
const engine = await openEngine(folder, { onNotice: console.error });
const { ask, plain } = promptsFor(engine);
const complete = (prompts, options) => completeWith(engine, prompts, options);

/** Operands: every pair of digits, or `count` pairs of larger numbers. */
const pairs = (digits, count) => {
  if (digits === 1) return Array.from({ length: 100 }, (_, i) => [Math.floor(i / 10), i % 10]);
  const random = seededRandom(digits);
  const operand = () => 10 ** (digits - 1) + Math.floor(random() * 9 * 10 ** (digits - 1));
  return Array.from({ length: count }, () => [operand(), operand()]);
};

/** Share of sums answered exactly; in chat the answer must also end with the end-of-turn marker. */
const additions = async (operands, temperature, form) => {
  const prompts = await Promise.all(operands.map(([a, b]) => form(`What is ${a} + ${b}?`)));
  const made = await complete(prompts, { maxTokens: 8, temperature });
  const right = made.filter(({ ids, text }, i) => {
    const answer = text.split("\n")[0].trim();
    return answer === String(operands[i][0] + operands[i][1]) && (form === plain || ids.at(-1) === IM_END);
  });
  return right.length / operands.length;
};

/** Predicted tokens (all of a text but its first, and its end) per byte of text. */
const tokensPerByte = async (texts) => {
  const lengths = await Promise.all(texts.map(async (text) => (await plain(text)).length));
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return lengths.reduce((sum, length) => sum + length, 0) / bytes;
};

/** Share of word 4-grams that occurred before in the same text. */
const repetition = (texts) => {
  let repeated = 0;
  let total = 0;
  for (const text of texts) {
    const words = text.toLowerCase().match(/[a-z']+/g) ?? [];
    const grams = words.slice(3).map((_, i) => words.slice(i, i + 4).join(" "));
    repeated += grams.length - new Set(grams).size;
    total += grams.length;
  }
  return repeated / total;
};

const results = { runtime: engine.info.runtime, heldout: {}, bitsPerByte: {}, additions: {} };
for (const [domain, texts] of Object.entries(readJson("pretrain/heldout.json"))) {
  results.heldout[domain] = await perplexity(engine, null, texts);
  results.bitsPerByte[domain] = Math.log2(results.heldout[domain]) * (await tokensPerByte(texts));
}
const recipe = (question) =>
  ask(question, [
    { role: "user", content: "What is 4 + 5?" },
    { role: "assistant", content: "9" },
  ]);
for (const digits of [1, 2, 3]) {
  const operands = pairs(digits, 400);
  const repeated = digits === 1 ? [operands, operands, operands, operands].flat() : operands;
  results.additions[`${digits} digits, chat, temperature 1`] = await additions(repeated, 1, ask);
  results.additions[`${digits} digits, chat, greedy`] = await additions(operands, 0, ask);
  results.additions[`${digits} digits, plain question, temperature 1`] = await additions(repeated, 1, plain);
}
results.additions["2 digits, official recipe's example first, temperature 1"] = await additions(
  pairs(2, 400),
  1,
  recipe,
);

const prompts = readJson("pretrain/prompts.json");
const chats = prompts.filter(({ form }) => form === "chat").map(({ text }) => text);
const asked = await Promise.all([...chats, ...chats, ...chats, ...chats].map((text) => ask(text)));
const replies = await complete(asked, { maxTokens: 400, temperature: 1 });
const wellFormed = ({ ids, text }) =>
  ids.at(-1) === IM_END && !ids.includes(END_OF_TEXT) && !ids.includes(IM_START) && text.trim() !== "";
results.chatForm = replies.filter(wellFormed).length / replies.length;

const starts = await Promise.all(prompts.map(({ form, text }) => (form === "chat" ? ask(text) : plain(text))));
const outputs = await complete(starts, { maxTokens: 220, temperature: 0.8, seed: 5 });
results.outputs = prompts.map((prompt, i) => ({ ...prompt, output: outputs[i].text }));
results.repetition = repetition(outputs.map(({ text }) => text).filter((text) => text.split(" ").length > 60));

// Fifty stories to judge, at the temperature that generation_config.json names.
const openings = readJson("pretrain/story-openings.json");
const told = await complete(await Promise.all(openings.map(plain)), { maxTokens: 320, temperature: 0.6, seed: 200 });
results.stories = openings.map((opening, i) => opening + told[i].text);
results.abilities = await abilities(engine, folder);

const percent = (share) => `${(100 * share).toFixed(1)} %`;
console.log("| measure | value |\n|---|---|");
for (const [domain, value] of Object.entries(results.heldout)) {
  const bits = results.bitsPerByte[domain].toFixed(4);
  console.log(`| held-out perplexity, ${domain} | ${value.toFixed(3)} (${bits} bits per byte) |`);
}
for (const [name, share] of Object.entries(results.additions))
  console.log(`| additions: ${name} | ${percent(share)} |`);
console.log(`| chat form kept | ${percent(results.chatForm)} |\n| repeated 4-grams | ${percent(results.repetition)} |`);
for (const row of abilityRows(results.abilities)) console.log(`| ${row.join(" | ")} |`);
if (positionals[0] !== undefined) writeFileSync(positionals[0], `${JSON.stringify(results, null, 1)}\n`);
await engine.close();
