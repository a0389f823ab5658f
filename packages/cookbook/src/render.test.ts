import { describe, expect, it } from "vitest";
import { toExample } from "./examples.ts";
import { type Rendered, renderExample, type TrainOn, toDatum } from "./render.ts";
import { letterTokenizer } from "./testing/letter-tokenizer.ts";

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
    expect(() => renderExample(example, tokenizer)).toThrow("d.jsonl:1: has no message of the assistant");
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

it("a misspelt choice of what to train on is refused by name", () => {
  const text = toExample({ text: "hello" }, { file: "x.jsonl", line: 1 });
  expect(() => renderExample(text, letterTokenizer(), { trainOn: "last" as "last_answer" })).toThrow(
    "trainOn: must be one of last_answer, all_answers, everything, and is last",
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
