// Several models on the same items: equal to the loops' own loss and to `evaluate`, and what cannot be scored.
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createChat } from "@tinklet/models/chat";
import { describe, expect, it } from "vitest";
import { toExample } from "../data/examples.ts";
import { prepareExamples } from "../data/prepare.ts";
import { evaluateNll } from "../loops/nll.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { ScriptedSampler } from "../testing/scripted-sampler.ts";
import { compareAnswers } from "./answer-pairs.ts";
import { exactScore, jsonScore, judgeScore, regexScore, verdictOf } from "./answer-scores.ts";
import { compareOnData, compareOnTasks } from "./compare-models.ts";
import { evaluationItems } from "./data-items.ts";
import { evaluate } from "./evaluate.ts";
import { evaluationSummary, writeEvaluation } from "./evaluation-folder.ts";
import { exactMatch } from "./tasks.ts";

const tokenizer = letterTokenizer();
const chat = createChat(tokenizer);
const rows = ["1", "2", "3", "4"].map((digit) => ({
  messages: [
    { role: "user", content: `say ${digit}` },
    { role: "assistant", content: digit },
  ],
}));
const data = [...rows, { prompt: "ab", completion: "ba" }, { text: "abab" }];
const examples = data.map((row) => toExample(row));
const items = evaluationItems(examples, tokenizer);
/** Repeats the digit, but answers 3 with "?". */
const obedient = new ScriptedSampler(tokenizer, (prompt) => {
  const said = /say (\d)/.exec(prompt)?.[1] ?? "";
  return said === "3" ? "?<end>" : `${said}<end>`;
});
const scorer = async () => [];
const model = (sampler: ScriptedSampler) => ({
  label: "scripted",
  sampler: { sample: sampler.sample.bind(sampler), computeLogprobs: scorer },
});
const onlyAnswers = items.map((item) => ({ ...item, data: [] }));

describe("compareOnData", () => {
  it("has the loss that the training loops have on the same data, before and after training", async () => {
    const service = new BigramService();
    const trainer = service.trainer();
    const test = prepareExamples(data, tokenizer).train;
    const before = { label: "before", sampler: service.reference() };
    const untrained = await evaluateNll(trainer, test);
    for (let i = 0; i < 5; i++) await trainer.step(test, "cross_entropy", { learningRate: 0.1 });
    const sampler = await trainer.saveWeightsAndGetSamplingClient();
    const { results, scores } = await compareOnData([before, { label: "after", sampler }], items, {
      name: "t",
      scores: [],
    });
    expect(scores.map(({ name }) => name)).toEqual(["loss", "perplexity"]);
    const trained = await evaluateNll(trainer, test);
    expect(trained).toBeLessThan(untrained);
    // A forward pass has float32 log-probs: rounding steps of 2^-24 of 4.9.
    expect(results[0]?.["loss"]?.mean).toBeCloseTo(untrained, 6);
    expect(results[1]?.["loss"]?.mean).toBeCloseTo(trained, 6);
    expect(results[1]?.["perplexity"]?.mean).toBeCloseTo(Math.exp(trained), 3);
  });

  it("has the exact matches that evaluate has, and sends the same requests", async () => {
    const questions = rows.map(({ messages: [asked, said] }) => ({ question: asked!.content, answer: said!.content }));
    const first = obedient.prompts.length;
    const [own] = await evaluate(obedient, [exactMatch({ name: "digits", items: questions })], { chat, tokenizer });
    const asked = obedient.prompts.splice(first);
    const { results } = await compareOnData([model(obedient)], onlyAnswers.slice(0, 4), {
      name: "d",
      scores: [exactScore],
    });
    expect(obedient.prompts.splice(first)).toEqual(asked);
    const { mean, low, high } = results[0]!["exact"]!;
    expect({ mean, low, high }).toEqual({ mean: own!.mean, low: own!.low, high: own!.high });
    expect(mean).toBe(0.75);
  });

  it("shows the answers of each model to each item, and leaves out scores that an item cannot have", async () => {
    const other = new ScriptedSampler(tokenizer, () => '{"a":1}<end>');
    const scores = [exactScore, jsonScore, regexScore("^\\d$")];
    const compared = await compareOnData([model(obedient), model(other)], onlyAnswers, { name: "mine", scores });
    expect(compared.items[2]).toEqual({
      ...{ task: "mine", question: "say 3", messages: [rows[2]!.messages[0]], expected: "3" },
      answers: [
        { text: "?", scores: { exact: 0, json: 0, regex: 0 }, truncated: false },
        { text: '{"a":1}', scores: { exact: 0, json: 1, regex: 0 }, truncated: false },
      ],
    });
    expect(compared.items[5]?.answers[0]).toEqual({ scores: {}, truncated: false }); // a plain text asks nothing
    expect(compared.results[1]).toMatchObject({ exact: { mean: 0, items: 5 }, json: { mean: 1, items: 5 } });
    expect(compared.results[0]).toMatchObject({ regex: { mean: 0.6 } });
  });

  it("counts answers that could not be parsed, and prompts that leave no room, as 0", async () => {
    const readable = { name: "readable", score: (answer: string) => (answer === "?" ? undefined : Number(answer) / 4) };
    const options = { name: "n", scores: [readable], contextLength: 30 };
    const long = evaluationItems([toExample({ prompt: "x".repeat(30), completion: "y" })], tokenizer);
    const all = [...onlyAnswers.slice(0, 4), ...long.map((item) => ({ ...item, data: [] }))];
    const { results, items: shown } = await compareOnData([model(obedient)], all, { ...options, contextLength: 40 });
    expect(results[0]?.["readable"]).toMatchObject({ mean: (1 / 4 + 2 / 4 + 0 + 1 + 0) / 5, unparsed: 2 - 1 });
    expect(shown[2]?.answers[0]?.scores).toEqual({ readable: null });
    const narrow = await compareOnData([model(obedient)], all.slice(4), options);
    expect(narrow.items[0]?.answers[0]).toEqual({ text: "", scores: { readable: null }, truncated: true });
  });

  it("refuses scores that are no numbers, two scores of one name, and no items", async () => {
    const wrong = { name: "wrong", score: () => Number.NaN };
    const run = (scores: Parameters<typeof compareOnData>[2]["scores"], on = onlyAnswers) =>
      compareOnData([model(obedient)], on, { name: "n", scores });
    await expect(run([wrong])).rejects.toThrow(/of wrong must give a finite number.*got NaN/);
    await expect(run([exactScore, exactScore])).rejects.toThrow(/got exact twice/);
    await expect(run([{ name: "loss", score: () => 1 }])).rejects.toThrow(/got loss twice/);
    await expect(run([], [])).rejects.toThrow(/must not be empty/);
    expect(() => regexScore("(")).toThrow(/must be a regular expression/);
    const item = { question: "" };
    const { score } = regexScore("^(a+)+$", 20);
    expect([score("aaa", item), score("b", item)]).toEqual([true, false]);
    expect(() => score(`${"a".repeat(60)}b`, item)).toThrow(/took more than 20 ms to match an answer of 61 characters/);
    expect(score("aaa", item)).toBe(true);
  });

  it("ends when it is aborted, also while a score has no result", async () => {
    const stop = new AbortController();
    const silent = {
      name: "silent",
      score: () => {
        stop.abort(new Error("enough"));
        return new Promise<number>(() => {});
      },
    };
    const options = { name: "n", scores: [silent], signal: stop.signal };
    await expect(compareOnData([model(obedient)], onlyAnswers.slice(0, 1), options)).rejects.toThrow("enough");
  });

  it("a judge sees question, expected answer and answer, and a reply without a number from 0 to 10 is not parsed", async () => {
    const judge = new ScriptedSampler(tokenizer, (prompt) =>
      prompt.includes("Answer to be judged:\n?") ? "no idea" : "8",
    );
    const score = judgeScore({ sampler: judge, chat });
    const { results } = await compareOnData([model(obedient)], onlyAnswers.slice(0, 4), { name: "j", scores: [score] });
    expect(results[0]?.["judge"]).toMatchObject({ mean: expect.closeTo(0.6, 12), unparsed: 1 });
    expect(judge.prompts[0]).toMatch(/Question:\nsay 1\n\nReference answer:\n1\n\nAnswer to be judged:\n1/);
    expect(["7", " 10/10", "0.5", "11", "-1", "good"].map(verdictOf)).toEqual([
      0.7,
      1,
      0.05,
      undefined,
      undefined,
      undefined,
    ]);
  });
});

it("compareOnTasks gives the scores of evaluate, with the answers of each model", async () => {
  const task = exactMatch({
    name: "digits",
    items: [
      { question: "say 1", answer: "1" },
      { question: "say 3", answer: "3" },
    ],
  });
  const other = new ScriptedSampler(tokenizer, () => "3<end>");
  const compared = await compareOnTasks([model(obedient), model(other)], [task], { tokenizer });
  const [own] = await evaluate(other, [task], { chat, tokenizer });
  expect(compared.results[1]?.["digits"]).toMatchObject({ mean: own!.mean, low: own!.low, items: 2 });
  expect(compared.items[1]).toMatchObject({
    task: "digits",
    question: "say 3",
    answers: [{ text: "?" }, { text: "3" }],
  });
});

it("an evaluation's folder has one line per item, and eval.json only when it is complete", async () => {
  const compared = await compareOnData([model(obedient)], onlyAnswers, { name: "mine", scores: [exactScore] });
  const head = {
    ...{
      name: "mine",
      data: "mine.jsonl",
      kind: "data" as const,
      createdAt: new Date(0),
      seconds: 1,
      settings: { seed: 0 },
    },
    models: [{ label: "scripted", model: "m", path: null }],
  };
  const folder = join(mkdtempSync(join(tmpdir(), "tinklet-eval-")), "a", "b");
  await writeEvaluation(folder, head, compared);
  const lines = readFileSync(join(folder, "answers.jsonl"), "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).item)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(JSON.parse(readFileSync(join(folder, "eval.json"), "utf8"))).toEqual(evaluationSummary(head, compared));
  const file = join(folder, "file");
  writeFileSync(file, "");
  await expect(writeEvaluation(file, head, compared)).rejects.toThrow(/file/);
});

it("compareAnswers asks up to three questions, and leaves out plain texts and prompts without room", async () => {
  const open = toExample({
    messages: [
      { role: "user", content: "say 1" },
      { role: "assistant", content: "1" },
      { role: "user", content: "say 2" },
    ],
  });
  const options = { after: obedient, tokenizer };
  const pairs = await compareAnswers([toExample({ text: "abab" }), open, ...examples], options);
  expect(pairs).toEqual([
    { question: "say 2", after: "1" }, // it repeats the first digit of the conversation
    { question: "say 1", after: "1", expected: "1" },
    { question: "say 2", after: "2", expected: "2" },
  ]);
  expect(await compareAnswers(examples, { ...options, contextLength: 4 })).toEqual([
    { question: "ab", after: "", expected: "ba" },
  ]);
});
