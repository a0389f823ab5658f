// Conversations, tools and games: prompts that continue, calls that are checked, a trajectory per player.
import { createChat } from "@tinklet/models/chat";
import { describe, expect, it } from "vitest";
import { groupTokens } from "../loops/advantages.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { ScriptedSampler } from "../testing/scripted-sampler.ts";
import { messageEnvs } from "./message-env.ts";
import { problemEnv } from "./problem-env.ts";
import { rolloutGroups } from "./rollout.ts";
import { type Game, selfPlay } from "./self-play.ts";
import { toolEnv } from "./tool-env.ts";
import { callTools, type StandardSchema, tool } from "./tools.ts";
import { toPolicyDatum, trajectoryTokens } from "./trajectory-data.ts";

const tokenizer = letterTokenizer();
const chat = createChat(tokenizer);
const strategy = { onFailure: "fail" } as const;
const scripted = (answer: (prompt: string, index: number) => string, own = tokenizer) =>
  new ScriptedSampler(own, answer);

/** Three turns: the second and third questions come after the answers. */
const threeTurns = (own: typeof tokenizer) =>
  messageEnvs("three", { chat: createChat(own), tokenizer: own }, () => {
    let turn = 0;
    return {
      initialMessages: () => [{ role: "user", content: "q0" }],
      step: () => {
        turn += 1;
        return { reward: 1, done: turn === 3, messages: [{ role: "user", content: `q${turn}` }] };
      },
    };
  });

describe("the continuation rule", () => {
  it("makes a conversation one datum, with the advantage on what was sampled alone", async () => {
    const sampler = scripted(() => "ab<end>");
    const { groups } = await rolloutGroups([threeTurns(tokenizer)], { sampler, groupSize: 1, strategy });
    const [one, ...more] = trajectoryTokens(groups[0]!.trajectories[0]!, 2);
    expect(more).toEqual([]);
    const turns = [0, 1, 2].map((i) => `<start>user\nq${i}<end>\n<start>assistant\nab<end>`);
    expect(tokenizer.decode(one!.tokens)).toBe(turns.join("\n"));
    const marked = one!.tokens.slice(1).map((token, i) => (one!.mask[i] === 1 ? tokenizer.decode([token]) : "."));
    expect(marked.join("").replaceAll(/\.+/g, ".")).toBe(".ab<end>.ab<end>.ab<end>");
    expect(new Set(one!.advantages)).toEqual(new Set([0, 2]));
    expect(one!.logprobs.filter((value) => value !== 0)).toEqual([-1, -2, -3, -1, -2, -3, -1, -2, -3]);
    const datum = toPolicyDatum(one!);
    expect(datum.modelInput.length).toBe(datum.lossFnInputs.target_tokens!.values.length);
  });

  it("keeps the sampled tokens where the template would write others for the same text", async () => {
    // An answer that was cut: the template ends the turn, and the tokens that end it are not the model's.
    const sampler = scripted(() => "ab");
    const { groups } = await rolloutGroups([threeTurns(tokenizer)], { sampler, groupSize: 1, strategy });
    const [one, ...more] = trajectoryTokens(groups[0]!.trajectories[0]!, 1);
    expect(more).toEqual([]);
    expect(one!.mask.filter((own) => own === 1).length).toBe(6);
  });

  it("encodes the whole text again where the template rewrites an answer", async () => {
    const forgetful = letterTokenizer({ forgetful: true });
    const sampler = scripted(() => "think|ab<end>", forgetful);
    const { groups } = await rolloutGroups([threeTurns(forgetful)], { sampler, groupSize: 1, strategy });
    const all = trajectoryTokens(groups[0]!.trajectories[0]!, 1);
    expect(all.length).toBe(3);
    expect(forgetful.decode(all[1]!.tokens)).toContain("assistant\nab<end>\n<start>user\nq1");
  });
});

describe("problemEnv", () => {
  it.each([
    ["a boolean", () => true, 1],
    ["a number", () => 0.25, 0.25],
    ["figures", () => ({ reward: 2, metrics: { short: 1 } }), 2],
  ])("takes %s as a verdict", async (_, check, reward) => {
    const group = problemEnv({ chat, tokenizer, question: "q", check });
    const { groups } = await rolloutGroups([group], { sampler: scripted(() => "a<end>"), groupSize: 1, strategy });
    expect(groups[0]?.totalRewards).toEqual([reward]);
  });

  it("refuses what is misspelt or missing", () => {
    const right = { chat, tokenizer, question: "q", check: () => 1 };
    expect(() => problemEnv({ ...right, chek: 1 } as never)).toThrow("chek: is not an option of problemEnv");
    expect(() => problemEnv({ ...right, check: undefined as never })).toThrow("check");
    expect(() => problemEnv({ ...right, question: [] })).toThrow("question");
  });
});

/** A validator without a library: an object with two integers. */
const twoIntegers: StandardSchema<{ a: number; b: number }> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) => {
      const { a, b } = (value ?? {}) as Record<string, unknown>;
      const wrong = Object.entries({ a, b }).filter(([, own]) => !Number.isInteger(own));
      if (wrong.length === 0) return { value: { a: a as number, b: b as number } };
      return { issues: wrong.map(([name]) => ({ message: "must be an integer", path: [name] })) };
    },
  },
};
const jsonSchema = { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } } };
const add = tool({ name: "add", parameters: twoIntegers, jsonSchema, run: ({ a, b }) => a + b });
const signal = new AbortController().signal;

describe("tools", () => {
  it("check what the model wrote, and answer with what was wrong", async () => {
    expect(await add.call('{"a":1,"b":2}', signal)).toEqual({ content: "3", isError: false });
    expect(await add.call('{"a":1}', signal)).toEqual({ content: '{"error":"b: must be an integer"}', isError: true });
    expect(await add.call("{", signal)).toEqual({ content: '{"error":"the arguments are not JSON"}', isError: true });
    const failing = tool({
      name: "f",
      parameters: twoIntegers,
      jsonSchema,
      run: () => Promise.reject(new Error("no")),
    });
    expect(await failing.call('{"a":1,"b":2}', signal)).toEqual({ content: '{"error":"no"}', isError: true });
  });

  it("refuse a validator that neither describes itself nor comes with a schema", () => {
    expect(() => tool({ name: "f", parameters: twoIntegers, run: () => 1 })).toThrow("jsonSchema: is needed");
    expect(() => tool({ name: "f g", parameters: twoIntegers, jsonSchema, run: () => 1 })).toThrow("name");
    expect(() => tool({ name: "f", parameters: {} as never, jsonSchema, run: () => 1 })).toThrow("parameters");
  });

  it("are called in a conversation until the model answers, in one datum", async () => {
    const sampler = scripted((prompt) => {
      if (prompt.includes("tool_result"))
        return prompt.includes('\\"3\\"') || prompt.includes('"3"') ? "3<end>" : "?<end>";
      return '{"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}<end>';
    });
    const group = toolEnv({ chat, tokenizer, tools: [add], question: "1 + 2?", check: (answer) => answer === "3" });
    const { groups } = await rolloutGroups([group], { sampler, groupSize: 1, strategy });
    expect(groups[0]).toMatchObject({ totalRewards: [1] });
    const { transitions } = groups[0]!.trajectories[0]!;
    expect(transitions.at(-1)?.metrics).toEqual({ tool_calls: 1, tool_errors: 0 });
    expect(trajectoryTokens(groups[0]!.trajectories[0]!, 1).length).toBe(1);
  });

  it("end after so many calls, and cost what errors cost", async () => {
    const sampler = scripted(() => '{"tool_calls": [{"name": "add", "arguments": {"a": 1}}]}<end>');
    const options = { chat, tokenizer, tools: [add], question: "?", check: () => 1, maxCalls: 2, errorReward: -0.25 };
    const { groups } = await rolloutGroups([toolEnv(options)], { sampler, groupSize: 1, strategy });
    expect(groups[0]?.totalRewards).toEqual([0.5]);
    expect(sampler.prompts.at(-1)).toContain("b: must be an integer");
    const [unknown] = await callTools([add], [{ name: "mul", arguments: "{}" }], signal);
    expect(unknown).toMatchObject({ isError: true, content: expect.stringContaining("no tool mul; there are: add") });
  });
});

/** Each player says a number once; the higher wins. */
class Higher implements Game {
  readonly players = 2;
  turn = 0;
  readonly #said: number[] = [];
  tell() {
    return [{ role: "user", content: `You are player ${this.turn}.` }];
  }
  move({ raw }: { readonly raw: string }) {
    this.#said.push(Number(raw));
    this.turn = 1 - this.turn;
    if (this.#said.length < 2) return { reward: 0.1 };
    const [a, b] = this.#said as [number, number];
    return { outcome: [Math.sign(a - b), Math.sign(b - a)] };
  }
}

describe("selfPlay", () => {
  it("gives each player a trajectory with its own outcome", async () => {
    const sampler = scripted((prompt) => (prompt.includes("player 0") ? "7<end>" : "5<end>"));
    const group = selfPlay("higher", () => new Higher(), { chat, tokenizer });
    const { groups } = await rolloutGroups([group], { sampler, groupSize: 2, strategy });
    expect(groups[0]?.trajectories.map(({ player, transitions }) => [player, transitions.length])).toEqual([
      [0, 1],
      [1, 1],
      [0, 1],
      [1, 1],
    ]);
    expect(groups[0]?.totalRewards).toEqual([1.1, -1, 1.1, -1]);
    expect(groupTokens({ ...groups[0]!, totalRewards: [1, 1, 1, 1] })).toEqual([]);
  });

  it("compares a player with those that played the same part", async () => {
    const sampler = scripted((prompt) => (prompt.includes("player 0") ? "7<end>" : "5<end>"));
    const group = selfPlay("higher", () => new Higher(), { chat, tokenizer });
    const { groups } = await rolloutGroups([group], { sampler, groupSize: 2, strategy });
    const advantages = (totalRewards: readonly number[]) =>
      groupTokens({ ...groups[0]!, totalRewards }).map((tokens) => tokens.advantages.at(-1));
    expect(advantages([1, -1, 1, -1])).toEqual([]); // who begins always wins: nothing to learn from
    expect(advantages([1, -1, -1, 1])).toEqual([1, -1, -1, 1]);
    expect(advantages([3, 0, 1, 0])).toEqual([1, 0, -1, 0]);
  });
});
