/** Patterns and formats of strings: what is written matches, what does not match cannot be written, and hostile patterns are bounded. */
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, it } from "vitest";
import { tinyTokenizer } from "../../../../models/src/testing/tiny-tokenizer.ts";
import { GrammarTooLargeError } from "../../errors.ts";
import { createRandom } from "../../random.ts";
import { endlessSlice, followText, writeText } from "../../testing/write-text.ts";
import { createCompiler } from "../constraint.ts";
import { formatNames } from "./formats.ts";

const tokenizer = tokenizerFromFiles(tinyTokenizer, "tiny");
const compiler = createCompiler(tokenizer, tokenizer.vocabSize);
const compile = (schema: object) => compiler.compile({ type: "json_schema", schema }, endlessSlice())!;
const end = tokenizer.eosTokenIds[0]!;
const ajv = new Ajv2020({ strict: false });
(addFormats as unknown as (to: Ajv2020) => void)(ajv);

/** Random texts of a schema, from the shortest on. */
function texts(schema: object, count = 60): string[] {
  const grammar = compile(schema);
  return Array.from({ length: count }, (_, seed) => {
    const room = grammar.cost + (seed % 4 === 0 ? 0 : seed);
    const { ids, isWhole } = writeText(grammar, { end, room, random: createRandom(seed) });
    expect(isWhole).toBe(true);
    return tokenizer.decode(ids);
  });
}

/** Whether a JSON text can be written, byte by byte. */
function canWrite(schema: object, text: string): boolean {
  const follower = followText(compile(schema), [end]);
  for (const byte of new TextEncoder().encode(text)) {
    const token = byteTokens.get(byte);
    if (token === undefined || !follower.allowed(10_000).includes(token)) return false;
    follower.push(token);
  }
  return follower.isWhole;
}
const byteTokens = new Map<number, number>();
for (let id = 0; id < tokenizer.vocabSize; id++) {
  const bytes = tokenizer.tokenBytes(id);
  if (bytes?.length === 1 && !tokenizer.isSpecial(id)) byteTokens.set(bytes[0]!, id);
}

const refusalOf = (schema: object): { message: string; code: string } => {
  try {
    compile(schema);
  } catch (error) {
    return error as { message: string; code: string };
  }
  throw new Error("was compiled");
};

describe("every text of a pattern matches it", () => {
  it.each([
    String.raw`^[A-Z]{2}-\d{3,5}$`,
    String.raw`^a|b$`,
    String.raw`^(?:a|b)*c$`,
    String.raw`^(a+)+$`,
    String.raw`^(?<year>\d{4})(?:-\d\d)?$`,
    String.raw`foo`,
    String.raw`^foo`,
    String.raw`foo$`,
    String.raw`^$`,
    String.raw``,
    String.raw`^"[^"\\]*"$`,
    String.raw`^\\+\/\t\n$`,
    String.raw`^[\u0000-\u001f]{1,3}$`,
    String.raw`^[é-ü日本]{2,4}$`,
    String.raw`^\u{1f600}?[\u{1f600}-\u{1f64f}]$`,
    String.raw`^\uD83D\uDE00$`,
    String.raw`^\p{Lu}\p{Ll}*$`,
    String.raw`^\P{ASCII}$`,
    String.raw`^[^\x00-\x7f]{3}$`,
    String.raw`^[\w\-\.]+@[\w.]+$`,
    String.raw`^.{3}$`,
    String.raw`^[\s\S]{3}$`,
    String.raw`^\S\s\W\D$`,
    String.raw`^a{0}b{2}c{0,2}d{1,}$`,
    String.raw`(^a)|(b$)|^cd$`,
    String.raw`^(?:[a-c]*?x){2}$`,
    String.raw`^[\]\[^-]+$`,
    String.raw`^[-a]+$`,
    String.raw`^\cJ\x41\0$`,
  ])("%s", (pattern) => {
    const schema = { type: "string", pattern };
    const validate = ajv.compile(schema);
    for (const text of texts(schema)) expect([text, validate(JSON.parse(text))]).toEqual([text, true]);
  });

  it("with lengths in characters, not bytes or escapes", () => {
    for (const bounds of [
      { minLength: 3, maxLength: 5 },
      { minLength: 4 },
      { maxLength: 3 },
      { minLength: 3, maxLength: 3 },
    ]) {
      for (const pattern of [String.raw`^(ab|\n|é|😀)+$`, "^[a-d]*$", "^[a-d]{2,9}$", "b", String.raw`^a.*z$`]) {
        const schema = { type: "string", pattern, ...bounds };
        const validate = ajv.compile(schema);
        for (const text of texts(schema, 40)) expect([text, validate(JSON.parse(text))]).toEqual([text, true]);
      }
    }
    expect(refusalOf({ type: "string", pattern: "^(ab)+$", minLength: 3, maxLength: 3 }).message).toMatch(
      /must allow at least one value/,
    );
  });

  it("inside objects and beside other types", () => {
    const schema = {
      type: "object",
      properties: {
        id: { type: "string", pattern: "^[a-z]{3}$" },
        at: { type: ["string", "null"], format: "date" },
        any: { anyOf: [{ type: "string", pattern: "^x" }, { type: "string", pattern: "^xy$" }, { type: "integer" }] },
      },
      required: ["id", "at", "any"],
      additionalProperties: false,
    };
    const date = /^\d{4}-\d\d-\d\d$/;
    for (const text of texts(schema)) {
      const value = JSON.parse(text) as { id: string; at: string | null; any: unknown };
      expect(value.id).toMatch(/^[a-z]{3}$/);
      if (value.at !== null) expect(value.at).toMatch(date);
      if (typeof value.any === "string") expect(value.any).toMatch(/^x/);
    }
  });
});

describe("a pattern is searched, as JSON Schema defines it", () => {
  it.each([
    ["b", ['"b"', '"abc"', '"\\nb\\n"'], ['"ac"', '""']],
    ["^b", ['"b"', '"bc"'], ['"ab"']],
    ["b$", ['"b"', '"ab"'], ['"bc"', '"b\\n"']],
    ["^b$", ['"b"'], ['"bb"', '"ab"', '""']],
    ["^a|b$", ['"ac"', '"cb"'], ['"cac"']],
    ["a^b|c$d", [], ['"ab"', '"cd"']],
    ["", ['""', '"anything"'], ["1"]],
  ])("%s", (pattern, written, others) => {
    const schema = { anyOf: [{ type: "string", pattern }, { type: "null" }] };
    expect(written.filter((text) => !canWrite(schema, text))).toEqual([]);
    expect(others.filter((text) => canWrite(schema, text))).toEqual([]);
  });
});

describe("characters are written raw or escaped", () => {
  it.each([
    [String.raw`^"$`, [String.raw`"\""`, String.raw`"\u0022"`], [`"""`]],
    [String.raw`^\\$`, [String.raw`"\\"`, String.raw`"\u005C"`], [String.raw`"\"`]],
    [String.raw`^/$`, [`"/"`, String.raw`"\/"`, String.raw`"\u002f"`], []],
    [String.raw`^\n$`, [String.raw`"\n"`, String.raw`"\u000a"`], [`"\n"`, String.raw`"\r"`]],
    [String.raw`^n$`, [`"n"`, String.raw`"\u006e"`], [String.raw`"\n"`]],
    [String.raw`^\x01$`, [String.raw`"\u0001"`], [`"\u0001"`, String.raw`"\u0002"`]],
    [String.raw`^é$`, [`"é"`, String.raw`"\u00e9"`, String.raw`"\u00E9"`], [`"è"`, String.raw`"\u00e8"`]],
    [String.raw`^日$`, [`"日"`, String.raw`"\u65e5"`], [`"本"`]],
    [String.raw`^😀$`, [`"😀"`], [`"😁"`, String.raw`"\ud83d"`]],
    [String.raw`^[^a]$`, [`"b"`, String.raw`"\u0062"`], [`"a"`, String.raw`"\u0061"`, String.raw`"\ud800"`]],
  ])("%s", (pattern, written, others) => {
    const schema = { type: "string", pattern };
    expect(written.filter((text) => !canWrite(schema, text))).toEqual([]);
    expect(others.filter((text) => canWrite(schema, text))).toEqual([]);
  });
});

describe("formats", () => {
  it.each(formatNames)("%s: every text is valid by an independent validator", (format) => {
    const schema = { type: "string", format };
    const validate = ajv.compile(schema);
    for (const text of texts(schema, 120)) expect([text, validate(JSON.parse(text))]).toEqual([text, true]);
  });

  it.each([
    ["date", ["2024-02-29", "2000-02-29", "2023-12-31"], ["2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01"]],
    ["time", ["23:59:59Z", "00:00:00.125+05:30"], ["24:00:00Z", "12:60:00Z", "12:00:00"]],
    ["date-time", ["2026-11-19T20:13:02Z"], ["2026-11-19 20:13:02Z", "2026-11-19"]],
    ["duration", ["P3W", "P1Y2M3D", "PT1H", "P1DT12H30M5S"], ["P", "PT", "P1H", "1D"]],
    ["email", ["a.b+c@example.org"], ["a@b", "a..b@example.org", "@example.org", "a@-b.org"]],
    ["hostname", ["localhost", "a-b.example.org"], ["-a.org", "a..org", `${"x".repeat(64)}.org`]],
    ["ipv4", ["0.0.0.0", "255.255.255.255"], ["256.1.1.1", "1.2.3", "01.2.3.4"]],
    [
      "ipv6",
      ["::", "::1", "1:2:3:4:5:6:7:8", "fe80::1:2", "1::"],
      ["1:2:3", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9"],
    ],
    [
      "uri",
      ["https://example.org:8080/a/b?c=d#e", "urn:isbn:123", "mailto:a@b.org"],
      ["example.org/a", "//a", "a b:c"],
    ],
    [
      "uuid",
      ["123e4567-e89b-12d3-A456-426614174000"],
      ["123e4567e89b12d3a456426614174000", "g23e4567-e89b-12d3-a456-426614174000"],
    ],
  ] as const)("%s: what can be written", (format, written, others) => {
    const schema = { type: "string", format };
    expect(written.filter((text) => !canWrite(schema, JSON.stringify(text)))).toEqual([]);
    expect(others.filter((text) => canWrite(schema, JSON.stringify(text)))).toEqual([]);
    expect(written.every((text) => ajv.validate(schema, text))).toBe(true);
  });

  it("with a length, which may leave nothing", () => {
    for (const text of texts({ type: "string", format: "email", maxLength: 12 })) {
      expect(JSON.parse(text).length).toBeLessThanOrEqual(12);
    }
    expect(refusalOf({ type: "string", format: "date", maxLength: 9 }).message).toMatch(
      /must allow at least one value/,
    );
  });
});

describe("what no automaton can follow is rejected by name", () => {
  it.each([
    ["^(?=a)b", /schema\/pattern: the look-ahead \(\?=…\) is not supported \(at character 4\)/],
    ["(?!a)b", /the look-ahead \(\?!…\)/],
    ["(?<=a)b", /the look-behind \(\?<=…\)/],
    ["(?<!a)b", /the look-behind \(\?<!…\)/],
    ["(a)\\1", /the back-reference \\1/],
    ["(?<n>a)\\k<n>", /the back-reference \\k/],
    ["\\bword", /the word boundary \\b/],
    ["a\\B", /the word boundary \\B/],
    ["(?i:a)", /the group \(\?i…\)/],
    ["^a{100000}$", /the repetition \{100000\}.*counts may be at most 4096; use "maxLength"/],
    ["^(?:(?:a{50}){50}){50}$", /has more than 4096 states with its repetitions written out/],
  ])("%s", (pattern, message) => {
    expect(refusalOf({ type: "string", pattern })).toMatchObject({
      code: "unsupported_schema",
      message: expect.stringMatching(message),
    });
  });

  it.each([
    ["(", /a group has no closing parenthesis/],
    ["a)", /\) has no opening parenthesis/],
    ["[a", /a class has no closing bracket/],
    ["[b-a]", /wrong order/],
    ["[\\d-z]", /a class is not the end of a range/],
    ["*a", /\* has nothing to repeat/],
    ["a**", /\* has nothing to repeat/],
    ["^*", /\^ cannot be repeated/],
    ["a{2,1}", /\{2,1\} has its numbers in the wrong order/],
    ["a{", /\{ begins no repetition/],
    ["}", /\} has no opening bracket/],
    ["\\q", /\\q is not an escape/],
    ["\\p{Nope}", /\\p\{Nope\} is not a Unicode property/],
    ["\\u{110000}", /is not a code point/],
    ["\\x4", /needs 2 hex digits/],
    ["a\\", /ends with a backslash/],
    ["(?<1>a)", /no valid name/],
    ["(".repeat(70), /nested more than 64 levels deep/],
    ["x".repeat(4097), /must have at most 4096 characters, got 4097/],
  ])("%s is no expression", (pattern, message) => {
    const { code, message: said } = refusalOf({ type: "string", pattern });
    expect([code, said]).toEqual(["bad_schema", expect.stringMatching(message)]);
  });

  it.each(["a^", "$a", "^[^\\s\\S]$", "[\\ud800-\\udfff]"])("%s matches nothing", (pattern) => {
    expect(refusalOf({ type: "string", pattern }).message).toMatch(/must allow at least one value/);
  });
});

describe("hostile patterns", () => {
  /** Steps of a compilation and of a reply, and bytes. */
  const workOf = (pattern: string, rest: object = {}) => {
    const slice = { left: 1e9 };
    const grammar = compiler.compile({ type: "json_schema", schema: { type: "string", pattern, ...rest } }, slice)!;
    const { steps } = writeText(grammar, { end, room: grammar.cost + 40, random: createRandom(1) });
    return { compiling: 1e9 - slice.left, steps, bytes: grammar.bytes };
  };

  it("do not back-track: nested and ambiguous repetitions have as many states as they are long", () => {
    for (const pattern of ["^(a+)+$", "(a*)*b", "^(x+x+)+y$", "^(a|aa|a?)+$", "^(?:(?:)*)*$", "^(?:.*a){20}$"]) {
      const { compiling, bytes } = workOf(pattern);
      expect([pattern, compiling < 2000, bytes < 100_000]).toEqual([pattern, true, true]);
    }
  });

  it("take time and memory linear in a count", () => {
    const [small, large] = [workOf("^(?:ab?){100}$"), workOf("^(?:ab?){1000}$")];
    expect(large.compiling).toBeLessThan(12 * small.compiling);
    expect(large.bytes).toBeLessThan(12 * small.bytes);
  });

  it("with exponentially many places end at the budget, in a reply or before it", () => {
    const pattern = "^[ab]*a[ab]{3000}$";
    expect(() => {
      const grammar = compile({ type: "string", pattern });
      for (let seed = 0; seed < 20; seed++) writeText(grammar, { end, room: 8000, random: createRandom(seed) });
    }).toThrow(GrammarTooLargeError);
  });

  it("one limit of the length is shared by all masks of a repeated set", () => {
    const few = workOf("^[a-z ]{0,40}$");
    const many = workOf("^[a-z ]{0,4000}$");
    expect(many.steps).toBeLessThan(2 * few.steps);
    expect(workOf("^.*$", { maxLength: 4000 }).steps).toBeLessThan(2 * workOf("^.*$", { maxLength: 400 }).steps);
  });

  it("of Unicode classes are charged the same, whether their characters are known or not", () => {
    const steps = () => {
      const fresh = createCompiler(tokenizer, tokenizer.vocabSize);
      fresh.compile({ type: "json_object" }, endlessSlice());
      const slice = { left: 1e9 };
      fresh.compile({ type: "json_schema", schema: { type: "string", pattern: "^\\p{Lo}\\P{Nd}$" } }, slice);
      return 1e9 - slice.left;
    };
    expect(steps()).toBe(steps());
    const names = ["L", "N", "P", "S", "Z", "M", "C", "Lu"].map((name) => `\\p{${name}}`);
    expect(refusalOf({ type: "string", pattern: names.join("") })).toBeInstanceOf(GrammarTooLargeError);
  });
});
