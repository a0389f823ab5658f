/** Response formats: every text conforms to its schema, for any draws, and is complete within the token limit. */
import { createHash } from "node:crypto";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import { createRandom } from "../random.ts";
import { endlessSlice, followText, writeText } from "../testing/write-text.ts";
import type { Constraint } from "../types.ts";
import { createCompiler } from "./constraint.ts";

const tokenizer = tokenizerFromFiles(tinyTokenizer, "tiny");
const createCompile = () => {
  const compiler = createCompiler(tokenizer, tokenizer.vocabSize);
  return (constraint: Constraint) => compiler.compile(constraint, endlessSlice())!;
};
const compile = createCompile();
const end = tokenizer.eosTokenIds[0]!;
const schemaOf = (schema: unknown) => ({ type: "json_schema", schema }) as const;

/** Writes a random text; every allowed token is equally likely. */
const write = (constraint: Constraint, seed: number, room: number) => {
  const { ids, isWhole } = writeText(compile(constraint), { end, room, random: createRandom(seed) });
  expect(isWhole).toBe(true);
  return tokenizer.decode(ids);
};
const refusalOf = (schema: unknown): { message: string; code: string } => {
  try {
    compile(schemaOf(schema));
  } catch (error) {
    return error as { message: string; code: string };
  }
  throw new Error("was compiled");
};

const person = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 5 },
    age: { type: "integer", minimum: 0, maximum: 120 },
    tags: { type: "array", items: { enum: ["a", "b", 'ab\n"ü'] }, minItems: 1, maxItems: 3 },
    size: { anyOf: [{ type: "number", exclusiveMinimum: 0.25, maximum: 0.5 }, { type: "null" }] },
  },
  required: ["name", "tags"],
  additionalProperties: false,
};
const tree = {
  $ref: "#/$defs/node",
  $defs: {
    node: {
      type: "object",
      properties: { value: { type: "boolean" }, children: { type: "array", items: { $ref: "#/$defs/node" } } },
      required: ["value", "children"],
      additionalProperties: false,
    },
  },
};
const schemas: Readonly<Record<string, unknown>> = {
  person,
  tree,
  anything: {},
  "any object": { type: "object" },
  "a map": { type: "object", additionalProperties: { type: "integer" }, maxProperties: 2 },
  "several types": { type: ["string", "integer", "null", "boolean", "array"], maxItems: 2 },
  "fixed values": { enum: [1, "x", null, { a: [1, 2] }, "e\u0301👩‍👩‍👧"] },
  "a tuple": { type: "array", prefixItems: [{ const: "at" }, { type: "number" }], items: false, minItems: 2 },
  "a long tuple": {
    type: "array",
    prefixItems: [{ type: "null" }],
    items: { type: "boolean" },
    minItems: 3,
    maxItems: 4,
  },
  "kinds told apart": {
    oneOf: [
      { type: "object", properties: { kind: { const: "a" }, x: { type: "number" } }, required: ["kind", "x"] },
      { type: "object", properties: { kind: { const: "b" } }, required: ["kind"] },
    ],
  },
  "names that are odd": {
    type: "object",
    properties: JSON.parse(
      '{"__proto__": {"type": "null"}, "日本\\n\\"": {"type": "null"}, "": {"type": "null"}, "constructor": {}}',
    ),
    required: ["__proto__", '日本\n"', "constructor", "toString"],
  },
  "negative numbers": { type: "number", minimum: -12.5, maximum: -12.25 },
  "one number": { type: "integer", minimum: 123_456_789, maximum: 123_456_789 },
  "long text": { type: "string", minLength: 10, maxLength: 12 },
};
const ajv = new Ajv2020({ strict: false });

describe("every text of a format", () => {
  it.each(Object.entries(schemas))("is valid: %s", (_name, schema) => {
    const validate = ajv.compile(schema as object);
    const { cost } = compile(schemaOf(schema));
    for (let seed = 0; seed < 40; seed++) {
      // Of every length, down to the shortest.
      const text = write(schemaOf(schema), seed, cost + (seed % 4 === 0 ? 0 : seed));
      const value: unknown = JSON.parse(text);
      expect([text, validate(value)]).toEqual([text, true]);
    }
  });

  it("ends where a schema begins with itself", () => {
    expect(write(schemaOf({ anyOf: [{ $ref: "#" }, { type: "null" }] }), 1, 10)).toBe("null");
  });

  it("is a JSON object where only that is asked for", () => {
    for (let seed = 0; seed < 100; seed++) {
      const value: unknown = JSON.parse(write({ type: "json_object" }, seed, 3 + seed));
      expect(Object.prototype.toString.call(value)).toBe("[object Object]");
    }
  });

  it("can be any valid text without white space, with any tokenization", () => {
    const texts = [
      '{"name":"ab","tags":["a"]}',
      '{"name": "日本", "age": 120, "tags": ["a", "ab\\n\\"ü"], "size":0.3}',
    ];
    for (const text of texts) {
      const follower = followText(compile(schemaOf(person)), [end]);
      for (const id of tokenizer.encode(text, { addSpecialTokens: false })) {
        expect([...follower.allowed(1000)]).toContain(id);
        follower.push(id);
      }
      expect(follower.isOver).toBe(true);
    }
  });

  it("leaves out what a schema forbids, byte by byte", () => {
    const refused = [
      '{"name":""',
      '{"name":"abcdef',
      '{"age":121',
      '{"age":-',
      '{"tags":[]',
      '{"tags":["c',
      '{"b',
      "[",
      " ",
      '{"name":"\\u',
      '{"name":"\\ud8',
    ];
    const last = refused.map((text) => {
      const follower = followText(compile(schemaOf(person)), [end]);
      const bytes = [...new TextEncoder().encode(text)];
      const idOf = (byte: number) => tokenizer.encode(String.fromCharCode(byte), { addSpecialTokens: false })[0]!;
      return bytes.findIndex((byte) => {
        const isIn = follower.allowed(1000).includes(idOf(byte));
        if (isIn) follower.push(idOf(byte));
        return !isIn;
      });
    });
    // `"\u` itself is the beginning of a character; `age` cannot come before the required `name`.
    expect(last).toEqual([9, 14, 2, 2, 2, 2, 2, 0, 0, -1, 12]);
  });
});

describe("an unsupported schema is rejected with the keyword's name", () => {
  it.each([
    [
      { type: "string", pattern: "^a", format: "date" },
      /schema: the keyword "format" is not supported beside "pattern"/,
    ],
    [{ type: "string", pattern: 1 }, /schema\/pattern: must be a string/],
    [{ type: "string", format: "regex" }, /schema\/format: "regex" is not supported; use date, time, date-time/],
    [{ type: "integer", format: "int32" }, /schema\/format: "int32" is not supported/],
    [{ type: "object", properties: { a: { not: {} } } }, /schema\/properties\/a: the keyword "not"/],
    [{ type: "array", uniqueItems: true }, /"uniqueItems"/],
    [{ type: "number", multipleOf: 3 }, /"multipleOf"/],
    [{ $ref: "http://example.com/x" }, /"\$ref" is supported within the schema only/],
    [{ $ref: "#/$defs/gone" }, /\$ref: "#\/\$defs\/gone" leads nowhere/],
    [{ $ref: "#/__proto__" }, /leads nowhere/],
    [{ $ref: "#" }, /must allow at least one value/],
    [{ type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }, /must allow at least one value/],
    [{ type: "strin" }, /"strin" is not a type; use object, array/],
    [{ oneOf: [{ type: "number" }, { type: "integer" }] }, /"oneOf" is supported where no value can fit two/],
    [{ allOf: [{}, {}] }, /"allOf" is supported with one schema only/],
    [{ anyOf: [{}], minimum: 1 }, /"minimum" is not supported beside "anyOf"/],
    [{ type: "object", properties: { a: false }, required: ["a"] }, /must allow at least one value/],
    [{ type: "object", required: ["a"], additionalProperties: false }, /must allow at least one value/],
    [{ type: "object", minProperties: 1 }, /"minProperties"/],
    [{ type: "integer", minimum: 0.1, maximum: 0.9 }, /must allow at least one value/],
    [{ type: "string", minLength: 2, maxLength: 1 }, /must allow at least one value/],
    [{ type: "array", minItems: 2, maxItems: 1 }, /must allow at least one value/],
    [{ type: "string", minLength: -1 }, /minLength: must be a whole number/],
    [{ enum: [] }, /enum: has no value that fits/],
    ["x", /must be a JSON Schema/],
    [null, /must be a JSON Schema/],
  ])("%j", (schema, message) => {
    expect(refusalOf(schema).message).toMatch(message);
  });

  it("however deep or often it goes", () => {
    let deep: unknown = { type: "null" };
    for (let i = 0; i < 200; i++) deep = { type: "array", items: deep };
    expect(refusalOf(deep).message).toMatch(/more than 128 levels deep/);
    const $defs = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }]));
    expect(refusalOf({ $ref: "#/$defs/d0", $defs: { ...$defs, d300: {} } }).message).toMatch(/levels deep/);
    expect(refusalOf({ enum: Array.from({ length: 10_001 }, (_, i) => i) }).message).toMatch(
      /at most 10000 entries, got 10001/,
    );
    expect(refusalOf({ const: "x".repeat(70_000) }).message).toMatch(/at most 65536 characters/);
    const properties = Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`p${i}`, {}]));
    expect(refusalOf({ properties }).message).toMatch(/at most \d+ properties, got 600/);
    const wide = { anyOf: Array.from({ length: 1100 }, () => ({ type: "null" })) };
    expect(refusalOf(wide).message).toMatch(/more than 1000 schemas/);
  });
});

describe("time", () => {
  it("is bounded where many schemas fit at once", () => {
    const options = Array.from({ length: 300 }, (_, i) => ({
      type: "object",
      properties: { text: { type: "string" }, [`p${i}`]: { type: "null" } },
      required: ["text", `p${i}`],
      additionalProperties: false,
    }));
    for (let seed = 0; seed < 3; seed++) {
      const value = JSON.parse(write(schemaOf({ anyOf: options }), seed, 40)) as Record<string, unknown>;
      const [text, other] = Object.keys(value);
      expect([text, value[other!]]).toEqual(["text", null]);
      expect(Number(other!.slice(1))).toBeLessThan(options.length);
    }
  });

  it("is not given to a schema whose ways are new at every token", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 60 }, (_, i) => {
        const refs = [(i + 1) % 60, (i * 7) % 60].map((k) => ({ $ref: `#/$defs/d${k}` }));
        return [`d${i}`, { anyOf: [refs[0], { type: "array", items: refs[1] }, { type: "null" }] }];
      }),
    );
    const follower = followText(compile(schemaOf({ $ref: "#/$defs/d0", $defs })), [end]);
    const open = tokenizer.encode("[", { addSpecialTokens: false })[0]!;
    const nest = () => {
      for (let i = 0; i < 200; i++) {
        follower.allowed(10_000);
        follower.push(open);
      }
    };
    expect(nest).toThrow(/finding what may follow one byte takes more than 8192 steps/);
  });

  it("does not change draws: cached masks equal masks that are computed again", () => {
    const digest = (fresh: boolean) => {
      const hash = createHash("sha256");
      for (let seed = 0; seed < 10; seed++) {
        const follower = followText((fresh ? createCompile() : compile)(schemaOf(person)), [end]);
        const random = createRandom(seed);
        for (let room = 60; room > 0 && !follower.isOver; room--) {
          const allowed = follower.allowed(room);
          hash.update(allowed);
          follower.push(allowed[Math.floor(random() * allowed.length)]!);
        }
      }
      return hash.digest("hex");
    };
    expect(digest(true)).toBe(digest(false));
  });
});
