/**
 * The recovery drill: training loops against a server that loses their models at random moments. Three loops: the cookbook's supervised
 * run, its reinforcement learning, and a loop of its own over a training client with the option `recovery`.
 */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type EnvGroup,
  RunFolder,
  runReinforcement,
  runSupervised,
  type SupervisedDatum,
  seededRandom,
} from "@tinklet/cookbook";
import { Datum, ServiceClient } from "@tinklet/sdk";
import { type LossKind, LossyServer, lossKinds, type PlannedLoss } from "./lossy-server.ts";

export type LoopKind = "supervised" | "reinforcement" | "client";
export const loopKinds: readonly LoopKind[] = ["supervised", "reinforcement", "client"];

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

const datum = (first: number): SupervisedDatum =>
  new Datum({
    modelInput: [first, first + 1, first + 2],
    lossFnInputs: { target_tokens: [first + 1, first + 2, first + 3], weights: [0, 1, 1] },
  });
const examples = Array.from({ length: 12 }, (_, i) => datum(10 * (i + 1)));

/** Rewards that differ within a group and depend on nothing but the environment's place. */
const environments: EnvGroup[] = Array.from({ length: 3 }, (_, group) => ({
  name: `group ${group}`,
  makeEnvs: ({ size }) =>
    Array.from({ length: size }, (_unused, env) => ({
      initialObservation: () => ({ tokens: [100 * (group + 1)] }),
      step: () => ({ reward: env + group, done: true }),
    })),
}));

/** How a loop ended. */
export interface Ending {
  readonly server: LossyServer;
  /** The weights of its last checkpoint. */
  readonly weights: readonly string[];
  /** Breaks that are in the run's record, or among the client's events. */
  readonly breaks: number;
  readonly steps: number;
}

/** Runs a loop to its end while the server loses models by the plan. */
export async function runLoop(kind: LoopKind, plan: readonly PlannedLoss[], viaLoad: boolean): Promise<Ending> {
  const server = new LossyServer(plan, { create_model_via_load_weights: viaLoad });
  let recovered = 0;
  const service = new ServiceClient({
    apiKey: "tml-drill",
    baseUrl: "http://stub",
    fetch: server.fetch,
    clock: server.clock,
    logger: quiet,
    telemetry: false,
    onEvent: (event) => {
      if (event.type !== "recovery" || event.stage !== "recovered") return;
      recovered++;
      server.replaced();
    },
  });
  const folder = await mkdtemp(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tinklet-recovery-"));
  const run = async (): Promise<Omit<Ending, "server">> => {
    if (kind === "client") return { ...(await ownLoop(service, server)), breaks: recovered };
    const common = { service, folder, baseModel: "stub/model", recovery: { clock: server.clock, maxAttempts: 8 } };
    const loop =
      kind === "supervised"
        ? runSupervised({
            ...common,
            ...{ data: { train: examples, test: [datum(7)], digest: "drill" }, learningRate: 0.1 },
            ...{ batchSize: 2, epochs: 2, saveEvery: 3, evalEvery: 4 },
          })
        : runReinforcement({
            ...common,
            ...{
              environments,
              steps: 6,
              groupSize: 2,
              groupsPerStep: 2,
              learningRate: 0.1,
              saveEvery: 2,
              evalEvery: 0,
            },
            ...{ samplingParams: { maxTokens: 3 }, clock: server.clock },
          });
    for (;;) {
      const { done, value } = await loop.next();
      if (!done) {
        if (value.type === "recovery" && value.stage === "recovered") server.replaced();
        continue;
      }
      const record = RunFolder.at(folder);
      const rows = await record.readMetrics();
      const steps = rows.map(({ step }) => step);
      if (new Set(steps).size !== steps.length) throw new Error(`steps are recorded twice: ${steps.join()}`);
      const breaks = (await record.readRecoveries()).length;
      const weights = server.weights(value.checkpoint?.state_path as string);
      return { weights, breaks, steps: value.nextStep };
    }
  };
  try {
    return { server, ...(await letPass(server, run())) };
  } finally {
    await letPass(server, service.close());
    await rm(folder, { recursive: true });
  }
}

/** A loop without the cookbook: the next step is submitted before the last one is awaited. */
async function ownLoop(service: ServiceClient, server: LossyServer) {
  const trainer = await service.createLoraTrainingClient({
    baseModel: "stub/model",
    rank: 8,
    seed: 1,
    recovery: { maxAttempts: 8 },
  });
  const steps = 12;
  const tokens = Float32Array.from([0, 1, 1]); // the caller's own array, which it changes
  let path = "";
  let before: PromiseLike<unknown> = Promise.resolve();
  for (let step = 0; step < steps; step++) {
    tokens[1] = step;
    const weighted = { modelInput: [step + 1, 2, 3], lossFnInputs: { target_tokens: [2, 3, 4], weights: tokens } };
    const pass = trainer.forwardBackward([weighted], "cross_entropy");
    const optim = trainer.optimStep({ learningRate: 0.1 * (step + 1) });
    await before;
    before = Promise.all([pass, optim]);
    if (step % 4 === 3) ({ path } = await trainer.saveState(`step-${step}`));
  }
  await before;
  return { weights: server.weights(path), steps };
}

/** Lets the server's time pass until the work is done. Files are written meanwhile, in real time. */
async function letPass<T>({ clock }: LossyServer, work: Promise<T>): Promise<T> {
  let isOver = false;
  const watched = work.finally(() => {
    isOver = true;
  });
  watched.catch(() => {});
  for (let turns = 0; !isOver; turns++) {
    if (turns > 200_000) throw new Error("the loop does not end");
    await clock.advance(Math.min(clock.nextDueMs ?? 0, 1_000));
    await new Promise((resolve) => setImmediate(resolve));
  }
  return watched;
}

/** What was found in one disturbed run. */
export interface Moment {
  readonly kind: LoopKind;
  readonly losses: readonly LossKind[];
  readonly breaks: number;
  readonly problems: readonly string[];
}

/** Disturbs loops at random moments, one to three in each run, until so many losses have come to pass. */
export async function recoveryDrill(losses: number, seed: number): Promise<Moment[]> {
  const next = seededRandom(seed);
  const undisturbed = new Map<LoopKind, Ending>();
  for (const kind of loopKinds) undisturbed.set(kind, await runLoop(kind, [], false));
  const moments: Moment[] = [];
  for (let run = 0, seen = 0; seen < losses; run++) {
    const kind = loopKinds[run % loopKinds.length] as LoopKind;
    const straight = undisturbed.get(kind) as Ending;
    const count = 1 + Math.floor(next() * 3);
    const plan = Array.from({ length: count }, () => ({
      at: 1 + Math.floor(next() * straight.server.requests * 1.2),
      kind: lossKinds[Math.floor(next() * lossKinds.length)] as LossKind,
    }));
    const viaLoad = next() < 0.5;
    const problems: string[] = [];
    try {
      const ending = await runLoop(kind, plan, viaLoad);
      const done = ending.server.done.map((loss) => loss.kind);
      seen += done.length;
      if (ending.weights.join("\n") !== straight.weights.join("\n")) problems.push("the weights differ");
      if (ending.weights.includes("garbage")) problems.push("a corrupted model's work is in the weights");
      if (ending.steps !== straight.steps) problems.push(`ended after ${ending.steps} steps`);
      if (ending.server.stale.length > 0) problems.push(`a stale model was trained: ${ending.server.stale[0]}`);
      moments.push({ kind, losses: done, breaks: ending.breaks, problems });
    } catch (error) {
      seen++;
      moments.push({
        kind,
        losses: plan.map((loss) => loss.kind),
        breaks: 0,
        problems: [String((error as Error).stack)],
      });
    }
    if (problems.length > 0) problems.push(JSON.stringify({ plan, viaLoad }));
  }
  return moments;
}
