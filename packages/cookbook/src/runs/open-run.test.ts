// Runs in one call each: begun, stopped anywhere, crashed, prolonged, kept within a sum, and never two in one folder.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { ForwardBackwardOutput, NotFoundError } from "@tinklet/sdk";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import type { Service, Trainer } from "../clients.ts";
import { budget, plannedStep, spentBy } from "../cost/budget.ts";
import { summarize, trainingCost } from "../cost/cost.ts";
import { BatchedDataset, splitData } from "../data/dataset.ts";
import { toExample } from "../data/examples.ts";
import { prepareSupervised } from "../data/prepare.ts";
import { renderExample, type SupervisedDatum, toDatum } from "../data/render.ts";
import { inputTokens } from "../loops/nll.ts";
import { type Answer, trainPolicyGradient } from "../loops/policy-gradient.ts";
import { recommendedLearningRate, scheduleFactor } from "../loops/schedule.ts";
import { type SupervisedEvent, type SupervisedResult, trainSupervised } from "../loops/supervised.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { openRun, type RunStarts, runPolicyGradient, runSupervised, type SupervisedRunOptions } from "./open-run.ts";
import type { RunRecovers } from "./recovery.ts";
import { RunFolder } from "./run-folder.ts";

const words = [
  "bread",
  "table",
  "stone",
  "riverbank",
  "cloud",
  "greenish",
  "light",
  "ocean",
  "plant",
  "smile",
  "tiger",
];
const all = words.map((text) => {
  const example = toExample({ text }, { file: "d", line: 1 });
  return toDatum(renderExample(example, letterTokenizer())) as SupervisedDatum;
});
const data = { train: all.slice(0, 9), test: all.slice(9), digest: "abc" };
// Thousands of durable lines: in memory where the system has such a folder.
const scratch = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
const made: string[] = [];
const newFolder = async () => {
  made.push(await mkdtemp(join(scratch, "tinklet-open-")));
  return join(made.at(-1) as string, "run");
};
afterAll(() => Promise.all(made.map((folder) => rm(folder, { recursive: true }))));
const settings = { baseModel: "bigram", data, learningRate: 0.5, batchSize: 2, epochs: 2, evalEvery: 3, saveEvery: 4 };
const read = (folder: string, name: string) => readFile(join(folder, name), "utf8");

async function finish<E, R>(loop: AsyncGenerator<E, R, void>, onEvent?: (event: E) => void): Promise<R> {
  for (;;) {
    const { done, value } = await loop.next();
    if (done) return value;
    onEvent?.(value);
  }
}
const supervise = (
  options: Pick<SupervisedRunOptions, "service" | "folder"> & Partial<SupervisedRunOptions>,
  onEvent?: (event: RunStarts | RunRecovers | SupervisedEvent) => void,
): Promise<SupervisedResult> => finish(runSupervised({ ...settings, ...options }), onEvent);

describe("runSupervised", () => {
  it("names the run on the server, after the folder or as told, and says what a resumed run resumes", async () => {
    const folder = await newFolder();
    const sent: unknown[] = [];
    class Recording extends BigramService {
      override async createLoraTrainingClient(options?: unknown): Promise<Trainer> {
        sent.push((options as { userMetadata: unknown }).userMetadata);
        return super.createLoraTrainingClient();
      }
      override async createTrainingClientFromStateWithOptimizer(path: string, options?: unknown): Promise<Trainer> {
        sent.push((options as { userMetadata: unknown }).userMetadata);
        return super.createTrainingClientFromStateWithOptimizer(path);
      }
    }
    const service = new Recording();
    await supervise({ service, folder, epochs: 1 });
    const { state_path: path } = (await RunFolder.at(folder).readCheckpoints()).at(-1)!;
    await supervise({ service, folder, epochs: 2 });
    await supervise({ service, folder: await newFolder(), name: "bike" });
    expect(sent).toEqual([{ name: "run" }, { name: "run", resumed_from: path }, { name: "bike" }]);
    await expect(supervise({ service, folder: await newFolder(), name: "a/b" })).rejects.toThrow(
      'name: looks like a path or a base model: "a/b"',
    );
  });

  it("starts, stops, resumes and ends as one run, each time by the same call", async () => {
    const straight = await newFolder();
    await supervise({ service: new BigramService(), folder: straight });
    const [service, folder, stop] = [new BigramService(), await newFolder(), new AbortController()];
    const first = await supervise({ service, folder, signal: stop.signal }, (event) => {
      if (event.type === "step" && event.step === 4) stop.abort();
    });
    expect(first.stopped).toBe("interrupted");
    const starts: RunStarts[] = [];
    const second = await supervise({ service, folder }, (event) => event.type === "start" && starts.push(event));
    expect(starts).toMatchObject([{ startStep: first.nextStep, totalSteps: 10, resumeFrom: first.checkpoint }]);
    expect(second).toMatchObject({ nextStep: 10, totalSteps: 10 });
    expect(await read(folder, "metrics.jsonl")).toBe(await read(straight, "metrics.jsonl"));
    const calls = service.calls.length;
    const { checkpoint } = second;
    const events: unknown[] = [];
    expect(await supervise({ service, folder }, (event) => events.push(event))).toEqual({
      nextStep: 10,
      totalSteps: 10,
      checkpoint,
    });
    expect(service.calls.length).toBe(calls); // a complete run opens nothing
    expect(events).toEqual([{ type: "done", nextStep: 10, totalSteps: 10, checkpoint }]); // and says so
  });

  it("resumes with other intervals and more epochs, but no other changes", async () => {
    const [service, folder] = [new BigramService(), await newFolder()];
    await supervise({ service, folder });
    const longer = await supervise({ service, folder, epochs: 3, saveEvery: 2, evalEvery: 5 });
    expect(longer).toMatchObject({ nextStep: 15, totalSteps: 15 });
    expect((await RunFolder.at(folder).readMetrics()).map(({ step }) => step)).toEqual(
      Array.from({ length: 16 }, (_, step) => step),
    );
    expect(await RunFolder.at(folder).readConfig()).toMatchObject({ num_epochs: 3, save_every: 2, eval_every: 5 });
    for (const [wrong, message] of [
      [{ epochs: 2 }, "num_epochs was 3 and is now 2"],
      [{ epochs: 3, batchSize: 3 }, "batch_size was 2 and is now 3"],
      [{ epochs: 3, learningRate: 1 }, "learning_rate was 0.5 and is now 1"],
      [{ epochs: 3, data: { ...data, digest: "x" } }, 'data_digest was "abc" and is now "x"'],
      [{ epochs: 3, saveEvery: 2, evalEvery: 5, seed: 1 }, "seed was 0 and is now 1"],
    ] as const)
      await expect(supervise({ service, folder, ...wrong })).rejects.toThrow(message);
    expect(await supervise({ service, folder, epochs: 3, maxSteps: 20 }).catch((error) => error.message)).toContain(
      "max_steps was null and is now 20", // null is without end already
    );
  });

  it("begins from the weights of a checkpoint, with a new optimizer, and resumes with its own", async () => {
    const service = new BigramService();
    const first = await supervise({ service, folder: await newFolder() });
    const from = first.checkpoint?.state_path;
    const [folder, nll] = [await newFolder(), [] as number[]];
    const stop = new AbortController();
    const note = (event: RunStarts | RunRecovers | SupervisedEvent) => {
      if (event.type === "step" && event.metrics["test/nll"] !== undefined) nll.push(event.metrics["test/nll"]);
      if (event.type === "step" && event.step === 3) stop.abort();
    };
    await supervise({ service, folder, from, signal: stop.signal }, note);
    expect(nll[0]).toBe(first.testNll);
    await supervise({ service, folder, from });
    const straight = await newFolder();
    await supervise({ service, folder: straight, from });
    expect(await read(folder, "metrics.jsonl")).toBe(await read(straight, "metrics.jsonl"));
    await expect(supervise({ service, folder })).rejects.toThrow("load_checkpoint_path");
  });
});

describe("the last event", () => {
  it("tells of a budget's stop, before the first step and in the middle, and releases the folder", async () => {
    const [service, folder] = [new BigramService(), await newFolder()];
    const price = { train: 1, prefill: 1, sample: 1, asOf: "2026-11-01" };
    const dones: SupervisedEvent[] = [];
    const note = (event: RunStarts | RunRecovers | SupervisedEvent) => {
      if (event.type !== "done") return;
      dones.push(event);
      expect(existsSync(join(folder, "run.lock"))).toBe(false);
    };
    await supervise({ service, folder, beforeStep: budget(price, 0) }, note);
    expect(service.calls).toEqual([]);
    await supervise({ service, folder, beforeStep: budget(price, 1e-4) }, note);
    await supervise({ service, folder, beforeStep: budget(price, 1e-4) }, note);
    const stopped = expect.stringContaining("more than the $0.0001 allowed");
    expect(dones).toMatchObject([
      { nextStep: 0, stopped: expect.stringContaining("more than the $0 allowed") },
      { nextStep: expect.any(Number), stopped, checkpoint: { name: expect.stringMatching(/^0000/) } },
      { stopped, checkpoint: { name: expect.stringMatching(/^0000/) } },
    ]);
  });

  it("ends every loop, for any reason", async () => {
    const [service, folder, stop] = [new BigramService(8), await newFolder(), new AbortController()];
    const problems = [{ prompt: [1] }];
    const reward = ({ tokens }: Answer) => tokens[0] ?? 0;
    const options = { service, folder, baseModel: "bigram", problems, reward, steps: 2, learningRate: 0.1 };
    const types: string[] = [];
    await finish(runPolicyGradient({ ...options, signal: stop.signal }), (event) => {
      if (event.type === "step") stop.abort();
      types.push(event.type === "done" ? `done ${event.stopped}` : event.type);
    });
    await finish(runPolicyGradient(options), ({ type }) => types.push(type));
    await finish(runPolicyGradient(options), ({ type }) => types.push(type));
    expect(types).toEqual([
      ...["start", "step", "checkpoint", "done interrupted"],
      ...["start", "step", "checkpoint", "done"],
      "done",
    ]);
  });
});

describe("misspelt options", () => {
  const service = new BigramService();
  const dataset = new BatchedDataset(data.train, { batchSize: 2 });
  const trainer = service.trainer();
  const neverMade = join(scratch, `tinklet-never-made-${process.pid}`);
  const rewarded = { problems: [{ prompt: [1] }], reward: () => 0, steps: 1, learningRate: 1 };
  const rendered = { tokens: [1, 2], weights: [0, 1] };
  /** Each with its options misspelt by one letter. */
  const calls: Readonly<Record<string, (wrong: object) => unknown>> = {
    "runSupervised saveEver saveEvery": (wrong) =>
      supervise({ service, folder: neverMade, ...wrong } as Parameters<typeof supervise>[0]),
    "runSupervised batchsiz batchSize": (wrong) =>
      supervise({ service, folder: neverMade, ...wrong } as Parameters<typeof supervise>[0]),
    "trainSupervised evalEver evalEvery": (wrong) =>
      finish(trainSupervised({ trainer, dataset, learningRate: 1, ...wrong })),
    "runPolicyGradient groupSiz groupSize": (wrong) =>
      finish(runPolicyGradient({ ...rewarded, service, folder: neverMade, baseModel: "m", ...wrong })),
    "trainPolicyGradient groupsPerStp groupsPerStep": (wrong) =>
      finish(trainPolicyGradient({ ...rewarded, trainer, ...wrong })),
    "openRun rnk rank": (wrong) => openRun({ service, folder: neverMade, baseModel: "m", ...wrong }, {}),
    "claim growin growing": (wrong) => RunFolder.at(neverMade).claim({}, wrong),
    "prepareSupervised testShar testShare": (wrong) => prepareSupervised("none.jsonl", letterTokenizer(), wrong),
    "renderExample trainOnn trainOn": (wrong) =>
      renderExample({ kind: "text", text: "a", file: "d", line: 1 }, letterTokenizer(), wrong),
    "toDatum maxLenght maxLength": (wrong) => toDatum(rendered, wrong),
    "summarize maxLenght maxLength": (wrong) => summarize([rendered], wrong),
    "BatchedDataset sed seed": (wrong) => new BatchedDataset([], { batchSize: 1, ...wrong }),
    "splitData sed seed": (wrong) => splitData([1, 2], { share: 1, key: String, ...wrong }),
    "scheduleFactor warmupStep warmupSteps": (wrong) => scheduleFactor("linear", { step: 0, totalSteps: 2, ...wrong }),
    "recommendedLearningRate islora isLora": (wrong) => recommendedLearningRate("qwen", { hiddenSize: 4096, ...wrong }),
  };

  it.each(Object.keys(calls))("%s", async (name) => {
    const [of, wrong = "", right] = name.split(" ");
    await expect((async () => calls[name]?.({ [wrong]: 3 }))()).rejects.toMatchObject({
      message: `${wrong}: is not an option of ${of}`,
      hint: `Did you mean ${right}?`,
    });
    expect(existsSync(neverMade)).toBe(false);
  });
});

describe("a checkpoint that is gone", () => {
  const gone = (path: string) =>
    new NotFoundError(`There is no checkpoint ${path}`, { status: 404, body: {}, headers: {} } as never);

  /** A service that has lost some checkpoints. */
  class Forgetful extends BigramService {
    override async createTrainingClientFromStateWithOptimizer(path: string): Promise<Trainer> {
      if (!this.saved.has(path)) throw gone(path);
      return super.createTrainingClientFromStateWithOptimizer(path);
    }
    createRestClient() {
      return {
        getWeightsInfoByTinkerPath: async (path: string) => {
          if (!this.saved.has(path)) throw gone(path);
        },
      };
    }
  }
  async function interrupted(): Promise<{ service: Forgetful; folder: string }> {
    const [service, folder, stop] = [new Forgetful(), await newFolder(), new AbortController()];
    await supervise({ service, folder, signal: stop.signal }, (event) => {
      if (event.type === "step" && event.step === 5) stop.abort();
    });
    return { service, folder };
  }

  it("the last: names the one that remains, and resumes from it after its line is the last", async () => {
    const { service, folder } = await interrupted();
    const records = await RunFolder.at(folder).readCheckpoints();
    const [last, left] = [records.at(-1)?.state_path as string, records.at(-2)];
    service.saved.delete(last);
    await expect(supervise({ service, folder })).rejects.toMatchObject({
      message: `${folder}: cannot resume: the server has no checkpoint ${last} (${records.at(-1)?.name}), which is the last of this run`,
      hint: expect.stringContaining(`${left?.name} is the latest that still exists: delete the lines after it in`),
    });
    const file = join(folder, "checkpoints.jsonl");
    await writeFile(file, (await read(folder, "checkpoints.jsonl")).split("\n").slice(0, -2).join("\n").concat("\n"));
    expect(await supervise({ service, folder })).toMatchObject({ nextStep: 10 });
    expect((await RunFolder.at(folder).readMetrics()).length).toBe(11);
  });

  it("all: says that nothing is left, and where to look; the folder stays as it is, and free", async () => {
    const { service, folder } = await interrupted();
    service.saved.clear();
    const before = await read(folder, "metrics.jsonl");
    await expect(supervise({ service, folder })).rejects.toMatchObject({
      hint: expect.stringMatching(/expired .*dataDir.*this server has no checkpoint of this run/),
    });
    expect(await read(folder, "metrics.jsonl")).toBe(before);
    expect(existsSync(join(folder, "run.lock"))).toBe(false);
  });

  it("passes other failures on", async () => {
    const { service, folder } = await interrupted();
    service.createTrainingClientFromStateWithOptimizer = async () => {
      throw new Error("the network is down");
    };
    await expect(supervise({ service, folder })).rejects.toThrow("the network is down");
  });
});

describe("runPolicyGradient", () => {
  const evens = ({ tokens }: Answer) => tokens.filter((token) => token % 2 === 0).length / tokens.length;
  const problems = [[1], [2, 3]].map((prompt) => ({ prompt }));
  const options = { baseModel: "bigram", problems, reward: evens, steps: 6, learningRate: 0.3, groupsPerStep: 2 };

  it("resumes where it stopped, to the rewards of an uninterrupted run, and refuses other problems", async () => {
    const straight = await newFolder();
    await finish(runPolicyGradient({ ...options, service: new BigramService(8), folder: straight }));
    const [service, folder, stop] = [new BigramService(8), await newFolder(), new AbortController()];
    await finish(runPolicyGradient({ ...options, service, folder, signal: stop.signal }), (event) => {
      if (event.type === "step" && event.step === 2) stop.abort();
    });
    expect(await finish(runPolicyGradient({ ...options, service, folder }))).toMatchObject({ nextStep: 6 });
    expect(await read(folder, "metrics.jsonl")).toBe(await read(straight, "metrics.jsonl"));
    await expect(
      finish(runPolicyGradient({ ...options, service, folder, problems: [{ prompt: [5] }] })),
    ).rejects.toThrow("data_digest");
  });
});

describe("openRun", () => {
  it("gives a loop everything to resume", async () => {
    const [service, folder] = [new BigramService(), await newFolder()];
    const dataset = new BatchedDataset(data.train, { batchSize: 2 });
    const go = async (maxSteps: number) =>
      finish(
        trainSupervised({
          ...(await openRun({ service, folder, baseModel: "bigram" }, { learning_rate: 0.5 })),
          ...{ dataset, learningRate: 0.5, maxSteps, evalEvery: 0 },
        }),
      );
    expect(await go(3)).toMatchObject({ nextStep: 3 });
    expect(await go(5)).toMatchObject({ nextStep: 5 });
    expect((await RunFolder.at(folder).readMetrics()).map(({ step }) => step)).toEqual([0, 1, 2, 3, 4]);
  });
});

describe("two runs in one folder", () => {
  it("the second is refused and the first is not disturbed; afterwards the folder is free", async () => {
    const [service, folder] = [new BigramService(), await newFolder()];
    let refused: Error | undefined;
    for await (const event of runSupervised({ ...settings, service, folder })) {
      if (event.type === "step" && event.step === 2)
        refused = await supervise({ service: new BigramService(), folder }).catch((error) => error);
    }
    expect(refused?.message).toContain(`is being written by process ${process.pid}`);
    expect((await RunFolder.at(folder).readMetrics()).map(({ step }) => step)).toEqual(
      Array.from({ length: 11 }, (_, step) => step),
    );
    expect(existsSync(join(folder, "run.lock"))).toBe(false);
  });

  it("that begin in the same moment: one is left", async () => {
    const folder = await newFolder();
    const both = await Promise.allSettled(
      Array.from({ length: 8 }, () => supervise({ service: new BigramService(), folder })),
    );
    const refused = both.flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []));
    expect(refused).toEqual(new Array(7).fill(expect.stringContaining(`is being written by process ${process.pid}`)));
    expect((await RunFolder.at(folder).readMetrics()).length).toBe(11);
  });

  it("a lock of another live process holds, one of a process that is gone does not", async () => {
    const folder = await newFolder();
    const run = await RunFolder.open(folder);
    const lock = (pid: number, host = hostname()) =>
      writeFile(join(folder, "run.lock"), JSON.stringify({ pid, host, token: "x" }));
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    await lock(child.pid as number);
    await expect(run.appendMetrics({ step: 0 })).rejects.toMatchObject({ hint: expect.stringContaining("run.lock") });
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    await run.appendMetrics({ step: 0 });
    await run.close();
    await lock(1, "another-machine");
    await expect(run.appendMetrics({ step: 1 })).rejects.toThrow("on another-machine");
    await writeFile(join(folder, "run.lock"), '{"pid":'); // cut off by a crash
    await run.appendMetrics({ step: 1 });
    await run.close();
    expect((await run.readMetrics()).length).toBe(2);
  });
});

/** Charges for what it is given, trains nothing, and goes away when told to: two hundred runs must not take long. */
class MeteredService implements Service {
  readonly charged = { train: 0, evaluate: 0 };
  trainers = 0;
  /** Steps until it goes away. */
  left = Number.POSITIVE_INFINITY;

  async createLoraTrainingClient(): Promise<Trainer> {
    this.trainers += 1;
    const output = new ForwardBackwardOutput({ lossFnOutputType: "x", lossFnOutputs: [], metrics: {} });
    const save = async (name: string) => ({ path: `tinker://run/weights/${name}` });
    return {
      step: async (batch) => {
        this.charged.train += inputTokens(batch);
        if (this.left-- <= 0) throw new Error("the machine went away");
        return { loss: 0, metrics: {}, output };
      },
      forward: async (batch) => {
        this.charged.evaluate += inputTokens(batch);
        return output;
      },
      saveState: save,
      saveWeightsForSampler: save,
      saveWeightsAndGetSamplingClient: () => Promise.reject(new Error("not here")),
    };
  }
  createTrainingClientFromState = () => this.createLoraTrainingClient();
  createTrainingClientFromStateWithOptimizer = () => this.createLoraTrainingClient();
}

describe("budget", () => {
  it("is never exceeded: any prices, epochs, evaluations, interruptions and crashes", async () => {
    const dollars = fc.double({ min: 0, max: 50, noNaN: true });
    const call = fc.record({
      more: fc.double({ min: 0, max: 200, noNaN: true }),
      ends: fc.constantFrom("runs on", "is stopped", "crashes"),
      after: fc.nat(6),
    });
    const scene = fc.record({
      price: fc.record({ train: dollars, prefill: dollars }),
      batchSize: fc.integer({ min: 3, max: 6 }),
      epochs: fc.integer({ min: 1, max: 3 }),
      evalEvery: fc.integer({ min: 0, max: 4 }),
      saveEvery: fc.integer({ min: 0, max: 4 }),
      tests: fc.nat(2),
      calls: fc.array(call, { minLength: 1, maxLength: 4 }),
    });
    let [completed, refused] = [0, 0];
    await fc.assert(
      fc.asyncProperty(scene, async ({ calls, tests, ...given }) => {
        const price = { ...given.price, sample: 0, asOf: "2026-11-01" };
        const [service, folder] = [new MeteredService(), await newFolder()];
        const own = { ...data, test: data.test.slice(0, tests) };
        let allowed = 0;
        for (const { more, ends, after } of calls) {
          allowed += more / 1e4; // a step is some ten tokens at dollars per million
          const stop = new AbortController();
          service.left = ends === "crashes" ? after : Number.POSITIVE_INFINITY;
          const { batchSize, epochs, evalEvery, saveEvery } = given;
          const options = { batchSize, epochs, evalEvery, saveEvery, data: own, beforeStep: budget(price, allowed) };
          const result = await supervise({ ...options, service, folder, signal: stop.signal }, (event) => {
            if (ends === "is stopped" && event.type === "step" && event.step === after) stop.abort();
          }).catch((error: Error) => {
            if (error.message !== "the machine went away") throw error;
          });
          expect(trainingCost(price, service.charged)).toBeLessThanOrEqual(allowed);
          if (result?.nextStep === result?.totalSteps && result !== undefined) completed += 1;
          if (result?.stopped?.includes("would make it") !== true) continue;
          refused += 1;
          // Not stopped before its time: the next step really does not fit.
          const dataset = new BatchedDataset(own.train, { batchSize, seed: 0 });
          const spent = await spentBy(RunFolder.at(folder));
          const { tokens } = plannedStep({ dataset, epochs, evalEvery, testData: own.test }, result.nextStep, spent);
          const next = { train: spent.train + tokens.train, evaluate: spent.evaluate + tokens.evaluate };
          expect(trainingCost(price, next)).toBeGreaterThan(allowed);
          // And again with the same sum: nothing is opened, nothing is trained.
          const before = service.trainers;
          await supervise({ ...options, service, folder });
          expect(service.trainers).toBe(before);
        }
      }),
      { numRuns: 200 },
    );
    expect(Math.min(completed, refused)).toBeGreaterThan(20); // both ends were reached
  });
});

describe("recovery of a run", () => {
  /** The service, whose trainers lose their model at these steps, counted over all of them. */
  const losing = (bigrams: BigramService, at: (step: number) => boolean): Service => {
    let steps = 0;
    const wrap = (trainer: Trainer): Trainer =>
      new Proxy(trainer, {
        get: (target, name) => {
          const value: unknown = Reflect.get(target, name, target);
          if (name === "step")
            return async (...call: Parameters<Trainer["step"]>) => {
              if (at(steps++)) throw new NotFoundError("There is no model m of this key.", { status: 404 });
              return target.step(...call);
            };
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    return {
      createLoraTrainingClient: async () => wrap(await bigrams.createLoraTrainingClient()),
      createTrainingClientFromState: async (path) => wrap(await bigrams.createTrainingClientFromState(path)),
      createTrainingClientFromStateWithOptimizer: async (path) =>
        wrap(await bigrams.createTrainingClientFromStateWithOptimizer(path)),
    };
  };
  const recovery = { backoffMs: 0 };

  it("goes back to the newest checkpoint, says so, and ends as an undisturbed run, with the break in its record", async () => {
    const [straight, folder] = [await newFolder(), await newFolder()];
    await supervise({ service: new BigramService(), folder: straight });
    const service = losing(new BigramService(), (step) => step === 6);
    const seen: RunRecovers[] = [];
    const result = await supervise(
      { service, folder, recovery },
      (event) => event.type === "recovery" && seen.push(event),
    );
    expect(result).toMatchObject({ nextStep: 10, totalSteps: 10 });
    expect(await read(folder, "metrics.jsonl")).toBe(await read(straight, "metrics.jsonl"));
    expect(seen.map(({ stage }) => stage)).toEqual(["lost", "recovered"]);
    expect(seen[1]?.message).toContain("the checkpoint 000004");
    const [row] = await RunFolder.at(folder).readRecoveries();
    expect(row).toMatchObject({ step: 4, reason: "evicted", checkpoint: "000004", attempt: 1, gone: [] });
  });

  it("fails with the error of the lost model after maxAttempts without a further step", async () => {
    const service = losing(new BigramService(), (step) => step >= 6);
    const failed = supervise({ service, folder: await newFolder(), recovery: { backoffMs: 0, maxAttempts: 2 } });
    await expect(failed).rejects.toThrow("There is no model m");
  });

  it("can be switched off, and refuses unknown options", async () => {
    const service = losing(new BigramService(), (step) => step === 6);
    await expect(supervise({ service, folder: await newFolder(), recovery: false })).rejects.toThrow("no model");
    for (const wrong of [{ maxAttempts: 0 }, { backoff: 1 }, { backoffMs: 0.5 }])
      await expect(supervise({ service, folder: await newFolder(), recovery: wrong as object })).rejects.toThrow(
        "recovery.",
      );
  });

  it("ends as interrupted where the signal comes while it waits", async () => {
    const [stop, folder] = [new AbortController(), await newFolder()];
    const service = losing(new BigramService(), (step) => step === 6);
    const result = await supervise({ service, folder, recovery: {}, signal: stop.signal }, (event) => {
      if (event.type === "recovery") stop.abort();
    });
    expect(result).toMatchObject({ stopped: "interrupted", nextStep: 4 });
  });
});
