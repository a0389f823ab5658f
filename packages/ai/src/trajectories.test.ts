/** Runs of AI SDK agents as trajectories, and trajectories as data. */
import { type AgentTrajectory, createTinklet, record, type SamplerRecord, toData } from "@tinklet/ai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { describe, expect, test } from "vitest";
import { modelName, scriptedService } from "./testing/scripted-service.ts";

const tools = {
  add: tool({
    inputSchema: jsonSchema<{ a: number; b: number }>({ type: "object" }),
    execute: ({ a, b }) => String(a + b),
  }),
};
const callText = '{"tool_calls":[{"name":"add","arguments":{"a":17,"b":23}}]}';
const agent = async (replies: readonly string[]) => {
  const scripted = await scriptedService(replies, { family: "plain" });
  const model = createTinklet({ service: scripted.service })(modelName);
  return {
    ...scripted,
    settings: { model, tools, prompt: "What is 17 + 23?", stopWhen: stepCountIs(3), maxRetries: 0 },
  };
};
const values = (list: unknown) => Array.from((list as { data: ArrayLike<number> }).data, Number);

describe("record", () => {
  test("a tool loop, generated or streamed, passed as result or promise, is a trajectory whose prompts extend each other", async () => {
    const { settings, encode, end } = await agent([callText, "40", callText, "40", callText, "40"]);
    const whole = await record(generateText(settings));
    const streamed = await record(streamText({ ...settings, onError: () => {} }));
    const given = await record(await generateText(settings));
    for (const { transitions, truncated, samplers } of [whole, streamed, given]) {
      expect(transitions.map(({ action }) => action.tokens)).toEqual([
        [...encode(callText), end],
        [...encode("40"), end],
      ]);
      expect(transitions.map(({ done }) => done)).toEqual([false, true]);
      expect(truncated).toBe(false);
      expect(samplers.map(({ modelId }) => modelId)).toEqual([modelName, modelName]);
      const [first, second] = transitions.map(({ observation, action }) => [...observation.tokens, ...action.tokens]);
      expect(second!.slice(0, first!.length)).toEqual(first);
    }
  });

  type Numbers = { readonly a: number; readonly b: number };
  test.each<[string, (sum: Numbers) => object]>([
    ["reorders them", ({ a, b }) => ({ b, a })],
    ["adds a default", (sum) => ({ ...sum, base: 10 })],
    ["removes one", ({ a }) => ({ a })],
    ["transforms one", ({ a, b }) => ({ a: `${a}`, b })],
  ])("a tool loop is one datum if the validator of its arguments, for example a zod schema, %s", async (_, change) => {
    const { settings } = await agent([callText, "40", callText, "41"]);
    const validate = (value: unknown) => ({ success: true as const, value: change(value as Numbers) });
    const typed = { add: tool({ inputSchema: jsonSchema({ type: "object" }, { validate }), execute: () => "40" }) };
    const runs = [
      await record(generateText({ ...settings, tools: typed })),
      await record(streamText({ ...settings, tools: typed, onError: () => {} })),
    ];
    expect(runs.map(({ transitions }) => transitions.length)).toEqual([2, 2]);
    expect(toData(runs, [1, 0])).toHaveLength(2);
  });

  test("a run that reached its step limit is truncated; several runs make one trajectory", async () => {
    const { settings } = await agent([callText]);
    const cut = await record(generateText({ ...settings, stopWhen: stepCountIs(1) }));
    expect(cut.truncated).toBe(true);
    const both = await record([generateText({ ...settings, stopWhen: stepCountIs(1) }), generateText(settings)]);
    expect(both.transitions).toHaveLength(4);
  });

  test("results without tokens are errors with the reason", async () => {
    await expect(record({} as never)).rejects.toThrow("run: has no list of steps");
    await expect(record({ steps: [{ providerMetadata: { other: {} } }] })).rejects.toThrow("no step that was sampled");
    const bare = { promptTokenIds: [1], tokenIds: [2], stopReason: "stop" };
    await expect(record({ steps: [{ providerMetadata: { tinklet: bare } }] })).rejects.toThrow(
      "run.steps[0]: has no log-probs",
    );
  });
});

describe("toData", () => {
  const sampler: SamplerRecord = {
    modelId: "m",
    baseModel: "m",
    samplingSessionId: "s",
    temperature: 1,
    topK: -1,
    topP: 1,
    constrained: false,
  };
  const turn = (prompt: readonly number[], tokens: readonly number[]) => ({
    observation: { tokens: prompt },
    action: { tokens, logprobs: tokens.map((id) => -id / 10), stopReason: "stop" },
    reward: 0,
    done: true,
    metrics: {},
    logs: {},
  });
  const of = (...turns: ReturnType<typeof turn>[]): AgentTrajectory => ({
    player: 0,
    transitions: turns,
    truncated: false,
    samplers: turns.map(() => sampler),
  });

  test("a loop whose prompts extend each other is one datum; only sampled tokens have advantages", () => {
    const loop = of(turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 5], [6]));
    const [datum, ...others] = toData([loop, of(turn([1, 2], [9]))], [1, 0]);
    expect(others).toHaveLength(1);
    expect(datum!.modelInput.toInts()).toEqual([1, 2, 3, 4, 5]);
    const { target_tokens, advantages, logprobs } = datum!.lossFnInputs;
    expect(values(target_tokens)).toEqual([2, 3, 4, 5, 6]);
    expect(values(advantages)).toEqual([0, 0.5, 0.5, 0, 0.5]);
    expect(values(logprobs).map((value) => Math.round(value * 10))).toEqual(
      [0, -3, -4, 0, -6].map((value) => value + 0),
    );
    expect(values(others[0]!.lossFnInputs.advantages)).toEqual([0, -0.5]);
  });

  test("a prompt that does not extend the previous turn starts another datum", () => {
    const broken = of(turn([1, 2], [3, 4]), turn([1, 2, 7, 5], [6]));
    expect(toData([broken, of(turn([1], [2]))], [1, 0]).map(({ modelInput }) => modelInput.toInts())).toEqual([
      [1, 2, 3],
      [1, 2, 7, 5],
      [1],
    ]);
  });

  test("rewards are centred within each group; a group of equal rewards gives no data", () => {
    const four = [5, 6, 7, 8].map((id) => of(turn([1], [id])));
    const data = toData(four, [3, 1, 4, 4], { groupSize: 2 });
    expect(data.map(({ lossFnInputs }) => values(lossFnInputs.advantages))).toEqual([[1], [-1]]);
    expect(toData([], [])).toEqual([]);
  });

  test.each<[string, () => unknown]>([
    ["rewards: must have one reward per trajectory: 2, got 1", () => toData([of(), of()], [1])],
    ["rewards[1]: must be a finite number", () => toData([of(), of()], [1, Number.NaN])],
    ["groupSize: must be an integer above 1", () => toData([of()], [1])],
    ["groupSize: must be an integer above 1", () => toData([of(), of(), of()], [1, 2, 3], { groupSize: 2 })],
    ["groupsize", () => toData([of(), of()], [1, 2], { groupsize: 2 } as never)],
    [
      "trajectories[1]: must be sampled with temperature 1",
      () =>
        toData([of(turn([1], [2])), { ...of(turn([1], [2])), samplers: [{ ...sampler, temperature: 0.7 }] }], [1, 0]),
    ],
  ])("%s …", (message, call) => {
    expect(call).toThrow(message);
  });
});
