// Reinforcement learning over environments: it learns, records the official files, survives failed environments, and resumes exactly.
import { existsSync } from "node:fs";
import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "@tinklet/sdk/testing";
import { afterAll, describe, expect, it } from "vitest";
import type { Scorer } from "../clients.ts";
import { budget, spentBy } from "../cost/budget.ts";
import type { EnvGroup, StepResult, TrajectoryGroup } from "../environments/index.ts";
import { RunFolder } from "../runs/run-folder.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { type ReinforcementOptions, trainReinforcement } from "./reinforcement.ts";
import { type ReinforcementRunOptions, runDistillation, runReinforcement } from "./reinforcement-run.ts";

const made: string[] = [];
const newFolder = async () => {
  made.push(await mkdtemp(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tinklet-rl-")));
  return join(made.at(-1) as string, "run");
};
afterAll(() => Promise.all(made.map((folder) => rm(folder, { recursive: true }))));

/** Two turns; the reward is the share of even tokens. The second prompt continues the first turn. */
const evens = (name: string, first: number, wrong?: (turn: number) => StepResult | Promise<StepResult>): EnvGroup => ({
  name,
  tags: [first % 2 === 0 ? "even" : "odd"],
  makeEnvs: ({ size }) =>
    Array.from({ length: size }, () => {
      let tokens: number[] = [first];
      let turn = 0;
      return {
        initialObservation: () => ({ tokens }),
        step: (action): StepResult | Promise<StepResult> => {
          tokens = [...tokens, ...action.tokens, first];
          turn += 1;
          if (wrong !== undefined) return wrong(turn);
          const reward = action.tokens.filter((token) => token % 2 === 0).length / action.tokens.length;
          return { reward, done: turn === 2, next: { tokens }, metrics: { turn } };
        },
      };
    }),
});
const environments = [1, 2, 3].map((first) => evens(`from ${first}`, first));
const settings = {
  environments,
  learningRate: 0.3,
  steps: 8,
  groupSize: 6,
  groupsPerStep: 3,
  seed: 2,
  samplingParams: { maxTokens: 3 },
};

async function finish<E, R>(loop: AsyncGenerator<E, R, void>, onEvent?: (event: E) => void): Promise<R> {
  for (;;) {
    const { done, value } = await loop.next();
    if (done) return value;
    onEvent?.(value);
  }
}
async function train(options: Partial<ReinforcementOptions> = {}, service = new BigramService(8)) {
  const rewards: number[] = [];
  const rows: Record<string, number>[] = [];
  const result = await finish(trainReinforcement({ ...settings, trainer: service.trainer(), ...options }), (event) => {
    if (event.type !== "step") return;
    rows.push(event.metrics);
    rewards.push(event.metrics["env/all/reward/total"] as number);
  });
  return { rewards, rows, result, service };
}
const run = (service: BigramService, folder: string, options: Partial<ReinforcementRunOptions> = {}) =>
  finish(runReinforcement({ ...settings, service, folder, baseModel: "bigram", saveEvery: 3, ...options }));

describe("trainReinforcement", () => {
  it.each(["importance_sampling", "ppo", "cispo", "dro"] as const)("climbs with %s", async (lossFn) => {
    const { rewards, rows } = await train({ lossFn, steps: 12 });
    expect(rewards[0]).toBeLessThan(1.35);
    expect(rewards.at(-1)).toBeGreaterThan(1.8);
    expect(rows[0]).toMatchObject({ "env/all/turns_per_episode": 2, "env/all/turn": 1.5, "env/all/failed_groups": 0 });
    expect(rows[0]?.["optim/kl_sample_train_v1"]).toBeCloseTo(0, 6);
    expect(rows[0]).toHaveProperty("env/odd/reward/total");
  });

  it("is repeatable from its seed, and takes optimizer steps on parts of the data", async () => {
    const [one, other] = [await train(), await train()];
    expect(other.rows).toEqual(one.rows);
    const parts = await train({ substeps: 3, steps: 2 });
    expect(parts.service.calls.filter((call) => call === "step").length).toBe(6);
    expect((await train({ advantages: "normalised" })).rows).not.toEqual(one.rows);
  });

  it("stays nearer to the reference the more that counts", async () => {
    const service = new BigramService(8);
    const kl = async (coefficient: number) => {
      const { rows } = await train({ steps: 12, kl: { reference: service.reference(), coefficient } });
      return rows.at(-1)?.["kl_policy_base"] as number;
    };
    const [free, kept] = [await kl(0), await kl(1)];
    expect(free).toBeGreaterThan(0.4);
    expect(kept).toBeLessThan(free / 2);
  });

  it("continues after failed environments, counts and names them", async () => {
    const folder = await RunFolder.open(await newFolder());
    const clock = new FakeClock();
    const broken = [
      evens("throws", 4, () => Promise.reject(new Error("no such room"))),
      evens("hangs", 5, () => new Promise(() => {})),
      evens("NaN", 6, () => ({ reward: Number.NaN, done: true })),
      evens("late", 7, () => new Promise((answer) => clock.timer(60_000, () => answer({ reward: 1, done: true })))),
    ];
    const options = { environments: [...environments, ...broken], groupsPerStep: 7, run: folder, clock, steps: 3 };
    const trained = train({ ...options, envTimeLimitMs: 59_000, strategy: { onFailure: "retry", retries: 0 } });
    let ended = false;
    void trained.finally(() => {
      ended = true;
    });
    while (!ended) await clock.advance(60_001);
    const { rows, result } = await trained;
    expect(result).toMatchObject({ nextStep: 3, totalSteps: 3 });
    expect(rows.map((row) => row["env/all/failed_groups"])).toEqual([4, 4, 4]);
    expect(rows[0]?.["env/all/total_episodes"]).toBe(18);
    const failures = await folder.readFailures();
    expect(new Set(failures.map(({ step, group }) => `${step} ${group}`)).size).toBe(12);
    const saidOf = (name: string) => failures.find(({ group }) => group === name);
    expect(saidOf("throws")).toMatchObject({ kind: "threw", message: "step threw Error: no such room" });
    expect(saidOf("hangs")).toMatchObject({ kind: "timed_out", message: "step took more than 59000 ms" });
    expect(saidOf("NaN")).toMatchObject({ kind: "invalid", message: "step must give a finite reward, got NaN" });
    expect(saidOf("late")).toMatchObject({ kind: "timed_out" });
  });

  it("ends when three steps in a row had nothing to learn from", async () => {
    const environments = [evens("broken", 1, () => ({ reward: Number.NaN, done: true }))];
    await expect(train({ environments })).rejects.toThrow(
      "environments: had no usable group in 3 steps in a row: broken: step must give a finite reward, got NaN",
    );
  });

  it.each([
    [{ environments: [] }, "environments"],
    [{ groupSize: 1 }, "groupSize"],
    [{ lossFn: "cross_entropy" as never }, "lossFn"],
    [{ advantages: "centered" as never }, "advantages"],
    [{ substeps: 0 }, "substeps"],
    [{ samplingParams: { temperature: 0.5 } }, "samplingParams"],
    [{ grupSize: 1 } as object, "grupSize"],
  ])("refuses %o", async (wrong, field) => {
    await expect(train(wrong)).rejects.toThrow(field);
  });
});

describe("runReinforcement", () => {
  it("records the official files, evaluates, and keeps the best", async () => {
    const [service, folder] = [new BigramService(8), await newFolder()];
    let asked = 0;
    const evaluate = () => ({ score: [0.1, 0.5, 0.3][asked++] as number });
    await run(service, folder, { evaluate, evalEvery: 4, keepBest: "score" });
    const record = RunFolder.at(folder);
    const rows = await record.readMetrics();
    expect(rows.map((row) => row["test/score"])).toEqual([0.1, ...new Array(3), 0.5, ...new Array(3), 0.3]);
    const checkpoints = await record.readCheckpoints();
    expect(checkpoints.map(({ name }) => name)).toEqual(["best-000000", "000003", "best-000004", "000006", "final"]);
    expect(await record.readConfig()).toMatchObject({ loss_fn: "importance_sampling", group_size: 6, num_groups: 3 });
    const rollouts = await record.readRollouts(2);
    expect(rollouts.length).toBe(18);
    expect(rollouts[7]).toMatchObject({
      schema_version: 1,
      split: "train",
      iteration: 2,
      group_idx: 1,
      traj_idx: 1,
      steps: [{ step_idx: 0, ac_len: 3 }, { episode_done: true }],
    });
    type Turn = { ac_tokens: number[]; ac_logprobs: number[]; ac_train_logprobs?: number[] };
    const turns = rollouts.flatMap(({ steps }) => steps as Turn[]);
    expect(turns.every(({ ac_tokens, ac_logprobs }) => ac_logprobs.length === ac_tokens.length)).toBe(true);
    // On-policy the trainer gives what the sampler gave, each token its own; a group of equal rewards is not trained on.
    const learned = turns.filter((turn) => turn.ac_train_logprobs !== undefined);
    expect(learned.length).toBeGreaterThan(0);
    for (const { ac_logprobs, ac_train_logprobs = [] } of learned)
      for (const [i, value] of ac_train_logprobs.entries()) expect(value).toBeCloseTo(ac_logprobs[i] as number, 3);
    expect(learned.some(({ ac_logprobs }) => new Set(ac_logprobs).size > 1)).toBe(true);
  });

  it("stops before it costs more than allowed, sampling included", async () => {
    const [service, folder] = [new BigramService(8), await newFolder()];
    const price = { train: 1, prefill: 1, sample: 10, asOf: "2026-11-01" };
    const result = await run(service, folder, { beforeStep: budget(price, 0.004) });
    expect(result.stopped).toContain("more than the $0.004 allowed");
    expect(result.nextStep).toBeGreaterThan(0);
    const spent = await spentBy(RunFolder.at(folder));
    expect((spent.train + spent.evaluate + 10 * (spent.sample ?? 0)) / 1e6).toBeLessThanOrEqual(0.004);
    expect(spent.sample).toBe(108 * result.nextStep);
  });

  it("killed anywhere, again and again, gives the same files as undisturbed", async () => {
    const straight = await newFolder();
    await run(new BigramService(8), straight);
    const files = ["metrics.jsonl", ...[0, 4, 7].map((n) => `iteration_00000${n}/train_rollout_summaries.jsonl`)];
    const want = await Promise.all(files.map((name) => readFile(join(straight, name), "utf8")));
    // A step asks the sampler 21 times and trains once; a checkpoint comes after three of them.
    for (const first of [1, 30, 70, 95, 131, 160]) {
      const [service, folder] = [new BigramService(8), await newFolder()];
      let left = first;
      const die = () => {
        left -= 1;
        if (left !== 0) return;
        left = 75;
        throw new Error("killed");
      };
      service.onSample = die;
      service.onStep = die;
      let kills = 0;
      for (let done = false; !done; ) {
        done = await run(service, folder).then(
          () => true,
          (error: Error) => {
            expect(error.message).toContain("killed");
            return false;
          },
        );
        if (!done) kills += 1;
        if (!done) await appendFile(join(folder, "metrics.jsonl"), '{"step": 99, "cut o'); // half a line
      }
      expect(kills).toBeGreaterThan(0);
      expect(await Promise.all(files.map((name) => readFile(join(folder, name), "utf8")))).toEqual(want);
    }
  });
});

describe("runDistillation", () => {
  it("draws the student to the teacher", async () => {
    const service = new BigramService(8);
    const teacher = await service.trainer().saveWeightsAndGetSamplingClient();
    const rows: Record<string, number>[] = [];
    const student = new BigramService(8);
    // A student that leans to even tokens, drawn back to a teacher that knows nothing.
    const from = (await run(student, await newFolder(), { steps: 6 })).checkpoint?.state_path;
    const silent = [1, 2, 3].map((first) => evens(`${first}`, first, (turn) => ({ reward: 0, done: turn === 1 })));
    const { computeLogprobs } = teacher;
    const options = {
      ...settings,
      environments: silent,
      service: student,
      baseModel: "b",
      from,
      steps: 10,
      groupsPerStep: 3,
    };
    await finish(
      runDistillation({
        ...options,
        folder: await newFolder(),
        teacher: { computeLogprobs: computeLogprobs!.bind(teacher) },
      }),
      (event) => event.type === "step" && rows.push(event.metrics),
    );
    expect(rows[0]?.["teacher_kl"]).toBeGreaterThan(0.3);
    expect(rows.at(-1)?.["teacher_kl"]).toBeLessThan(0.15);
  });

  it("has a teacher for each group, and the distance from each", async () => {
    const student = new BigramService(8);
    const [near, far] = [new BigramService(8), new BigramService(8)];
    const leaning = async (service: BigramService) => {
      await run(service, await newFolder(), { steps: 8 });
      return service.trainer([...service.saved.keys()].at(-1)).saveWeightsAndGetSamplingClient();
    };
    const teachers = { odd: near.reference(), even: (await leaning(far)) as unknown as Scorer };
    const asked = new Set<string>();
    const teacher = ({ name, tags }: TrajectoryGroup) => {
      asked.add(name);
      return teachers[tags[0] as "odd" | "even"];
    };
    const rows: Record<string, number>[] = [];
    const options = { ...settings, service: student, baseModel: "b", folder: await newFolder(), steps: 1 };
    const silent = [1, 2, 3].map((first) => evens(`${first}`, first, (turn) => ({ reward: 0, done: turn === 1 })));
    await finish(runDistillation({ ...options, environments: silent, teacher }), (event) => {
      if (event.type === "step") rows.push(event.metrics);
    });
    expect([...asked].sort()).toEqual(["1", "2", "3"]);
    expect(rows[0]?.["teacher_kl/odd"]).toBeCloseTo(0, 6); // it knows as little as the student
    expect(rows[0]?.["teacher_kl/even"]).toBeGreaterThan(0.3);
    const nobody = runDistillation({
      ...options,
      folder: await newFolder(),
      environments: silent,
      teacher: () => undefined as never,
    });
    await expect(finish(nobody)).rejects.toThrow("reference: must be a sampling client, also for the group ");
  });
});
