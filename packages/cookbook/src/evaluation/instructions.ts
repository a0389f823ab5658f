/**
 * The instructions of IFEval that a program can check, by their published names. The rules are those of the published checker. It counts
 * English sentences and words with a library; this file uses `Intl.Segmenter` and a pattern, so counts near a bound may differ.
 */

/** An instruction and what it asks for. */
export interface Instruction {
  readonly id: string;
  readonly settings: object;
}

/** Values of an instruction, by their published names; what is missing counts as empty. */
class Settings {
  readonly #values: Readonly<Record<string, unknown>>;
  constructor(values: object) {
    this.#values = values as Record<string, unknown>;
  }
  number(name: string): number {
    return Number(this.#values[name] ?? 0);
  }
  text(name: string): string {
    return String(this.#values[name] ?? "");
  }
  texts(name: string): readonly string[] {
    const value = this.#values[name];
    return Array.isArray(value) ? value.map(String) : [];
  }
  /** "less than" or "at least". */
  holds(relation: string, count: number, bound: number): boolean {
    return this.text(relation) === "less than" ? count < bound : count >= bound;
  }
}

type Check = (text: string, settings: Settings, prompt: string) => boolean;

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const many = (text: string, pattern: RegExp) => text.match(pattern)?.length ?? 0;
const sentences = (text: string) =>
  [...new Intl.Segmenter("en", { granularity: "sentence" }).segment(text)].filter(({ segment }) => /\w/.test(segment))
    .length;
/** Parts between separators, where empty ones at the ends do not count; undefined where one in the middle is empty. */
const partsOf = (text: string, separator: RegExp | string): string[] | undefined => {
  const parts = text.split(separator).map((part) => part.trim());
  const filled = parts.filter((part, at) => part !== "" || (at > 0 && at < parts.length - 1));
  return filled.includes("") ? undefined : filled;
};
const trimQuotes = (text: string) => text.trim().replace(/^"+|"+$/g, "");

const checks: Readonly<Record<string, Check>> = {
  "punctuation:no_comma": (text) => !text.includes(","),
  "keywords:existence": (text, s) => s.texts("keywords").every((word) => new RegExp(escaped(word), "i").test(text)),
  "keywords:forbidden_words": (text, s) =>
    !s.texts("forbidden_words").some((word) => new RegExp(`\\b${escaped(word)}\\b`, "i").test(text)),
  "keywords:frequency": (text, s) =>
    s.holds("relation", many(text, new RegExp(escaped(s.text("keyword")), "gi")), s.number("frequency")),
  "keywords:letter_frequency": (text, s) =>
    s.holds(
      "let_relation",
      text.toLowerCase().split(s.text("letter").toLowerCase()).length - 1,
      s.number("let_frequency"),
    ),
  "length_constraints:number_words": (text, s) =>
    s.holds("relation", many(text, /[\p{L}\p{N}_]+/gu), s.number("num_words")),
  "length_constraints:number_sentences": (text, s) => s.holds("relation", sentences(text), s.number("num_sentences")),
  "length_constraints:number_paragraphs": (text, s) =>
    partsOf(text, /\s?\*\*\*\s?/)?.length === s.number("num_paragraphs"),
  "length_constraints:nth_paragraph_first_word": (text, s) => {
    const paragraphs = text.split("\n\n");
    const first = paragraphs[s.number("nth_paragraph") - 1]?.trim().split(/\s+/)[0] ?? "";
    const word = first.replace(/^['"]+/, "").split(/[.,?!'"]/)[0] ?? "";
    const count = paragraphs.filter((part) => part.trim() !== "").length;
    return (
      count === s.number("num_paragraphs") && word !== "" && word.toLowerCase() === s.text("first_word").toLowerCase()
    );
  },
  "detectable_content:number_placeholders": (text, s) => many(text, /\[.*?\]/g) >= s.number("num_placeholders"),
  "detectable_content:postscript": (text, s) => {
    const marker = s.text("postscript_marker");
    const pattern =
      marker === "P.P.S" ? "p\\.\\s?p\\.\\s?s" : marker === "P.S." ? "p\\.\\s?s\\." : escaped(marker.toLowerCase());
    return new RegExp(pattern).test(text.toLowerCase());
  },
  "detectable_format:number_bullet_lists": (text, s) =>
    many(text, /^\s*\*[^*].*$/gm) + many(text, /^\s*-.*$/gm) === s.number("num_bullets"),
  "detectable_format:constrained_response": (text) => /My answer is (yes|no|maybe)\./.test(text),
  "detectable_format:number_highlighted_sections": (text, s) => {
    const filled = (pattern: RegExp) =>
      (text.match(pattern) ?? []).filter((part) => part.replace(/\*/g, "").trim() !== "").length;
    return filled(/\*[^\n*]*\*/g) + filled(/\*\*[^\n*]*\*\*/g) >= s.number("num_highlights");
  },
  "detectable_format:multiple_sections": (text, s) =>
    many(text, new RegExp(`\\s?${escaped(s.text("section_spliter"))}\\s?\\d+\\s?`, "g")) >= s.number("num_sections"),
  "detectable_format:json_format": (text) => {
    try {
      JSON.parse(
        text
          .trim()
          .replace(/^```(json)?/i, "")
          .replace(/```$/, "")
          .trim(),
      );
      return true;
    } catch {
      return false;
    }
  },
  "detectable_format:title": (text) =>
    (text.match(/<<[^\n]+>>/g) ?? []).some((title) => title.replace(/^<+|>+$/g, "").trim() !== ""),
  "combination:two_responses": (text) => {
    const answers = partsOf(text, "******");
    return answers?.length === 2 && answers[0] !== answers[1];
  },
  "combination:repeat_prompt": (text, s, prompt) =>
    text
      .trim()
      .toLowerCase()
      .startsWith((s.text("prompt_to_repeat") || prompt).trim().toLowerCase()),
  "startend:end_checker": (text, s) =>
    trimQuotes(text).toLowerCase().endsWith(s.text("end_phrase").trim().toLowerCase()),
  "startend:quotation": (text) => /^"[\s\S]*"$/.test(text.trim()) && text.trim().length > 1,
  "change_case:capital_word_frequency": (text, s) => {
    const words = text.match(/[\p{L}\p{N}][\p{L}\p{N}'-]*/gu) ?? [];
    const capital = words.filter((word) => word === word.toUpperCase() && word !== word.toLowerCase()).length;
    return s.holds("capital_relation", capital, s.number("capital_frequency"));
  },
  "change_case:english_capital": (text) => text === text.toUpperCase() && text !== text.toLowerCase(),
  "change_case:english_lowercase": (text) => text === text.toLowerCase() && text !== text.toUpperCase(),
};

/** Names of the instructions that can be checked. */
export const instructionIds: readonly string[] = Object.keys(checks);

/** Whether an answer follows an instruction. @param prompt - the whole prompt, which some repeat */
export function checkInstruction({ id, settings }: Instruction, answer: string, prompt: string): boolean {
  return checks[id]?.(answer, new Settings(settings), prompt) ?? false;
}
