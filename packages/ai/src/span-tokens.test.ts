/** Traces of the AI SDK with our models: from its telemetry through the server's export route to training data with tokens. */
import { context, trace } from "@opentelemetry/api";
import { createTinklet } from "@tinklet/ai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { expect, test } from "vitest";
import { exportOf } from "../../server/src/testing/trace-exports.ts";
import { recordSpans } from "./testing/recording-tracer.ts";
import { modelName, scriptedService } from "./testing/scripted-service.ts";

const callText = '{"tool_calls":[{"name":"add","arguments":{"a":17,"b":23}}]}';
const tools = {
  add: tool({
    inputSchema: jsonSchema<{ a: number; b: number }>({ type: "object" }),
    execute: ({ a, b }) => String(a + b),
  }),
};

test("an agent's loop with telemetry, generated or streamed, becomes a conversation with tokens and log-probs", async () => {
  const spans = recordSpans();
  const { service, server, encode, end } = await scriptedService([callText, "40", callText, "40"], { family: "plain" });
  const model = createTinklet({ service })(modelName);
  const settings = { model, tools, prompt: "What is 17 + 23?", stopWhen: stepCountIs(3), maxRetries: 0 };
  const telemetry = { experimental_telemetry: { isEnabled: true } };
  await generateText({ ...settings, ...telemetry });
  await streamText({ ...settings, ...telemetry, onError: () => {} }).consumeStream();

  const post = async (path: string, body: object) => {
    const headers = { "content-type": "application/json", "x-api-key": "tml-test" };
    const response = await server.fetch(
      new Request(`http://localhost${path}`, { method: "POST", body: JSON.stringify(body), headers }),
    );
    return (await response.json()) as Record<string, unknown>;
  };
  expect(await post("/v1/traces", exportOf(spans))).toEqual({});
  const { lines } = await post("/api/v1/tinklet/traces/export", { format: "tokens" });
  const turns = (lines as { turns: { token_ids: number[]; prompt_token_ids: number[]; logprobs: number[] }[] }[]).map(
    (line) => line.turns,
  );
  expect(turns.map((list) => list.map(({ token_ids: ids }) => ids))).toEqual(
    [1, 2].map(() => [
      [...encode(callText), end],
      [...encode("40"), end],
    ]),
  );
  for (const [first, second] of turns as [(typeof turns)[0][0], (typeof turns)[0][0]][]) {
    const whole = [...first.prompt_token_ids, ...first.token_ids];
    expect(second.prompt_token_ids.slice(0, whole.length)).toEqual(whole);
    expect(first.logprobs).toHaveLength(first.token_ids.length);
  }
  const { lines: sft } = await post("/api/v1/tinklet/traces/export", { format: "sft" });
  expect((sft as { messages: { role: string }[] }[]).map(({ messages }) => messages.map(({ role }) => role))).toEqual([
    ["user", "assistant", "tool", "assistant"],
    ["user", "assistant", "tool", "assistant"],
  ]);
});

test("without telemetry, or with recordInputs: false, no span gets tokens", async () => {
  const spans = recordSpans();
  const { service } = await scriptedService(["40"], { family: "plain" });
  const model = createTinklet({ service })(modelName);
  const outer = trace.getTracer("app").startSpan("GET /");
  await context.with(trace.setSpan(context.active(), outer), () => generateText({ model, prompt: "x" }));
  outer.end();
  await generateText({ model, prompt: "x", experimental_telemetry: { isEnabled: true, recordInputs: false } });
  const names = spans.flatMap(({ attributes }) => attributes.map((one) => (one as { key: string }).key));
  expect(spans.map(({ name }) => name)).toContain("ai.generateText.doGenerate");
  expect(names.filter((name) => name.startsWith("tinklet."))).toEqual([]);
});
