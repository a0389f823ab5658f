// Structured output with the bundled model: schemas made at random, drawn at temperature 1, every result judged by another validator.
import { openEngine, type SampleRequest } from "@tinklet/engine";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelPath } from "../../packages/base-model/index.js";
import { createRandom } from "../../packages/engine/src/random.ts";

const patterns = ["^[a-z]{2,5}$", "b", '^"\\\\n*"$', "^\\p{Lu}\\S* \\d+$", "^(?:ab|é|😀)+$", "^[^\\n]{0,20}$"];
const formats = ["date", "time", "date-time", "email", "uuid", "uri", "ipv4", "ipv6", "hostname", "duration"];

/** Schemas of every supported kind, nested, recursive now and then. */
function makeSchema(seed: number): Record<string, unknown> {
  const random = createRandom(seed, "schema");
  const below = (n: number) => Math.floor(random() * n);
  const some = <T>(list: readonly T[]): T => list[below(list.length)]!;
  const words = ["name", "age", "größe", "日本", "a b", 'quo"te', "length", "ids", "kind", "e\u0301", "", "x\ny"];
  const names = (n: number): string[] => [...new Set(Array.from({ length: n }, () => some(words)))];
  const value = (depth: number): Record<string, unknown> => {
    const kinds = [
      "string",
      "pattern",
      "format",
      "integer",
      "number",
      "boolean",
      "null",
      "enum",
      "const",
      "bounded",
      "any",
    ];
    if (depth < 3) kinds.push("object", "object", "object", "array", "array", "anyOf", "map", "tuple", "types", "ref");
    switch (some(kinds)) {
      case "string":
        return { type: "string", ...(below(2) ? { maxLength: 1 + below(20) } : {}) };
      case "pattern":
        return { type: "string", pattern: some(patterns), ...(below(4) ? {} : { maxLength: 30 }) };
      case "format":
        return { type: "string", format: some(formats) };
      case "integer":
        return { type: "integer", ...(below(2) ? { minimum: -below(500), maximum: below(10_000) } : {}) };
      case "number":
        return { type: "number", ...(below(2) ? { exclusiveMinimum: -random(), maximum: random() * 1e6 } : {}) };
      case "enum":
        return { enum: [some(words), below(100), null, true, { [some(words)]: [1, "x"] }].slice(below(4)) };
      case "const":
        return { const: some([...words, 3.5, null, [], {}]) };
      case "bounded":
        return { type: "string", minLength: below(5), maxLength: 5 + below(5) };
      case "any":
        return {};
      case "array":
        return { type: "array", items: value(depth + 1), minItems: below(3), maxItems: 2 + below(4) };
      case "tuple":
        return { type: "array", prefixItems: [value(depth + 1), value(depth + 1)], items: false, minItems: below(3) };
      case "anyOf":
        return { anyOf: [value(depth + 1), value(depth + 1)] };
      case "map":
        return { type: "object", additionalProperties: value(depth + 1), maxProperties: 1 + below(3) };
      case "types":
        return { type: ["string", "null", "integer"] };
      case "ref":
        return { $ref: "#/$defs/list" };
      case "object":
        return object(depth);
      default:
        return { type: some(["boolean", "null"]) };
    }
  };
  // The validator itself stumbles over `__proto__` and `constructor`; they have a test beside the automaton.
  const object = (depth: number): Record<string, unknown> => {
    const properties = Object.fromEntries(names(1 + below(5)).map((name) => [name, value(depth + 1)]));
    const required = Object.keys(properties).filter(() => below(3) > 0);
    return { type: "object", properties, required, additionalProperties: false };
  };
  const list = {
    type: "object",
    properties: { head: { type: "integer" }, tail: { anyOf: [{ $ref: "#/$defs/list" }, { type: "null" }] } },
    required: ["head", "tail"],
    additionalProperties: false,
  };
  return { ...object(0), $defs: { list } };
}

describe("structured output", () => {
  let engine: Awaited<ReturnType<typeof openEngine>>;
  beforeAll(async () => {
    engine = await openEngine(modelPath, { inThread: true, threads: 1 });
  });
  afterAll(() => engine.close());
  const promptOf = (text: string) =>
    engine.tokenizer.applyChatTemplate([{ role: "user", content: text }], { addGenerationPrompt: true });

  it("200 schemas, temperature 1: 200 valid results", async () => {
    const ajv = new Ajv2020({ strict: false, logger: false });
    (addFormats as unknown as (to: Ajv2020) => void)(ajv);
    const prompt = await promptOf("Answer in JSON.");
    const invalid: unknown[] = [];
    for (let start = 0; start < 200; start += 40) {
      await Promise.all(
        Array.from({ length: 40 }, async (_, i) => {
          const schema = makeSchema(start + i);
          const params = { maxTokens: 120, seed: start + i, constraint: { type: "json_schema", schema } } as const;
          const { sequences } = await engine.sample({ prompt, params });
          const { tokens, stopReason } = sequences[0]!;
          const text = await engine.tokenizer.decode(tokens, { skipSpecialTokens: true });
          const validate = ajv.compile(schema);
          const isValid = stopReason === "stop" && validate(JSON.parse(text));
          if (!isValid) invalid.push({ seed: start + i, stopReason, text, errors: validate.errors, schema });
        }),
      );
    }
    expect(invalid).toEqual([]);
  }, 600_000);

  it("a constrained sample changes nobody else's, and is itself the same in any company", async () => {
    const prompt = await promptOf("Tell me about the sea.");
    const constraint = { type: "json_schema", schema: makeSchema(7) } as const;
    const plain: SampleRequest = { prompt, params: { maxTokens: 30, seed: 3 } };
    const held: SampleRequest = {
      prompt,
      params: { maxTokens: 60, seed: 4, constraint, topP: 0.9 },
      topkSampleLogprobs: 2,
    };
    const alone = [(await engine.sample(plain)).sequences, (await engine.sample(held)).sequences];
    const together = await Promise.all([plain, held, held, plain].map((each) => engine.sample(each)));
    expect(together.map(({ sequences }) => sequences)).toEqual([alone[0], alone[1], alone[1], alone[0]]);
    // Log-probs are the model's own, over all tokens: those of the likeliest two are never below that of what was drawn by force.
    const { logprobs, topkLogprobs } = alone[1]![0]!;
    expect([...logprobs].every((logprob, i) => logprob <= topkLogprobs!.logprobs[2 * i]!)).toBe(true);
    expect([...logprobs].some((logprob, i) => logprob < topkLogprobs!.logprobs[2 * i + 1]!)).toBe(true);
  });

  it("closes in time, and is refused where no answer fits", async () => {
    const prompt = await promptOf("Hi");
    const schema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
    const constraint = { type: "json_schema", schema } as const;
    const run = (maxTokens: number, seed: number) => engine.sample({ prompt, params: { maxTokens, seed, constraint } });
    const refusal = await run(1, 0).catch((error: unknown) => error as Error & { code: string });
    expect(refusal).toMatchObject({ name: "InputError", code: "no_room_for_format", field: "params.maxTokens" });
    const least = Number(/may take (\d+) tokens, and 1 are left/.exec((refusal as Error).message)![1]);
    for (let seed = 0; seed < 10; seed++) {
      for (const room of [least, least + 1, least + 5]) {
        const { tokens, stopReason } = (await run(room, seed)).sequences[0]!;
        expect(tokens.length).toBeLessThanOrEqual(room);
        expect(stopReason).toBe("stop");
        expect(JSON.parse(await engine.tokenizer.decode(tokens))).toEqual({ text: expect.any(String) });
      }
    }
  });

  /** As many strings as are followed at once, each with bounds of its own: a mask has to be found at every character. */
  const costly = {
    type: "json_schema",
    schema: { anyOf: Array.from({ length: 64 }, (_, i) => ({ type: "string", minLength: 30 + i, maxLength: 70 + i })) },
  } as const;

  it("formats that take long to follow hold up themselves, and no other sequence", async () => {
    const prompt = await promptOf("Hi");
    const written = new Map<number, number>();
    const slow = (seed: number) =>
      engine.sample(
        { prompt, params: { maxTokens: 60, seed, constraint: costly } },
        { onToken: () => written.set(seed, (written.get(seed) ?? 0) + 1) },
      );
    const alone = await slow(0);
    written.clear();
    const many = Array.from({ length: 20 }, (_, seed) => slow(seed));
    const { sequences } = await engine.sample({ prompt, params: { maxTokens: 25, seed: 1, stop: [] } });
    expect(sequences[0]!.tokens).toHaveLength(25);
    // Each of them began before the other one did.
    expect(Math.min(...Array.from({ length: 20 }, (_, seed) => written.get(seed) ?? 0))).toBeLessThan(20);
    const results = await Promise.all(many);
    expect(results[0]!.sequences).toEqual(alone.sequences);
    for (const { sequences: own } of results) {
      expect(JSON.parse(await engine.tokenizer.decode(own[0]!.tokens))).toEqual(expect.any(String));
    }
    expect((await engine.stats()).grammarBytes).toBeLessThan(64 * 1024 * 1024);
  }, 600_000);

  it("can be cancelled while their formats are compiled and while masks are found", async () => {
    const prompt = await promptOf("Hi");
    const reasons = await Promise.all(
      [0, 1, 5].map(async (after) => {
        const stop = new AbortController();
        let count = 0;
        const sample = engine.sample(
          { prompt, params: { maxTokens: 200, seed: after, constraint: costly } },
          {
            signal: stop.signal,
            onToken: () => {
              if (++count === after) stop.abort(new Error(`after ${after}`));
            },
          },
        );
        if (after === 0) stop.abort(new Error("after 0"));
        return sample.catch((error: Error) => error.message);
      }),
    );
    expect(reasons).toEqual(["after 0", "after 1", "after 5"]);
    await engine.sample({ prompt, params: { maxTokens: 1, seed: 1 } }); // the next step is over
    expect(await engine.stats()).toMatchObject({ activeSequences: 0, waitingSequences: 0 });
  });

  it("an integer may have any bound", async () => {
    const prompt = await promptOf("Hi");
    for (const minimum of [100_000, 1_000_000, 10_000_000]) {
      const constraint = { type: "json_schema", schema: { type: "integer", minimum } } as const;
      const { sequences } = await engine.sample({ prompt, params: { maxTokens: 40, seed: 1, constraint } });
      const value = Number(await engine.tokenizer.decode(sequences[0]!.tokens, { skipSpecialTokens: true }));
      expect(Number.isInteger(value) && value >= minimum).toBe(true);
    }
  });

  it("a format that is too large is refused before it is read", async () => {
    const prompt = await promptOf("Hi");
    const schema = { type: "null", description: "x".repeat(300_000) };
    const sample = engine.sample({ prompt, params: { constraint: { type: "json_schema", schema } } });
    await expect(sample).rejects.toMatchObject({
      name: "GrammarTooLargeError",
      message: expect.stringContaining("has more characters as JSON than the limit of 262144"),
    });
  });
});
