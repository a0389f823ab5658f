// The bundled files are what they are said to be: our engine computes what transformers computes from them, the chat
// template renders as the model was trained, the datasets are well formed and their two sides share nothing.
import { readFileSync, statSync } from "node:fs";
import { openEngine } from "@tinklet/engine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DatasetPaths, datasets, modelPath } from "../../packages/base-model/index.js";
import { quickstartPrompts } from "../../packages/tinklet/src/cli/quickstart/quickstart-examples.ts";

interface Case {
  readonly text: string;
  readonly tokens: number[];
  readonly promptLogprobs: number[];
  readonly topTokens: number[][];
  readonly topLogprobs: number[][];
  readonly greedy: number[];
}

const cases: Case[] = JSON.parse(
  readFileSync(new URL("../fixtures/base-model/transformers.json", import.meta.url), "utf8"),
);

describe("the weights, through our engine", () => {
  let engine: Awaited<ReturnType<typeof openEngine>>;
  beforeAll(async () => {
    engine = await openEngine(modelPath, { inThread: true, threads: 1 });
  });
  afterAll(() => engine.close());

  it.each(cases)("agree with transformers on $text", async ({ text, tokens, promptLogprobs, greedy, ...top }) => {
    expect(await engine.tokenizer.encode(text, { addSpecialTokens: false })).toEqual(tokens);
    const result = await engine.sample({
      prompt: tokens,
      promptLogprobs: true,
      topkPromptLogprobs: 5,
      params: { temperature: 0, maxTokens: greedy.length, stop: [0, 2] },
    });
    promptLogprobs.forEach((expected, i) => {
      expect(Math.abs(result.promptLogprobs![i + 1]! - expected)).toBeLessThan(1e-3);
    });
    // Row i + 1 of the engine's top tokens is the prediction made after token i.
    const { tokenIds, logprobs } = result.topkPromptLogprobs!;
    for (let i = 0; i + 1 < tokens.length; i++) {
      for (let k = 0; k < 5; k++) {
        expect(Math.abs(logprobs[(i + 1) * 5 + k]! - top.topLogprobs[i]![k]!)).toBeLessThan(1e-3);
      }
      expect(tokenIds[(i + 1) * 5]).toBe(top.topTokens[i]![0]);
    }
    expect([...result.sequences[0]!.tokens]).toEqual(greedy);
  });

  it("renders the chat template as the model was trained", async () => {
    const ids = await engine.tokenizer.applyChatTemplate([{ role: "user", content: "What is 4 + 5?" }], {
      addGenerationPrompt: true,
    });
    expect(await engine.tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(
      "<|im_start|>user\nWhat is 4 + 5?<|im_end|>\n<|im_start|>assistant\n",
    );
  });

  it("writes numbers one digit to a token", async () => {
    expect(await engine.tokenizer.encode("1234", { addSpecialTokens: false })).toHaveLength(4);
  });
});

it("adds less than 16 MB to an install", () => {
  const files = ["model.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json"];
  const data = Object.values(datasets).flatMap(({ train, heldout }) => [train, heldout]);
  const bytes = [...files.map((file) => modelPath + file), ...data].reduce((sum, file) => sum + statSync(file).size, 0);
  expect(bytes).toBeLessThan(16e6);
});

describe("the datasets", () => {
  const read = (path: string): [question: string, answer: string][] =>
    readFileSync(path, "utf8")
      .trim()
      .split("\n")
      .map((line) => {
        const { messages } = JSON.parse(line) as { messages: { role: string; content: string }[] };
        expect(messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
        return [messages[0]!.content, messages[1]!.content];
      });
  const sides = ({ train, heldout }: DatasetPaths) => ({ train: read(train), heldout: read(heldout) });

  it("pirate: no question, no line and no run of five words on both sides", () => {
    const { train, heldout } = sides(datasets.pirate);
    const runs = (text: string): string[] => {
      const words = text.toLowerCase().match(/[a-z']+/g) ?? [];
      return words.slice(4).map((_, i) => words.slice(i, i + 5).join(" "));
    };
    const seen = new Set(train.flat().flatMap((text) => [text, ...runs(text)]));
    expect(heldout.flat().filter((text) => [text, ...runs(text)].some((part) => seen.has(part)))).toEqual([]);
  });

  it("pirate: no question that the quickstart asks, or is judged by, is in the training data", () => {
    const asked = JSON.parse(
      readFileSync(new URL("../../tools/pretrain/quickstart-questions.json", import.meta.url), "utf8"),
    );
    const questions = new Set(read(datasets.pirate.train).map(([question]) => question));
    expect(questions.size).toBe(1280);
    expect(Object.keys(asked).filter((question) => questions.has(question))).toEqual([]);
    expect(Object.keys(asked)).toEqual(expect.arrayContaining([...quickstartPrompts]));
  });

  it("arithmetic: two-digit sums as the official recipe asks them, all right, none on both sides", () => {
    const { train, heldout } = sides(datasets.arithmetic);
    for (const [question, answer] of [...train, ...heldout]) {
      const [, a, b] = /^What is (\d\d) \+ (\d\d)\?$/.exec(question)!;
      expect(Number(a) + Number(b)).toBe(Number(answer));
    }
    const questions = [...train, ...heldout].map(([question]) => question);
    expect(new Set(questions).size).toBe(questions.length);
  });
});
