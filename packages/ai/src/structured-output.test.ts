/** JSON replies: the constraint that reaches the sampler, and replies of the bundled model under a schema. */
import { createTinklet, record, toData } from "@tinklet/ai";
import { ServiceClient } from "@tinklet/sdk";
import { createLocalServer } from "@tinklet/server";
import { generateObject, generateText, jsonSchema, Output, streamObject, tool } from "ai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { modelName, type ScriptedOptions, scriptedService } from "./testing/scripted-service.ts";

interface Place {
  readonly city: string;
  readonly kind: "town" | "village";
  readonly people: number;
}
const place = jsonSchema<Place>({
  type: "object",
  properties: {
    city: { type: "string", minLength: 1, maxLength: 12 },
    kind: { enum: ["town", "village"] },
    people: { type: "integer", minimum: 0, maximum: 9999 },
  },
  required: ["city", "kind", "people"],
  additionalProperties: false,
});
const isPlace = ({ city, kind, people, ...rest }: Place) =>
  typeof city === "string" &&
  ["town", "village"].includes(kind) &&
  Number.isInteger(people) &&
  people >= 0 &&
  people <= 9999 &&
  Object.keys(rest).length === 0;
const said = '{"city":"Oslo","kind":"town","people":7}';
const quiet = { prompt: "Where?", maxRetries: 0 } as const;

describe("over a scripted model", () => {
  const open = async (options: ScriptedOptions = {}, replies: readonly string[] = [said]) => {
    const asked: { readonly constraint?: unknown; readonly stop?: unknown }[] = [];
    const scripted = await scriptedService(replies, { ...options, onSample: ({ params }) => asked.push(params ?? {}) });
    return { asked, model: createTinklet({ service: scripted.service })(modelName) };
  };
  const features = (warnings: readonly object[] | undefined) =>
    warnings?.map((each) => "feature" in each && each.feature);

  test("a schema constrains the sampler, generated and streamed, without a warning", async () => {
    const { asked, model } = await open();
    const whole = await generateObject({ model, schema: place, ...quiet });
    expect(whole.object).toEqual(JSON.parse(said));
    expect(whole.warnings).toEqual([]);
    expect(whole.providerMetadata?.["tinklet"]?.["sampler"]).toMatchObject({ constrained: true });
    const streamed = streamObject({ model, schema: place, ...quiet });
    const partial: unknown[] = [];
    for await (const each of streamed.partialObjectStream) partial.push(each);
    expect(partial.length).toBeGreaterThan(3);
    expect([await streamed.object, await streamed.warnings]).toEqual([JSON.parse(said), []]);
    const asText = await generateText({ model, output: Output.object({ schema: place }), ...quiet });
    expect(asText.output).toEqual(JSON.parse(said));
    const loose = await generateObject({ model, output: "no-schema", ...quiet });
    expect(loose.object).toEqual(JSON.parse(said));
    const bound = expect.objectContaining({ type: "json_schema", schema: expect.objectContaining({ type: "object" }) });
    expect(asked.map(({ constraint }) => constraint)).toEqual([bound, bound, bound, { type: "json_object" }]);
    expect(asked.every(({ stop }) => stop === undefined)).toBe(true); // the end of the format ends the reply
  });

  test("warns for a server without the extension, for calls with tools and for constrain: false", async () => {
    const older = await open({ strict: true });
    const whole = await generateObject({ model: older.model, schema: place, ...quiet });
    expect([features(whole.warnings), older.asked[0]?.constraint]).toEqual([["responseFormat"], undefined]);
    expect(whole.providerMetadata?.["tinklet"]?.["sampler"]).toMatchObject({ constrained: false });
    const { asked, model } = await open();
    const look = tool({ inputSchema: jsonSchema<object>({ type: "object" }), execute: () => "here" });
    const withTools = await generateText({
      model,
      tools: { look },
      output: Output.object({ schema: place }),
      ...quiet,
    });
    expect([features(withTools.warnings), asked[0]?.constraint]).toEqual([["responseFormat"], undefined]);
    const providerOptions = { tinklet: { constrain: false } };
    const unbound = await generateObject({ model, schema: place, providerOptions, ...quiet });
    expect([features(unbound.warnings), asked[1]?.constraint]).toEqual([["responseFormat"], undefined]);
    const wrong = { tinklet: { constrain: "no" } };
    await expect(generateObject({ model, schema: place, providerOptions: wrong, ...quiet })).rejects.toThrow(
      "constrain",
    );
  });

  test("reasoning and tool call markers in a constrained reply are text", async () => {
    const city = "<think>Oslo</think><tool_call>";
    const { model } = await open({}, [`{"city":"${city}"}`]);
    const { object } = await generateObject({ model, output: "no-schema", ...quiet });
    expect(object).toEqual({ city });
  });

  test("constrained replies are rejected as training data: their log-probs are unconstrained", async () => {
    const { model } = await open();
    const runs = [0, 1].map(() => generateText({ model, output: Output.object({ schema: place }), ...quiet }));
    const trajectories = await Promise.all(runs.map((run) => record(run)));
    expect(() => toData(trajectories, [0, 1])).toThrow(/and format/);
  });
});

describe("on the bundled model", () => {
  let server: Awaited<ReturnType<typeof createLocalServer>>;
  let service: ServiceClient;
  beforeAll(async () => {
    server = await createLocalServer({ engine: { inThread: true, threads: 1 } });
    const { url: baseUrl, fetch } = server;
    service = new ServiceClient({ apiKey: "tml-test", baseUrl, fetch, telemetry: false, logLevel: "off" });
  }, 120_000);
  afterAll(async () => {
    await service.close();
    await server.close();
  });

  test("every reply matches the schema, at temperature 1, generated and streamed", async () => {
    const model = createTinklet({ service })("tinklet/base");
    const settings = (seed: number) => ({ model, schema: place, seed, temperature: 1, maxOutputTokens: 48, ...quiet });
    const seeds = [1, 2, 3, 4, 5, 6];
    for (const { object } of await Promise.all(seeds.map((seed) => generateObject(settings(seed))))) {
      expect(isPlace(object), JSON.stringify(object)).toBe(true);
    }
    for (const seed of seeds) {
      const streamed = streamObject(settings(seed));
      let text = "";
      for await (const piece of streamed.textStream) text += piece;
      expect(JSON.parse(text)).toEqual(await streamed.object);
      expect(isPlace(await streamed.object)).toBe(true);
    }
  }, 120_000);

  test("an unsupported keyword is an error that names it; constrain: false samples freely", async () => {
    const model = createTinklet({ service })("tinklet/base");
    const odd = jsonSchema<object>({ type: "object", patternProperties: { "^a": {} } });
    const ask = { model, schema: odd, maxOutputTokens: 16, temperature: 0, ...quiet };
    await expect(generateObject(ask)).rejects.toThrow(/tinklet_constraint\.schema.*patternProperties/);
    await expect(generateObject({ ...ask, schema: place, maxOutputTokens: 3 })).rejects.toThrow(/max_tokens.*shortest/);
    const unbound = generateObject({ ...ask, providerOptions: { tinklet: { constrain: false } } });
    await expect(unbound).rejects.toThrow(/No object generated/);
  }, 120_000);
});
