import { fileURLToPath } from "node:url";
import { createChat } from "@tinklet/models/chat";
import { loadTokenizer } from "@tinklet/sdk";
import { FakeClock } from "@tinklet/sdk/testing";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Env } from "../environments/env.ts";
import { rolloutGroups } from "../environments/rollout.ts";
import { type Answer, guessingGame, type OpenEnvServer, startOpenEnvServer } from "../testing/open-env-server.ts";
import { ScriptedSampler } from "../testing/scripted-sampler.ts";
import { type OpenEnvOptions, openEnv } from "./open-env.ts";
import { baseUrl, openSession } from "./session.ts";

const signal = new AbortController().signal;
let tokenizer: Awaited<ReturnType<typeof loadTokenizer>>;
let server: OpenEnvServer | undefined;
beforeAll(async () => {
  tokenizer = await loadTokenizer(fileURLToPath(new URL("../../../base-model", import.meta.url)));
});
afterEach(async () => {
  await server?.close();
  server = undefined;
});
const start = async (session: () => Answer = guessingGame) => {
  server = await startOpenEnvServer(session);
  return server;
};
const game = (url: string, options: Partial<OpenEnvOptions> = {}) =>
  openEnv(url, {
    ...{ chat: createChat(tokenizer), tokenizer, maxTokens: 4 },
    prompt: ({ hint }) => String(hint),
    action: ({ text }) => ({ guess: Number(text) }),
    ...options,
  });
const action = (text: string) => {
  const tokens = [...tokenizer.encode(text, { addSpecialTokens: false }), ...tokenizer.eosTokenIds.slice(0, 1)];
  return { tokens, logprobs: tokens.map(() => 0), stopReason: "stop" };
};

describe("openEnv", () => {
  it("plays an episode over a WebSocket: observations are prompts, answers actions, rewards those of the steps", async () => {
    const { url, sockets } = await start();
    const [env] = (await game(url, { reset: { seed: 4 } }).makeEnvs({ size: 1, seed: 0, signal })) as [Env];
    const first = await env.initialObservation(signal);
    expect(tokenizer.decode([...first.tokens])).toContain("user\nGuess 1 to 9.<|im_end|>");
    const second = await env.step(action("3"), signal);
    expect(second).toMatchObject({ reward: 0, done: false });
    expect(tokenizer.decode([...(second.next?.tokens ?? [])])).toContain(
      "3<|im_end|>\n<|im_start|>user\nHigher.<|im_end|>",
    );
    expect(await env.step(action("5"), signal)).toMatchObject({ reward: 1, done: true });
    await vi.waitUntil(() => sockets.size === 0); // at the end of the episode, before the group's
    await env.close?.();
  });

  it("gives the rollouts of a group a session each and the same seed", async () => {
    const { url, received, sockets } = await start();
    const sampler = new ScriptedSampler(tokenizer, (_, index) => `${index + 1}<|im_end|>`);
    const { groups, failed } = await rolloutGroups([game(url)], { sampler, groupSize: 4, seed: 3, maxTurns: 1 });
    expect(failed).toEqual([]);
    expect(groups[0]?.trajectories).toHaveLength(4);
    const seeds = received.filter(({ type }) => type === "reset").map(({ data }) => data?.["seed"]);
    expect(seeds).toHaveLength(4);
    expect(new Set(seeds).size).toBe(1);
    expect(seeds[0]).toBeLessThan(2 ** 31);
    await vi.waitUntil(() => sockets.size === 0);
  });

  it("works over HTTP for environments that keep no state", async () => {
    const echo: Answer = ({ type, data }) => ({
      type: "observation",
      data: {
        observation: { hint: "Say 7." },
        reward: type === "step" && data?.["guess"] === 7,
        done: type === "step",
      },
    });
    const { url } = await start(() => echo);
    const [env] = (await game(url, { transport: "http" }).makeEnvs({ size: 1, seed: 0, signal })) as [Env];
    await env.initialObservation(signal);
    expect(await env.step(action("7"), signal)).toMatchObject({ reward: 1, done: true });
  });

  it("rejects options that are not usable", () => {
    expect(() => game("ftp://x")).toThrow('url: must be an http or https URL, got "ftp://x"');
    expect(() => game("http://x", { transport: "grpc" as never })).toThrow("transport: must be websocket or http");
    expect(() => game("http://x", { prompt: undefined as never })).toThrow("prompt: must be a function");
    expect(() => game("http://x", { tools: [] } as never)).toThrow("tools");
  });
});

describe("a session", () => {
  const defaults = { headers: {}, callTimeoutMs: 5_000, maxReplyBytes: 1_000 };
  const session = async (transport: "websocket" | "http", answer: Answer, clock = new FakeClock()) => {
    const { url } = await start(() => answer);
    return openSession(baseUrl(url), { ...defaults, transport, clock });
  };
  const result =
    (data: unknown): Answer =>
    () => ({ type: "observation", data });

  it.each(["websocket", "http"] as const)("reads the state: %s", async (transport) => {
    const opened = await session(transport, guessingGame());
    expect(await opened.state()).toEqual({ episode_id: "one", step_count: 0 });
    opened.close();
  });

  it.each(["websocket", "http"] as const)("ends when a server does not answer in time: %s", async (transport) => {
    const clock = new FakeClock();
    const opened = await session(transport, () => undefined, clock);
    const called = opened.reset({}).catch((error: unknown) => error);
    await vi.waitUntil(() => clock.pending > 0);
    await clock.advance(5_000);
    expect(await called).toMatchObject({ message: expect.stringContaining("no answer within 5000 ms") });
    opened.close();
  });

  it.each(["websocket", "http"] as const)(
    "ends for a reply that is too large, no JSON, or no result: %s",
    async (transport) => {
      const wrong: [Answer, string | RegExp][] = [
        [
          result({ observation: { text: "x".repeat(2_000) }, reward: 0, done: false }),
          /more than 1000 bytes|connection/,
        ],
        [() => "{]", /JSON/],
        [result([1]), "the result must be an object"],
        [result({ reward: 1, done: false }), "observation must be an object"],
        [result({ observation: {}, reward: "1", done: false }), 'reward must be a number, got "1"'],
        [result({ observation: {}, reward: 1, done: "yes" }), "done must be true or false"],
      ];
      for (const [answer, message] of wrong) {
        const opened = await session(transport, answer);
        await expect(opened.step({})).rejects.toThrow(message);
        opened.close();
        await server?.close();
      }
    },
  );

  it("reports errors of the server with its code, and what to do where it is full", async () => {
    const opened = await session("websocket", () => ({
      type: "error",
      data: { message: "no", code: "CAPACITY_REACHED" },
    }));
    await expect(opened.reset({})).rejects.toThrow("CAPACITY_REACHED: no; start the server with max_concurrent_envs");
    opened.close();
    const refused = await session("http", () => ({ type: "error", data: { detail: "no such field" } }));
    await expect(refused.step({})).rejects.toThrow(/step: HTTP 422: .*no such field/);
  });

  it("ends when the server does, when it is no OpenEnv server, and when the call is aborted", async () => {
    const opened = await session("websocket", () => "disconnect");
    await expect(opened.reset({})).rejects.toThrow(/connection/);
    await expect(opened.step({})).rejects.toThrow(/connection/);
    const transport = { ...defaults, transport: "websocket", clock: new FakeClock() } as const;
    await expect(openSession(new URL("missing/", `${server?.url}/`), transport)).rejects.toThrow(
      "is the URL that of an OpenEnv server?",
    );
    const hanging = await session("websocket", () => undefined);
    const abort = new AbortController();
    const called = hanging.reset({}, abort.signal);
    abort.abort(new Error("stopped"));
    await expect(called).rejects.toThrow("stopped");
  });
});
