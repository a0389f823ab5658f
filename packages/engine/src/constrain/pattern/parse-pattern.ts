/**
 * Parses regular expressions of ECMAScript with the flag `u`, which JSON Schema recommends for `pattern`. Constructs that are not regular
 * (look-arounds, back-references), and word boundaries, are rejected by name.
 */
import type { GrammarBudget } from "../budget.ts";
import {
  anyCharacter,
  type CodePoints,
  complementOf,
  digits,
  dot,
  propertyOf,
  rangesOf,
  spaces,
  unionOf,
  wordCharacters,
} from "./code-points.ts";

/** A parsed expression. `start` and `end` are `^` and `$`. */
export type Expression =
  | { readonly kind: "set"; readonly set: CodePoints }
  | { readonly kind: "start" | "end" }
  | { readonly kind: "sequence" | "choice"; readonly parts: readonly Expression[] }
  /** `max` is infinite for `*`, `+` and `{n,}`. */
  | { readonly kind: "repeat"; readonly of: Expression; readonly min: number; readonly max: number };

/** A pattern that cannot be used. */
export class PatternProblem extends Error {
  /** Whether the pattern is valid, but has a construct that no automaton can follow. */
  readonly isUnsupported: boolean;

  constructor(message: string, isUnsupported = false) {
    super(message);
    this.isUnsupported = isUnsupported;
  }
}

/** Limits on one pattern. */
export const mostPattern = { characters: 4096, depth: 64, count: 4096 };

const metacharacters = "^$\\.*+?()[]{}|/";
const controls: Readonly<Record<string, number>> = { t: 0x9, n: 0xa, v: 0xb, f: 0xc, r: 0xd };
const sets: Readonly<Record<string, CodePoints>> = {
  d: digits,
  D: complementOf(digits),
  w: wordCharacters,
  W: complementOf(wordCharacters),
  s: spaces,
  S: complementOf(spaces),
};
const one = (point: number): CodePoints => unionOf([[point, point]]);

/** @throws PatternProblem */
export function parsePattern(pattern: string, budget: GrammarBudget): Expression {
  if (pattern.length > mostPattern.characters) {
    throw new PatternProblem(`must have at most ${mostPattern.characters} characters, got ${pattern.length}`);
  }
  budget.spend(pattern.length);
  const parser = new PatternParser([...pattern], budget);
  const expression = parser.choice(0);
  parser.finish();
  return expression;
}

class PatternParser {
  readonly #text: readonly string[];
  readonly #budget: GrammarBudget;
  #at = 0;

  constructor(text: readonly string[], budget: GrammarBudget) {
    this.#text = text;
    this.#budget = budget;
  }

  finish(): void {
    if (this.#at < this.#text.length) throw this.#wrong(`${this.#text[this.#at]} has no opening parenthesis`);
  }

  choice(depth: number): Expression {
    if (depth > mostPattern.depth) throw this.#wrong(`groups are nested more than ${mostPattern.depth} levels deep`);
    const parts = [this.#sequence(depth)];
    while (this.#take("|")) parts.push(this.#sequence(depth));
    return parts.length === 1 ? parts[0]! : { kind: "choice", parts };
  }

  #sequence(depth: number): Expression {
    const parts: Expression[] = [];
    for (let next = this.#text[this.#at]; next !== undefined && next !== "|" && next !== ")"; ) {
      parts.push(this.#term(next, depth));
      next = this.#text[this.#at];
    }
    return parts.length === 1 ? parts[0]! : { kind: "sequence", parts };
  }

  #term(next: string, depth: number): Expression {
    if (next === "^" || next === "$") {
      this.#at++;
      if (this.#isQuantifier()) throw this.#wrong(`${next} cannot be repeated`);
      return { kind: next === "^" ? "start" : "end" };
    }
    return this.#repeated(this.#atom(next, depth));
  }

  #atom(next: string, depth: number): Expression {
    this.#at++;
    switch (next) {
      case "(":
        return this.#group(depth);
      case "[":
        return { kind: "set", set: this.#class() };
      case ".":
        return { kind: "set", set: dot };
      case "\\": {
        const escaped = this.#escape(false);
        return { kind: "set", set: typeof escaped === "number" ? one(escaped) : escaped };
      }
      case "*":
      case "+":
      case "?":
      case "{":
        throw this.#wrong(`${next} has nothing to repeat; write \\${next} for the character`);
      case "}":
      case "]":
        throw this.#wrong(`${next} has no opening bracket; write \\${next} for the character`);
      default:
        return { kind: "set", set: one(next.codePointAt(0)!) };
    }
  }

  #group(depth: number): Expression {
    if (this.#take("?")) {
      if (this.#take("=") || this.#take("!")) throw this.#cannot(`the look-ahead (?${this.#before()}…)`);
      if (this.#take("<")) {
        if (this.#take("=") || this.#take("!")) throw this.#cannot(`the look-behind (?<${this.#before()}…)`);
        let name = "";
        while (this.#at < this.#text.length && !this.#take(">")) name += this.#text[this.#at++];
        if (this.#before() !== ">" || !/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)) {
          throw this.#wrong("a group has no valid name");
        }
      } else if (!this.#take(":")) throw this.#cannot(`the group (?${this.#text[this.#at] ?? ""}…)`);
    }
    const inner = this.choice(depth + 1);
    if (!this.#take(")")) throw this.#wrong("a group has no closing parenthesis");
    return inner;
  }

  #isQuantifier(): boolean {
    return "*+?{".includes(this.#text[this.#at] ?? " ");
  }

  #repeated(of: Expression): Expression {
    if (!this.#isQuantifier()) return of;
    const [min, max] = this.#counts();
    this.#take("?"); // a lazy quantifier matches the same texts
    if (this.#isQuantifier()) throw this.#wrong(`${this.#text[this.#at]} has nothing to repeat`);
    return { kind: "repeat", of, min, max };
  }

  #counts(): readonly [min: number, max: number] {
    const infinite = Number.POSITIVE_INFINITY;
    switch (this.#text[this.#at++]) {
      case "*":
        return [0, infinite];
      case "+":
        return [1, infinite];
      case "?":
        return [0, 1];
    }
    let body = "";
    while (this.#at < this.#text.length && !this.#take("}")) body += this.#text[this.#at++];
    const [, least, comma, greatest] = /^(\d+)(,?)(\d*)$/.exec(body) ?? [];
    if (this.#before() !== "}" || least === undefined || (comma === "" && greatest !== "")) {
      throw this.#wrong("{ begins no repetition such as {2} or {2,5}; write \\{ for the character");
    }
    const min = Number(least);
    const max = comma === "" ? min : greatest === "" ? infinite : Number(greatest);
    if (max < min) throw this.#wrong(`{${body.slice(0, 40)}} has its numbers in the wrong order`);
    if (Math.max(min, max === infinite ? 0 : max) > mostPattern.count) {
      const shown = `{${body.slice(0, 40)}}`;
      throw this.#cannot(`the repetition ${shown}`, `counts may be at most ${mostPattern.count}; use "maxLength"`);
    }
    return [min, max];
  }

  /** A class, after its opening bracket. */
  #class(): CodePoints {
    const isNegated = this.#take("^");
    const ranges: (readonly [number, number])[] = [];
    const member = (): number | CodePoints => {
      const next = this.#text[this.#at++];
      if (next === undefined) throw this.#wrong("a class has no closing bracket");
      return next === "\\" ? this.#escape(true) : next.codePointAt(0)!;
    };
    while (!this.#take("]")) {
      const from = member();
      const isRange = this.#text[this.#at] === "-" && this.#text[this.#at + 1] !== "]";
      if (!isRange) {
        ranges.push(...(typeof from === "number" ? [[from, from] as const] : rangesOf(from)));
        continue;
      }
      this.#at++;
      const to = member();
      if (typeof from !== "number" || typeof to !== "number") throw this.#wrong("a class is not the end of a range");
      if (to < from) throw this.#wrong("a range of characters is in the wrong order");
      ranges.push([from, to]);
    }
    this.#budget.spend(ranges.length / 8);
    const set = unionOf(ranges);
    return isNegated ? complementOf(set) : set;
  }

  /** An escape, after its backslash: a character or a set. */
  #escape(isInClass: boolean): number | CodePoints {
    const next = this.#text[this.#at++];
    if (next === undefined) throw this.#wrong("it ends with a backslash");
    if (Object.hasOwn(sets, next)) return sets[next]!;
    if (Object.hasOwn(controls, next)) return controls[next]!;
    switch (next) {
      case "b":
        if (isInClass) return 0x8;
        throw this.#cannot("the word boundary \\b");
      case "B":
        throw this.#cannot("the word boundary \\B");
      case "0":
        if (!/\d/.test(this.#text[this.#at] ?? "")) return 0;
        throw this.#wrong("\\0 is followed by a digit");
      case "c": {
        const letter = this.#text[this.#at++] ?? "";
        if (!/^[A-Za-z]$/.test(letter)) throw this.#wrong("\\c is not followed by a letter");
        return letter.charCodeAt(0) % 32;
      }
      case "x":
        return this.#hex(2);
      case "u":
        return this.#unicode();
      case "p":
      case "P": {
        const name = this.#take("{") ? this.#until("}") : undefined;
        const set = name === undefined ? undefined : propertyOf(name, this.#budget);
        if (set === undefined) throw this.#wrong(`\\${next}{${(name ?? "").slice(0, 60)}} is not a Unicode property`);
        this.#budget.spend(set.length / 8);
        return next === "p" ? set : complementOf(set);
      }
      case "k":
        throw this.#cannot("the back-reference \\k");
    }
    if (/[1-9]/.test(next)) throw this.#cannot(`the back-reference \\${next}`);
    // Without the flag u, other punctuation may be escaped as well, and many schemas do that.
    if (metacharacters.includes(next) || /^[!-/:-@[-`{-~ ]$/.test(next)) return next.codePointAt(0)!;
    throw this.#wrong(`\\${next} is not an escape`);
  }

  #unicode(): number {
    if (this.#take("{")) {
      const text = this.#until("}") ?? "";
      const point = /^[0-9A-Fa-f]{1,8}$/.test(text) ? Number.parseInt(text, 16) : Number.NaN;
      if (!(point <= 0x10ffff)) throw this.#wrong("\\u{…} is not a code point");
      return point;
    }
    const high = this.#hex(4);
    const isPair = high >= 0xd800 && high < 0xdc00 && this.#text[this.#at] === "\\" && this.#text[this.#at + 1] === "u";
    if (!isPair) return high;
    const back = this.#at;
    this.#at += 2;
    const low = this.#text[this.#at] === "{" ? 0 : this.#hex(4);
    if (low >= 0xdc00 && low < 0xe000) return 0x10000 + (high - 0xd800) * 0x400 + (low - 0xdc00);
    this.#at = back;
    return high;
  }

  #hex(count: number): number {
    const text = this.#text.slice(this.#at, this.#at + count).join("");
    if (!new RegExp(`^[0-9A-Fa-f]{${count}}$`).test(text)) throw this.#wrong(`an escape needs ${count} hex digits`);
    this.#at += count;
    return Number.parseInt(text, 16);
  }

  #until(end: string): string | undefined {
    let text = "";
    while (this.#at < this.#text.length) {
      if (this.#take(end)) return text;
      text += this.#text[this.#at++];
    }
    return undefined;
  }

  #take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  /** The character before the position. */
  #before(): string {
    return this.#text[this.#at - 1] ?? "";
  }

  #wrong(problem: string): PatternProblem {
    return new PatternProblem(`is not a regular expression: ${problem} (at character ${Math.max(1, this.#at)})`);
  }

  #cannot(construct: string, why = "describe the text without it"): PatternProblem {
    return new PatternProblem(`${construct} is not supported (at character ${this.#at}): ${why}`, true);
  }
}

/** `^S{m,n}$` with one set of characters: the set and its counts. The counts then are limits of the text's length. */
export function asRepeatedSet(
  expression: Expression,
): { readonly set: CodePoints; readonly min: number; readonly max: number } | undefined {
  if (expression.kind !== "sequence" || expression.parts.length !== 3) return undefined;
  const [first, middle, end] = expression.parts;
  if (first?.kind !== "start" || end?.kind !== "end" || middle?.kind !== "repeat" || middle.of.kind !== "set") {
    return undefined;
  }
  return { set: middle.of.set, min: middle.min, max: middle.max };
}

/** Every text that contains a match, as JSON Schema defines `pattern`: the expression between any characters. */
export function searched(expression: Expression): Expression {
  const any: Expression = {
    kind: "repeat",
    of: { kind: "set", set: anyCharacter },
    min: 0,
    max: Number.POSITIVE_INFINITY,
  };
  return { kind: "sequence", parts: [any, expression, any] };
}
