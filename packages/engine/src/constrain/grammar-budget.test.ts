/** The costs of grammars: counted in steps and bytes, divided into slices, rejected above the limits. */
import { bundledModelFolder, loadTokenizer } from "@tinklet/models";
import { beforeAll, describe, expect, it } from "vitest";
import { GrammarTooLargeError } from "../errors.ts";
import { createRandom } from "../random.ts";
import { createFuzzer, mostAtOnce, type Outcome } from "../testing/grammar-fuzz.ts";
import { endlessSlice, writeText } from "../testing/write-text.ts";
import {
  compileSteps,
  createSlice,
  decodeSteps,
  grammarBytes,
  keptGrammarBytes,
  keptMaskBytes,
  sliceSteps,
} from "./budget.ts";
import { createCompiler } from "./constraint.ts";
import type { Grammar } from "./grammar.ts";

const tokenizer = await loadTokenizer(bundledModelFolder());
const end = tokenizer.eosTokenIds[0]!;
const list = <T>(length: number, make: (index: number) => T): T[] => Array.from({ length }, (_, i) => make(i));
const objectOf = (names: readonly string[], value: unknown) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, value])),
  additionalProperties: false,
});

/** Steps of compiling a schema, and its grammar or its refusal. */
const compile = (schema: unknown, compiler = createCompiler(tokenizer, tokenizer.vocabSize)) => {
  compiler.compile({ type: "json_object" }, endlessSlice()); // the vocabulary
  const slice = createSlice();
  let result: Grammar | GrammarTooLargeError;
  try {
    result = compiler.compile({ type: "json_schema", schema }, slice)!;
  } catch (error) {
    if (!(error instanceof GrammarTooLargeError)) throw error;
    result = error;
  }
  return { result, steps: sliceSteps - slice.left };
};
const grammarOf = (schema: unknown): Grammar => {
  const { result } = compile(schema);
  if (result instanceof Error) throw result;
  return result;
};
const write = (grammar: Grammar, seeds: number, room = 200) => {
  let steps = 0;
  for (let seed = 0; seed < seeds; seed++) {
    const text = writeText(grammar, { end, room: grammar.cost + room, random: createRandom(seed) });
    expect(text.isWhole).toBe(true);
    steps += text.steps;
  }
  return steps;
};

describe("steps and bytes", () => {
  it("of an integer do not grow with its bounds", () => {
    for (const minimum of [100, 1e6, 1e7, 1e14]) {
      const { result, steps } = compile({ type: "integer", minimum });
      expect(steps).toBeLessThan(1000);
      expect(write(result as Grammar, 20)).toBeLessThan(20_000);
    }
  });

  it("of an object grow with its names, not with their square, however many of them are optional", () => {
    const costOf = (count: number) => {
      const names = list(count, (i) => `${i}${"ab".repeat(50)}`);
      const grammar = grammarOf(objectOf(names, { const: 1 }));
      write(grammar, 20, 2000);
      return { bytes: grammar.bytes, steps: compile(objectOf(names, { const: 1 })).steps };
    };
    const [some, many] = [costOf(100), costOf(500)];
    expect(many.bytes).toBeLessThan(6 * some.bytes);
    expect(many.bytes).toBeLessThan(grammarBytes);
    expect(many.steps).toBeLessThan(6 * some.steps);
  });

  it("of a oneOf grow with its options, not with their square", () => {
    const enums = (count: number) => ({
      oneOf: list(count, (i) => ({ enum: list(20, (k) => 20 * i + k) })),
    });
    const [some, many] = [compile(enums(50)).steps, compile(enums(250)).steps];
    expect(many).toBeLessThan(6 * some);
    const kinds = (count: number) => ({
      oneOf: list(count, (i) => ({
        type: "object",
        properties: { same: { enum: [1, 2, 3] }, kind: { const: i } },
        required: ["same", "kind"],
      })),
    });
    expect(compile(kinds(250)).steps).toBeLessThan(6 * compile(kinds(50)).steps);
  });

  it("beyond the limits of a compilation are refused by name, with the limit", () => {
    const same = list(200, (k) => `k${k}`);
    const pairs = {
      // No single property tells all of them apart: each two differ in `a` or in `b`, after many in which they do not.
      oneOf: list(250, (i) => ({
        type: "object",
        properties: {
          ...Object.fromEntries(same.map((name) => [name, { const: 1 }])),
          a: { const: i % 16 },
          b: { const: Math.floor(i / 16) },
        },
        required: [...same, "a", "b"],
      })),
    };
    const { result, steps } = compile(pairs);
    expect(result).toMatchObject({ name: "GrammarTooLargeError", code: "grammar_too_large", limit: compileSteps });
    expect((result as Error).message).toMatch(
      /^params\.constraint\.schema: compiling it takes more than 250000 steps; use/,
    );
    expect(steps).toBeLessThan(compileSteps * 1.1);
  });

  it("of a reply are refused when they grow faster than it", () => {
    // Masks that are different at every character, for as many options as are followed at once.
    const schema = { anyOf: list(900, (i) => ({ type: "string", minLength: i, maxLength: i + 40 })) };
    const grammar = grammarOf(schema);
    const account = grammar.account();
    expect(account.limit).toBe(decodeSteps(tokenizer.vocabSize).once);
    const follower = grammar.follow([end], account);
    const go = () => {
      for (let i = 0; i < 200; i++) {
        account.limit = 20_000;
        follower.prepare(endlessSlice());
        follower.push(follower.allowed(1000).at(-1)!);
      }
    };
    expect(go).toThrow(/finding the tokens that may come next takes more than 20000 steps/);
  });

  it("are given back: grammars and masks that are kept have a budget, and the last that were used stay", () => {
    const compiler = createCompiler(tokenizer, tokenizer.vocabSize);
    let most = 0;
    for (let i = 0; i < 40; i++) {
      const names = list(400, (k) => `${i} ${k}${"ab".repeat(30)}`);
      const grammar = compile(objectOf(names, { type: "string", maxLength: 30 + i }), compiler).result as Grammar;
      write(grammar, 1, 60);
      most = Math.max(most, compiler.bytes);
    }
    expect(most).toBeGreaterThan(0.9 * keptGrammarBytes);
    expect(most).toBeLessThan(keptGrammarBytes + keptMaskBytes + grammarBytes);
    const again = { type: "json_schema", schema: { type: "integer", minimum: 3 } } as const;
    const kept = compiler.compile(again, endlessSlice());
    expect(compiler.compile(again, endlessSlice())).toBe(kept);
  });
});

describe("slices", () => {
  const schema = {
    type: "object",
    properties: {
      name: { type: "string", maxLength: 20 },
      age: { type: "integer", minimum: 18 },
      tags: {
        type: "array",
        items: {
          anyOf: [
            { type: "string", minLength: 3 },
            { type: "number", maximum: 2 },
          ],
        },
      },
    },
    required: ["name", "age", "tags"],
  };
  const inSlices = (left: number): { ids: number[]; slices: number } => {
    const grammar = grammarOf(schema);
    const follower = grammar.follow([end], grammar.account());
    const random = createRandom(5);
    const ids: number[] = [];
    let slices = 0;
    while (!follower.isOver) {
      slices++;
      if (!follower.prepare({ left })) continue;
      const allowed = follower.allowed(120 - ids.length);
      const token = allowed[Math.floor(random() * allowed.length)]!;
      if (token === end) break;
      follower.push(token);
      ids.push(token);
    }
    return { ids, slices };
  };

  it("of any size lead to the same tokens", () => {
    const whole = inSlices(Number.POSITIVE_INFINITY);
    const cut = inSlices(1);
    expect(cut.ids).toEqual(whole.ids);
    expect(cut.slices).toBeGreaterThan(10 * whole.slices);
  });

  it("are as much shorter as the ones before them were too long", () => {
    let slice = createSlice();
    expect(slice.left).toBe(sliceSteps);
    slice.left -= 2.5 * sliceSteps; // a compilation
    const left = list(4, () => {
      slice = createSlice(slice);
      return slice.left / sliceSteps;
    });
    expect(left).toEqual([-0.5, 0.5, 1, 1]);
  });

  it("are not begun when nothing is left of them", () => {
    const grammar = grammarOf(schema);
    const follower = grammar.follow([end], grammar.account());
    expect(follower.prepare({ left: 0 })).toBe(false);
    expect(follower.steps).toBe(0);
  });

  it("also make the vocabulary", () => {
    const compiler = createCompiler(tokenizer, tokenizer.vocabSize);
    let slices = 0;
    let grammar: Grammar | undefined;
    for (; grammar === undefined; slices++) grammar = compiler.compile({ type: "json_object" }, { left: 1000 });
    expect(slices).toBeGreaterThan(tokenizer.vocabSize / 1000);
  });
});

describe("400 hostile schemas", () => {
  const outcomes: Outcome[] = [];
  beforeAll(() => {
    const fuzzer = createFuzzer(tokenizer);
    for (let seed = 1; seed <= 400; seed++) outcomes.push(fuzzer.run(seed));
  });

  it("are written as they say, by another validator, or refused by name", () => {
    expect(outcomes.filter(({ failure }) => failure !== undefined)).toEqual([]);
    const codes = new Set(outcomes.map(({ end: how }) => how));
    const known = [
      "written",
      "written, not judged",
      "no_room",
      "bad_schema",
      "unsupported_schema",
      "grammar_too_large",
    ];
    expect([...codes].filter((code) => !known.includes(code))).toEqual([]);
    expect(outcomes.filter(({ end: how }) => how === "written").length).toBeGreaterThan(250);
  });

  it("stay within the limits of steps per slice, of all steps, and of bytes", () => {
    const { once, perToken } = decodeSteps(tokenizer.vocabSize);
    const most = (of: (outcome: Outcome) => number) => Math.max(...outcomes.map(of));
    expect(most((each) => each.sliceSteps)).toBeLessThanOrEqual(mostAtOnce);
    expect(most((each) => each.compileSteps)).toBeLessThanOrEqual(compileSteps);
    expect(most((each) => each.decodeSteps - perToken * each.tokens)).toBeLessThanOrEqual(once);
    expect(most((each) => each.grammarBytes)).toBeLessThanOrEqual(grammarBytes);
  });
});
