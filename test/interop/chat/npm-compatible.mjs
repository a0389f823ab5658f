// The AI SDK with `@ai-sdk/openai-compatible`.
import { sayCall, weather } from "./checks.mjs";

export async function checkCompatible(
  { generateText, jsonSchema, stepCountIs, streamText, tool },
  { createOpenAICompatible },
  url,
  checks,
) {
  const at = (what) => `ai with @ai-sdk/openai-compatible: ${what}`;
  const provider = createOpenAICompatible({
    name: "tinklet",
    baseURL: `${url}/v1`,
    apiKey: "tml-chat",
    includeUsage: true,
  });
  const model = provider("scripted");
  const text = "naïve 日本語 👩‍👩‍👧 done";
  const whole = await generateText({ model, prompt: `SAY ${text}`, maxRetries: 0 });
  checks.is(at("generateText"), [whole.text, whole.finishReason], [text, "stop"]);
  const stream = streamText({ model, prompt: `SAY ${text}`, maxRetries: 0 });
  let joined = "";
  for await (const piece of stream.textStream) joined += piece;
  checks.is(at("streamText"), joined, text);
  checks.holds(at("usage"), (await stream.usage).outputTokens > 0, await stream.usage);
  const cities = [];
  const tools = {
    get_weather: tool({
      description: weather.description,
      inputSchema: jsonSchema(weather.parameters),
      execute: ({ city }) => {
        cities.push(city);
        return "21";
      },
    }),
  };
  const called = await generateText({ model, prompt: sayCall, tools, stopWhen: stepCountIs(1), maxRetries: 0 });
  checks.is(at("tools"), [cities, called.finishReason, called.reasoningText], [["Zürich 🏔️"], "tool-calls", "hm"]);
  const live = streamText({ model, prompt: sayCall, tools, stopWhen: stepCountIs(1), maxRetries: 0 });
  await live.consumeStream();
  checks.is(
    at("tools, streamed"),
    (await live.toolCalls).map(({ input }) => input),
    [{ city: "Zürich 🏔️" }],
  );
  await checks.throws(
    at("an error"),
    () => generateText({ model: provider("none"), prompt: "x", maxRetries: 0 }),
    Error,
  );
}
