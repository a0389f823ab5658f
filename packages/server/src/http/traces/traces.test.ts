/** Traces from the export to training data, through the HTTP API. */
import { gzipSync } from "node:zlib";
import { decodeTraceRequest, encodeTraceRequest } from "@tinklet/wire/otlp";
import { beforeAll, describe, expect, test } from "vitest";
import { TestServer } from "../../testing/test-server.ts";
import {
  chatExport,
  chatSpan,
  exportOf,
  keyValues,
  randomSpanId,
  randomTraceId,
  said,
} from "../../testing/trace-exports.ts";
import { traceRequestOfJson } from "../../traces/otlp-json.ts";
import { hashApiKey } from "../access/auth.ts";

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.open();
  return () => server.close();
});

const binary = (json: object): Uint8Array => encodeTraceRequest(traceRequestOfJson(json));
const traceOf = async (traceId: string) => (await server.get(`tinklet/traces/${traceId}`)).json;
const messagesOf = (conversation: { turns: { message: unknown }[] }) =>
  conversation.turns.map(({ message }) => message);

/** The two calls of an agent that uses a tool, and the tool's span, as the AI SDK exports them. */
function aiSdkLoop(traceId: string, extra: object = {}): object[] {
  const [first, second] = [randomSpanId(), randomSpanId()];
  const user = { role: "user", content: [{ type: "text", text: "What is 2 + 2?" }] };
  const call = { toolCallId: "c1", toolName: "add", input: { b: 2, a: 2 } };
  const model = { "ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "small", ...extra };
  const span = (spanId: string, at: number, name: string, attributes: object) => ({
    traceId,
    spanId,
    parentSpanId: "00000000000000aa",
    name,
    startTimeUnixNano: `176000000${at}000000000`,
    endTimeUnixNano: `176000000${at}500000000`,
    attributes: keyValues(attributes),
  });
  const tool = { type: "function", name: "add", description: "adds", inputSchema: { type: "object" } };
  return [
    span(first, 1, "ai.generateText.doGenerate", {
      ...model,
      "ai.prompt.messages": JSON.stringify([{ role: "system", content: "Be brief." }, user]),
      "ai.prompt.tools": [JSON.stringify(tool)],
      "ai.response.text": "",
      "ai.response.toolCalls": JSON.stringify([{ ...call, input: '{"a":2,"b":2}' }]),
      "ai.usage.inputTokens": 10,
      "ai.usage.outputTokens": 4,
    }),
    span(randomSpanId(), 2, "ai.toolCall", {
      "ai.operationId": "ai.toolCall",
      "ai.toolCall.name": "add",
      "ai.toolCall.id": "c1",
      "ai.toolCall.args": '{"a":2,"b":2}',
      "ai.toolCall.result": "4",
    }),
    span(second, 3, "ai.generateText.doGenerate", {
      ...model,
      "ai.prompt.messages": JSON.stringify([
        { role: "system", content: "Be brief." },
        user,
        { role: "assistant", content: [{ type: "tool-call", ...call }] },
        {
          role: "tool",
          content: [{ type: "tool-result", toolCallId: "c1", toolName: "add", output: { type: "json", value: 4 } }],
        },
      ]),
      "ai.prompt.tools": [JSON.stringify(tool)],
      "ai.response.text": "4",
      "ai.usage.inputTokens": 20,
      "ai.usage.outputTokens": 1,
    }),
    // Not a GenAI span: it is not stored.
    span(randomSpanId(), 0, "GET /", { "http.method": "GET" }),
  ];
}

describe("ingest", () => {
  test("stores an agent's loop of the AI SDK as one conversation, from protobuf, gzip and JSON, each span once", async () => {
    const traceId = randomTraceId();
    const json = exportOf(aiSdkLoop(traceId));
    const sent = await server.post("/v1/traces", binary(json));
    expect(sent.status).toBe(200);
    expect(sent.headers.get("content-type")).toBe("application/x-protobuf");
    expect(sent.bytes).toEqual(new Uint8Array(0));
    expect((await server.post("/v1/traces", json)).json).toEqual({});
    const zipped = new Uint8Array(gzipSync(binary(json)));
    expect((await server.post("/v1/traces", zipped, { "content-encoding": "gzip" })).status).toBe(200);

    const { trace, conversations, spans } = await traceOf(traceId);
    expect(trace).toMatchObject({
      spans: 3,
      models: ["small"],
      tools: ["add"],
      prompt: "What is 2 + 2?",
      answer: "4",
      service: "shop",
      input_tokens: 30,
      output_tokens: 5,
      rated: false,
    });
    expect(spans.map(({ kind }: { kind: string }) => kind)).toEqual(["model", "tool", "model"]);
    expect(conversations).toHaveLength(1);
    expect(messagesOf(conversations[0])).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "What is 2 + 2?" },
      {
        role: "assistant",
        content: "",
        tool_calls: [{ id: "c1", type: "function", function: { name: "add", arguments: '{"a":2,"b":2}' } }],
      },
      { role: "tool", tool_call_id: "c1", content: "4" },
      { role: "assistant", content: "4" },
    ]);
    expect(conversations[0].tools).toEqual([
      { type: "function", function: { name: "add", description: "adds", parameters: { type: "object" } } },
    ]);
    expect(conversations[0].turns[2].span_id).toBe(conversations[0].span_ids[0]);
  });

  test("calls that continue the same one in different ways are branches; a failed call is a conversation with an error", async () => {
    const traceId = randomTraceId();
    const start = [said("user", "a")];
    const next = (text: string) => [...start, said("assistant", "b"), said("user", text)];
    await server.post(
      "/v1/traces",
      chatExport([
        { traceId, prompt: start, answer: "b", at: 1_760_000_001 },
        { traceId, prompt: next("c"), answer: "d", at: 1_760_000_002 },
        { traceId, prompt: next("e"), error: "overloaded", at: 1_760_000_003 },
      ]),
    );
    const { trace, conversations } = await traceOf(traceId);
    expect(trace.error).toBe("overloaded");
    expect(conversations.map(({ turns }: { turns: unknown[] }) => turns.length)).toEqual([4, 3]);
    expect(conversations[1]).toMatchObject({ error: "overloaded" });
  });

  test("reads OpenInference's and OpenLLMetry's indexed attributes, events, and structured values", async () => {
    const of = async (attributes: object, events: object[] = []) => {
      const traceId = randomTraceId();
      const span = { ...chatSpan({ traceId, prompt: "" }), attributes: keyValues(attributes), events };
      expect((await server.post("/v1/traces", exportOf([span]))).json).toEqual({});
      return messagesOf((await traceOf(traceId)).conversations[0]);
    };
    const expected = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "yo" },
    ];
    expect(
      await of({
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "hi",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "yo",
      }),
    ).toEqual(expected);
    const older = {
      "gen_ai.prompt.0.role": "user",
      "gen_ai.prompt.0.content": "hi",
      "gen_ai.completion.0.content": "yo",
    };
    expect(await of({ "llm.request.type": "chat", ...older })).toEqual(expected);
    const event = {
      name: "x",
      attributes: keyValues({ "gen_ai.prompt": JSON.stringify([{ role: "user", content: "hi" }]) }),
    };
    const reply = {
      name: "y",
      attributes: keyValues({ "gen_ai.completion": JSON.stringify([{ role: "assistant", content: "yo" }]) }),
    };
    expect(await of({ "gen_ai.operation.name": "chat" }, [event, reply])).toEqual(expected);
    expect(
      await of({
        "gen_ai.operation.name": "chat",
        "gen_ai.system_instructions": [{ type: "text", content: "s" }],
        "gen_ai.input.messages": [{ role: "user", parts: [{ type: "text", content: "hi" }] }],
        "gen_ai.output.messages": [{ role: "assistant", parts: [{ type: "text", content: "yo" }] }],
      }),
    ).toEqual([{ role: "system", content: "s" }, ...expected]);
  });

  test("a span with a wrong id or a value beyond a bound is rejected and reported, and the others are stored", async () => {
    const small = await TestServer.open({
      limits: { traceTextLength: 100_000, traceAttributes: 20, spansPerTrace: { count: 2, bytes: 1_000_000 } },
    });
    const traceId = randomTraceId();
    const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
    const many = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`a${i}`, 1]));
    const spans = [
      { ...chatSpan({ prompt: "x" }), traceId: "00" },
      { ...chatSpan({ prompt: "x" }), spanId: "0000000000000000" },
      chatSpan({ prompt: "x", attributes: { big: "x".repeat(100_001) } }),
      chatSpan({ prompt: "x", attributes: { deep: deep(17) } }),
      chatSpan({ prompt: "x", attributes: many }),
      ...[1, 2, 3].map(() => chatSpan({ traceId, prompt: "x" })),
    ];
    for (const body of [exportOf(spans), binary(exportOf(spans))]) {
      const answer = await small.post("/v1/traces", body);
      expect(answer.status).toBe(200);
      if (body instanceof Uint8Array) expect(answer.bytes.length).toBeGreaterThan(10);
      else {
        expect(answer.json.partialSuccess).toMatchObject({ rejectedSpans: 6 });
        expect(answer.json.partialSuccess.errorMessage).toContain("trace_id must be 16 bytes");
      }
    }
    expect((await small.get("tinklet/traces")).json.traces).toMatchObject([{ trace_id: traceId, spans: 2 }]);
    await small.close();
  });

  test("refuses in the form of the request: too many values or spans, too many bytes, other types, bad bodies", async () => {
    const small = await TestServer.open({ limits: { traceParts: 200, traceSpans: 3, traceDecompressedBytes: 20_000 } });
    const spans = Array.from({ length: 4 }, () => ({ ...chatSpan({ prompt: "x" }), attributes: [] }));
    const cases: readonly (readonly [object | string, number, number])[] = [
      [exportOf(spans), 413, 8],
      [exportOf([chatSpan({ prompt: "x", attributes: { list: Array.from({ length: 400 }, () => 1) } })]), 413, 8],
      ["{", 400, 3],
      [{ resourceSpans: {} }, 400, 3],
      [{ resourceSpans: [{ scopeSpans: [{ spans: [{ name: 1 }] }] }] }, 400, 3],
      ["[".repeat(2000), 400, 3],
    ];
    for (const [body, status, code] of cases) {
      const answer = await small.post("/v1/traces", body);
      expect(answer).toMatchObject({ status, json: { code, message: expect.any(String) } });
    }
    const broken = await small.post("/v1/traces", Uint8Array.of(10, 200, 1));
    expect(broken.status).toBe(400);
    // A google.rpc.Status: field 1 is the code, field 2 the message.
    expect([...broken.bytes.slice(0, 3)]).toEqual([8, 3, 18]);
    const bomb = new Uint8Array(gzipSync(new Uint8Array(1_000_000)));
    expect((await small.post("/v1/traces", bomb, { "content-encoding": "gzip" })).status).toBe(413);
    expect((await small.post("/v1/traces", "x", { "content-type": "text/plain" })).status).toBe(415);
    expect((await small.get("/v1/traces")).status).toBe(404);
    await small.close();
  });

  test("without configured keys an exporter needs no key; with them it does, as x-api-key or bearer token", async () => {
    const body = JSON.stringify(chatExport([{ prompt: "x" }]));
    const send = (to: TestServer, headers: Record<string, string>) =>
      to.server.fetch(
        new Request("http://localhost/v1/traces", {
          method: "POST",
          body,
          headers: { "content-type": "application/json", ...headers },
        }),
      );
    expect((await send(server, {})).status).toBe(200);
    expect((await send(server, { "x-api-key": "wrong" })).status).toBe(401);
    expect((await send(server, { origin: "https://elsewhere.example" })).status).toBe(403);
    const strict = await TestServer.open({ apiKeys: [{ name: "a", sha256: hashApiKey("tml-a") }] });
    const refused = await send(strict, {});
    expect([refused.status, await refused.json()]).toMatchObject([401, { code: 16 }]);
    expect((await send(strict, { "x-api-key": "tml-a" })).status).toBe(200);
    expect((await send(strict, { authorization: "Bearer tml-a" })).status).toBe(200);
    await strict.close();
  });
});

describe("lists", () => {
  test("pages newest first, and filters by time, model, tool, error and rating", async () => {
    const own = await TestServer.open();
    const ids = Array.from({ length: 5 }, randomTraceId);
    const call = [{ role: "assistant", parts: [{ type: "tool_call", id: "1", name: "find", arguments: { a: 1 } }] }];
    await own.post(
      "/v1/traces",
      chatExport([
        { traceId: ids[0]!, prompt: "p0", at: 1_760_000_000 },
        { traceId: ids[1]!, prompt: "p1", at: 1_760_000_100, model: "other" },
        { traceId: ids[2]!, prompt: "p2", at: 1_760_000_200, answer: call },
        { traceId: ids[3]!, prompt: "p3", at: 1_760_000_300, error: "no" },
        { traceId: ids[4]!, prompt: "p4", at: 1_760_000_400 },
      ]),
    );
    await own.post(`tinklet/traces/${ids[4]}/rating`, { rating: "down" });
    const list = async (query: string) => {
      const { json } = await own.get(`tinklet/traces?${query}`);
      return json.traces.map(({ trace_id }: { trace_id: string }) => ids.indexOf(trace_id));
    };
    const first = (await own.get("tinklet/traces?limit=3")).json;
    expect(first.traces.map(({ prompt }: { prompt: string }) => prompt)).toEqual(["p4", "p3", "p2"]);
    expect(await list(`limit=3&cursor=${first.next_cursor}`)).toEqual([1, 0]);
    expect((await own.get(`tinklet/traces?limit=3&cursor=${first.next_cursor}`)).json.next_cursor).toBeUndefined();
    const time = (seconds: number) => new Date(seconds * 1000).toISOString();
    expect(await list(`since=${time(1_760_000_100)}&until=${time(1_760_000_300)}`)).toEqual([2, 1]);
    expect(await list("model=other")).toEqual([1]);
    expect(await list("tool=find")).toEqual([2]);
    expect(await list("error=true")).toEqual([3]);
    expect(await list("rating=down")).toEqual([4]);
    expect(await list("rating=unrated")).toEqual([3, 2, 1, 0]);
    expect(await list("text=P3")).toEqual([3]);
    expect(await list("regex=^p[12]$")).toEqual([2, 1]);
    expect(await list("regex=find .*a&model=m")).toEqual([2]);
    await own.close();
  });

  test("a regular expression that takes exponential time is stopped, and other requests are answered meanwhile", async () => {
    const own = await TestServer.open();
    await own.post("/v1/traces", chatExport([{ prompt: `${"a".repeat(40)}!` }]));
    const slow = own.get(`tinklet/traces?regex=${encodeURIComponent("^(a+)+$")}`);
    let isDone = false;
    void slow.then(() => {
      isDone = true;
    });
    while (!isDone) {
      expect((await own.get("tinklet/traces")).status).toBe(200);
      await own.clock.advance(1000);
    }
    expect(await slow).toMatchObject({ status: 422, json: { code: "too_slow" } });
    expect((await own.get("tinklet/traces?regex=(")).json).toMatchObject({ code: "invalid_regex" });
    expect((await own.get("tinklet/traces?text=aaa")).json.traces).toHaveLength(1);
    await own.close();
  });
});

describe("ratings and training data", () => {
  const lines = async (body: object) => (await server.post("tinklet/traces/export", body)).json;

  test("an answer is rated, edited and rated again; a trace without it is refused", async () => {
    const [traceId, spanId] = [randomTraceId(), randomSpanId()];
    await server.post("/v1/traces", chatExport([{ traceId, spanId, prompt: "q", answer: "a" }]));
    const rate = (body: object) => server.post(`tinklet/traces/${traceId}/rating`, body);
    expect((await rate({ rating: "up", comment: "good" })).json).toMatchObject({
      span_id: spanId,
      rating: { rating: "up", comment: "good", answer: null },
    });
    expect((await traceOf(traceId)).conversations[0].turns[1].rating).toMatchObject({ rating: "up" });
    expect((await rate({ span_id: spanId, answer: "b" })).json.rating).toMatchObject({ rating: null, answer: "b" });
    expect((await traceOf(traceId)).trace).toMatchObject({ rated: true });
    expect((await rate({})).json).toEqual({ span_id: spanId });
    expect((await traceOf(traceId)).trace).toMatchObject({ rated: false });
    expect((await rate({ span_id: randomSpanId(), rating: "up" })).json).toMatchObject({ code: "unknown_answer" });
    expect((await rate({ rating: "good" })).status).toBe(422);
    expect((await server.send("DELETE", `tinklet/traces/${traceId}`)).status).toBe(200);
    expect((await server.get(`tinklet/traces/${traceId}`)).status).toBe(404);
  });

  test("ratings count as bytes of their trace and of their tenant, which have limits", async () => {
    const own = await TestServer.open({
      limits: { spansPerTrace: { count: 10, bytes: 4000 }, spansPerTenant: { count: 100, bytes: 6000 } },
    });
    const ids = [randomTraceId(), randomTraceId()] as const;
    for (const traceId of ids) await own.post("/v1/traces", chatExport([{ traceId, prompt: "q", answer: "a" }]));
    const bytesOf = async (id: string) => (await own.get(`tinklet/traces/${id}`)).json.trace.bytes as number;
    const empty = await bytesOf(ids[0]);
    const rate = (id: string, length: number) =>
      own.post(`tinklet/traces/${id}/rating`, { answer: "é".repeat(length / 2) });
    expect((await rate(ids[0], 4000)).json).toMatchObject({
      code: "trace_too_large",
      detail: expect.stringMatching(/at most 4000 bytes/),
    });
    expect(await bytesOf(ids[0])).toBe(empty);
    for (const length of [2000, 3000, 2000]) expect((await rate(ids[0], length)).status).toBe(200);
    expect(await bytesOf(ids[0])).toBe(empty + 2000);
    expect((await rate(ids[1], 3000)).json).toMatchObject({
      code: "trace_too_large",
      detail: expect.stringMatching(/at most 6000 bytes/),
    });
    await own.post(`tinklet/traces/${ids[0]}/rating`, {});
    expect(await bytesOf(ids[0])).toBe(empty);
    expect((await rate(ids[1], 3000)).status).toBe(200);
    await own.close();
  });

  test("exports conversations with tools: without those rated down, with edited answers in place of recorded ones", async () => {
    const ids = Array.from({ length: 3 }, randomTraceId) as [string, string, string];
    await server.post("/v1/traces", exportOf(ids.flatMap((id) => aiSdkLoop(id))));
    await server.post(`tinklet/traces/${ids[1]}/rating`, { rating: "down" });
    await server.post(`tinklet/traces/${ids[2]}/rating`, { rating: "down", answer: "four" });
    const data = await lines({ format: "sft", trace_ids: ids });
    expect(data.skipped).toEqual({ "rated down": 1 });
    expect(data.lines).toHaveLength(2);
    const edited = data.lines.find(({ trace_id }: { trace_id: string }) => trace_id === ids[2]);
    expect(edited.messages.at(-1)).toEqual({ role: "assistant", content: "four" });
    expect(edited.tools[0].function.name).toBe("add");
  });

  test("secrets and e-mail addresses are redacted unless that is switched off, and tokens of changed turns are dropped", async () => {
    const ids = [randomTraceId(), randomTraceId()] as [string, string];
    const tokens = {
      "tinklet.prompt_token_ids": "[1,2,3]",
      "tinklet.token_ids": "[4,5]",
      "tinklet.logprobs": "[-0.5,-1]",
      "tinklet.stop_reason": "stop",
      "tinklet.sampler": '{"modelId":"small"}',
    };
    const key = `sk-${"a1".repeat(12)}`;
    const secret = `mail bob@example.com, key ${key}, password: hunter2hunter`;
    await server.post(
      "/v1/traces",
      chatExport([
        { traceId: ids[0], prompt: secret, answer: "done", attributes: tokens },
        { traceId: ids[1], prompt: "plain", answer: "done", attributes: tokens },
      ]),
    );
    const clean = await lines({ format: "sft", trace_ids: [ids[0]] });
    expect(clean.lines[0].messages[0].content).toBe("mail [EMAIL], key [SECRET], password: [SECRET]");
    expect(clean.lines[0].tokens).toBeUndefined();
    expect(clean.redacted).toBe(1);
    const raw = await lines({ format: "sft", trace_ids: [ids[0]], redact: false });
    expect(raw.lines[0].messages[0].content).toBe(secret);
    const kept = { prompt_token_ids: [1, 2, 3], token_ids: [4, 5], logprobs: [-0.5, -1], stop_reason: "stop" };
    expect(raw.lines[0].tokens).toMatchObject([kept]);
    const forRl = await lines({ format: "tokens", trace_ids: ids });
    expect(forRl.lines).toMatchObject([{ trace_id: ids[1], turns: [kept], rating: null }]);
    expect(forRl.skipped).toEqual({ "redacted text": 1 });
  });

  test("pairs: answers to equal prompts with opposite ratings, and edited answers with their originals", async () => {
    const own = await TestServer.open();
    const ids = Array.from({ length: 4 }, randomTraceId);
    const add = (at: number, prompt: string, answer: string) => ({ traceId: ids[at]!, prompt, answer });
    await own.post(
      "/v1/traces",
      chatExport([add(0, "q", "good"), add(1, "q", "bad"), add(2, "r", "poor"), add(3, "s", "lone")]),
    );
    await own.post(`tinklet/traces/${ids[0]}/rating`, { rating: "up" });
    await own.post(`tinklet/traces/${ids[1]}/rating`, { rating: "down" });
    await own.post(`tinklet/traces/${ids[2]}/rating`, { answer: "better" });
    await own.post(`tinklet/traces/${ids[3]}/rating`, { rating: "up" });
    const { json } = await own.post("tinklet/traces/export", { format: "dpo" });
    const texts = json.lines.map((line: Record<string, { content: string }[]>) =>
      ["prompt", "chosen", "rejected"].map((field) => line[field]![0]!.content),
    );
    expect(texts.sort()).toEqual([
      ["q", "good", "bad"],
      ["r", "better", "poor"],
    ]);
    expect(Object.values(json.skipped)).toEqual([1]);
    await own.close();
  });
});

test("a tenant's oldest traces are deleted beyond its limit, rated ones last; all of them after the retention", async () => {
  const own = await TestServer.open({
    limits: { spansPerTenant: { count: 3, bytes: 1_000_000 }, traceTtlMs: 86_400_000 },
  });
  const ids = Array.from({ length: 4 }, randomTraceId);
  const prompts = async () =>
    (await own.get("tinklet/traces")).json.traces.map(({ prompt }: { prompt: string }) => prompt);
  for (const [at, traceId] of ids.entries()) {
    await own.post("/v1/traces", chatExport([{ traceId, prompt: `p${at}`, at: 1_760_000_000 + at }]));
    if (at === 0) await own.post(`tinklet/traces/${traceId}/rating`, { rating: "up" });
    own.clock.jump(1000);
  }
  expect(await prompts()).toEqual(["p3", "p2", "p0"]);
  own.clock.jump(2 * 86_400_000);
  await own.clock.advance(60_000);
  expect(await prompts()).toEqual([]);
  await own.close();
});

test("an export is the same bytes after it was decoded", () => {
  const bytes = binary(exportOf(aiSdkLoop(randomTraceId())));
  expect(encodeTraceRequest(decodeTraceRequest(bytes, { maxParts: 10_000 }))).toEqual(bytes);
});
