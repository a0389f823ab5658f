/** Structured output with the real engine and a small random model: replies have the requested format, in each API. */
import { beforeAll, describe, expect, test } from "vitest";
import { baseModel, type TestServer } from "../../testing/test-server.ts";
import { openTinyModelServer } from "../../testing/tiny-model-server.ts";

let server: TestServer;
beforeAll(async () => {
  const tiny = await openTinyModelServer(512);
  server = tiny.server;
  return tiny.close;
});

const question = { model: baseModel, max_tokens: 60, messages: [{ role: "user", content: "hello" }] };
const chat = (body: object) => server.post("/v1/chat/completions", { ...question, ...body });
const messages = (body: object) => server.post("/anthropic/api/v1/messages", { ...question, ...body });
const schema = {
  type: "object",
  properties: { city: { enum: ["Oslo", "日本"] }, degrees: { type: "integer", minimum: -40, maximum: 40 } },
  required: ["city", "degrees"],
  additionalProperties: false,
};
const formatOf = (given: unknown) => ({
  response_format: { type: "json_schema", json_schema: { name: "weather", strict: true, schema: given } },
});
const expected = { city: expect.stringMatching(/^(Oslo|日本)$/), degrees: expect.any(Number) };

describe("a reply has the requested format", () => {
  test("of a schema, in chats, completions and messages, for n replies, also streamed", async () => {
    const { status, json } = await chat({ ...formatOf(schema), n: 3, logprobs: true });
    expect(status).toBe(200);
    expect(json.choices).toHaveLength(3);
    for (const { message, finish_reason: reason, logprobs } of json.choices) {
      expect([JSON.parse(message.content), reason]).toEqual([expected, "stop"]);
      expect(logprobs.content.map(({ token }: { token: string }) => token).join("")).toContain("city");
    }
    const completion = await server.post("/v1/completions", {
      model: baseModel,
      prompt: "x",
      max_tokens: 60,
      ...formatOf(schema),
    });
    expect(JSON.parse(completion.json.choices[0].text)).toEqual(expected);
    for (const asked of [
      { output_config: { format: { type: "json_schema", schema } } },
      { output_format: { type: "json_schema", schema } },
    ]) {
      const reply = (await messages(asked)).json;
      expect([JSON.parse(reply.content[0].text), reply.stop_reason]).toEqual([expected, "end_turn"]);
    }
    const seeded = { ...formatOf(schema), seed: 5 };
    const whole = (await chat(seeded)).json.choices[0].message.content;
    const { bytes } = await chat({ ...seeded, stream: true });
    const deltas = [...new TextDecoder().decode(bytes).matchAll(/^data: (\{.*)$/gm)].map(([, data]) =>
      JSON.parse(data!),
    );
    expect(deltas.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe(whole);
  });

  test("of any object", async () => {
    for (let seed = 0; seed < 5; seed++) {
      const { json } = await chat({ response_format: { type: "json_object" }, seed });
      expect(JSON.parse(json.choices[0].message.content)).toBeTypeOf("object");
    }
  });

  test("of patterns and formats of strings", async () => {
    const strings = {
      type: "object",
      properties: {
        code: { type: "string", pattern: "^[A-Z]{3}-\\d{2}$" },
        day: { type: "string", format: "date" },
      },
      required: ["code", "day"],
      additionalProperties: false,
    };
    for (let seed = 0; seed < 5; seed++) {
      const { json } = await chat({ ...formatOf(strings), seed, max_tokens: 80 });
      expect(JSON.parse(json.choices[0].message.content)).toEqual({
        code: expect.stringMatching(/^[A-Z]{3}-\d{2}$/),
        day: expect.stringMatching(/^\d{4}-\d{2}-\d{2}$/),
      });
    }
  });

  test("and is text, even if it looks like a tool call", async () => {
    const call = { tool_calls: [{ name: "f", arguments: {} }] };
    const { json } = await chat({ ...formatOf({ const: call }), max_tokens: 200 });
    expect(JSON.parse(json.choices[0].message.content)).toEqual(call);
    expect(json.choices[0].finish_reason).toBe("stop");
  });

  test("with property names such as __proto__ and constructor", async () => {
    const odd = JSON.parse('{"type": "object", "properties": {"__proto__": {"const": 1}}, "required": ["__proto__"]}');
    const { json } = await chat(formatOf(odd));
    expect(json.choices[0].message.content).toMatch(/^\{"__proto__": ?1\}$/);
  });
});

describe("an unsupported format is a 400 that names it", () => {
  const pattern = { type: "object", properties: { a: { type: "string", pattern: "(?=x)" } } };
  test.each<[string, object, RegExp]>([
    [
      "response_format.json_schema.schema",
      formatOf(pattern),
      /schema\/properties\/a\/pattern: the look-ahead \(\?=…\) is not supported/,
    ],
    ["response_format.json_schema.schema", formatOf({ $ref: "#" }), /must allow at least one value/],
    ["response_format.json_schema.schema", formatOf("x"), /must be an object/],
    [
      "response_format.json_schema.name",
      { response_format: { type: "json_schema", json_schema: { schema } } },
      /must be a string/,
    ],
    ["response_format.json_schema", { response_format: { type: "json_schema" } }, /must be an object/],
    ["response_format.type", { response_format: { type: "grammar" } }, /must be text, json_object or json_schema/],
    ["response_format", { response_format: 3 }, /must be an object/],
    ["max_tokens", { ...formatOf(schema), max_tokens: 2 }, /may take \d+ tokens, and 2 are left/],
    ["max_completion_tokens", { ...formatOf(schema), max_tokens: null, max_completion_tokens: 2 }, /2 are left/],
  ])("%s", async (param, body, message) => {
    for (const stream of [false, true]) {
      const { status, json } = await chat({ ...body, stream });
      expect([status, json.error.param]).toEqual([400, param]);
      expect(json.error.message).toMatch(message);
      expect(json.error.message.startsWith(param)).toBe(true);
    }
  });

  test("of messages", async () => {
    const format = { type: "json_schema", schema: pattern };
    const refused = async (body: object) => (await messages(body)).json.error.message as string;
    expect(await refused({ output_config: { format } })).toMatch(
      /^output_config.format.schema\/properties\/a\/pattern: the look-ahead/,
    );
    expect(await refused({ output_format: { type: "text" } })).toMatch(/^output_format.type: must be json_schema/);
    expect(await refused({ output_format: format, output_config: { format } })).toMatch(
      /must not be set together with/,
    );
  });

  test("and the server continues", async () => {
    const wide = { anyOf: Array.from({ length: 5000 }, () => ({ type: "null" })) };
    expect((await chat(formatOf(wide))).json.error.message).toMatch(/more than 1000 schemas/);
    expect((await chat(formatOf(schema))).status).toBe(200);
  });
});
