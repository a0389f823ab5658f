/** The graders of the bundled model's evaluation accept right replies, reject wrong ones, and their lists are satisfiable and without hints. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  answers,
  follows,
  gradeCall,
  gradeJson,
  gradeResult,
  indexOfWord,
  type Keywords,
  type ToolTask,
} from "../../../tools/pretrain/eval/graders.mjs";

const read = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../../tools/pretrain/eval/${name}.json`, import.meta.url), "utf8"));
const everyday = read("everyday") as (Keywords & { ask: string })[];
const instructions = read("instructions") as Parameters<typeof follows>[1][];
const { tools, tasks } = read("tool-calls") as {
  tools: Record<string, { description: string; parameters: { properties: object } }>;
  tasks: (ToolTask & { ask: string; result?: object; any?: string[] })[];
};
const schemas = read("json-schemas") as { text: string; schema: object; right: Record<string, unknown> }[];
const support = read("support") as { conversations: string[][]; questions: (Keywords & { ask: string })[] };
const plain = (keyword: string) => keyword.replace("*", "");

test("the lists have the stated sizes and no duplicates", () => {
  const sizes = [everyday, instructions, tasks, schemas, support.conversations, support.questions].map((l) => l.length);
  expect(sizes).toEqual([200, 40, 100, 40, 40, 20]);
  const asks = [...everyday, ...instructions, ...tasks, ...support.questions].map(({ ask }) => ask.toLowerCase());
  expect(new Set(asks).size).toBe(asks.length);
});

test("a keyword is a whole word or its plural; an asterisk admits any ending", () => {
  expect(indexOfWord("Take two buses.", "bus")).toBe(9);
  expect(indexOfWord("It is abusive.", "bus")).toBe(-1);
  expect(indexOfWord("readily", "read")).toBe(-1);
  expect(indexOfWord("Repaired!", "repair*")).toBe(0);
  expect(indexOfWord("unrepaired", "repair*")).toBe(-1);
});

describe("everyday questions", () => {
  test("each accepts each of its words in a sentence", () => {
    for (const question of everyday)
      for (const word of question.any)
        expect(answers(`You could try ${plain(word)}.`, question), question.ask).toBe(true);
  });
  test("none names an accepted word, except choices, whose wrong options are rejected", () => {
    for (const question of everyday) {
      if (question.not === undefined) expect(answers(question.ask, question), question.ask).toBe(false);
      for (const word of question.not ?? [])
        expect(answers(`It is the ${plain(word)}.`, question), question.ask).toBe(false);
    }
  });
  test("replies without an answer are rejected by all", () => {
    for (const reply of [
      "",
      "I do not know.",
      "It is what it is.",
      "Yes.",
      "No, it is not.",
      "Once upon a time there was a dragon.",
    ]) {
      const accepted = everyday.filter((question) => answers(reply, question)).map(({ ask }) => ask);
      expect(accepted, reply).toEqual([]);
    }
  });
  test("the answers of other questions are rejected by nearly all", () => {
    let accepted = 0;
    for (const [i, question] of everyday.entries())
      for (const shift of [23, 71, 113, 160])
        accepted += answers(`You need ${plain(everyday[(i + shift) % everyday.length]!.any[0]!)}.`, question) ? 1 : 0;
    expect(accepted).toBeLessThan(0.03 * 4 * everyday.length);
  });
  test("words after the fortieth are not read", () => {
    expect(answers(`${"well ".repeat(40)}water`, { any: ["water"] })).toBe(false);
  });
});

/** A reply that follows each instruction, in the order of the file. */
const followed = [
  "Dog.",
  "Hello there!",
  "The moon is bright tonight.",
  "A river flows to the sea. It is full of fish.",
  "The farm is big. It has cows. I like it.",
  "apple\npear\nplum",
  "1. cat\n2. dog\n3. hen\n4. pig\n5. owl",
  "- pencil\n- book\n- ruler\n- glue",
  "tea, milk and water",
  "GARDEN",
  "MILK IS WHITE.",
  "the hen is on the roof.",
  "hop hop hop hop",
  "How was your day?",
  "Yesterday I went to school.",
  "Now we walk home.",
  "The cat looks out of the window.",
  "My puppy likes to bark.",
  "Yes, fish can swim.",
  "No.",
  "The rain is falling down.\nIt falls upon the town.",
  "apple, melon, pear",
  "One, two, three, four, five.",
  "6 5 4 3 2",
  "The old dog slept on the grass.",
  "Could you give me the book?",
  "Do you like apples?",
  "I walked to school.",
  "He has a red hat.",
  "Anna planted seeds and had tall sunflowers in summer.",
  "The Lost Kite",
  "Ben and Lily",
  "4",
  '{"name": "Tom", "age": 5}',
  '["red", "blue", "green"]',
  '"sun"',
  "Sure, blue.",
  "It is 2. done",
  "1. It is healthy.\n2. It is fun.",
  "Dear Grandma, thank you for the hat.",
];

describe("instructions", () => {
  test("each can be followed", () => {
    const refused = instructions.filter((each, i) => !follows(followed[i]!, each)).map(({ ask }) => ask);
    expect(refused).toEqual([]);
  });
  test("replies that do something else are rejected by all", () => {
    const wrong = [
      "",
      "I like to play with words and stories. What about you? Maybe",
      "You are welcome",
      "The fish is the sea and the sea is big, I think so",
    ];
    for (const reply of wrong)
      expect(
        instructions.filter((each) => follows(reply, each)).map(({ ask }) => ask),
        reply,
      ).toEqual([]);
  });
  test("a reply that follows one instruction follows few others", () => {
    let others = 0;
    for (const [i, each] of instructions.entries())
      for (const [j, reply] of followed.entries()) others += i !== j && follows(reply, each) ? 1 : 0;
    expect(others).toBeLessThan(0.05 * 40 * 39);
  });
  test("a list with a missing number, an item too many or a repeated item is rejected", () => {
    const check = (checks: Record<string, unknown>[], reply: string) => follows(reply, { ask: "", checks });
    expect(check([{ numbered: 2 }], "1. a\n3. b")).toBe(false);
    expect(check([{ bullets: 2 }], "- a\n- b\n- c")).toBe(false);
    expect(check([{ commaItems: 3 }], "tea, tea and water")).toBe(false);
    expect(check([{ sentences: [1, 1] }], "One. Two.")).toBe(false);
    expect(check([{ upper: true }], "MiLK")).toBe(false);
    expect(check([{ order: ["a", "b"] }], "b a")).toBe(false);
    expect(check([{ jsonList: 2 }], '["a"]')).toBe(false);
    expect(() => check([{ unknown: 1 }], "a")).toThrow("unknown check");
  });
});

const calling = (name: string, callArguments: unknown) => ({
  text: "",
  toolCalls: [{ name, arguments: JSON.stringify(callArguments) }],
});
const saying = (text: string) => ({ text, toolCalls: [] });
const wrong = { valid: false, right: false };

describe("tool calls", () => {
  const expected = tasks.flatMap((task) => (typeof task.expect === "string" ? [] : [{ ...task, expect: task.expect }]));
  const firstArguments = (values: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Array.isArray(value) ? value[0] : value]));

  test("the expected call is right; another tool, other values, a second call and text are not", () => {
    expect(expected.length).toBe(82);
    for (const task of expected) {
      const right = firstArguments(task.expect.arguments);
      const grade = (reply: Parameters<typeof gradeCall>[0]) => gradeCall(reply, task, tools);
      expect(grade(calling(task.expect.name, right)), task.ask).toEqual({ valid: true, right: true });
      const [key, value] = Object.entries(right)[0]!;
      const other = { ...right, [key]: typeof value === "number" ? value + 1 : `${String(value)} or so` };
      expect(grade(calling(task.expect.name, other)), task.ask).toEqual({ valid: true, right: false });
      const { toolCalls } = calling(task.expect.name, right);
      expect(grade({ text: "", toolCalls: [...toolCalls, ...toolCalls] }).right).toBe(false);
      expect(grade(calling(task.expect.name, { ...right, extra: 1 }))).toEqual(wrong);
      expect(grade(calling(task.expect.name, {}))).toEqual(wrong);
      expect(grade(calling("unknown_tool", right))).toEqual(wrong);
      expect(grade(saying(`I will use ${task.expect.name}.`))).toEqual(wrong);
      for (const name of task.tools.filter((each) => each !== task.expect.name))
        expect(grade(calling(name, right)).right).toBe(false);
    }
  });
  test("a refusal is right only where no tool fits, and an answer in words only in small talk", () => {
    for (const task of tasks) {
      const grades = ["Sorry, I cannot do that.", "Hello! How are you?"].map(
        (text) => gradeCall(saying(text), task, tools).right,
      );
      const right = { refusal: [true, false], talk: [false, true] };
      expect(grades, task.ask).toEqual(typeof task.expect === "string" ? right[task.expect] : [false, false]);
      if (typeof task.expect !== "string") continue;
      expect(gradeCall(calling(task.tools[0]!, {}), task, tools)).toEqual(wrong);
      expect(gradeCall(saying('<tool_call>\n{"name": "get'), task, tools)).toEqual(wrong);
    }
  });
  test("an answer must have a value of the result that the question does not have", () => {
    const second = tasks.flatMap(({ ask, any }) => (any === undefined ? [] : [{ ask, any }]));
    expect(second.length).toBe(17);
    for (const task of second) {
      for (const word of task.any) expect(gradeResult(saying(`Here it is: ${plain(word)}.`), task).right).toBe(true);
      expect(gradeResult(saying(task.ask), task).right, task.ask).toBe(false);
      expect(gradeResult(calling("get_weather", {}), task)).toEqual(wrong);
      expect(gradeResult(saying('{"result": 1}'), task)).toEqual(wrong);
    }
  });
});

test("JSON must be the whole reply, fit the schema and have the values of the text", () => {
  for (const task of schemas) {
    const [key, value] = Object.entries(task.right)[0]!;
    const { properties, required } = task.schema as {
      properties: Record<string, { type: string; enum?: string[] }>;
      required: string[];
    };
    const filler = (name: string) =>
      ({ string: properties[name]!.enum?.[0] ?? "x", integer: 1, boolean: true, array: [], object: {} })[
        properties[name]!.type
      ];
    const complete = { ...Object.fromEntries(required.map((name) => [name, filler(name)])), ...task.right };
    const json = JSON.stringify(complete);
    expect(gradeJson(json, task), task.text).toEqual({ valid: true, right: true });
    expect(gradeJson(`Here you are: ${json}`, task)).toEqual(wrong);
    expect(gradeJson(json.slice(0, -1), task)).toEqual(wrong);
    expect(gradeJson(JSON.stringify({ ...complete, more: 1 }), task)).toEqual(wrong);
    expect(gradeJson(JSON.stringify({ ...complete, [key]: { not: "it" } }), task)).toEqual(wrong);
    const changed =
      typeof value === "number"
        ? value + 1
        : typeof value === "string" && properties[key]!.enum === undefined
          ? `${value}x`
          : undefined;
    if (changed !== undefined)
      expect(gradeJson(JSON.stringify({ ...complete, [key]: changed }), task), task.text).toEqual({
        valid: true,
        right: false,
      });
  }
});

test("each customer question is a paraphrase that one of the 40 conversations answers", () => {
  const asked = new Set(
    support.conversations.flatMap((turns) => turns.filter((_, i) => i % 2 === 0).map((turn) => turn.toLowerCase())),
  );
  const given = support.conversations.flatMap((turns) => turns.filter((_, i) => i % 2 === 1));
  for (const question of support.questions) {
    expect(asked.has(question.ask.toLowerCase()), question.ask).toBe(false);
    expect(
      given.some((reply) => answers(reply, question)),
      question.ask,
    ).toBe(true);
    expect(answers("I am sorry, I do not know.", question), question.ask).toBe(false);
    expect(answers(question.ask, question), question.ask).toBe(false);
  }
});
