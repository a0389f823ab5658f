// Reinforcement during rollouts: parts of a step trained before its last group ends, and later steps sampled before a step is trained.
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { PlannedStep } from "../cost/budget.ts";
import type { EnvGroup, StepResult } from "../environments/index.ts";
import { RunFolder } from "../runs/run-folder.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { type ReinforcementOptions, trainReinforcement } from "./reinforcement.ts";
import { type ReinforcementRunOptions, runReinforcement } from "./reinforcement-run.ts";

const made: string[] = [];
const newFolder = async () => {
  made.push(await mkdtemp(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tinklet-ahead-")));
  return join(made.at(-1) as string, "run");
};
afterAll(() => Promise.all(made.map((folder) => rm(folder, { recursive: true }))));

/** One turn; the reward is the share of even tokens. */
const evens = (first: number, before?: () => Promise<void>): EnvGroup => ({
  name: `from ${first}`,
  makeEnvs: ({ size }) =>
    Array.from({ length: size }, () => ({
      initialObservation: () => ({ tokens: [first] }),
      step: async ({ tokens }): Promise<StepResult> => {
        await before?.();
        return { reward: tokens.filter((token) => token % 2 === 0).length / tokens.length, done: true };
      },
    })),
});
const settings = {
  environments: [1, 2, 3, 4].map((first) => evens(first)),
  learningRate: 0.3,
  steps: 8,
  groupSize: 6,
  groupsPerStep: 4,
  seed: 2,
  samplingParams: { maxTokens: 3 },
};

async function train(options: Partial<ReinforcementOptions> = {}, service = new BigramService(8)) {
  const rows: Record<string, number>[] = [];
  const loop = trainReinforcement({ ...settings, trainer: service.trainer(), ...options });
  for await (const event of loop) if (event.type === "step") rows.push(event.metrics);
  return { rows, service };
}
async function run(service: BigramService, folder: string, options: Partial<ReinforcementRunOptions> = {}) {
  const loop = runReinforcement({ ...settings, service, folder, baseModel: "bigram", saveEvery: 4, ...options });
  for await (const event of loop) if (event.type === "done") return event;
  throw new Error("it always says so");
}

describe("microBatches", () => {
  it("trains on groups that have ended while the last one has not", async () => {
    const service = new BigramService(8);
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const environments = [1, 2, 3].map((first) => evens(first));
    const trained = train(
      { environments: () => [...environments, evens(4, () => held)], steps: 1, microBatches: 2 },
      service,
    );
    const passes = () => service.calls.filter((call) => call === "forwardBackward").length;
    while (passes() === 0) await new Promise(setImmediate);
    expect(passes()).toBe(1);
    expect(service.calls).not.toContain("optimStep");
    release();
    await trained;
    expect(passes()).toBe(2);
    expect(service.calls.at(-1)).toBe("optimStep");
  });

  it.each([2, 3, 9])("%d give the gradients of the whole batch", async (microBatches) => {
    const [whole, parts] = [await train(), await train({ microBatches })];
    expect(parts.rows.length).toBe(8);
    parts.rows.forEach((row, at) => {
      for (const [name, value] of Object.entries(whole.rows[at] ?? {})) expect(row[name], name).toBeCloseTo(value, 9);
    });
    expect(parts.service.calls.filter((call) => call === "step")).toEqual([]);
  });

  it("keep the distance from a reference, where it is not centred", async () => {
    const kl = { reference: new BigramService(8).reference(), coefficient: 0.1, centred: false };
    const [whole, parts] = [await train({ kl }), await train({ kl, microBatches: 2 })];
    expect(whole.rows.at(-1)?.["teacher_kl"]).toBeGreaterThan(0.1);
    expect(parts.rows.at(-1)?.["teacher_kl"]).toBeCloseTo(whole.rows.at(-1)?.["teacher_kl"] as number, 9);
  });

  it("count towards the largest step together", async () => {
    const asked: PlannedStep[] = [];
    const beforeStep = (planned: PlannedStep) => void asked.push(planned);
    await train({ microBatches: 4, beforeStep, steps: 3 });
    expect(asked.map(({ tokens }) => tokens.sample ?? 0)).toEqual([0, 72, 72]);
    expect(asked.at(-1)?.spent.sample).toBe(144);
  });

  it.each([
    [{ microBatches: 0 }, "microBatches"],
    [{ microBatches: 2, substeps: 2 }, "combined with substeps"],
    [{ microBatches: 2, kl: { reference: new BigramService(8).reference(), coefficient: 1 } }, "centred kl"],
    [{ maxStepsOffPolicy: -1 }, "maxStepsOffPolicy"],
    [{ microBatches: 2, trainer: { step: () => {} } as never }, "trainer: must have forwardBackward"],
  ])("refuses %o", async (wrong, message) => {
    await expect(train(wrong)).rejects.toThrow(message);
  });
});

describe("maxStepsOffPolicy", () => {
  it("samples later steps before a step is trained, with weights that are so many steps old at most", async () => {
    const service = new BigramService(8);
    const sampled: number[] = []; // steps that the weights of each request had seen
    const begun: number[] = []; // requests that had begun when a step was trained
    service.onSample = (steps) => sampled.push(steps);
    service.onStep = () => begun.push(sampled.length);
    const { rows } = await train({ maxStepsOffPolicy: 2, steps: 6 }, service);
    expect(rows.map((row) => row["optim/steps_off_policy"])).toEqual([0, 1, 2, 2, 2, 2]);
    const perStep = sampled.length / 6;
    // All of the next step's requests had begun before a step was trained.
    begun.forEach((requests, step) => {
      expect(requests).toBeGreaterThanOrEqual(Math.min(step + 2, 6) * perStep);
    });
    expect(sampled.filter((_, at) => at % perStep === 0)).toEqual([0, 0, 0, 1, 2, 3]);
    expect((await train()).rows[0]).not.toHaveProperty("optim/steps_off_policy");
  });

  it("still learns, and is repeatable from its seed", async () => {
    const [one, other] = [
      await train({ maxStepsOffPolicy: 2, steps: 14 }),
      await train({ maxStepsOffPolicy: 2, steps: 14 }),
    ];
    expect(other.rows).toEqual(one.rows);
    expect(one.rows[0]?.["env/all/reward/total"]).toBeLessThan(0.65);
    expect(one.rows.at(-1)?.["env/all/reward/total"]).toBeGreaterThan(0.85);
  });

  it("begins nothing behind the next checkpoint, and records the weights of each rollout", async () => {
    const folder = await newFolder();
    await run(new BigramService(8), folder, { maxStepsOffPolicy: 2 });
    const record = RunFolder.at(folder);
    const rows = await record.readMetrics();
    expect(rows.map((row) => row["optim/steps_off_policy"])).toEqual([0, 1, 2, 2, 0, 1, 2, 2]);
    expect((await record.readRollouts(3))[0]).toMatchObject({ iteration: 3, sampling_client_step: 1 });
    expect(await record.readConfig()).toMatchObject({ max_steps_off_policy: 2 });
  });

  it("killed anywhere, again and again, gives the same files as undisturbed", async () => {
    const options = { maxStepsOffPolicy: 2, microBatches: 2 };
    const straight = await newFolder();
    await run(new BigramService(8), straight, options);
    const files = ["metrics.jsonl", ...[0, 3, 7].map((n) => `iteration_00000${n}/train_rollout_summaries.jsonl`)];
    const want = await Promise.all(files.map((name) => readFile(join(straight, name), "utf8")));
    // A step asks the sampler 4 times and trains once; a checkpoint comes after four of them.
    for (const first of [1, 6, 13, 19, 22, 31]) {
      const [service, folder] = [new BigramService(8), await newFolder()];
      let left = first;
      const die = () => {
        left -= 1;
        if (left !== 0) return;
        left = 23;
        throw new Error("killed");
      };
      service.onSample = die;
      service.onStep = die;
      let kills = 0;
      for (let done = false; !done; kills += done ? 0 : 1)
        done = await run(service, folder, options).then(
          () => true,
          (error: Error) => {
            expect(error.message).toContain("killed");
            return false;
          },
        );
      expect(kills).toBeGreaterThan(0);
      expect(await Promise.all(files.map((name) => readFile(join(folder, name), "utf8")))).toEqual(want);
    }
  });

  it("counts what is begun ahead before it begins a step", async () => {
    const asked: PlannedStep[] = [];
    const beforeStep = (planned: PlannedStep) => void asked.push(planned);
    await train({ maxStepsOffPolicy: 2, beforeStep, steps: 5 });
    expect(asked.map(({ tokens }) => (tokens.sample ?? 0) / 72)).toEqual([0, 3, 3, 2, 1]);
  });

  it("gives up what is under way when the run ends", async () => {
    const signals: AbortSignal[] = [];
    const hanging: EnvGroup = {
      name: "hangs",
      makeEnvs: ({ signal }) => {
        signals.push(signal);
        return new Promise(() => {});
      },
    };
    const environments = (step: number) => (step === 0 ? settings.environments : [hanging]);
    const loop = trainReinforcement({
      ...settings,
      environments,
      maxStepsOffPolicy: 1,
      trainer: new BigramService(8).trainer(),
    });
    for await (const event of loop) if (event.type === "step") break;
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });
});
