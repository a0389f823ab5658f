// Evaluations: what counts as right, what cannot be read, and how sure the figures are.
import { createChat } from "@tinklet/models/chat";
import { describe, expect, it } from "vitest";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { ScriptedSampler } from "../testing/scripted-sampler.ts";
import { evaluate, evaluationTable } from "./evaluate.ts";
import { estimate, passAtK } from "./statistics.ts";
import { exactMatch, judged, multipleChoice, scored } from "./tasks.ts";

const tokenizer = letterTokenizer();
const options = { tokenizer, chat: createChat(tokenizer) };
const items = ["1", "2", "3", "4"].map((answer) => ({ question: `say ${answer}`, answer }));
/** Repeats the question, but answers 3 with "?". */
const obedient = new ScriptedSampler(tokenizer, (prompt) => {
  const said = /say (\d)/.exec(prompt)?.[1] ?? "";
  return said === "3" ? "?<end>" : `${said}<end>`;
});

describe("evaluate", () => {
  it("counts and shows answers that cannot be read", async () => {
    const parse = (text: string) => /\d/.exec(text)?.[0];
    const [result] = await evaluate(obedient, [exactMatch({ name: "digits", items, parse })], options);
    expect(result).toMatchObject({ name: "digits", items: 4, answers: 4, mean: 0.75, unparsed: 1 });
    expect(result?.examples[0]).toEqual({ question: "say 3", answer: "?", scores: [undefined] });
    expect(evaluationTable([result!])).toMatch(/digits {2}0\.750 {2}0\.301 to 0\.954 {2}4 {6}1 of 4/);
    expect(JSON.parse(JSON.stringify(result))).toMatchObject({ mean: 0.75, unparsed: 1 });
  });

  it("takes several answers and tells pass@k", async () => {
    const half = new ScriptedSampler(tokenizer, (_, index) => (index % 2 === 0 ? "1<end>" : "2<end>"));
    const task = exactMatch({ name: "half", items: [items[0]!, items[2]!], samples: 4, passAt: [1, 2] });
    const [result] = await evaluate(half, [task], options);
    expect(result).toMatchObject({ answers: 8, mean: 0.25, unparsed: 0 });
    expect(result?.passAt["1"]).toBeCloseTo(0.25, 12);
    expect(result?.passAt["2"]).toBeCloseTo(5 / 12, 12);
  });

  it("chooses by log-probability, and asks a judge", async () => {
    const scorer = {
      sample: obedient.sample.bind(obedient),
      // Letters before "n" are likely.
      computeLogprobs: async (prompt: { toInts(): number[] }) => prompt.toInts().map((id) => (id < 110 ? -0.1 : -2)),
    };
    const choice = multipleChoice({
      name: "choice",
      items: [
        { question: "q", choices: ["zzz", "aaaaaa"], answer: 1 },
        { question: "q", choices: ["zzz", "aaa"], answer: 0 },
      ],
    });
    const judge = judged({
      name: "judge",
      items,
      judge: async (answer, question) => {
        expect(items.map((item) => item.question)).toContain(question);
        return answer === "?" ? undefined : Number(answer) / 4;
      },
    });
    const [chosen, verdict] = await evaluate(scorer, [choice, judge], options);
    expect(chosen).toMatchObject({ mean: 0.5, unparsed: 0 });
    expect(verdict).toMatchObject({ mean: (1 + 2 + 4) / 16, unparsed: 1 });
    await expect(evaluate(obedient, [choice], options)).rejects.toThrow("sampler: must have computeLogprobs");
  });

  it("runs at most the allowed number of items at once, and rejects invalid tasks", async () => {
    const slow = new ScriptedSampler(tokenizer, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return "1<end>";
    });
    await evaluate(slow, [exactMatch({ name: "t", items })], { ...options, maxRequests: 2 });
    expect(slow.mostOpen).toBe(2);
    expect(() => exactMatch({ name: "t", items: [] })).toThrow("items: of t must not be empty");
    expect(() => exactMatch({ name: "t", items, passAt: [2] })).toThrow("passAt");
    expect(() => multipleChoice({ name: "t", items: [{ question: "q", choices: ["a"], answer: 0 }] })).toThrow(
      "items[0]",
    );
    const nan = scored({ name: "t", items, score: () => Number.NaN });
    await expect(evaluate(obedient, [nan], options)).rejects.toThrow("score: of t must give finite numbers");
    await expect(evaluate(obedient, [], { ...options, sed: 1 } as never)).rejects.toThrow("sed");
  });
});

describe("figures", () => {
  it("have Wilson's interval for rights and wrongs, the normal one for scores", () => {
    const { low, high, standardError } = estimate([1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    expect([low, high].map((value) => value.toFixed(4))).toEqual(["0.1078", "0.6032"]);
    expect(standardError).toBeCloseTo(Math.sqrt(0.21 / 9), 10);
    expect(estimate([1, 1]).low).toBeGreaterThan(0.3); // not 1: two are few
    expect(estimate([0.2, 0.4]).high).toBeCloseTo(0.3 + 1.959964 * 0.1, 6);
    expect(estimate([]).mean).toBeNaN();
  });

  it.each([
    [4, 0, 1, 0],
    [4, 1, 2, 0.5],
    [4, 3, 2, 1],
    [10, 3, 1, 0.3],
  ])("pass@k of %d answers, %d right, k = %d", (count, right, k, want) => {
    expect(passAtK({ count, right, k })).toBeCloseTo(want, 12);
  });
});
