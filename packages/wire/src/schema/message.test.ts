import { describe, expect, it } from "vitest";
import { closest } from "../closest.ts";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";
import { date } from "./dates.ts";
import {
  bool,
  bytes,
  float,
  int,
  json,
  list,
  literal,
  long,
  map,
  nullable,
  oneOf,
  openWord,
  optional,
  string,
  withDefault,
} from "./fields.ts";
import { message, pathText, snakeCase, unknownFields, wireOf } from "./message.ts";

interface Inner {
  readonly when: Date;
  readonly level: "low" | "high";
}
const Inner = message<Inner>("Inner", { when: date(), level: oneOf("low", "high") });

interface Everything {
  readonly type: "everything";
  readonly text: string;
  readonly count: number;
  readonly big?: number | bigint;
  readonly ratio: number;
  readonly yes: boolean;
  readonly raw?: Uint8Array;
  readonly inner?: Inner;
  readonly inners: readonly Inner[];
  readonly table?: Readonly<Record<string, number>>;
  readonly free?: unknown;
  readonly gone: number | null;
  readonly word?: string;
}
const Everything = message<Everything, "type" | "ratio">("Everything", {
  type: literal("everything"),
  text: string(),
  count: int(),
  big: optional(long()),
  ratio: withDefault(float(), 0.5),
  yes: bool(),
  raw: optional(bytes()),
  inner: optional(Inner.field),
  inners: list(Inner.field),
  table: optional(map(float())),
  free: optional(json() as never),
  gone: nullable(int()),
  word: optional(openWord("known")),
});

const minimal = { text: "t", count: 1, yes: true, inners: [], gone: null } as const;
const wire = { type: "everything", text: "t", count: 1, ratio: 0.5, yes: true, inners: [], gone: null };

function problemOf(body: () => unknown): InvalidInputError | ResponseValidationError {
  try {
    body();
  } catch (error) {
    if (error instanceof InvalidInputError || error instanceof ResponseValidationError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("encoding", () => {
  it("M-201: absent options are omitted, defaults are sent, and an explicit null stays", () => {
    expect(Everything.encode(minimal)).toStrictEqual(wire);
    expect(Everything.encode({ ...minimal, word: undefined as never, ratio: undefined })).toStrictEqual(wire);
    expect(Everything.encode({ ...minimal, gone: 3 })).toMatchObject({ gone: 3 });
  });

  it("M-201: nulls inside free-form maps are kept, and their keys are never renamed", () => {
    const free = { camelCase: null, nested: { stillCamel: [null, 1] } };
    expect(Everything.encode({ ...minimal, free })).toStrictEqual({ ...wire, free });
    const table = { "loss:sum": 1, maxLoss: 2 };
    expect(Everything.encode({ ...minimal, table })).toStrictEqual({ ...wire, table });
  });

  it("M-202: the type literal is sent by itself, and another one is refused", () => {
    expect(Everything.encode(minimal)).toHaveProperty("type", "everything");
    expect(problemOf(() => Everything.encode({ ...minimal, type: "other" as never })).field).toBe("type");
  });

  it("names the field in API spelling and the allowed values", () => {
    const cases: [Partial<Record<keyof Everything, unknown>>, string, RegExp][] = [
      [{ text: 5 }, "text", /must be a string, not 5/],
      [{ count: 1.5 }, "count", /integer/],
      [{ count: 2 ** 53 }, "count", /integer/],
      [{ count: "1" }, "count", /integer, not "1"/],
      [{ ratio: Number.NaN }, "ratio", /finite number, not NaN/],
      [{ ratio: "1" }, "ratio", /finite number/],
      [{ yes: 1 }, "yes", /true or false, not 1/],
      [{ raw: [1] }, "raw", /Uint8Array, not an array/],
      [{ big: 2n ** 64n }, "big", /64 bits/],
      [{ big: 0.5 }, "big", /integer/],
      [{ inner: { when: new Date("x"), level: "low" } }, "inner.when", /valid Date/],
      [{ inners: [{ when: new Date(0), level: "mid" }] }, "inners[0].level", /"low", "high", not "mid"/],
      [{ inners: "no" }, "inners", /an array/],
      [{ inner: null, inners: [null] }, "inners[0]", /an object, not null/],
      [{ table: { a: "x" } }, "table.a", /number/],
      [{ table: [] }, "table", /an object, not an array/],
      [{ free: { a: [Number.NaN] } }, "free.a[0]", /must be a JSON value/],
      [{ free: { a: () => 1 } }, "free.a", /must be a JSON value/],
      [{ free: new Map() }, "free", /must be a JSON value, not a Map/],
      [{ word: 3 }, "word", /string such as "known"/],
      [{ text: undefined }, "text", /is required/],
      [{ gone: undefined }, "gone", /is required/],
    ];
    for (const [change, field, problem] of cases) {
      const error = problemOf(() => Everything.encode({ ...minimal, ...change } as never));
      expect(error, field).toBeInstanceOf(InvalidInputError);
      expect(error.field).toBe(field);
      expect(error.problem).toMatch(problem);
      expect(error.message).toContain(field);
    }
  });

  it("rejects an unknown field, with a suggestion", () => {
    const error = problemOf(() => Everything.encode({ ...minimal, cuont: 1 } as never));
    expect(error.field).toBe("cuont");
    expect(error.hint).toBe("Did you mean count?");
    expect(problemOf(() => Everything.encode({ ...minimal, zzzzzz: 1 } as never)).hint).toMatch(
      /^Known fields: type, text/,
    );
  });

  it("refuses what is no object, and objects that contain themselves", () => {
    const loop: Record<string, unknown> = {};
    loop["self"] = loop;
    expect(problemOf(() => Everything.encode({ ...minimal, free: loop })).problem).toMatch(/contain itself/);
    for (const bad of [null, [], "x", new Date()]) {
      expect(problemOf(() => Everything.encode(bad as never)).field).toBe("Everything");
    }
    const twice = { a: 1 };
    expect(Everything.encode({ ...minimal, free: [twice, twice] })).toMatchObject({ free: [twice, twice] });
  });
});

describe("decoding", () => {
  it("M-107: a required field is present, an absent field has no key", () => {
    const value = Everything.decode({ ...wire, word: null });
    expect(value).toStrictEqual({
      type: "everything",
      text: "t",
      count: 1,
      ratio: 0.5,
      yes: true,
      inners: [],
      gone: null,
    });
    expect("word" in value).toBe(false);
    const { type: _type, ratio: _ratio, ...bare } = wire;
    expect(Everything.decode(bare)).toStrictEqual(value);
    expect(Everything.decode({ ...wire, ratio: null })).toStrictEqual(value);
  });

  it("is as lenient as the official client with numbers and booleans", () => {
    const read = (change: object) => Everything.decode({ ...wire, ...change });
    expect(read({ count: "5" }).count).toBe(5);
    expect(read({ count: 5.0 }).count).toBe(5);
    expect(read({ count: true }).count).toBe(1);
    expect(read({ ratio: "0.25" }).ratio).toBe(0.25);
    expect(read({ ratio: "NaN" }).ratio).toBeNaN();
    expect(read({ ratio: "-inf" }).ratio).toBe(-Infinity);
    expect(read({ ratio: "Infinity" }).ratio).toBe(Infinity);
    expect(read({ ratio: 12345678901234567890n }).ratio).toBe(Number(12345678901234567890n));
    expect(read({ big: "9007199254740993" }).big).toBe(9007199254740993n);
    expect(read({ big: 7n }).big).toBe(7);
    for (const yes of [1, "1", "true", "T", "yes", "On"]) expect(read({ yes }).yes).toBe(true);
    for (const yes of [0, "0", "false", "F", "no", "oFF"]) expect(read({ yes }).yes).toBe(false);
    expect(read({ raw: "_-8=" }).raw).toEqual(Uint8Array.of(0xff, 0xef));
  });

  it("names the field in wire spelling", () => {
    const cases: [object, string][] = [
      [{ text: 5 }, "text"],
      [{ count: "5.5" }, "count"],
      [{ count: null }, "count"],
      [{ yes: "maybe" }, "yes"],
      [{ ratio: "x" }, "ratio"],
      [{ raw: "***" }, "raw"],
      [{ raw: 5 }, "raw"],
      [{ inners: [{ when: "nope", level: "low" }] }, "inners[0].when"],
      [{ inners: {} }, "inners"],
      [{ table: { a: {} } }, "table.a"],
      [{ type: "other" }, "type"],
    ];
    for (const [change, field] of cases) {
      const error = problemOf(() => Everything.decode({ ...wire, ...change }));
      expect(error).toBeInstanceOf(ResponseValidationError);
      expect(error.field).toBe(field);
    }
    expect(problemOf(() => Everything.decode([])).field).toBe("Everything");
  });

  it("M-405: fields that this version does not know stay reachable", () => {
    const value = Everything.decode({ ...wire, new_thing: { a: 1 } });
    expect(wireOf(value)).toMatchObject({ new_thing: { a: 1 } });
    expect(wireOf({})).toBeUndefined();
    expect(unknownFields(Everything as never, { ...wire, new_thing: 1 })).toEqual(["new_thing"]);
    expect(unknownFields(Everything as never, "x")).toEqual([]);
  });

  it("M-407: the raw timestamp stays reachable, with its microseconds", () => {
    const inner = Inner.decode({ when: "2026-11-15T06:21:47.117530Z", level: "low" });
    expect(inner.when).toEqual(new Date("2026-11-15T06:21:47.117Z"));
    expect(wireOf(inner)?.["when"]).toBe("2026-11-15T06:21:47.117530Z");
  });

  it("a key such as __proto__ is an ordinary key", () => {
    const table = JSON.parse('{"__proto__": 1, "constructor": 2}') as Record<string, number>;
    const value = Everything.decode({ ...wire, table });
    expect(Object.keys(value.table ?? {})).toEqual(["__proto__", "constructor"]);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(problemOf(() => Everything.decode(Object.create({ text: "inherited" }) as object)).problem).toMatch(
      /object/,
    );
  });
});

describe("helpers", () => {
  it("spells names and paths", () => {
    expect(snakeCase("samplingSessionSeqId")).toBe("sampling_session_seq_id");
    expect(snakeCase("beta1")).toBe("beta1");
    expect(pathText(["a", 0, "b"])).toBe("a[0].b");
    expect(pathText([])).toBe("");
  });

  it("guesses a misspelt word only when one is near", () => {
    expect(closest("temprature", ["temperature", "topK"])).toBe("temperature");
    expect(closest("top_k", ["temperature", "topK"])).toBe("topK");
    expect(closest("penalty", ["temperature", "topK"])).toBeUndefined();
    expect(closest("x".repeat(100), ["y".repeat(100)])).toBeUndefined();
  });

  it("describes its fields for the parity check", () => {
    expect(Inner.fields).toEqual([
      { name: "when", presence: "required", shape: { type: "datetime" } },
      { name: "level", presence: "required", shape: { type: "enum", values: ["low", "high"], open: false } },
    ]);
    expect(Everything.fields.find((field) => field.name === "ratio")).toMatchObject({
      presence: "default",
      default: 0.5,
    });
  });
});
