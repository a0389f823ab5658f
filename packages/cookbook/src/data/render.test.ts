import { createChat } from "@tinklet/models/chat";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { describe, expect, it } from "vitest";
import { familyFiles } from "../../../models/src/testing/chat-templates.ts";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { toExample } from "./examples.ts";
import { prepareExamples } from "./prepare.ts";
import { type Rendered, renderExample, renderExamples, type TrainOn, toDatum } from "./render.ts";

const place = { file: "d.jsonl", line: 1 };
const tokenizer = letterTokenizer();

/** The text with its weighted stretches in brackets. */
function shown({ tokens, weights }: Rendered): string {
  let text = "";
  tokens.forEach((token, at) => {
    const [before, now] = [weights[at - 1] ?? 0, weights[at]];
    text += `${before < (now as number) ? "[" : before > (now as number) ? "]" : ""}${tokenizer.decode([token])}`;
  });
  return weights.at(-1) === 1 ? `${text}]` : text;
}

const messages = [
  { role: "user", content: "a" },
  { role: "assistant", content: "B" },
  { role: "user", content: "c" },
  { role: "assistant", content: "D" },
  { role: "user", content: "unanswered" },
];

describe("renderExample", () => {
  it.each<[TrainOn, string]>([
    ["last_answer", "<start>user\na<end>\n<start>assistant\nB<end>\n<start>user\nc<end>\n<start>assistant\n[D<end>]"],
    ["all_answers", "<start>user\na<end>\n<start>assistant\n[B<end>]\n<start>user\nc<end>\n<start>assistant\n[D<end>]"],
    [
      "everything",
      "[<start>user\na<end>\n<start>assistant\nB<end>\n<start>user\nc<end>\n<start>assistant\nD<end>\n<start>user\nunanswered<end>\n]",
    ],
  ])("weights %s", (trainOn, expected) => {
    expect(shown(renderExample(toExample({ messages }, place), tokenizer, { trainOn }))).toBe(expected);
  });

  it("weights a completion and its end, a whole text, and a prompt only on request", () => {
    const completion = toExample({ prompt: "ab", completion: "c" }, place);
    expect(shown(renderExample(completion, tokenizer))).toBe("ab[c<end>]");
    expect(shown(renderExample(completion, tokenizer, { trainOn: "everything" }))).toBe("[abc<end>]");
    expect(shown(renderExample(toExample({ text: "ab" }, place), tokenizer))).toBe("[ab<end>]");
  });

  it("refuses a conversation without an answer", () => {
    const example = toExample({ messages: messages.slice(0, 1) }, place);
    expect(() => renderExample(example, tokenizer)).toThrow(
      'd.jsonl:1: has no message with the role "assistant", so there is nothing to learn (its roles: "user")',
    );
  });

  it("says so when the template rewrites earlier turns, and can still train on the last one", () => {
    const forgetful = letterTokenizer({ forgetful: true });
    const thinking = toExample(
      {
        messages: [
          messages[0],
          { role: "assistant", content: "hm|B" },
          messages[2],
          { role: "assistant", content: "hm|D" },
        ],
      },
      place,
    );
    expect(() => renderExample(thinking, forgetful)).toThrow("the chat template changes message 1");
    expect(shown(renderExample(thinking, forgetful, { trainOn: "last_answer" }))).toContain("[hm|D<end>]");
  });
});

describe("a template that rewrites earlier answers", () => {
  const forgetful = letterTokenizer({ forgetful: true });
  const said = (...contents: string[]) => ({
    messages: contents.map((content, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content })),
  });
  const thought = said("a", "hm|B", "c", "hm|D");
  const turn = (role: string, text: string) => `<start>${role}\n${text}<end>\n`;

  it("becomes an example for each answer that it rewrites, with the past that the answer had", () => {
    const rendered = renderExamples(forgetful)(toExample(thought, place)).map(shown);
    expect(rendered).toEqual([
      `${turn("user", "a")}<start>assistant\n[hm|B<end>]`,
      `${turn("user", "a")}${turn("assistant", "B")}${turn("user", "c")}<start>assistant\n[hm|D<end>]`,
    ]);
  });

  it("stays together where it is kept, as few examples as there can be", () => {
    const mixed = said("a", "B", "c", "hm|D", "e", "F");
    const rendered = renderExamples(forgetful)(toExample(mixed, place)).map(shown);
    expect(rendered.map((text) => text.match(/\[[^\]]*\]/g))).toEqual([["[hm|D<end>]"], ["[B<end>]", "[F<end>]"]]);
    const plain = renderExamples(forgetful)(toExample(said("a", "B", "c", "D"), place));
    expect(plain.map(shown)).toEqual([shown(renderExample(toExample(said("a", "B", "c", "D"), place), forgetful))]);
  });

  it("follows the policy of its family, which a user may set", () => {
    const plain = toExample(said("a", "B", "c", "D"), place);
    expect(renderExamples(forgetful, { history: "split" })(plain).length).toBe(2);
    expect(renderExamples(forgetful, { history: { json: "split" } })(plain).length).toBe(2);
    expect(renderExamples(forgetful, { history: { hermes: "split" } })(plain).length).toBe(1);
    const refusing = renderExamples(forgetful, { history: "refuse" });
    expect(() => refusing(toExample(thought, place))).toThrow("the chat template changes message 1");
    expect(() => renderExamples(forgetful, { history: "keep" as "split" })).toThrow(
      "history: must be one of detect, split, refuse, got keep",
    );
  });

  it("is reported with its number of examples, and never divided between training and evaluation", () => {
    const warnings: string[] = [];
    const examples = [...Array.from({ length: 6 }, (_, i) => said(`a${i}`, "hm|B", "c", "hm|D")), said("a", "B")];
    const options = { testShare: 2, onWarning: (text: string) => warnings.push(text) };
    const { train, test, split } = prepareExamples(examples, forgetful, options);
    expect(split).toEqual({ conversations: 6, examples: 12 });
    expect(warnings).toEqual([expect.stringMatching(/^6 conversations became 12 examples: /)]);
    expect(train.length + test.length).toBe(13);
    const first = ({ modelInput }: (typeof train)[number]) => forgetful.decode(modelInput.toInts()).slice(0, 15);
    expect(test.map(first).filter((text) => train.map(first).includes(text))).toEqual([]);
    prepareExamples(examples, letterTokenizer(), options);
    expect(warnings.length).toBe(1);
  });
});

describe("tool calls in OpenAI's format", () => {
  const tools = [
    { type: "function" as const, function: { name: "add", description: "Adds.", parameters: { type: "object" } } },
  ];
  const conversation = (call: object, content?: null | "") => [
    { role: "user", content: "What is 2 + 3?" },
    { role: "assistant", ...(content === undefined ? {} : { content }), tool_calls: [call] },
    { role: "tool", tool_call_id: "call_1", name: "add", content: "5" },
    { role: "assistant", content: "It is 5." },
  ];
  const called = (args: unknown) => ({ id: "call_1", type: "function", function: { name: "add", arguments: args } });
  const forms = [
    conversation(called('{"a": 2, "b": 3}'), null),
    conversation(called('{"a": 2, "b": 3}')),
    conversation(called({ a: 2, b: 3 }), ""),
  ];

  it.each(["qwen", "llama3", "mistral", "plain"] as const)(
    "are trained as the %s template renders them in sampling",
    (family) => {
      const files = family === "plain" ? tinyTokenizer : familyFiles(family);
      const model = tokenizerFromFiles(files, "model");
      const chat = createChat(model);
      // The mistral template lists tools only before a last message of the user.
      const listed = family === "mistral" ? {} : { tools };
      for (const messages of forms) {
        const parts = renderExamples(model)(toExample({ messages, ...listed }));
        const text = parts.map(({ tokens }) => model.decode(tokens)).at(-1) as string;
        expect(text).not.toContain('\\"a\\"'); // JSON within JSON
        for (const index of [1, 3]) {
          const prompt = chat.render(messages.slice(0, index) as never, listed).text;
          const trained = parts.map(({ tokens }) => model.decode(tokens));
          expect(trained.some((each) => each.startsWith(prompt) && each.length > prompt.length)).toBe(true);
        }
        expect(parts).toEqual(renderExamples(model)(toExample({ messages: forms[0], ...listed })));
      }
    },
  );
});

it("an example that a program makes needs neither file nor line", () => {
  expect(toExample({ text: "a" })).toEqual({ kind: "text", text: "a" });
  expect(shown(renderExample({ kind: "text", text: "a" }, tokenizer))).toBe("[a<end>]");
  expect(() => toExample({ text: 1 })).toThrow("example: has none of messages");
});

it("a misspelt choice of what to train on is refused by name", () => {
  const text = toExample({ text: "hello" }, { file: "x.jsonl", line: 1 });
  expect(() => renderExample(text, letterTokenizer(), { trainOn: "last" as "last_answer" })).toThrow(
    "trainOn: must be one of last_answer, all_answers, everything, got last",
  );
});

describe("toDatum", () => {
  const rendered = { tokens: [10, 11, 12, 13], weights: [1, 0, 1, 1] };

  it("shifts inputs and targets by one", () => {
    const datum = toDatum(rendered);
    expect(datum?.modelInput.toInts()).toEqual([10, 11, 12]);
    expect(datum?.lossFnInputs.target_tokens.data).toEqual([11, 12, 13]);
    expect(datum?.lossFnInputs.weights.data).toEqual([0, 1, 1]);
  });

  it("cuts what is too long, shares the weight out, and drops what has none left", () => {
    expect(toDatum(rendered, { maxLength: 3 })?.lossFnInputs.weights.data).toEqual([0, 1]);
    expect(toDatum(rendered, { reduction: "mean" })?.lossFnInputs.weights.data).toEqual([0, 0.5, 0.5]);
    expect(toDatum(rendered, { maxLength: 2 })).toBeUndefined();
    expect(toDatum({ tokens: [1], weights: [1] })).toBeUndefined();
  });
});
