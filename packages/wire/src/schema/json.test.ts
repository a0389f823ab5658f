import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";
import { type JsonValue, parseJson, stringifyJson } from "./json.ts";

describe("JSON text", () => {
  it("M-306: integers beyond 2^53 stay exact in both directions", () => {
    const text = '{"seq_id":54784135000000001,"a":[-9223372036854775808,9007199254740993,12]}';
    const value = parseJson(text) as { seq_id: bigint; a: unknown[] };
    expect(value).toEqual({ seq_id: 54784135000000001n, a: [-9223372036854775808n, 9007199254740993n, 12] });
    expect(stringifyJson(value)).toBe(text);
  });

  it("keeps numbers that a double holds as numbers, however they are written", () => {
    expect(parseJson("[9007199254740991, 1234567890123456.5, 1e20, 0.12345678901234567890]")).toEqual([
      9007199254740991, 1234567890123456.5, 1e20, 0.12345678901234568,
    ]);
  });

  it("does not touch digits inside strings, escapes included", () => {
    const text = '["12345678901234567890","a\\"12345678901234567890\\"",12345678901234567890]';
    expect(parseJson(text)).toEqual(["12345678901234567890", 'a"12345678901234567890"', 12345678901234567890n]);
  });

  it("writes what JSON.stringify writes, also where numbers beyond 2^53 are nearby, deep or in objects of a class", () => {
    const deep = Array.from({ length: 60 }).reduce<unknown>((inner) => [inner], 1);
    const bare = Object.assign(Object.create(null), { a: [1n] });
    const plain = [
      { a: undefined, b: [undefined, null, -0, 1e21, 1.5, true, "ä\ud800"] },
      new Date(0),
      deep,
      { "": {} },
    ];
    expect(stringifyJson(plain)).toBe(JSON.stringify(plain));
    expect(stringifyJson([plain, 2n ** 60n])).toBe(`[${JSON.stringify(plain)},1152921504606846976]`);
    expect(stringifyJson({ x: bare, y: 2 ** 60 })).toBe('{"x":{"a":[1]},"y":1152921504606846976}');
    expect(stringifyJson({ toJSON: () => 2n ** 60n })).toBe("1152921504606846976");
    expect(stringifyJson("x")).toBe('"x"');
  });

  it("is not fooled by strings that look like its own mark", () => {
    const value = ["\ue00012", "\ue001", 12345678901234567890n];
    expect(parseJson(stringifyJson(value))).toEqual(value);
    expect(parseJson('["\\ue0005", 12345678901234567890]')).toEqual(["\ue0005", 12345678901234567890n]);
  });

  it("refuses leading zeros, bare words and truncated text with a typed error", () => {
    for (const text of ["", "{", "01234567890123456789", "-", "[1,]", "NaN", "nope", '{"a":12345678901234567890']) {
      expect(() => parseJson(text), text).toThrow(ResponseValidationError);
    }
  });

  it("reads a text in one walk, however its strings are escaped", () => {
    // Each of these took time in the square of its length, or the whole stack, when strings were matched by an expression.
    for (const text of [
      `1234567890123456"${'\\\\"'.repeat(300_000)}`,
      `[1234567890123456,"${"\\\\".repeat(300_000)}`,
      `[1234567890123456${',"'.repeat(300_000)}`,
    ]) {
      expect(() => parseJson(text)).toThrow(ResponseValidationError);
    }
    expect(parseJson(`[${"9".repeat(16_000_000)}]`)).toEqual([Infinity]);
    const long = `${"x".repeat(16 * 1024 * 1024)}"12345678901234567890\\`;
    expect(parseJson(`[${JSON.stringify(long)},12345678901234567890]`)).toEqual([long, 12345678901234567890n]);
  });

  it("is as quick with text that holds every character a mark could be made of", () => {
    const privateUse = String.fromCharCode(...Array.from({ length: 6_400 }, (_, i) => 0xe000 + i));
    const value = [privateUse, "x".repeat(4 * 1024 * 1024), 12345678901234567890n];
    expect(parseJson(stringifyJson(value))).toEqual(value);
  });

  it("reads Python's NaN and Infinity where that was asked for, and only outside of strings", () => {
    const text = '{"a":NaN,"b":[-Infinity,Infinity,"NaN","\\"Infinity"],"c":12345678901234567890}';
    expect(parseJson(text, { nonFinite: true })).toEqual({
      a: Number.NaN,
      b: [-Infinity, Infinity, "NaN", '"Infinity'],
      c: 12345678901234567890n,
    });
    expect(parseJson('{"loss":NaN}', { nonFinite: true })).toEqual({ loss: Number.NaN });
    expect(() => parseJson(text)).toThrow(ResponseValidationError);
    for (const wrong of ["NaN1", "-NaN", "[NaN NaN]", "Infinityy", "nan"]) {
      expect(() => parseJson(wrong, { nonFinite: true }), wrong).toThrow(ResponseValidationError);
    }
  });

  it("refuses to write what JSON cannot say, and names the key", () => {
    expect(() => stringifyJson({ rate: Number.NaN })).toThrow(/rate.*NaN/);
    expect(() => stringifyJson({ rate: Infinity })).toThrow(InvalidInputError);
    expect(() => stringifyJson({ f: () => 1 })).toThrow(/function/);
    expect(() => stringifyJson(undefined)).toThrow(InvalidInputError);
    expect(() => stringifyJson(Symbol("x"))).toThrow(InvalidInputError);
    const own: Record<string, unknown> = {};
    own["own"] = own;
    expect(() => stringifyJson(own)).toThrow(TypeError);
  });

  it("M-413: parse(stringify(x)) equals x for any JSON value with any integers", () => {
    const { tree } = fc.letrec<{ tree: JsonValue }>((tie) => ({
      tree: fc.oneof(
        { depthSize: "small" },
        fc.constantFrom(null, true, false),
        fc.string({ unit: "binary" }),
        fc.double({ noNaN: true, noDefaultInfinity: true }).map((x) => (Object.is(x, -0) ? 0 : x)),
        // long only where a double would not do: the parser gives the small ones back as numbers
        fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }).map((x) => (Number.isSafeInteger(Number(x)) ? Number(x) : x)),
        fc.array(tie("tree"), { maxLength: 4 }),
        fc.dictionary(
          fc.string().filter((key) => key !== "__proto__"),
          tie("tree"),
          { maxKeys: 4, noNullPrototype: true },
        ),
      ),
    }));
    fc.assert(
      fc.property(tree, (value) => {
        // a double of 1e21 and more is written with an exponent, below that as digits: those come back as exact integers
        const back = parseJson(stringifyJson(value));
        expect(widen(back)).toEqual(widen(value));
      }),
      { numRuns: runs() },
    );
  });
});

/** Integers as bigint, so that 1e17 (a double) and 100000000000000000n (what its digits say) count as equal. */
function widen(value: JsonValue): unknown {
  if (typeof value === "number" && Number.isInteger(value)) return BigInt(value);
  if (Array.isArray(value)) return value.map(widen);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, widen(item as JsonValue)]));
  }
  return value;
}

export function runs(): number {
  return Number(process.env["FUZZ_RUNS"] ?? 2000);
}
