/** The chat endpoints with a scripted engine: responses, refusals, and clients that leave. */
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { describe, expect, onTestFinished, test } from "vitest";
import { tinyTokenizer } from "../../../../models/src/testing/tiny-tokenizer.ts";
import { fakeEngine } from "../../testing/fake-engine.ts";
import { baseModel, gateway, TestServer, type TestServerOptions, turnsDuring } from "../../testing/test-server.ts";
import { hashApiKey } from "../access/auth.ts";

const tokenizer = tokenizerFromFiles(tinyTokenizer, "tiny");
const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
/** The end-of-turn token. */
const end = 267;
const replying = (text: string, more: TestServerOptions["engine"] = {}) => ({
  engine: { reply: () => [...encode(text), end], ...more },
});

const open = async (options?: TestServerOptions) => {
  const server = await TestServer.open(options);
  onTestFinished(() => server.close());
  return server;
};
const question = { model: baseModel, messages: [{ role: "user", content: "hello" }] };
const chat = (server: TestServer, body: object = {}, path = "/v1/chat/completions") =>
  server.post(path, { ...question, ...body });
const anthropic = (server: TestServer, body: object = {}) =>
  server.post("/anthropic/api/v1/messages", { ...question, max_tokens: 100, ...body });

const request = (server: TestServer, path: string, body: object, signal?: AbortSignal) =>
  server.server.fetch(
    new Request(`http://localhost${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json" },
      body: JSON.stringify({ ...question, ...body, stream: true }),
      ...(signal === undefined ? {} : { signal }),
    }),
  );

interface StreamEvent {
  readonly event?: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events of every shape
  readonly data: any;
}
const parseEvents = (text: string): StreamEvent[] =>
  text
    .split("\n\n")
    .filter((block) => block !== "" && !block.startsWith(":"))
    .map((block) => {
      const data = /^data: (.*)$/m.exec(block)![1]!;
      const event = /^event: (.*)$/m.exec(block)?.[1];
      return { ...(event === undefined ? {} : { event }), data: data === "[DONE]" ? data : JSON.parse(data) };
    });
const stream = async (server: TestServer, body: object = {}, path = "/v1/chat/completions") => {
  const response = await request(server, path, body);
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  return parseEvents(await response.text());
};
const deltas = (events: readonly StreamEvent[], index = 0) =>
  events.flatMap(({ data }) => (data.choices ?? []).filter((choice: { index: number }) => choice.index === index));
const contentOf = (events: readonly StreamEvent[], index = 0) =>
  deltas(events, index)
    .map(({ delta }) => delta.content ?? "")
    .join("");

const weather = {
  type: "function",
  function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};
const toolReply = '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}';

describe("chat/completions", () => {
  test("answers with a complete response, under each path and with each kind of key", async () => {
    const server = await open(replying("hello world 👋"));
    for (const path of ["/v1/chat/completions", "/oai/api/v1/chat/completions"]) {
      const { status, json } = await chat(server, {}, path);
      expect(status).toBe(200);
      expect(json).toMatchObject({
        object: "chat.completion",
        model: baseModel,
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: "hello world 👋" },
            finish_reason: "stop",
            logprobs: null,
          },
        ],
      });
      const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = json.usage;
      expect(completion).toBe(encode("hello world 👋").length + 1);
      expect(total).toBe(prompt + completion);
    }
    expect((await stream(server)).at(-1)?.data).toBe("[DONE]"); // with a bearer token
  });

  test("streams the same text token by token, with the usage in the last chunk", async () => {
    const text = "hello world 👋 日本語 e\u0301";
    const server = await open(replying(text));
    const events = await stream(server, { stream_options: { include_usage: true } });
    expect(contentOf(events)).toBe(text);
    expect(deltas(events)[0].delta).toEqual({ role: "assistant", content: "" });
    expect(deltas(events).at(-1)).toMatchObject({ delta: {}, finish_reason: "stop" });
    expect(deltas(events).length).toBeGreaterThanOrEqual(10);
    const [last, done] = events.slice(-2);
    expect(last?.data).toMatchObject({ choices: [], usage: { completion_tokens: encode(text).length + 1 } });
    expect(done?.data).toBe("[DONE]");
    expect(events.slice(0, -2).every(({ data }) => data.usage === null)).toBe(true);
    const without = await stream(server);
    expect(without.every(({ data }) => data.usage === undefined)).toBe(true);
  });

  test("500 prompts: the streamed text equals the complete response byte for byte, with any stop strings", async () => {
    const words = [
      "hello",
      " world",
      "👩‍👩‍👧",
      "日本語",
      "e\u0301",
      "ß",
      " ",
      "\n",
      "STOP",
      "ST",
      "OP",
      "\u{1f3f4}",
      "{",
      "<tool_call>",
    ];
    let state = 7;
    const random = (below: number) => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const texts = (count: number) => Array.from({ length: count }, () => words[random(words.length)]!).join("");
    let reply = "";
    const server = await open({ engine: { reply: () => [...encode(reply), end] } });
    for (let i = 0; i < 500; i++) {
      reply = texts(random(25));
      const stop = Array.from({ length: random(3) }, () => texts(1 + random(2)));
      const body = { stop, ...(i % 3 === 0 ? { tools: [weather] } : {}) };
      const { json } = await chat(server, body);
      const { content } = json.choices[0].message;
      const events = await stream(server, body);
      expect(contentOf(events)).toBe(content);
      expect(deltas(events).at(-1).finish_reason).toBe(json.choices[0].finish_reason);
      const first = stop.map((text) => reply.indexOf(text)).filter((at) => at >= 0);
      expect(reply.startsWith(content)).toBe(true);
      if (first.length === 0) expect(content).toBe(reply);
      else for (const text of stop) expect(content).not.toContain(text);
    }
  });

  test("stop strings end the reply and are not part of it, complete and streamed", async () => {
    const server = await open(replying("one two END three"));
    const { json } = await chat(server, { stop: ["END", "never"] });
    expect(json.choices[0]).toMatchObject({ message: { content: "one two " }, finish_reason: "stop" });
    const events = await stream(server, { stop: " END" });
    expect(contentOf(events)).toBe("one two");
    const sent = deltas(events).map(({ delta }) => delta.content ?? "");
    expect(sent.join("|")).not.toMatch(/E|N\|/);
  });

  test("a reply that a stop string ends reports its cached prompt tokens", async () => {
    // the engine has not finished the sequence when the reply ends
    const beforeToken = () => new Promise<void>((resolve) => setImmediate(resolve));
    const server = await open(replying("one two END three", { cachedTokens: 7, beforeToken }));
    const { json } = await chat(server, { stop: ["END"] });
    expect(json.usage.prompt_tokens_details.cached_tokens).toBe(7);
    const { json: whole } = await chat(server, {});
    expect(whole.usage.prompt_tokens_details.cached_tokens).toBe(7);
  });

  test("reaching max_tokens is reported", async () => {
    const server = await open(replying("hello world"));
    for (const body of [{ max_tokens: 1 }, { max_completion_tokens: 1 }]) {
      const { json } = await chat(server, body);
      expect(json.choices[0]).toMatchObject({ message: { content: "hello" }, finish_reason: "length" });
      expect(json.usage.completion_tokens).toBe(1);
    }
  });

  test("n replies, each with its own index, complete and streamed", async () => {
    const texts = ["hello", " world", "ß"];
    const server = await open({ engine: { reply: (_, i) => [...encode(texts[i]!), end] } });
    const { json } = await chat(server, { n: 3 });
    expect(json.choices.map((c: { message: { content: string } }) => c.message.content)).toEqual(texts);
    const events = await stream(server, { n: 3 });
    expect(texts.map((_, i) => contentOf(events, i))).toEqual(texts);
  });

  test("log-probs: one entry per token of the reply, with its bytes, complete and streamed", async () => {
    const server = await open(replying("hi 👋"));
    const { json } = await chat(server, { logprobs: true });
    const { content } = json.choices[0].logprobs;
    expect(content).toHaveLength(encode("hi 👋").length);
    expect(Buffer.from(content.flatMap(({ bytes }: { bytes: number[] }) => bytes)).toString()).toBe("hi 👋");
    expect(content.every(({ logprob }: { logprob: number }) => logprob < 0)).toBe(true);
    const top = (await chat(server, { logprobs: true, top_logprobs: 2 })).json.choices[0].logprobs.content[0];
    expect(top.top_logprobs).toMatchObject([{ token: "h", bytes: [104], logprob: -1 }, { logprob: -2 }]);
    const events = await stream(server, { logprobs: true });
    const streamed = deltas(events).flatMap(({ logprobs }) => logprobs?.content ?? []);
    expect(streamed.map(({ bytes }) => bytes)).toEqual(content.map(({ bytes }: { bytes: number[] }) => bytes));
  });

  test("tools: described to a model whose template ignores them, called by it, and answered", async () => {
    const prompts: string[] = [];
    const server = await open(
      replying(toolReply, { onSample: ({ prompt }) => prompts.push(tokenizer.decode(Array.from(prompt))) }),
    );
    const { json } = await chat(server, { tools: [weather] });
    expect(prompts[0]).toContain("get_weather");
    const { message, finish_reason: reason } = json.choices[0];
    expect(reason).toBe("tool_calls");
    expect(message.content).toBeNull();
    expect(message.tool_calls).toMatchObject([
      { type: "function", function: { name: "get_weather", arguments: '{"city": "Oslo"}' } },
    ]);
    const events = await stream(server, { tools: [weather] });
    const calls = deltas(events).flatMap(({ delta }) => delta.tool_calls ?? []);
    expect(calls).toMatchObject([{ index: 0, id: expect.stringMatching(/^call_/), function: { name: "get_weather" } }]);
    expect(deltas(events).at(-1).finish_reason).toBe("tool_calls");
    const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "21 degrees" };
    await chat(server, { messages: [...question.messages, message, result], tools: [weather] });
    expect(prompts.at(-1)).toContain("21 degrees");
    // without tools, or with tool_choice none, a call is text
    expect((await chat(server)).json.choices[0].message.content).toBe(toolReply);
    const none = await chat(server, { tools: [weather], tool_choice: "none" });
    expect(none.json.choices[0].message.content).toBe(toolReply);
  });

  test("sampling parameters reach the engine", async () => {
    const asked: object[] = [];
    const server = await open(replying("x", { onSample: (sample) => asked.push(sample) }));
    await chat(server, { temperature: 0.5, top_p: 0.9, top_k: 5, seed: 7, max_tokens: 3, n: 2, stop: ["a"] });
    expect(asked).toMatchObject([
      { numSamples: 2, params: { temperature: 0.5, topP: 0.9, topK: 5, seed: 7, maxTokens: 3 }, scope: "local" },
    ]);
    await chat(server, { min_p: 0.1, presence_penalty: -1, frequency_penalty: 2, logit_bias: { 7: -100, 9: 3.5 } });
    expect(asked[1]).toMatchObject({
      params: {
        minP: 0.1,
        presencePenalty: -1,
        frequencyPenalty: 2,
        logitBias: [
          [7, -100],
          [9, 3.5],
        ],
      },
    });
  });

  test("neutral values and ignored parameters are accepted", async () => {
    const server = await open(replying("x"));
    const { status } = await chat(server, {
      user: "u",
      metadata: { a: "b" },
      store: true,
      service_tier: "auto",
      presence_penalty: 0,
      frequency_penalty: 0,
      logit_bias: {},
      response_format: { type: "text" },
      parallel_tool_calls: true,
      tools: [],
      stop: null,
      stream: false,
      logprobs: false,
      top_logprobs: null,
    });
    expect(status).toBe(200);
  });
});

describe("an unsupported parameter is a 400 that names it", () => {
  const image = [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:" } }] }];
  const deep = (levels: number): object => (levels === 0 ? {} : { a: deep(levels - 1) });
  test.each<[string, object]>([
    ["messages[0].content[0]", { messages: image }],
    ["messages[0].role", { messages: [{ role: "wizard", content: "x" }] }],
    ["messages[0].role", { messages: [{ role: "__proto__", content: "x" }] }],
    ["messages[0].content", { messages: [{ role: "user" }] }],
    ["messages", { messages: [] }],
    ["messages", { messages: "hello" }],
    ["messages", { messages: Array.from({ length: 5000 }, () => ({ role: "user", content: "x" })) }],
    ["tool_choice", { tool_choice: "required" }],
    ["tool_choice", { tools: [weather], tool_choice: "always" }],
    ["tool_choice.type", { tools: [weather], tool_choice: { type: "custom" } }],
    ["tool_choice.function.name", { tools: [weather], tool_choice: { type: "function", function: { name: "f" } } }],
    ["parallel_tool_calls", { tools: [weather], parallel_tool_calls: "no" }],
    ["tools[0].function.name", { tools: [{ type: "function", function: { name: "a b" } }] }],
    ["tools", { tools: Array.from({ length: 129 }, () => weather) }],
    ["presence_penalty", { presence_penalty: 3 }],
    ["min_p", { min_p: 2 }],
    ["logit_bias", { logit_bias: { hello: 1 } }],
    ["logit_bias", { logit_bias: { 1: 1000 } }],
    ["top_logprobs", { top_logprobs: 2 }],
    ["top_logprobs", { logprobs: true, top_logprobs: 21 }],
    ["logit_bias", { logit_bias: Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [i, 1])) }],
    ["n", { n: 1e9 }],
    ["n", { n: 0 }],
    ["n", { n: 1.5 }],
    ["temperature", { temperature: -1 }],
    ["temperature", { temperature: "hot" }],
    ["top_p", { top_p: 0 }],
    ["max_tokens", { max_tokens: 0 }],
    ["max_tokens", { max_tokens: 1e300 }],
    ["seed", { seed: 0.5 }],
    ["stop", { stop: Array.from({ length: 17 }, (_, i) => `s${i}`) }],
    ["stop[0]", { stop: [""] }],
    ["stop", { stop: "x".repeat(501) }],
    ["stop", { stop: "\ud83d" }],
    ["stop[0]", { stop: [1] }],
    ["stream_options", { stream_options: { include_usage: true } }],
    ["wizardry", { wizardry: 1 }],
  ])("%s", async (param, body) => {
    const server = await open(replying("x"));
    const { status, json } = await chat(server, body);
    expect(status).toBe(400);
    expect(json.error).toMatchObject({ type: "invalid_request_error", param, message: expect.stringContaining(param) });
    expect(json.detail).toBe(json.error.message);
  });

  test("nesting that is too deep, a body that is too large, and what is not JSON", async () => {
    const server = await open(replying("x"));
    const nested = { ...weather, function: { ...weather.function, parameters: deep(100) } };
    expect((await chat(server, { tools: [nested] })).json.error.code).toBe("json_too_deep");
    const large = await chat(server, { messages: [{ role: "user", content: "x".repeat(5_000_000) }] });
    expect([large.status, large.json.error.code]).toEqual([413, "body_too_large"]);
    const broken = await server.post("/v1/chat/completions", "{");
    expect([broken.status, broken.json.error.code]).toEqual([400, "bad_json"]);
    expect((await server.post("/v1/chat/completions", [])).json.error.param).toBe("body");
  });

  test("a prompt beyond the context is refused, also one that is too long to be encoded", async () => {
    const server = await open(replying("x"));
    for (const content of ["a".repeat(600), "a".repeat(1_000_000)]) {
      const { status, json } = await chat(server, { messages: [{ role: "user", content }] });
      if (content.length > 1000)
        expect(json.error.message).toContain("This model's maximum context length is 512 tokens"); // litellm matches this text
      expect([status, json.error.code]).toEqual([
        400,
        content.length > 1000 ? "context_length_exceeded" : expect.any(String),
      ]);
    }
  });

  test("a template that throws is an error of the conversation, not of the server", async () => {
    const settings = JSON.parse(tinyTokenizer["tokenizer_config.json"]);
    const template = "{{ raise_exception('Roles must alternate') }}";
    const files = {
      ...tinyTokenizer,
      "tokenizer_config.json": JSON.stringify({ ...settings, chat_template: template }),
    };
    const server = await open({
      models: [{ name: baseModel, open: async () => fakeEngine(), tokenizerFiles: async () => files }],
    });
    const { status, json } = await chat(server);
    expect([status, json.error.code]).toEqual([400, "chat_template"]);
    expect(json.error.message).toContain("Roles must alternate");
  });

  test("a tokenizer is opened at the start, before the first request", async () => {
    let read = 0;
    const tokenizerFiles = async () => {
      read++;
      return tinyTokenizer;
    };
    const server = await open({ models: [{ name: baseModel, open: async () => fakeEngine(), tokenizerFiles }] });
    expect(read).toBe(1);
    expect((await chat(server, { max_tokens: 1 })).status).toBe(200);
    expect(read).toBe(1);
  });

  test("chats of a model without a tokenizer are refused by that reason", async () => {
    const server = await open({ models: [{ name: baseModel, open: async () => fakeEngine() }] });
    expect((await chat(server)).json.error).toMatchObject({ code: "no_tokenizer", param: "model" });
  });
});

describe("errors have the shape of their API", () => {
  const keys = { apiKeys: [{ name: "alice", sha256: hashApiKey("tml-alice") }] };
  test("OpenAI's: key, model, route", async () => {
    const server = await open(keys);
    expect((await chat(server)).json.error.type).toBe("authentication_error");
    for (const [sent, header] of [
      [{ authorization: "Bearer tml-mallory" }, "Authorization"],
      [{ "x-api-key": "tml-mallory" }, "X-API-Key"],
    ] as const) {
      const denied = await server.server.fetch(new Request("http://localhost/v1/models", { headers: sent }));
      expect(((await denied.json()) as { detail: string }).detail).toMatch(new RegExp(`^The ${header} header`));
    }
    server.key = "tml-alice";
    const missing = await chat(server, { model: "unknown/model" });
    expect([missing.status, missing.json.error.code]).toEqual([404, "model_not_found"]);
    const embeddings = await server.post("/v1/embeddings", {});
    expect([embeddings.status, embeddings.json.error.code]).toEqual([404, "no_embeddings"]);
    expect(embeddings.json.error.message).toMatch(/has no embeddings/);
    const route = await server.post("/v1/other", {});
    expect([route.status, route.json.error.type]).toEqual([404, "invalid_request_error"]);
    const host = await server.post("/v1/completions", {}, { origin: "https://evil.example" });
    expect([host.status, host.json.error.type]).toEqual([403, "permission_error"]);
  });
  test("Anthropic's: key, model, parameter, size", async () => {
    const server = await open(keys);
    const refused = await anthropic(server);
    expect(refused.json).toMatchObject({ type: "error", error: { type: "authentication_error" } });
    server.key = "tml-alice";
    expect((await anthropic(server, { model: "x" })).json.error.type).toBe("not_found_error");
    expect((await anthropic(server, { thread: { id: "t" } })).json.error.details).toEqual({
      error_code: "thread_unsupported_request",
      unsupported: ["thread"],
    });
    expect((await anthropic(server, { max_tokens: null })).json.error).toMatchObject({
      type: "invalid_request_error",
      message: expect.stringContaining("max_tokens"),
    });
    expect((await anthropic(server, { system: "x".repeat(5_000_000) })).json.error.type).toBe("request_too_large");
  });
});

describe("many chats, and clients that leave", () => {
  const waiting = () => {
    const gate = gateway();
    let drawn = 0;
    const engine = {
      reply: () => [...encode("hello hello hello"), end],
      beforeToken: () => (drawn++ < 2 ? undefined : gate.promise),
    };
    return { engine, gate };
  };

  test("beyond the limits, in total and per key, chats get 429; slots are released when chats end", async () => {
    const { engine, gate } = waiting();
    const server = await open({ engine, limits: { chats: 3, chatsPerTenant: 2 } });
    const first = await request(server, "/v1/chat/completions", {});
    const second = chat(server);
    await first.body!.getReader().read();
    for (const answer of [await chat(server), await anthropic(server)]) {
      expect(answer.status).toBe(429);
      expect(answer.json.error.type).toBe("rate_limit_error");
      expect(answer.headers.get("retry-after")).toBe("1");
    }
    gate.resolve();
    expect((await second).status).toBe(200);
    for (let i = 0; i < 4; i++) expect((await chat(server)).status).toBe(200);
  });

  test("a key without running samples does not wait for the end of another key's replies", async () => {
    const gate = gateway();
    const scopes: (string | undefined)[] = [];
    const count = (name: string) => scopes.filter((scope) => scope === name).length;
    const server = await open({
      engine: {
        reply: () => [...encode("hello"), end],
        beforeToken: () => gate.promise,
        onSample: ({ scope }) => scopes.push(scope),
      },
      apiKeys: ["many", "few"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
    });
    server.key = "tml-many";
    const many = Array.from({ length: 80 }, () => chat(server));
    await expect.poll(() => count("many"), { timeout: 20_000 }).toBe(64); // the most that the engine gets at once
    server.key = "tml-few";
    const few = [chat(server), chat(server)];
    await expect.poll(() => count("few"), { timeout: 20_000 }).toBe(1);
    expect([count("many"), count("few")]).toEqual([64, 1]); // the second one of that key waits like the others
    gate.resolve();
    for (const answer of await Promise.all([...many, ...few])) expect(answer.status).toBe(200);
  });

  test.each(["/v1/chat/completions", "/anthropic/api/v1/messages"])(
    "%s: a reader that leaves ends the sequence in the engine, and its place is free",
    async (path) => {
      const { engine, gate } = waiting();
      const fake = fakeEngine(engine);
      let running = 0;
      const sample: typeof fake.sample = (...args) => {
        running++;
        return fake.sample(...args).finally(() => running--);
      };
      const files = { name: baseModel, tokenizerFiles: async () => tinyTokenizer };
      const models = [{ ...files, open: async () => ({ ...fake, sample }) }];
      const server = await open({ models, limits: { chatsPerTenant: 1 } });
      const response = await request(server, path, path.includes("anthropic") ? { max_tokens: 50 } : {});
      const reader = response.body!.getReader();
      expect((await reader.read()).done).toBe(false);
      expect(running).toBe(1);
      await reader.cancel();
      await server.clock.advance(0);
      expect(running).toBe(0); // although its next token was not sampled yet
      const again = chat(server); // waits for its tokens, not for a slot
      gate.resolve();
      expect((await again).status).toBe(200);
    },
  );

  test("a client that leaves before the first token ends its chat, waiting or running", async () => {
    const gate = gateway();
    const server = await open({ engine: { beforeCall: () => gate.promise }, limits: { chatsPerTenant: 1 } });
    for (const body of [{}, { n: 100 }]) {
      const leaving = new AbortController();
      const never = request(server, "/v1/chat/completions", body, leaving.signal);
      await server.clock.advance(0);
      leaving.abort();
      expect((await never).status).toBe(503);
    }
    gate.resolve();
  });

  test("a waiting chat sends heartbeats, one at a time", async () => {
    const gate = gateway();
    let samples = 0;
    const beforeCall = () => {
      samples++;
      return gate.promise;
    };
    const server = await open({ engine: { beforeCall, reply: () => [...encode("hi"), end] } });
    const bodies = { "/v1/chat/completions": {}, "/anthropic/api/v1/messages": { max_tokens: 9 } };
    for (const [path, body] of Object.entries(bodies)) {
      const before = samples;
      const answer = request(server, path, body);
      await expect.poll(() => samples).toBe(before + 1);
      await server.clock.advance(60_000);
      const reader = (await answer).body!.getReader();
      const text = new TextDecoder().decode((await reader.read()).value);
      if (path.startsWith("/v1")) expect(text).toBe(": keep-alive\n\n");
      else expect(parseEvents(text).map(({ event }) => event)).toEqual(["message_start", "ping"]);
      await reader.cancel();
    }
    gate.resolve();
  });

  test("a server that closes ends its chats with a clear error, started or not", async () => {
    const { engine } = waiting();
    const server = await TestServer.open({ engine, limits: { chats: 10 } });
    const begun = await request(server, "/v1/chat/completions", {});
    const whole = chat(server);
    await server.clock.advance(0);
    await server.close();
    const events = parseEvents(await begun.text());
    expect(events.at(-1)?.data.error).toMatchObject({ code: "shutting_down" });
    expect((await whole).status).toBe(503);
  });
});

describe("prompts", () => {
  const large = { metadata: { padding: "x".repeat(3000) } };

  test("are made on a thread, with the same result", async () => {
    const prompts: number[][] = [];
    const server = await open(replying("x", { onSample: ({ prompt }) => prompts.push(Array.from(prompt)) }));
    const messages = [{ role: "system", content: "e\u0301 日本" }, ...question.messages];
    const body = { messages, tools: [weather] };
    await chat(server, body);
    await chat(server, { ...body, ...large });
    expect(prompts[1]).toEqual(prompts[0]);
    await server.post("/v1/completions", { model: baseModel, prompt: "hello", user: "u" });
    await server.post("/v1/completions", { model: baseModel, prompt: "hello", ...large });
    expect(prompts[3]).toEqual(prompts[2]);
    const counts = "/anthropic/api/v1/messages/count_tokens";
    const small = await server.post(counts, question);
    const padded = await server.post(counts, { ...question, cache_control: { type: "x".repeat(3000) } });
    expect(padded.json).toEqual(small.json);
  });

  test("are refused there as on the main thread, and the thread continues", async () => {
    const settings = JSON.parse(tinyTokenizer["tokenizer_config.json"]);
    const template =
      "{% if messages[0].content == 'bad' %}{{ raise_exception('No.') }}{% endif %}{{ messages[0].content }}";
    const files = {
      ...tinyTokenizer,
      "tokenizer_config.json": JSON.stringify({ ...settings, chat_template: template }),
    };
    const source = { name: baseModel, open: async () => fakeEngine(), tokenizerFiles: async () => files };
    const server = await open({ models: [source] });
    const bad = { messages: [{ role: "user", content: "bad" }] };
    const [here, there] = [await chat(server, bad), await chat(server, { ...bad, ...large })];
    expect(here.json).toEqual(there.json);
    expect(there.json.error).toMatchObject({ code: "chat_template", message: expect.stringContaining("No.") });
    expect((await chat(server, large)).status).toBe(200);
    const long = await chat(server, { messages: [{ role: "user", content: "a".repeat(1000) }], ...large });
    expect(long.json.error.code).toBe("context_length_exceeded");
  });

  test("whose template does not terminate are stopped, while others are answered", async () => {
    const settings = JSON.parse(tinyTokenizer["tokenizer_config.json"]);
    const forever = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    const template = `{% if messages[0].content == 'loop' %}${forever}{% endif %}{{ messages[0].content }}`;
    const withTemplate = (chat_template: string) => ({
      ...tinyTokenizer,
      "tokenizer_config.json": JSON.stringify({ ...settings, chat_template }),
    });
    const source = (name: string, chat_template: string) => ({
      name,
      open: async () => fakeEngine({ reply: () => [...encode("hi"), end] }),
      tokenizerFiles: async () => withTemplate(chat_template),
    });
    // A server starts also with a model whose template never terminates.
    const server = await open({
      models: [source("sometimes", template), source("always", forever)],
      apiKeys: ["hostile", "other"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
    });
    /** Sends a chat; `ended` advances the clock until the response. */
    const send = async (key: string, content: string, model: string) => {
      server.key = `tml-${key}`;
      const { status, json } = await chat(server, { model, messages: [{ role: "user", content }] });
      return [status, json.error?.code ?? json.choices[0].message.content];
    };
    const ended = async <T>(answer: Promise<T>): Promise<T> => {
      let isOver = false;
      const watched = answer.finally(() => {
        isOver = true;
      });
      await expect
        .poll(
          async () => {
            await server.clock.advance(10_000);
            return isOver;
          },
          { timeout: 60_000 },
        )
        .toBe(true);
      return watched;
    };
    expect(await send("other", "hello", "sometimes")).toEqual([200, "hi"]);
    const loop = send("hostile", "loop", "sometimes");
    expect((await server.get("/healthz")).status).toBe(200);
    server.key = "tml-other";
    const text = await server.post("/v1/completions", { model: "sometimes", prompt: "hello", max_tokens: 2 });
    expect(text.status).toBe(200);
    expect(await ended(loop)).toEqual([400, "chat_template"]);
    // From then on other tenants do not wait for this one.
    const again = send("hostile", "loop", "sometimes");
    expect(await send("other", "hello", "sometimes")).toEqual([200, "hi"]);
    expect(await ended(again)).toEqual([400, "chat_template"]);
    expect(await ended(send("hostile", "hello", "always"))).toEqual([400, "chat_template"]);
    expect(await send("hostile", "hello", "sometimes")).toEqual([200, "hi"]);
    expect(server.logged.filter(({ level }) => level === "error")).toEqual([]);
  }, 120_000);
});

describe("models", () => {
  test("have the same time in every list, and are listed for Anthropic's clients too", async () => {
    const server = await open();
    const list = async () => (await server.send("GET", "/v1/models")).json;
    const before = await list();
    await server.clock.advance(5000);
    expect(await list()).toEqual(before);
    const { json } = await server.send("GET", "/anthropic/api/v1/models");
    expect(json).toMatchObject({ data: [{ type: "model", id: baseModel }], has_more: false, first_id: baseModel });
    const created = new Date(json.data[0].created_at).getTime() / 1000;
    expect(Math.floor(created)).toBe(before.data[0].created);
    const one = await server.send("GET", `/anthropic/api/v1/models/${encodeURIComponent(baseModel)}`);
    expect(one.json).toEqual(json.data[0]);
  });
  const save = async (server: TestServer, model: string, seq: number, name: string) =>
    (await server.result(server.post("save_weights_for_sampler", { model_id: model, seq_id: seq, path: name }))).path;

  test("short names are resolved as on the command line", async () => {
    const server = await open({
      engine: { reply: ({ adapter }) => [...encode(adapter === undefined ? "base" : "own"), end] },
    });
    expect((await chat(server, { model: "@latest" })).status).toBe(404);
    const run = await server.model();
    const first = await save(server, run, 1, "first");
    server.clock.jump(1000);
    await save(server, run, 2, "second");
    for (const model of ["@latest", run, `${run}:first`, first]) {
      const { json } = await chat(server, { model });
      expect(json.choices[0].message.content).toBe("own");
      expect(json.model).toBe(model);
    }
    for (const model of [`${run}:third`, "tinker://x", "tinker://a/weights/b", "x".repeat(5000), 7, ""]) {
      expect([400, 404]).toContain((await chat(server, { model })).status);
    }
    const listed = (await server.get("/v1/models")).json.data;
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([baseModel, "run", "run@second", "run@first"]);
    expect(listed[0]).toMatchObject({ id: baseModel, object: "model", context_length: 512 });
    const one = await server.get(`/oai/api/v1/models/${encodeURIComponent(first)}`);
    expect(one.json).toMatchObject({ id: first, parent: baseModel });
    expect((await server.get("/v1/models/%zz")).status).toBe(404);
  });
});

test("a checkpoint that is deleted while the request is processed is not found", async () => {
  const gate = gateway();
  let isOpen = false; // a tokenizer that could not be opened at the start is opened again by a chat
  const tokenizerFiles = async () => {
    if (!isOpen) throw new Error("not yet");
    await gate.promise;
    return tinyTokenizer;
  };
  const server = await open({ models: [{ name: baseModel, open: async () => fakeEngine(), tokenizerFiles }] });
  const run = await server.model();
  const save = { model_id: run, seq_id: 1, path: "gone" };
  const { path } = await server.result(server.post("save_weights_for_sampler", save));
  isOpen = true;
  const reading = chat(server, { model: path });
  await server.clock.advance(0);
  expect((await server.send("DELETE", `training_runs/${run}/checkpoints/sampler_weights/gone`)).status).toBe(200);
  await server.clock.advance(3_600_000); // unreferenced files are collected by then
  gate.resolve();
  const { status, json } = await reading;
  expect([status, json.error.code]).toEqual([404, "model_not_found"]);
});

describe("completions", () => {
  const complete = (server: TestServer, body: object) => server.post("/v1/completions", { model: baseModel, ...body });

  test("strings, token ids and arrays of either; the default length is OpenAI's", async () => {
    const server = await open({ engine: { reply: () => encode("abcdefghijklmnopqrstuvwxyz") } });
    for (const prompt of ["hello", [259], ["hello"], [[259]]]) {
      const { json } = await complete(server, { prompt });
      expect(json).toMatchObject({
        object: "text_completion",
        choices: [{ text: "abcdefghijklmnop", finish_reason: "length", index: 0 }],
      });
    }
    const many = await complete(server, { prompt: ["a", "b"], n: 2, max_tokens: 2 });
    expect(many.json.choices.map(({ text, index }: { text: string; index: number }) => `${index}${text}`)).toEqual([
      "0ab",
      "1ab",
      "2ab",
      "3ab",
    ]);
    const events = parseEvents(
      await (
        await request(server, "/v1/completions", { prompt: ["a", "b"], max_tokens: 3, messages: undefined })
      ).text(),
    );
    for (const index of [0, 1]) {
      expect(
        deltas(events, index)
          .map(({ text }) => text)
          .join(""),
      ).toBe("abc");
    }
  });

  test("echo and log-probs, also of the prompt alone", async () => {
    const server = await open({ engine: { reply: () => encode("abc") } });
    const { json } = await complete(server, { prompt: "hello world", echo: true, logprobs: 0, max_tokens: 2 });
    expect(json.choices[0].text).toBe("hello worldab");
    const { logprobs } = json.choices[0];
    expect(logprobs.tokens).toEqual(["<|begin|>", "hello", " world", "a", "b"]);
    expect(logprobs.token_logprobs[0]).toBeNull();
    expect(logprobs.token_logprobs.slice(1).every((each: number) => each < 0)).toBe(true);
    const scored = await complete(server, { prompt: [259, 264], echo: true, logprobs: 0, max_tokens: 0 });
    expect(scored.json.choices[0]).toMatchObject({ text: "hello world", finish_reason: "length" });
    expect(scored.json.choices[0].logprobs.tokens).toEqual(["hello", " world"]);
  });

  test("each choice has the log-probs of its prompt, followed by its own", async () => {
    const server = await open({ engine: { reply: (_, index) => encode(index === 0 ? "ab" : "cd") } });
    const body = { prompt: ["hello", "hello world"], n: 2, echo: true, logprobs: 2, max_tokens: 2 };
    const { json } = await complete(server, body);
    expect(json.choices.map(({ index, text }: { index: number; text: string }) => [index, text])).toEqual([
      [0, "helloab"],
      [1, "hellocd"],
      [2, "hello worldab"],
      [3, "hello worldcd"],
    ]);
    const lists = json.choices[3].logprobs;
    expect(lists.tokens).toEqual(["<|begin|>", "hello", " world", "c", "d"]);
    expect(lists.text_offset).toEqual([0, 9, 14, 20, 21]);
    expect(lists.top_logprobs.slice(0, 3)).toEqual([null, null, null]); // the fake engine has none for prompts
    expect(lists.top_logprobs.slice(3).map((each: object) => Object.keys(each).length)).toEqual([2, 2]);
    expect(json.choices[2].logprobs.token_logprobs.slice(0, 3)).toEqual(lists.token_logprobs.slice(0, 3));
    const plain = (await complete(server, { prompt: "hello", logprobs: 0, max_tokens: 2 })).json.choices[0].logprobs;
    expect(plain).toMatchObject({ tokens: ["a", "b"], top_logprobs: null, text_offset: [0, 1] });
    const none = (await complete(server, { prompt: "hello", max_tokens: 2 })).json.choices[0];
    expect(none.logprobs).toBeNull();
  });

  test("choices × tokens × log-probs are limited, and so is echoed text", async () => {
    const server = await open({
      engine: { reply: () => encode("abcdefgh") },
      limits: { chatScores: 60, chatBytes: 2000 },
    });
    const refused = async (body: object, path?: string) => {
      const { status, json } = await (path === undefined ? complete(server, body) : chat(server, body));
      return [status, json.error?.param, json.error?.message];
    };
    const problem = (asked: number) => [400, "logprobs", expect.stringContaining(`must be at most 60, got ${asked}`)];
    // three tokens of the prompt, and one more
    expect(await refused({ prompt: "hello world", n: 5, echo: true, logprobs: 2, max_tokens: 1 })).toEqual([
      200,
      undefined,
      undefined,
    ]);
    expect(await refused({ prompt: "hello world", n: 5, echo: true, logprobs: 2, max_tokens: 2 })).toEqual(problem(75));
    expect(await refused({ prompt: "a", n: 31, logprobs: 0, max_tokens: 2 })).toEqual(problem(62));
    expect(await refused({ n: 10, logprobs: true, top_logprobs: 5, max_tokens: 2 }, "chat")).toEqual(problem(120));
    expect(await refused({ prompt: "x".repeat(400), n: 6, echo: true, max_tokens: 0 })).toEqual([
      400,
      "echo",
      expect.stringContaining("must be at most 2000 characters, got 2400"),
    ]);
    // without max_tokens, a choice gets as many tokens as the limit allows
    const { json } = await chat(server, { n: 10, logprobs: true, top_logprobs: 1 });
    expect(json.choices[9]).toMatchObject({ finish_reason: "length", message: { content: "abc" } });
  });

  test("a large response is serialized without blocking other requests", async () => {
    const server = await open({ engine: { reply: () => encode("a"), contextLength: 2048 } });
    const body = { prompt: new Array(1000).fill(104), n: 60, max_tokens: 1, echo: true };
    const turns = await turnsDuring(async () => {
      const answer = await complete(server, { ...body, logprobs: 5 });
      expect(answer.json.choices[59].logprobs.tokens).toHaveLength(1001);
    });
    expect(turns).toBeGreaterThanOrEqual(59); // one turn of the event loop between two choices
  });

  test.each<[string, object]>([
    ["prompt", { prompt: [] }],
    ["prompt", {}],
    ["prompt[1]", { prompt: ["a", 1] }],
    ["prompt", { prompt: Array.from({ length: 300 }, () => "a") }],
    ["best_of", { prompt: "a", best_of: 3 }],
    ["suffix", { prompt: "a", suffix: "b" }],
    ["logprobs", { prompt: "a", logprobs: 6 }],
    ["max_tokens", { prompt: "a", max_tokens: 0 }],
  ])("%s is refused by name", async (param, body) => {
    const server = await open();
    const { status, json } = await complete(server, body);
    expect([status, json.error.param]).toEqual([400, param]);
  });

  test("ids that the model does not have are refused", async () => {
    const server = await open();
    const { status, json } = await complete(server, { prompt: [1, 99_999] });
    expect(status).toBe(400);
    expect(json.error.message).toContain("99999");
  });
});

describe("messages", () => {
  test("complete and streamed responses, with events in the order that clients expect", async () => {
    const server = await open(replying("hello world"));
    const { json } = await anthropic(server, { system: "Be kind." });
    expect(json).toMatchObject({
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: "hello world" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { output_tokens: 3 },
    });
    const events = await stream(server, { max_tokens: 50 }, "/anthropic/api/v1/messages");
    expect(events.map(({ event }) => event)).toEqual([
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(events.every(({ event, data }) => event === data.type)).toBe(true);
    expect(events[5]?.data).toMatchObject({ delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } });
  });

  test("tools: called, and answered by a result", async () => {
    const prompts: string[] = [];
    const server = await open(
      replying(toolReply, { onSample: ({ prompt }) => prompts.push(tokenizer.decode(Array.from(prompt))) }),
    );
    const tools = [{ name: "get_weather", description: "d", input_schema: { type: "object" } }];
    const { json } = await anthropic(server, { tools });
    expect(json.stop_reason).toBe("tool_use");
    expect(json.content).toMatchObject([{ type: "tool_use", name: "get_weather", input: { city: "Oslo" } }]);
    const events = await stream(server, { max_tokens: 200, tools }, "/anthropic/api/v1/messages");
    expect(events.find(({ event }) => event === "content_block_delta")?.data.delta).toEqual({
      type: "input_json_delta",
      partial_json: '{"city": "Oslo"}',
    });
    const result = { type: "tool_result", tool_use_id: json.content[0].id, content: [{ type: "text", text: "21" }] };
    const more = [
      { role: "assistant", content: json.content },
      { role: "user", content: [result] },
    ];
    expect((await anthropic(server, { tools, messages: [...question.messages, ...more] })).status).toBe(200);
    expect(prompts.at(-1)).toContain("21");
  });

  test("stop sequences and lengths are reported; a last message of the assistant is continued", async () => {
    const prompts: string[] = [];
    const server = await open(
      replying("one END two", { onSample: ({ prompt }) => prompts.push(tokenizer.decode(Array.from(prompt))) }),
    );
    expect((await anthropic(server, { stop_sequences: ["END"] })).json).toMatchObject({
      content: [{ text: "one " }],
      stop_reason: "stop_sequence",
      stop_sequence: "END",
    });
    expect((await anthropic(server, { max_tokens: 2 })).json.stop_reason).toBe("max_tokens");
    await anthropic(server, { messages: [...question.messages, { role: "assistant", content: "Well, " }] });
    expect(prompts.at(-1)?.endsWith("<|im_start|>assistant\nWell, ")).toBe(true);
  });

  test("count_tokens counts the prompt of a message", async () => {
    const server = await open(replying("x"));
    const counted = await server.post("/anthropic/api/v1/messages/count_tokens", question);
    const { json } = await anthropic(server);
    const { input_tokens: fresh, cache_read_input_tokens: cached } = json.usage;
    expect(counted.json).toEqual({ input_tokens: fresh + cached });
  });

  test.each<[string, object]>([
    ["messages[0].content[0]", { messages: [{ role: "user", content: [{ type: "image", source: {} }] }] }],
    ["messages[0].role", { messages: [{ role: "system", content: "x" }] }],
    ["tool_choice", { tool_choice: { type: "any" } }],
    ["tools[0].type", { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
    ["stop_sequences", { stop_sequences: Array.from({ length: 1000 }, () => "x") }],
    ["mcp_servers", { mcp_servers: [{}] }],
    ["thinking.type", { thinking: { type: "deep" } }],
    ["seed", { seed: 1 }],
  ])("%s is refused by name", async (param, body) => {
    const server = await open(replying("x"));
    const { status, json } = await anthropic(server, body);
    expect(status).toBe(400);
    expect(json.error.message).toContain(param);
  });
});
