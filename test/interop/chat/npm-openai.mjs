// `openai` from npm.
import { engineIsIdle, sayCall, weather } from "./checks.mjs";

export async function checkOpenai({ default: OpenAI }, url, checks) {
  const at = (what) => `openai (npm): ${what}`;
  for (const path of ["/oai/api/v1", "/v1"]) {
    const client = new OpenAI({ baseURL: url + path, apiKey: "tml-chat", maxRetries: 0 });
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    checks.is(at(`${path} lists models`), models, ["tinklet/base", "scripted"]);
  }
  const client = new OpenAI({ baseURL: `${url}/oai/api/v1`, apiKey: "tml-chat", maxRetries: 0 });
  const say = (text) => ({ model: "scripted", messages: [{ role: "user", content: `SAY ${text}` }] });
  const real = { model: "tinklet/base", messages: [{ role: "user", content: "What is 2 + 3?" }], temperature: 0 };
  const text = "naïve 日本語 e\u0301 👩‍👩‍👧 done";

  checks.is(at("models.retrieve"), (await client.models.retrieve("tinklet/base")).id, "tinklet/base");
  const whole = await client.chat.completions.create(say(text));
  checks.is(at("chat"), [whole.choices[0].message.content, whole.choices[0].finish_reason], [text, "stop"]);
  checks.holds(
    at("usage"),
    whole.usage.total_tokens === whole.usage.prompt_tokens + whole.usage.completion_tokens,
    whole.usage,
  );

  let streamed = "";
  let usage;
  for await (const chunk of await client.chat.completions.create({
    ...say(text),
    stream: true,
    stream_options: { include_usage: true },
  })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  checks.is(at("stream equals whole"), streamed, text);
  checks.is(at("usage in the last chunk"), usage?.completion_tokens, whole.usage.completion_tokens);
  const helper = client.chat.completions.stream(say(text));
  checks.is(at("stream helper"), (await helper.finalChatCompletion()).choices[0].message.content, text);

  const answered = await client.chat.completions.create(real);
  let again = "";
  for await (const chunk of await client.chat.completions.create({ ...real, stream: true }))
    again += chunk.choices[0]?.delta.content ?? "";
  checks.is(at("the real model, streamed and whole"), again, answered.choices[0].message.content);

  const tools = [{ type: "function", function: weather }];
  const called = await client.chat.completions.create({
    ...say(""),
    messages: [{ role: "user", content: sayCall }],
    tools,
  });
  const { message } = called.choices[0];
  checks.is(
    at("tool call"),
    [message.tool_calls?.[0]?.function.name, JSON.parse(message.tool_calls?.[0]?.function.arguments ?? "null")],
    ["get_weather", { city: "Zürich 🏔️" }],
  );
  checks.is(
    at("reasoning beside it"),
    [message.reasoning_content, message.content, called.choices[0].finish_reason],
    ["hm", "Let me see.", "tool_calls"],
  );
  const runner = client.chat.completions.stream({ ...say(""), messages: [{ role: "user", content: sayCall }], tools });
  const final = (await runner.finalChatCompletion()).choices[0].message;
  checks.is(
    at("tool call, streamed"),
    final.tool_calls?.[0]?.function.arguments,
    message.tool_calls?.[0]?.function.arguments,
  );
  const results = [
    { role: "user", content: sayCall },
    message,
    { role: "tool", tool_call_id: message.tool_calls?.[0]?.id, content: "21" },
    { role: "user", content: "SAY It is 21." },
  ];
  checks.is(
    at("tool result"),
    (await client.chat.completions.create({ model: "scripted", messages: results, tools })).choices[0].message.content,
    "It is 21.",
  );

  const padded = await client.chat.completions.create({ ...say(text), metadata: { padding: "x".repeat(5000) } });
  checks.is(
    at("a large body"),
    [padded.choices[0].message.content, padded.usage.prompt_tokens],
    [text, whole.usage.prompt_tokens],
  );
  const stopped = await client.chat.completions.create({ ...say("one two three"), stop: [" three", "never"] });
  checks.is(at("stop"), [stopped.choices[0].message.content, stopped.choices[0].finish_reason], ["one two", "stop"]);
  const cut = await client.chat.completions.create({ ...say("one two three"), max_completion_tokens: 2 });
  checks.is(at("length"), cut.choices[0].finish_reason, "length");
  const many = await client.chat.completions.create({ ...real, temperature: 1, n: 3, seed: 1, max_tokens: 5 });
  checks.is(
    at("n"),
    many.choices.map(({ index }) => index),
    [0, 1, 2],
  );
  const probed = await client.chat.completions.create({ ...real, logprobs: true, max_tokens: 4 });
  const scores = probed.choices[0].logprobs.content;
  checks.holds(
    at("logprobs"),
    scores.length > 0 && scores.every(({ logprob, bytes }) => logprob <= 0 && bytes.length > 0),
    scores,
  );

  const top = await client.chat.completions.create({ ...real, logprobs: true, top_logprobs: 3, max_tokens: 1 });
  const [first] = top.choices[0].logprobs.content;
  checks.holds(
    at("top_logprobs"),
    first.top_logprobs.length === 3 && first.top_logprobs[0].logprob === first.logprob,
    first,
  );
  const biased = { ...real, max_tokens: 3, logit_bias: { 100: 100 }, presence_penalty: 0.5, frequency_penalty: 0.5 };
  const forced = await client.chat.completions.create({ ...biased, logprobs: true });
  const same = new Set(forced.choices[0].logprobs.content.map(({ token }) => token));
  checks.is(at("logit_bias"), [same.size, forced.usage.completion_tokens], [1, 3]);

  const completed = await client.completions.create({
    model: "tinklet/base",
    prompt: "The sea is",
    max_tokens: 4,
    temperature: 0,
    echo: true,
    logprobs: 0,
  });
  checks.holds(
    at("completions with echo"),
    completed.choices[0].text.startsWith("The sea is") && completed.choices[0].logprobs.tokens.length > 4,
    completed.choices[0],
  );
  let flowing = "";
  for await (const chunk of await client.completions.create({
    model: "tinklet/base",
    prompt: "The sea is",
    max_tokens: 4,
    temperature: 0,
    stream: true,
  }))
    flowing += chunk.choices[0]?.text ?? "";
  checks.is(at("completions, streamed"), `The sea is${flowing}`, completed.choices[0].text);

  const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "tml-wrong", maxRetries: 0 });
  await checks.throws(at("a wrong key"), () => stranger.chat.completions.create(real), OpenAI.AuthenticationError);
  await checks.throws(
    at("an unknown model"),
    () => client.chat.completions.create({ ...real, model: "none" }),
    OpenAI.NotFoundError,
  );
  const bad = await checks.throws(
    at("an image"),
    () =>
      client.chat.completions.create({
        ...real,
        messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }],
      }),
    OpenAI.BadRequestError,
  );
  checks.is(at("errors name the parameter"), bad?.param, "messages[0].content[0]");
  const required = await client.chat.completions.create({ ...real, max_tokens: 100, tools, tool_choice: "required" });
  const demanded = required.choices[0].message.tool_calls[0].function;
  checks.is(at("a demanded tool call"), Object.keys(JSON.parse(demanded.arguments)), ["city"]);
  await checks.throws(
    at("a body that is too large"),
    () => client.chat.completions.create({ ...real, messages: [{ role: "user", content: "x".repeat(5e6) }] }),
    OpenAI.APIError,
  );
  await checks.throws(
    at("another origin"),
    () =>
      new OpenAI({
        baseURL: `${url}/v1`,
        apiKey: "tml-chat",
        maxRetries: 0,
        defaultHeaders: { origin: "https://evil.example" },
      }).models.list(),
    OpenAI.PermissionDeniedError,
  );

  const ask = (content) => ({ model: "scripted", messages: [{ role: "user", content }] });
  const failed = await checks.throws(
    at("a failure of the server"),
    () => client.chat.completions.create(ask("FAIL AT THIS")),
    OpenAI.InternalServerError,
  );
  checks.is(at("its status, and no word of its cause"), [failed?.status, /broken/.test(failed?.message)], [500, false]);
  const closing = await checks.throws(
    at("a server that closes"),
    () => client.chat.completions.create({ ...ask("CLOSE AT THIS"), stream: true }),
    OpenAI.InternalServerError,
  );
  checks.is(at("its status and code"), [closing?.status, closing?.code], [503, "shutting_down"]);
  await checks.throws(
    at("nobody there"),
    () => new OpenAI({ baseURL: "http://127.0.0.1:9/v1", apiKey: "tml-chat", maxRetries: 0 }).models.list(),
    OpenAI.APIConnectionError,
  );
  await checks.throws(
    at("no answer in time"),
    () => client.chat.completions.create({ ...real, max_tokens: 900, n: 4, temperature: 2 }, { timeout: 1 }),
    OpenAI.APIConnectionTimeoutError,
  );
  const weatherSchema = {
    type: "object",
    properties: { city: { type: "string", maxLength: 20 }, degrees: { type: "integer", minimum: -60, maximum: 60 } },
    required: ["city", "degrees"],
    additionalProperties: false,
  };
  const formatted = (schema) => ({
    ...real,
    max_tokens: 60,
    temperature: 1,
    response_format: { type: "json_schema", json_schema: { name: "weather", strict: true, schema } },
  });
  const parsed = await client.chat.completions.parse(formatted(weatherSchema));
  const { city, degrees } = parsed.choices[0].message.parsed ?? {};
  checks.is(at("a schema"), [typeof city, Number.isInteger(degrees)], ["string", true]);
  await checks.throws(
    at("a schema that cannot be honoured"),
    () => client.chat.completions.create(formatted({ type: "string", pattern: "(?=x)" })),
    OpenAI.BadRequestError,
  );
  checks.holds(at("what was given up has ended"), await engineIsIdle(url));

  const long = {
    model: "tinklet/base",
    messages: [{ role: "user", content: "Tell me a long story." }],
    max_tokens: 900,
    stream: true,
    n: 4,
    temperature: 2,
  };
  const open = [];
  for (let i = 0; i < 4; i++) open.push(await client.chat.completions.create(long));
  await checks.throws(at("too many chats"), () => client.chat.completions.create(real), OpenAI.RateLimitError);
  for (const stream of open) {
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) break; // leaves in the middle
    }
    stream.controller.abort();
  }
  checks.holds(at("streams that are left end in the engine"), await engineIsIdle(url));
  const abort = new AbortController();
  const aborted = client.chat.completions.create({ ...long, stream: false }, { signal: abort.signal });
  setTimeout(() => abort.abort(), 50);
  await checks.throws(at("abort of a whole answer"), () => aborted, OpenAI.APIUserAbortError);
  checks.holds(at("it ends in the engine, too"), await engineIsIdle(url));
  checks.is(
    at("and its place is free"),
    (await client.chat.completions.create(say("free"))).choices[0].message.content,
    "free",
  );
}
