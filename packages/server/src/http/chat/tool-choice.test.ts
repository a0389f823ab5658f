import type { SampleRequest } from "@tinklet/engine";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { stringifyJson } from "@tinklet/wire";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { tinyTokenizer } from "../../../../models/src/testing/tiny-tokenizer.ts";
import { baseModel, TestServer } from "../../testing/test-server.ts";
import { openTinyModelServer } from "../../testing/tiny-model-server.ts";

const tokenizer = tokenizerFromFiles(tinyTokenizer, "tiny");
let server: TestServer;
beforeAll(async () => {
  const tiny = await openTinyModelServer(1024);
  server = tiny.server;
  return tiny.close;
});

const question = { model: baseModel, max_tokens: 200, messages: [{ role: "user", content: "hello" }] };
const chat = (body: object) => server.post("/v1/chat/completions", { ...question, ...body });
const messages = (body: object) => server.post("/anthropic/api/v1/messages", { ...question, ...body });

const parameters = {
  type: "object",
  properties: { city: { $ref: "#/$defs/city" }, degrees: { type: "integer", minimum: -40, maximum: 40 } },
  required: ["city", "degrees"],
  additionalProperties: false,
  $defs: { city: { enum: ["Oslo", "日本"] } },
};
const tool = (name: string, given: object = parameters, more: object = {}) => ({
  type: "function",
  function: { name, parameters: given, ...more },
});
const weather = tool("get_weather");
const clock = tool("get_time", { type: "object", properties: { zone: { const: "UTC" } }, required: ["zone"] });
const named = (name: string) => ({ type: "function", function: { name } });
const expected = { city: expect.stringMatching(/^(Oslo|日本)$/), degrees: expect.any(Number) };

interface Choice {
  readonly message: { content: string | null; tool_calls?: { function: { name: string; arguments: string } }[] };
  readonly finish_reason: string;
}
const callsOf = ({ message }: Choice) => (message.tool_calls ?? []).map((call) => call.function);

describe("a demanded call", () => {
  test("of a named tool: each of n replies is that call, and its arguments fit", async () => {
    const { status, json } = await chat({ tools: [weather, clock], tool_choice: named("get_weather"), n: 4 });
    expect(status).toBe(200);
    for (const choice of json.choices as Choice[]) {
      expect([choice.finish_reason, choice.message.content]).toEqual(["tool_calls", null]);
      const [call, ...others] = callsOf(choice);
      expect([call?.name, JSON.parse(call!.arguments), others]).toEqual(["get_weather", expected, []]);
    }
  });

  test("of any tool: one of them, with references inside its schema", async () => {
    const seen = new Set<string>();
    for (let seed = 0; seed < 12; seed++) {
      const { json } = await chat({ tools: [weather, clock], tool_choice: "required", seed });
      const [call] = callsOf(json.choices[0]);
      seen.add(call!.name);
      expect(JSON.parse(call!.arguments)).toEqual(call!.name === "get_weather" ? expected : { zone: "UTC" });
    }
    expect([...seen].sort()).toEqual(["get_time", "get_weather"]);
  });

  test("streamed: the same call", async () => {
    const asked = { tools: [weather], tool_choice: "required", seed: 3 };
    const whole = callsOf((await chat(asked)).json.choices[0]);
    const { bytes } = await chat({ ...asked, stream: true });
    const chunks = [...new TextDecoder().decode(bytes).matchAll(/^data: (\{.*)$/gm)].map(([, data]) =>
      JSON.parse(data!),
    );
    const calls = chunks.flatMap(({ choices }) => choices[0].delta.tool_calls ?? []);
    expect(calls.map((call: { function: unknown }) => call.function)).toEqual(whole);
    expect(chunks.at(-1).choices[0].finish_reason).toBe("tool_calls");
  });

  test("of Anthropic's API: any and tool", async () => {
    const described = { name: "get_weather", input_schema: parameters };
    for (const choice of [{ type: "any" }, { type: "tool", name: "get_weather", disable_parallel_tool_use: true }]) {
      const { json } = await messages({ tools: [described], tool_choice: choice });
      expect(json.stop_reason).toBe("tool_use");
      expect(json.content).toEqual([
        { type: "tool_use", id: expect.any(String), name: "get_weather", input: expected },
      ]);
    }
    const unknown = await messages({ tools: [described], tool_choice: { type: "tool", name: "f" } });
    expect([unknown.status, unknown.json.error.message]).toEqual([
      400,
      'tool_choice.name: "f" is not among the tools (get_weather)',
    ]);
    const begun = [...question.messages, { role: "assistant", content: "It is" }];
    expect((await messages({ tools: [described], tool_choice: { type: "any" }, messages: begun })).status).toBe(400);
  });

  test("stop strings do not cut it off", async () => {
    const { json } = await chat({ tools: [weather], tool_choice: "required", stop: ["{", "city", "}"] });
    expect(JSON.parse(callsOf(json.choices[0])[0]!.arguments)).toEqual(expected);
  });

  test("of a tool without parameters has none", async () => {
    const bare = { type: "function", function: { name: "ping" } };
    const { json } = await chat({ tools: [bare], tool_choice: "required" });
    expect(callsOf(json.choices[0])).toEqual([{ name: "ping", arguments: "{}" }]);
  });

  test("whose schema has keywords beyond the grammar: any object, unless the tool is strict", async () => {
    const odd = { type: "object", properties: { a: { type: "string", contentEncoding: "base64" } }, not: {} };
    const loose = await chat({ tools: [tool("odd", odd), clock], tool_choice: named("odd") });
    expect(loose.status).toBe(200);
    expect(JSON.parse(callsOf(loose.json.choices[0])[0]!.arguments)).toBeTypeOf("object");
    const strict = await chat({ tools: [tool("odd", odd, { strict: true })], tool_choice: named("odd") });
    expect([strict.status, strict.json.error.param]).toEqual([400, "tools[0].function.parameters"]);
  });

  test("of a strict tool with patterns and formats has arguments that fit", async () => {
    const coded = {
      type: "object",
      properties: { id: { type: "string", format: "uuid" }, code: { type: "string", pattern: '^"[a-f]+\\\\$' } },
      required: ["id", "code"],
      additionalProperties: false,
    };
    const asked = { tools: [tool("coded", coded, { strict: true })], tool_choice: named("coded"), max_tokens: 200 };
    for (let seed = 0; seed < 3; seed++) {
      const { json } = await chat({ ...asked, seed });
      expect(JSON.parse(callsOf(json.choices[0])[0]!.arguments)).toEqual({
        id: expect.stringMatching(/^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/),
        code: expect.stringMatching(/^"[a-f]+\\$/),
      });
    }
    const ahead = { ...coded, properties: { ...coded.properties, code: { type: "string", pattern: "(?=a)a" } } };
    const refused = await chat({ tools: [tool("coded", ahead, { strict: true })], tool_choice: named("coded") });
    expect([refused.status, refused.json.error.param]).toEqual([400, "tools[0].function.parameters"]);
    expect(refused.json.error.message).toMatch(/properties\/code\/pattern: the look-ahead/);
  });

  test("that has no room is a 400 that names the limit", async () => {
    const { status, json } = await chat({ tools: [weather], tool_choice: "required", max_tokens: 3 });
    expect([status, json.error.param]).toEqual([400, "max_tokens"]);
  });
});

test("a response format beside tools: a reply either fits the format or is a call", async () => {
  const schema = {
    type: "object",
    properties: { answer: { $ref: "#/$defs/digit" } },
    required: ["answer"],
    additionalProperties: false,
    $defs: { digit: { type: "integer", minimum: 0, maximum: 9 } },
  };
  const format = { type: "json_schema", json_schema: { name: "answer", schema } };
  const kinds = new Set<string>();
  for (let seed = 0; seed < 16; seed++) {
    const { status, json } = await chat({ tools: [weather], response_format: format, seed });
    expect(status).toBe(200);
    const choice: Choice = json.choices[0];
    const [call] = callsOf(choice);
    kinds.add(choice.finish_reason);
    if (call === undefined) expect(JSON.parse(choice.message.content!)).toEqual({ answer: expect.any(Number) });
    else expect([call.name, JSON.parse(call.arguments)]).toEqual(["get_weather", expected]);
  }
  expect([...kinds].sort()).toEqual(["stop", "tool_calls"]);
});

test("parallel_tool_calls: false ends a reply after its first call", async () => {
  const text = JSON.stringify({ tool_calls: [{ name: "f" }, { name: "f" }] });
  const scripted = await TestServer.open({
    engine: { reply: () => [...tokenizer.encode(text, { addSpecialTokens: false }), 267] },
  });
  onTestFinished(() => scripted.close());
  const ask = async (path: string, body: object) => (await scripted.post(path, { ...question, ...body })).json;
  const bare = { type: "function", function: { name: "f" } };
  const both = await ask("/v1/chat/completions", { tools: [bare] });
  expect(callsOf(both.choices[0])).toHaveLength(2);
  const one = await ask("/v1/chat/completions", { tools: [bare], parallel_tool_calls: false });
  expect([callsOf(one.choices[0]).length, one.choices[0].finish_reason]).toEqual([1, "tool_calls"]);
  const tools = [{ name: "f", input_schema: {} }];
  const alone = { type: "auto", disable_parallel_tool_use: true };
  expect((await ask("/anthropic/api/v1/messages", { tools, tool_choice: alone })).content).toHaveLength(1);
});

test("strict tools with tool_choice auto: the arguments of a call are decoded again under its schema", async () => {
  const seen: { prompt: string; constraint: unknown }[] = [];
  const free = '{"tool_calls": [{"name": "f", "arguments": {"city": 5}}]}';
  const scripted = await TestServer.open({
    engine: {
      reply: ({ prompt, params }) => {
        seen.push({ prompt: tokenizer.decode(Array.from(prompt)), constraint: params?.constraint });
        const text = params?.constraint === undefined ? free : '{"city": "Oslo"}';
        return [...tokenizer.encode(text, { addSpecialTokens: false }), 267];
      },
    },
  });
  onTestFinished(() => scripted.close());
  const schema = { type: "object", properties: { city: { enum: ["Oslo"] } }, required: ["city"] };
  const asked = { ...question, tools: [tool("f", schema, { strict: true })], n: 2 };
  const { status, json } = await scripted.post("/v1/chat/completions", asked);
  expect(status).toBe(200);
  for (const choice of json.choices) {
    expect([callsOf(choice), choice.finish_reason]).toEqual([
      [{ name: "f", arguments: '{"city": "Oslo"}' }],
      "tool_calls",
    ]);
  }
  const redone = seen.filter(({ constraint }) => constraint !== undefined);
  expect(redone).toHaveLength(2);
  expect(redone[0]!.constraint).toEqual({ type: "json_schema", schema });
  expect(redone[0]!.prompt.endsWith('{"tool_calls": [{"name": "f", "arguments":')).toBe(true);
  const { json: loose } = await scripted.post("/v1/chat/completions", { ...asked, tools: [tool("f", schema)] });
  expect(callsOf(loose.choices[0])).toEqual([{ name: "f", arguments: '{"city": 5}' }]);
});

test("arguments with an integer beyond 2^53, and blocks whose type is an object, are not an internal error", async () => {
  const scripted = await TestServer.open({ engine: { reply: () => [267] } });
  onTestFinished(() => scripted.close());
  const ask = async (path: string, content: object) => {
    const bytes = new TextEncoder().encode(
      stringifyJson({ ...question, messages: [...question.messages, { role: "assistant", content: [content] }] }),
    );
    return (await scripted.send("POST", path, bytes, { "content-type": "application/json" })).status;
  };
  const used = { type: "tool_use", id: "a", name: "f", input: { id: 9223372036854775807n } };
  expect(await ask("/anthropic/api/v1/messages", used)).toBe(200);
  const odd = { type: { toString: 1 } };
  expect([await ask("/anthropic/api/v1/messages", odd), await ask("/v1/chat/completions", odd)]).toEqual([400, 400]);
});

describe("calls of strict tools that are decoded again", () => {
  const strict = [tool("f", { type: "object" }, { strict: true })];
  const free = tokenizer.encode('{"tool_calls": [{"name": "f", "arguments": {}}]}', { addSpecialTokens: false });

  async function redone(sampled: readonly number[], body: object) {
    const params: SampleRequest["params"][] = [];
    const scripted = await TestServer.open({
      engine: {
        reply: ({ params: given }) => {
          if (given?.constraint === undefined) return [...sampled, 267];
          params.push(given);
          return [...tokenizer.encode("{}", { addSpecialTokens: false }), 267];
        },
      },
    });
    onTestFinished(() => scripted.close());
    const { status, json } = await scripted.post("/v1/chat/completions", { ...question, tools: strict, ...body });
    expect(status).toBe(200);
    return { params, json };
  }

  test("have the seeds of their replies, so that n replies are independent", async () => {
    const { params } = await redone(free, { n: 3, seed: 5 });
    expect(params.map((each) => each?.seed)).toEqual([5, 6, 7]);
  });

  test.each([
    ["limit", 40, [0]],
    ["context", 130, []],
  ])(
    "have no room where the text before them, encoded again, exceeds the %s: finish_reason length",
    async (_of, count, limits) => {
      const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
      const [half] = encode("é"); // the first of two bytes
      const sampled = [...encode("<think>"), ...new Array<number>(count).fill(half!), ...encode("</think>"), ...free];
      const { params, json } = await redone(sampled, { max_tokens: sampled.length + 1 });
      expect(params.map((each) => each?.maxTokens)).toEqual(limits);
      expect([callsOf(json.choices[0]), json.choices[0].finish_reason]).toEqual([[], "length"]);
    },
  );
});
