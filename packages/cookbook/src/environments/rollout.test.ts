// Groups rolled out: what is shared, what fails and what that costs, limits and cancelling.
import { createChat } from "@tinklet/models/chat";
import { BadRequestError } from "@tinklet/sdk";
import { FakeClock } from "@tinklet/sdk/testing";
import { describe, expect, it } from "vitest";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { ScriptedSampler } from "../testing/scripted-sampler.ts";
import type { Env, EnvGroup, EpisodeFailure, StepResult } from "./env.ts";
import { problemEnv } from "./problem-env.ts";
import { type RolloutOptions, rolloutGroups } from "./rollout.ts";

const tokenizer = letterTokenizer();
const chat = createChat(tokenizer);
const good = problemEnv({ chat, tokenizer, question: "good?", check: (answer) => answer.startsWith("yes") });
const says = (text: string) => new ScriptedSampler(tokenizer, () => text);

/** A group whose environments run the given function in each step. */
function group(name: string, step: (index: number, signal: AbortSignal) => StepResult | Promise<StepResult>): EnvGroup {
  return {
    name,
    makeEnvs: ({ size }) =>
      Array.from({ length: size }, (_, index) => ({
        initialObservation: () => ({ tokens: [65 + index] }),
        step: (_, signal) => step(index, signal),
      })),
  };
}
const done = (reward: number): StepResult => ({ reward, done: true });

async function roll(groups: readonly EnvGroup[], options: Partial<RolloutOptions> = {}) {
  const seen: EpisodeFailure[] = [];
  const result = await rolloutGroups(groups, {
    sampler: says("yes<end>"),
    groupSize: 3,
    strategy: { onFailure: "retry", retries: 0 },
    onFailure: (failure) => seen.push(failure),
    ...options,
  });
  return { ...result, seen };
}

describe("rolloutGroups", () => {
  it("asks once for all first answers of a group that asks the same, and gives each its reward", async () => {
    const sampler = new ScriptedSampler(tokenizer, (_, index) => (index === 1 ? "no<end>" : "yes<end>"));
    const { groups } = await roll([good], { sampler });
    expect(sampler.prompts).toEqual(["<start>user\ngood?<end>\n<start>assistant\n"]);
    expect(groups).toMatchObject([{ name: "good?", totalRewards: [1, 0, 1], failures: [] }]);
    expect(groups[0]?.trajectories[1]?.transitions).toMatchObject([{ logs: { answer: "no" }, done: true }]);
  });

  it.each<[string, (index: number) => StepResult | Promise<StepResult>, string, string]>([
    [
      "throws",
      () => {
        throw new TypeError("no such thing");
      },
      "threw",
      "step threw TypeError: no such thing",
    ],
    ["rejects", () => Promise.reject("plain"), "threw", "step threw plain"],
    ["hangs", () => new Promise(() => {}), "timed_out", "step took more than 500 ms"],
    ["returns NaN", () => done(Number.NaN), "invalid", "step must give a finite reward, got NaN"],
    ["returns nothing", () => undefined as never, "invalid", "step must give a finite reward, got undefined"],
    ["continues without a prompt", () => ({ reward: 0, done: false }), "invalid", "step gave no tokens to answer"],
  ])("loses the group of an environment that %s, and no other", async (_, step, kind, message) => {
    const clock = new FakeClock();
    const broken = group("broken", (index) => (index === 1 ? step(index) : done(1)));
    const rolled = roll([good, broken, good], { clock, envTimeLimitMs: 500 });
    await clock.advance(1000);
    const { groups, failed, seen } = await rolled;
    expect(groups.map(({ name }) => name)).toEqual(["good?", "good?"]);
    expect(failed).toMatchObject([{ group: "broken", env: 1, kind, message }]);
    expect(seen).toEqual(failed);
    expect(clock.pending).toBe(0);
  });

  it("ignores what an environment does after its time, and tells it that it is over", async () => {
    const clock = new FakeClock();
    const reasons: unknown[] = [];
    let late: (error: Error) => void = () => {};
    const slow = group("slow", (_, signal) => {
      signal.addEventListener("abort", () => reasons.push((signal.reason as Error).message));
      return new Promise((_, reject) => {
        late = reject;
      });
    });
    const rolled = roll([slow], { clock, envTimeLimitMs: 10, groupSize: 1 });
    await clock.advance(20);
    late(new Error("too late")); // must end nothing
    expect(await rolled).toMatchObject({ groups: [], failed: [{ kind: "timed_out" }] });
    expect(reasons).toEqual(["slow, environment 0: step took more than 10 ms"]);
  });

  it.each<[string, Partial<EnvGroup>, string]>([
    ["makes none", { makeEnvs: () => [] }, "makeEnvs returned no environments"],
    ["cannot make them", { makeEnvs: () => Promise.reject(new Error("no disk")) }, "makeEnvs threw Error: no disk"],
    ["rewards too few", { groupRewards: () => [{ reward: 1 }] }, "groupRewards must return 3 rewards"],
    ["rewards NaN", { groupRewards: (all) => all.map(() => ({ reward: Number.NaN })) }, "must give a finite reward"],
  ])("loses a group that %s", async (_, wrong, message) => {
    const { failed } = await roll([{ ...group("g", () => done(1)), ...wrong }]);
    expect(failed).toMatchObject([{ group: "g", env: -1, message: expect.stringContaining(message) }]);
  });

  it("adds the rewards of the group", async () => {
    const ranked: EnvGroup = { ...group("g", done), groupRewards: (all) => all.map((_, i) => ({ reward: 10 * i })) };
    expect((await roll([ranked])).groups[0]?.totalRewards).toEqual([0, 11, 22]);
  });

  it("retries the whole group with other seeds, and keeps finished episodes by the strategy `keep`", async () => {
    const seeds: number[] = [];
    const flaky = (until: number): EnvGroup => ({
      name: "flaky",
      makeEnvs: ({ size, seed }) => {
        seeds.push(seed);
        const attempt = seeds.length;
        const step = (index: number) => done(index === 0 && attempt < until ? Number.NaN : 1);
        return group("flaky", step).makeEnvs({ size, seed, signal: new AbortController().signal });
      },
    });
    const { groups, seen } = await roll([flaky(3)], { strategy: { onFailure: "retry", retries: 2 } });
    expect(groups).toMatchObject([{ totalRewards: [1, 1, 1], failures: [{ env: 0 }, { env: 0 }] }]);
    expect([new Set(seeds).size, seen.length]).toEqual([3, 2]);
    const kept = await roll([flaky(99)], { strategy: { onFailure: "keep", smallestGroup: 2 } });
    expect(kept.groups).toMatchObject([{ totalRewards: [1, 1], failures: [{ env: 0 }] }]);
    const tooFew = await roll([flaky(99)], { strategy: { onFailure: "keep", smallestGroup: 3 } });
    expect(tooFew).toMatchObject({ groups: [], failed: [{ env: 0 }] });
  });

  it("throws the failure by the strategy `fail`", async () => {
    const broken = group("broken", () => done(Number.POSITIVE_INFINITY));
    await expect(roll([good, broken], { strategy: { onFailure: "fail" } })).rejects.toThrow(
      "broken, environment 0: step must give a finite reward, got Infinity",
    );
  });

  it("tells a prompt that the server refuses from a server that fails", async () => {
    const refusing = (error: Error) => ({ sample: () => Promise.reject(error) });
    const tooLong = new BadRequestError("the prompt is longer than the context", { status: 400 } as never);
    expect((await roll([good], { sampler: refusing(tooLong) })).failed).toMatchObject([
      { kind: "invalid", message: expect.stringContaining("longer than the context") },
    ]);
    await expect(roll([good], { sampler: refusing(new Error("connection lost")) })).rejects.toThrow("connection lost");
  });

  it("runs at most `maxEpisodes` at once, whole groups in order", async () => {
    let [open, most] = [0, 0];
    const counted = group("g", async () => {
      most = Math.max(most, ++open);
      await new Promise((resolve) => setImmediate(resolve));
      open -= 1;
      return done(1);
    });
    const { groups } = await roll(new Array(7).fill(counted), { maxEpisodes: 7 });
    expect([groups.length, most]).toEqual([7, 6]);
    most = 0;
    await roll([counted, counted], { maxEpisodes: 2 }); // smaller than a group: one group at a time
    expect(most).toBe(3);
  });

  it("is cancelled with the signal's reason, and closes every environment", async () => {
    const stop = new AbortController();
    let closed = 0;
    const endless: EnvGroup = {
      name: "endless",
      makeEnvs: ({ size }) =>
        Array.from(
          { length: size },
          (): Env => ({
            initialObservation: () => ({ tokens: [1] }),
            step: () => new Promise(() => stop.abort(new Error("enough"))),
            close: () => {
              closed += 1;
            },
          }),
        ),
    };
    await expect(roll([endless, endless], { signal: stop.signal })).rejects.toThrow("enough");
    expect(closed).toBe(6);
  });

  it("ends an episode that never would, with the rewards it has", async () => {
    const chatty = group("chatty", () => ({ reward: 1, done: false, next: { tokens: [9] } }));
    const { groups } = await roll([chatty], { maxTurns: 5 });
    expect(groups[0]).toMatchObject({ totalRewards: [5, 5, 5], trajectories: [{ truncated: true }, {}, {}] });
  });

  it.each([
    [{ groupSize: 0 }, "groupSize"],
    [{ maxEpisodes: 0.5 }, "maxEpisodes"],
    [{ envTimeLimitMs: Number.NaN }, "envTimeLimitMs"],
    [{ strategy: { onFailure: "hope" } as never }, "strategy.onFailure"],
    [{ strategy: { onFailure: "retry", retries: -1 } as const }, "strategy.retries"],
    [{ strategy: { onFailure: "keep", smallestGroup: 0 } as const }, "strategy.smallestGroup"],
    [{ groupSiz: 3 } as object, "groupSiz"],
  ])("refuses %o", async (wrong, field) => {
    await expect(roll([good], wrong)).rejects.toThrow(field);
  });
});
