/** The Responses API over a scripted engine: what it answers and streams, what it stores, and what it refuses. */
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { stringifyJson } from "@tinklet/wire";
import { describe, expect, onTestFinished, test } from "vitest";
import { tinyTokenizer } from "../../../../../../models/src/testing/tiny-tokenizer.ts";
import { openDatabase } from "../../../../store/database.ts";
import { addResponse } from "../../../../store/tables/responses.ts";
import { baseModel, TestServer, type TestServerOptions } from "../../../../testing/test-server.ts";

const tokenizer = tokenizerFromFiles(tinyTokenizer, "tiny");
const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
/** The token that ends a turn. */
const end = 267;

/** A server whose model says these texts, one per request, and the prompts that it was given. */
async function open(texts: readonly string[], more: TestServerOptions = {}) {
  const prompts: string[] = [];
  const server = await TestServer.open({
    ...more,
    engine: {
      reply: ({ prompt }) => {
        prompts.push(tokenizer.decode(Array.from(prompt)));
        return [...encode(texts[(prompts.length - 1) % texts.length]!), end];
      },
    },
  });
  onTestFinished(() => server.close());
  const create = (body: object) => server.post("/v1/responses", { model: baseModel, ...body });
  const stream = async (body: object) => {
    const { bytes } = await create({ ...body, stream: true });
    const blocks = new TextDecoder().decode(bytes).split("\n\n");
    return blocks
      .filter((block) => block !== "" && !block.startsWith(":"))
      .map((block) => ({ event: /^event: (.*)$/m.exec(block)![1], ...JSON.parse(/^data: (.*)$/m.exec(block)![1]!) }));
  };
  return { server, prompts, create, stream };
}

const weather = {
  type: "function",
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const call = '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}';

describe("a response", () => {
  test("has a message, its usage and its settings", async () => {
    const { create } = await open(["hello world"]);
    const { status, json } = await create({
      input: "hello",
      instructions: "Be brief.",
      temperature: 0.5,
      metadata: { a: "b" },
    });
    expect(status).toBe(200);
    expect(json).toMatchObject({
      id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
      object: "response",
      status: "completed",
      error: null,
      incomplete_details: null,
      instructions: "Be brief.",
      metadata: { a: "b" },
      model: baseModel,
      previous_response_id: null,
      store: true,
      temperature: 0.5,
      tool_choice: "auto",
      output: [
        {
          type: "message",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "hello world", annotations: [] }],
        },
      ],
    });
    const { input_tokens: prompt, output_tokens: sampled, total_tokens: total } = json.usage;
    expect([sampled, total]).toEqual([encode("hello world").length + 1, prompt + sampled]);
  });

  test("that reaches max_output_tokens is incomplete", async () => {
    const { create } = await open(["hello world"]);
    const { json } = await create({ input: "x", max_output_tokens: 2 });
    expect([json.status, json.incomplete_details, json.output[0].status]).toEqual([
      "incomplete",
      { reason: "max_output_tokens" },
      "incomplete",
    ]);
  });

  test("whose limit is reached after a complete call has that call as completed, also in the stream", async () => {
    const { stream } = await open([call]);
    const events = await stream({ input: "x", tools: [weather], max_output_tokens: encode(call).length });
    const { type, response } = events.at(-1);
    expect([type, response.output[0].status]).toEqual(["response.incomplete", "completed"]);
    expect(response.output[0]).toEqual(events.find((event) => event.type === "response.output_item.done").item);
  });

  test("streamed: numbered events whose deltas are the text, and the same response at the end", async () => {
    const { stream } = await open(["hello 👋 world"]);
    const events = await stream({ input: "x" });
    expect(events.map(({ type }) => type).filter((type) => type !== "response.output_text.delta")).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, i) => i));
    expect(events.every(({ event, type }) => event === type)).toBe(true);
    const text = events.filter(({ type }) => type === "response.output_text.delta").map(({ delta }) => delta);
    expect(text.length).toBeGreaterThan(2);
    expect(text.join("")).toBe("hello 👋 world");
    const { response } = events.at(-1);
    expect(response.output[0]).toEqual(events.find(({ type }) => type === "response.output_item.done").item);
    expect(response.output[0].content[0].text).toBe("hello 👋 world");
    expect(events[0].response).toMatchObject({ id: response.id, status: "in_progress", output: [], usage: null });
  });

  test("a call of a tool, its result, and the answer", async () => {
    const { create, prompts, stream } = await open([call, "It is 21.", call]);
    const first = (await create({ input: "How warm is it?", tools: [weather] })).json;
    const [item] = first.output;
    expect(item).toMatchObject({
      type: "function_call",
      name: "get_weather",
      arguments: '{"city": "Oslo"}',
      status: "completed",
    });
    const input = [
      { role: "user", content: "How warm is it?" },
      item,
      { type: "function_call_output", call_id: item.call_id, output: "21 degrees" },
    ];
    const second = (await create({ input, tools: [weather] })).json;
    expect(second.output[0].content[0].text).toBe("It is 21.");
    expect(prompts[1]).toContain("21 degrees");
    expect(prompts[1]).toContain('"name":"get_weather"');
    const events = await stream({ input: "x", tools: [weather] });
    const done = events.find(({ type }) => type === "response.function_call_arguments.done");
    expect(done).toMatchObject({ name: "get_weather", arguments: '{"city": "Oslo"}' });
  });

  test("messages with parts, developer and reasoning items reach the template", async () => {
    const { create, prompts } = await open(["x"]);
    const { status } = await create({
      instructions: "First.",
      input: [
        {
          type: "message",
          role: "user",
          content: [
            { type: "input_text", text: "part one" },
            { type: "input_text", text: " part two" },
          ],
        },
        { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: "thought" }] },
        { role: "assistant", content: [{ type: "output_text", text: "an answer", annotations: [] }] },
        { role: "user", content: "again" },
      ],
    });
    expect(status).toBe(200);
    for (const part of ["First.", "part one part two", "an answer", "again"]) expect(prompts[0]).toContain(part);
  });
});

describe("stored responses", () => {
  test("are continued by their id, with instructions of the new request only", async () => {
    const { create, prompts } = await open(["one", "two", "three"]);
    const first = (await create({ input: "question one", instructions: "secret" })).json;
    const second = (await create({ input: "question two", previous_response_id: first.id })).json;
    await create({ input: "question three", previous_response_id: second.id });
    for (const part of ["question one", "one", "question two", "two", "question three"])
      expect(prompts[2]).toContain(part);
    expect(prompts[2]).not.toContain("secret");
    expect(second.previous_response_id).toBe(first.id);
  });

  test("are read and deleted; deleting one does not break those that continued it", async () => {
    const { server, create } = await open(["one", "two", "three"]);
    const first = (await create({ input: "x" })).json;
    const second = (await create({ input: "y", previous_response_id: first.id })).json;
    expect((await server.send("GET", `/v1/responses/${first.id}`)).json).toEqual(first);
    expect((await server.send("DELETE", `/v1/responses/${first.id}`)).json).toEqual({
      id: first.id,
      object: "response",
      deleted: true,
    });
    expect((await server.send("GET", `/v1/responses/${first.id}`)).status).toBe(404);
    expect((await server.send("DELETE", `/v1/responses/${first.id}`)).status).toBe(404);
    const lost = await create({ input: "z", previous_response_id: first.id });
    expect([lost.status, lost.json.error.param, lost.json.error.code]).toEqual([
      400,
      "previous_response_id",
      "previous_response_not_found",
    ]);
    expect((await create({ input: "z", previous_response_id: second.id })).status).toBe(200);
  });

  test("store: false keeps nothing", async () => {
    const { server, create } = await open(["one"]);
    const { json } = await create({ input: "x", store: false });
    expect(json.store).toBe(false);
    expect((await server.send("GET", `/v1/responses/${json.id}`)).status).toBe(404);
  });

  test("end after their retention, and the oldest beyond the bounds", async () => {
    const { server, create } = await open(["one"], {
      limits: { responsesPerTenant: { count: 2, bytes: 1e6 }, responseTtlMs: 60_000 },
    });
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.push((await create({ input: `x${i}` })).json.id);
    const statuses = async () =>
      Promise.all(ids.map(async (id) => (await server.send("GET", `/v1/responses/${id}`)).status));
    expect(await statuses()).toEqual([404, 200, 200]);
    server.clock.jump(60_000);
    expect(await statuses()).toEqual([404, 404, 404]);
  });

  test("expired rows are deleted with the next one", () => {
    const db = openDatabase({ file: ":memory:" });
    const row = (id: string, at: number) => ({
      id,
      tenant: "a",
      body: "{}",
      messages: "[]",
      created_at: at,
      expires_at: at + 10,
    });
    const bounds = { count: 10, bytes: 1e6 };
    for (const [id, at] of [
      ["one", 0],
      ["two", 5],
      ["three", 10],
    ] as const)
      addResponse(db.sql, row(id, at), bounds);
    expect(db.sql.all("SELECT id FROM responses ORDER BY created_at")).toEqual([{ id: "two" }, { id: "three" }]);
    addResponse(db.sql, { ...row("four", 11), body: "x".repeat(100) }, { count: 10, bytes: 103 });
    expect(db.sql.all("SELECT id FROM responses")).toEqual([{ id: "four" }]);
  });

  test("survive a stream: the response is stored before its last event", async () => {
    const { server, stream } = await open(["one"]);
    const { response } = (await stream({ input: "x" })).at(-1);
    expect((await server.send("GET", `/v1/responses/${response.id}`)).json).toEqual(response);
  });
});

describe("a format", () => {
  test.each<[string, object]>([
    ["input", {}],
    ["input", { input: [] }],
    ["input", { input: 3 }],
    ["input[0].type", { input: [{ type: "item_reference", id: "x" }] }],
    ["input[0].role", { input: [{ role: "wizard", content: "x" }] }],
    ["input[0].content[0]", { input: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] }],
    ["input[0].call_id", { input: [{ type: "function_call", name: "f", arguments: "{}" }] }],
    ["tools[0].type", { input: "x", tools: [{ type: "web_search" }] }],
    ["tool_choice.name", { input: "x", tools: [weather], tool_choice: { type: "function", name: "f" } }],
    ["text.format.type", { input: "x", text: { format: { type: "grammar" } } }],
    ["text.format.name", { input: "x", text: { format: { type: "json_schema", schema: {} } } }],
    ["text.verbosity", { input: "x", text: { verbosity: "high" } }],
    ["include[0]", { input: "x", include: ["message.output_text.logprobs"] }],
    ["background", { input: "x", background: true }],
    ["truncation", { input: "x", truncation: "auto" }],
    ["conversation", { input: "x", conversation: "conv_1" }],
    ["max_output_tokens", { input: "x", max_output_tokens: 0 }],
    ["messages", { input: "x", messages: [] }],
    ["metadata.a", { input: "x", metadata: { a: 1 } }],
    ["metadata.a", { input: "x", metadata: { a: "b".repeat(513) } }],
    ["metadata", { input: "x", metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [i, "x"])) }],
  ])("or a field that is not supported is a 400 that names %s", async (param, body) => {
    const { create } = await open(["x"]);
    const { status, json } = await create(body);
    expect([status, json.error?.param]).toEqual([400, param]);
    expect(json.error.message.startsWith(param)).toBe(true);
  });
});

const long = 9223372036854775807n;
const tall = { type: "object", properties: { a: { type: "integer", maximum: long } } };

test.each<[string, object]>([
  ["a tool", { tools: [{ type: "function", name: "f", parameters: tall }] }],
  ["a format", { text: { format: { type: "json_schema", name: "f", schema: tall } } }],
])("an integer beyond 2^53 in %s is answered, streamed and stored as it was sent", async (_where, more) => {
  const { server } = await open(["hello"]);
  const send = (body: object) => {
    const bytes = new TextEncoder().encode(stringifyJson({ model: baseModel, input: "x", ...more, ...body }));
    return server.send("POST", "/v1/responses", bytes, { "content-type": "application/json" });
  };
  const textOf = ({ bytes }: { bytes: Uint8Array }) => new TextDecoder().decode(bytes);
  const whole = await send({});
  expect(whole.status).toBe(200);
  expect(textOf(whole)).toContain(`:${long}`);
  expect(textOf(await server.send("GET", `/v1/responses/${whole.json.id}`))).toBe(textOf(whole));
  const streamed = await send({ stream: true });
  expect(streamed.status).toBe(200);
  expect(textOf(streamed)).toContain(`:${long}`);
});

test.each<[string, object]>([
  ["include[0]", { input: "x", include: [{ toString: 1 }] }],
  ["input[0].type", { input: [{ type: { toString: 1 }, role: "user", content: "x" }] }],
  ["input[0].content[0]", { input: [{ role: "user", content: [{ type: { toString: 1 } }] }] }],
])("a type that is an object is a 400 that names %s", async (param, body) => {
  const { create } = await open(["x"]);
  const { status, json } = await create(body);
  expect([status, json.error?.param]).toEqual([400, param]);
});

test("long settings of a request are not repeated in its stream", async () => {
  const { stream } = await open(["x"], { limits: { chatBytes: 8 * 1024 * 1024 } });
  const schema = { enum: ["x"], description: "y".repeat(1_000_000) };
  const tools = [{ ...weather, parameters: { type: "object", properties: {}, description: "y".repeat(100_000) } }];
  const text = { format: { type: "json_schema", name: "a", schema } };
  const events = await stream({ input: "x", text, tools, tool_choice: "none" });
  expect(JSON.stringify(events).length).toBeLessThan(20_000);
  expect(events[0].response).toMatchObject({
    text: { format: { type: "json_schema" } },
    tools: [],
    instructions: null,
  });
});
