// Benchmarks from files: their shapes, what counts as right, and that errors in a file have its line.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createChat } from "@tinklet/models/chat";
import { afterAll, describe, expect, it } from "vitest";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { ScriptedSampler } from "../testing/scripted-sampler.ts";
import { finalNumber, gsm8k, ifeval, mmlu } from "./benchmarks.ts";
import { evaluate } from "./evaluate.ts";
import { checkInstruction } from "./instructions.ts";

const tokenizer = letterTokenizer();
const options = { tokenizer, chat: createChat(tokenizer) };
const folder = mkdtempSync(join(tmpdir(), "tinklet-benchmarks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = (name: string, ...rows: readonly (object | string)[]) => {
  const path = join(folder, name);
  writeFileSync(path, rows.map((row) => `${typeof row === "string" ? row : JSON.stringify(row)}\n`).join(""));
  return path;
};
const saying = (answer: (prompt: string) => string) =>
  new ScriptedSampler(tokenizer, (prompt) => `${answer(prompt)}<end>`);

describe("GSM8K", () => {
  it.each([
    ["so 3 + 4 = 7. #### 7", 7],
    ["#### $1,234.50", 1234.5],
    ["It is 12 and then 15.", 15],
    ["\\boxed{-3}", -3],
    ["5,000", 5000],
    ["none", undefined],
  ])("the number of %j", (text, number) => {
    expect(finalNumber(text)).toBe(number);
  });

  it("compares numbers, and counts answers without one", async () => {
    const path = file(
      "g.jsonl",
      { question: "a?", answer: "x #### 18" },
      { question: "b?", answer: "#### 1,000" },
      { question: "c?", answer: "#### 3" },
    );
    const sampler = saying((prompt) =>
      prompt.includes("a?") ? "it is 18.00" : prompt.includes("b?") ? "many" : "#### 4",
    );
    const [result] = await evaluate(sampler, [await gsm8k(path)], options);
    expect(result).toMatchObject({ name: "gsm8k", items: 3, mean: 1 / 3, unparsed: 1 });
    expect((await evaluate(sampler, [await gsm8k(path, { limit: 1, name: "g" })], options))[0]).toMatchObject({
      name: "g",
      items: 1,
      mean: 1,
    });
    await expect(
      gsm8k(file("bad.jsonl", { question: "a?", answer: "#### 1" }, { question: "b?", answer: "x" })),
    ).rejects.toThrow(/bad\.jsonl:2: answer has no number/);
    await expect(gsm8k(file("empty.jsonl"))).rejects.toThrow("has no rows");
    await expect(gsm8k(path, { limt: 1 } as never)).rejects.toThrow("limt");
  });
});

describe("MMLU", () => {
  it("chooses a letter by its log-probability, from choices or columns", async () => {
    const scorer = {
      ...{ sample: saying(() => "").sample },
      computeLogprobs: async (prompt: { toInts(): number[] }) =>
        prompt.toInts().map((id) => (id === tokenizer.encode("B", { addSpecialTokens: false })[0] ? -0.1 : -2)),
    };
    const rows = [
      { question: "q", subject: "s", choices: ["w", "x", "y", "z"], answer: 1 },
      { question: "q", choices: ["w", "x"], answer: "A" },
    ];
    const [lines] = await evaluate(scorer, [await mmlu(file("m.jsonl", ...rows))], options);
    expect(lines).toMatchObject({ name: "mmlu", items: 2, mean: 0.5 });
    const csv = file("m.csv", "question,A,B,C,D,answer", "q,w,x,y,z,B", "q,w,x,y,z,2");
    expect((await evaluate(scorer, [await mmlu(csv)], options))[0]).toMatchObject({ items: 2, mean: 0.5 });
    await expect(mmlu(file("b.csv", "question,A,B,answer", "q,w,x,D"))).rejects.toThrow(
      /b\.csv:2: answer must be an index below 2 or a letter/,
    );
    await expect(mmlu(file("b.jsonl", { question: "q", choices: ["w"], answer: 0 }))).rejects.toThrow(
      /b\.jsonl:1: choices/,
    );
  });
});

describe("IFEval", () => {
  it("counts prompts whose instructions were all followed, and says what it left out", async () => {
    const path = file(
      "i.jsonl",
      {
        key: 1,
        prompt: "no commas, two words",
        instruction_id_list: ["punctuation:no_comma", "length_constraints:number_words"],
        kwargs: [{}, { num_words: 2, relation: "at least" }],
      },
      { key: 2, prompt: "json", instruction_id_list: ["detectable_format:json_format"], kwargs: [{}] },
      { key: 3, prompt: "nothing", instruction_id_list: ["punctuation:no_comma"], kwargs: [{}] },
      { key: 4, prompt: "Tamil", instruction_id_list: ["language:response_language"], kwargs: [{ language: "ta" }] },
    );
    const sampler = saying((prompt) =>
      prompt.includes("two words") ? "two words" : prompt.includes("json") ? "{oops" : "",
    );
    const [result] = await evaluate(sampler, [await ifeval(path)], options);
    expect(result).toMatchObject({ name: "ifeval (1 of 4 left out)", items: 3, mean: 1 / 3, unparsed: 1 });
    await expect(ifeval(file("b.jsonl", { prompt: "x" }))).rejects.toThrow(/b\.jsonl:1: instruction_id_list/);
  });

  it.each<[string, object, string, string]>([
    ["punctuation:no_comma", {}, "a b", "a, b"],
    ["keywords:existence", { keywords: ["Cat", "dog"] }, "a cat and a dog", "a cat"],
    ["keywords:forbidden_words", { forbidden_words: ["cat"] }, "concatenate", "a Cat!"],
    ["keywords:frequency", { keyword: "a.b", frequency: 2, relation: "at least" }, "a.b A.B", "a.b axb"],
    ["keywords:letter_frequency", { letter: "z", let_frequency: 2, let_relation: "less than" }, "Z", "zZ"],
    ["length_constraints:number_sentences", { num_sentences: 2, relation: "less than" }, "One.", "One. Two. Three."],
    ["length_constraints:number_paragraphs", { num_paragraphs: 2 }, "a\n***\nb\n***\n", "a\n***\n\n***\nb"],
    [
      "length_constraints:nth_paragraph_first_word",
      { num_paragraphs: 2, nth_paragraph: 2, first_word: "well" },
      "a\n\n'Well, b",
      "a\n\nso",
    ],
    ["detectable_content:number_placeholders", { num_placeholders: 2 }, "[a] [b]", "[a]"],
    ["detectable_content:postscript", { postscript_marker: "P.S." }, "x\n\nP.S. y", "x PS y"],
    ["detectable_format:number_bullet_lists", { num_bullets: 2 }, "* a\n- b", "* a\n**b**"],
    ["detectable_format:constrained_response", {}, "My answer is maybe.", "maybe"],
    ["detectable_format:number_highlighted_sections", { num_highlights: 2 }, "*a* and *b*", "*a* and **"],
    [
      "detectable_format:multiple_sections",
      { section_spliter: "SECTION", num_sections: 2 },
      "SECTION 1 a SECTION 2 b",
      "SECTION 1 a",
    ],
    ["detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"],
    ["detectable_format:title", {}, "<<a title>>\nx", "<< >>"],
    ["combination:two_responses", {}, "a******b", "a******a"],
    ["combination:repeat_prompt", { prompt_to_repeat: "Do it." }, "do it. Yes", "Yes. Do it."],
    ["startend:end_checker", { end_phrase: "Bye." }, 'x bye."', "bye. x"],
    ["startend:quotation", {}, ' "x" ', '"x'],
    [
      "change_case:capital_word_frequency",
      { capital_frequency: 1, capital_relation: "at least" },
      "SO it is",
      "So it is 5",
    ],
    ["change_case:english_capital", {}, "A B 1", "A b"],
    ["change_case:english_lowercase", {}, "a b 1", "A b"],
    ["length_constraints:number_words", { num_words: 3, relation: "less than" }, "two words", "now three words"],
  ])("%s", (id, settings, follows, does_not) => {
    expect(checkInstruction({ id, settings }, follows, "p")).toBe(true);
    expect(checkInstruction({ id, settings }, does_not, "p")).toBe(false);
  });
});
