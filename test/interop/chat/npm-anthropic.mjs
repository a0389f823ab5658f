// `@anthropic-ai/sdk` from npm.
import { engineIsIdle, sayCall, weather } from "./checks.mjs";

export async function checkAnthropic({ default: Anthropic }, url, checks) {
  const at = (what) => `@anthropic-ai/sdk (npm): ${what}`;
  const baseURL = `${url}/anthropic/api`;
  const client = new Anthropic({ baseURL, apiKey: "tml-chat", maxRetries: 0 });
  const say = (text) => ({ model: "scripted", max_tokens: 500, messages: [{ role: "user", content: `SAY ${text}` }] });
  const real = {
    model: "tinklet/base",
    max_tokens: 20,
    temperature: 0,
    messages: [{ role: "user", content: "What is 2 + 3?" }],
  };
  const text = "naïve 日本語 e\u0301 👩‍👩‍👧 done";

  const whole = await client.messages.create(say(text));
  checks.is(at("message"), [whole.content, whole.stop_reason], [[{ type: "text", text }], "end_turn"]);
  const streamed = await client.messages.stream(say(text)).finalMessage();
  checks.is(at("stream equals whole"), [streamed.content, streamed.stop_reason], [whole.content, whole.stop_reason]);
  checks.is(at("usage in the last event"), streamed.usage.output_tokens, whole.usage.output_tokens);
  const answered = await client.messages.create(real);
  checks.is(
    at("the real model, streamed and whole"),
    (await client.messages.stream(real).finalMessage()).content,
    answered.content,
  );
  const bearer = new Anthropic({ baseURL, authToken: "tml-chat", apiKey: null, maxRetries: 0 });
  checks.is(at("a bearer"), (await bearer.messages.create(say("hi"))).content[0].text, "hi");

  const tools = [{ name: weather.name, description: weather.description, input_schema: weather.parameters }];
  const ask = { ...say(""), messages: [{ role: "user", content: sayCall }], tools };
  const called = await client.messages.create(ask);
  checks.is(
    at("thinking, text and tool use"),
    called.content.map(({ type }) => type),
    ["thinking", "text", "tool_use"],
  );
  checks.is(at("input"), [called.content.at(-1).input, called.stop_reason], [{ city: "Zürich 🏔️" }, "tool_use"]);
  const live = await client.messages.stream(ask).finalMessage();
  checks.is(
    at("tool use, streamed"),
    live.content.map(({ id: _, ...rest }) => rest),
    called.content.map(({ id: _, ...rest }) => rest),
  );
  const messages = [
    ...ask.messages,
    { role: "assistant", content: called.content },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: called.content.at(-1).id, content: "21" },
        { type: "text", text: "SAY It is 21." },
      ],
    },
  ];
  checks.is(at("tool result"), (await client.messages.create({ ...ask, messages })).content[0].text, "It is 21.");

  const stopped = await client.messages.create({ ...say("one two three"), stop_sequences: [" three"] });
  checks.is(
    at("stop sequence"),
    [stopped.content[0].text, stopped.stop_reason, stopped.stop_sequence],
    ["one two", "stop_sequence", " three"],
  );
  checks.is(
    at("length"),
    (await client.messages.create({ ...say("one two three"), max_tokens: 1 })).stop_reason,
    "max_tokens",
  );
  const counted = await client.messages.countTokens({ model: "tinklet/base", messages: real.messages });
  const { input_tokens: fresh, cache_read_input_tokens: cached } = answered.usage;
  checks.is(at("count_tokens"), counted.input_tokens, fresh + cached);

  await checks.throws(
    at("a wrong key"),
    () => new Anthropic({ baseURL, apiKey: "tml-wrong", maxRetries: 0 }).messages.create(real),
    Anthropic.AuthenticationError,
  );
  await checks.throws(
    at("an unknown model"),
    () => client.messages.create({ ...real, model: "none" }),
    Anthropic.NotFoundError,
  );
  await checks.throws(
    at("an image"),
    () =>
      client.messages.create({
        ...real,
        messages: [
          { role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "" } }] },
        ],
      }),
    Anthropic.BadRequestError,
  );
  const forced = await client.messages.create({ ...real, max_tokens: 100, tools, tool_choice: { type: "any" } });
  checks.is(at("a demanded tool call"), Object.keys(forced.content[0].input), ["city"]);
  await checks.throws(
    at("another origin"),
    () =>
      new Anthropic({
        baseURL,
        apiKey: "tml-chat",
        maxRetries: 0,
        defaultHeaders: { origin: "https://evil.example" },
      }).messages.create(real),
    Anthropic.PermissionDeniedError,
  );

  const asking = (content) => ({ model: "scripted", max_tokens: 50, messages: [{ role: "user", content }] });
  const failed = await checks.throws(
    at("a failure of the server"),
    () => client.messages.create(asking("FAIL AT THIS")),
    Anthropic.InternalServerError,
  );
  checks.is(at("its status"), failed?.status, 500);
  const closing = await checks.throws(
    at("a server that closes"),
    () => client.messages.create({ ...asking("CLOSE AT THIS"), stream: true }),
    Anthropic.InternalServerError,
  );
  checks.is(at("its status and kind"), [closing?.status, closing?.error?.error?.type], [503, "overloaded_error"]);
  await checks.throws(
    at("nobody there"),
    () => new Anthropic({ baseURL: "http://127.0.0.1:9", apiKey: "tml-chat", maxRetries: 0 }).messages.create(real),
    Anthropic.APIConnectionError,
  );
  await checks.throws(
    at("no answer in time"),
    () => client.messages.create({ ...real, max_tokens: 900 }, { timeout: 1 }),
    Anthropic.APIConnectionTimeoutError,
  );
  const schema = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] };
  const formatted = await client.messages.create({
    ...real,
    max_tokens: 40,
    output_config: { format: { type: "json_schema", schema } },
  });
  checks.holds(at("a schema"), Number.isInteger(JSON.parse(formatted.content[0].text).sum), formatted.content);
  checks.holds(at("what was given up has ended"), await engineIsIdle(url));

  const long = {
    model: "tinklet/base",
    max_tokens: 900,
    temperature: 2,
    messages: [{ role: "user", content: "Tell me a long story." }],
  };
  const open = Array.from({ length: 4 }, () => client.messages.stream(long));
  for (const stream of open) await stream.emitted("streamEvent");
  await checks.throws(at("too many chats"), () => client.messages.create(real), Anthropic.RateLimitError);
  for (const stream of open) stream.abort();
  await Promise.allSettled(open.map((stream) => stream.done()));
  checks.holds(at("streams that are left end in the engine"), await engineIsIdle(url));
  checks.is(at("and their places are free"), (await client.messages.create(say("free"))).content[0].text, "free");
}
