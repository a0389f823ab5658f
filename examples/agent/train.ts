/**
 * Trains an agent of the AI SDK on the bundled model, offline: a short supervised warm-up shows it the tool, then reinforcement
 * learning on its own runs raises how often it succeeds. Everything goes through `@tinklet/ai`: the agent runs by `generateText`,
 * `record` keeps what it did, `toData` makes data of it.
 *
 *     node examples/agent/main.ts [--seed 1]       (Node 22.18 or newer, after npm run build)
 */
import { record, samplerModel, tinklet, toData } from "@tinklet/ai";
import { derivedSeed } from "@tinklet/cookbook";
import type { ServiceClient, TrainingClient } from "tinklet";
import { makeTasks, runAgent, type Task } from "./calculator.ts";
import { demonstration } from "./demonstrations.ts";

/** Settings of a run. */
export interface AgentTraining {
  readonly seed: number;
  /** Steps of reinforcement learning. @defaultValue 12 */
  readonly steps?: number;
  /** Steps of the warm-up. @defaultValue 36 */
  readonly warmUpSteps?: number;
  /** Demonstrations of each of them. @defaultValue 16 */
  readonly demonstrations?: number;
  /** Tasks that success is measured on, none of which is trained on. @defaultValue 100 */
  readonly testTasks?: number;
  /** Rate of reinforcement learning. @defaultValue 2e-4 */
  readonly learningRate?: number;
  /** Tasks of a step, and attempts at each. @defaultValue 16 and 8 */
  readonly groups?: number;
  readonly groupSize?: number;
  readonly log?: (line: string) => void;
}

export interface AgentResult {
  /** Shares of the test tasks that were solved, drawn at temperature 1: after the warm-up, and after training. */
  readonly before: number;
  readonly after: number;
  /** Mean reward of each step's own runs. */
  readonly rewards: readonly number[];
  /** How long it took; `processor` is the time of all cores of this process, which other programs on the machine do not lengthen much. */
  readonly seconds: {
    readonly warmUp: number;
    readonly training: number;
    readonly total: number;
    readonly processor: number;
  };
}

const solved = (text: string, task: Task): number => (text.trim() === task.answer ? 1 : 0);

/** The share of tasks that the trainer's weights, as they are, solve. */
async function successRate(trainer: TrainingClient, tasks: readonly Task[], seed: number): Promise<number> {
  const model = samplerModel(await trainer.saveWeightsAndGetSamplingClient());
  const runs = await Promise.all(tasks.map((task, i) => runAgent(model, task, { seed: derivedSeed(seed, i) })));
  return runs.reduce((sum, { text }, i) => sum + solved(text, tasks[i]!), 0) / tasks.length;
}

/** One run, from the bundled model to the trained agent, on a server inside this process. */
export async function trainAgent(training: AgentTraining): Promise<AgentResult> {
  const local = tinklet.local({ dataDir: "memory" });
  try {
    return await trainOn(await local.service(), training);
  } finally {
    await local.close();
  }
}

/** The same on a service that is there already. */
export async function trainOn(service: ServiceClient, training: AgentTraining): Promise<AgentResult> {
  const { seed, steps = 12, testTasks = 100, groups = 16, groupSize = 8, log = () => {} } = training;
  const { warmUpSteps = 36, demonstrations = 16, learningRate = 2e-4 } = training;
  const started = performance.now();
  const busy = process.cpuUsage();
  const seconds = () => (performance.now() - started) / 1000;
  const shown = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 16, seed });
  const tokenizer = await shown.getTokenizer();
  const tests = makeTasks(testTasks, derivedSeed(seed, 1));

  for (let step = 0; step < warmUpSteps; step++) {
    const data = makeTasks(demonstrations, derivedSeed(seed, 2, step)).map((task) => demonstration(tokenizer, task));
    const { loss } = await shown.step(data, "cross_entropy", { learningRate: 4e-3 });
    log(`warm-up ${step + 1}/${warmUpSteps}: loss ${((loss ?? 0) / data.length).toFixed(2)} per demonstration`);
  }
  const warmUp = seconds();
  // Rewards begin with an optimizer of their own, since the demonstrations' gradients are far larger. Its first steps are as long as the
  // rate allows, whatever the gradient: at 1.5e-3 the first one undid the warm-up.
  const { path } = await shown.saveState("warm-up");
  const trainer = await service.createTrainingClientFromState(path);
  const before = await successRate(trainer, tests, derivedSeed(seed, 3));
  log(`success after the warm-up: ${before}`);

  const rewards: number[] = [];
  const begun = seconds();
  for (let step = 0; step < steps; step++) {
    const model = samplerModel(await trainer.saveWeightsAndGetSamplingClient());
    const attempts = makeTasks(groups, derivedSeed(seed, 4, step)).flatMap((task) =>
      Array.from({ length: groupSize }, () => task),
    );
    const runs = await Promise.all(
      attempts.map((task, i) => runAgent(model, task, { seed: derivedSeed(seed, 5, step, i) })),
    );
    const trajectories = await Promise.all(runs.map((run) => record(run)));
    const scores = runs.map(({ text }, i) => solved(text, attempts[i]!));
    const data = toData(trajectories, scores, { groupSize });
    if (data.length > 0) await trainer.step(data, "importance_sampling", { learningRate });
    rewards.push(scores.reduce((sum, score) => sum + score, 0) / scores.length);
    log(
      `step ${step + 1}/${steps}: reward ${rewards.at(-1)!.toFixed(3)}, ${data.length} data, ${seconds().toFixed(0)} s`,
    );
  }
  const trained = seconds() - begun;
  const after = await successRate(trainer, tests, derivedSeed(seed, 3));
  log(`success after training: ${after}`);
  const { user, system } = process.cpuUsage(busy);
  const processor = (user + system) / 1e6;
  return { before, after, rewards, seconds: { warmUp, training: trained, total: seconds(), processor } };
}
