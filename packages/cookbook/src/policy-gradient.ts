/**
 * The policy-gradient loop: sample groups of answers with the weights as they are, score them, centre the rewards within
 * each group, and train with importance sampling on what was sampled. On-policy: every step samples afresh.
 */
import { type AdamParamsInput, Datum, InvalidInputError, ModelInput, type SamplingParamsInput } from "tinklet";
import { checkOptions, given } from "tinklet/wire";
import type { Sampler, Trainer } from "./clients.ts";
import { policyGradientNames } from "./option-names.ts";
import { nextStepOf } from "./plan.ts";
import { derivedSeed, permutation } from "./random.ts";
import type { CheckpointRecord, MetricsRow, RunFolder } from "./run-folder.ts";
import type { RunResult } from "./run-result.ts";
import { type Schedule, scheduleFactor } from "./schedule.ts";
import { repeatable } from "./supervised.ts";

/** A prompt whose sampled answers are rewarded. Further fields are passed on to the reward function. */
export interface Problem {
  /** Token ids of the prompt. */
  readonly prompt: readonly number[];
}

/** One sampled answer. */
export interface Answer {
  readonly tokens: readonly number[];
  readonly logprobs: readonly number[];
  readonly stopReason: string;
}

/** An answer with its reward and its advantage over its group. */
export interface ScoredAnswer extends Answer {
  readonly reward: number;
  /** The reward minus the mean of the group; exactly 0 where all rewards of the group are equal. */
  readonly advantage: number;
}

/** Options of {@link trainPolicyGradient}. */
export interface PolicyGradientOptions<P extends Problem> {
  readonly trainer: Trainer;
  readonly problems: readonly P[];
  /** The reward function: higher is better. Rewards are centred within each group. */
  readonly reward: (answer: Answer, problem: P) => number | Promise<number>;
  readonly steps: number;
  readonly learningRate: number;
  /** Answers per problem. @defaultValue 8 */
  readonly groupSize?: number;
  /** Problems per step. @defaultValue 8 */
  readonly groupsPerStep?: number;
  /** Temperature must stay at 1: log-probabilities are those of the untempered distribution. */
  readonly samplingParams?: Omit<SamplingParamsInput, "temperature" | "seed">;
  /** Learning-rate schedule. @defaultValue "constant" */
  readonly schedule?: Schedule;
  readonly adam?: Omit<AdamParamsInput, "learningRate">;
  /** @defaultValue 0 */
  readonly seed?: number;
  readonly run?: RunFolder;
  /** Save after every so many steps. 0: only at the end. @defaultValue 0 */
  readonly saveEvery?: number;
  /** The checkpoint that the trainer was made from, when resuming: its step is the first. {@link openRun} finds it. */
  readonly resumeFrom?: CheckpointRecord | undefined;
  /**
   * Aborting it ends the run with a checkpoint of every step trained so far: answers that are being sampled are given up, a
   * training step that is under way is finished.
   */
  readonly signal?: AbortSignal;
}

/** Event: one training step has finished. */
export interface PolicyStepDone<P extends Problem> {
  readonly type: "step";
  readonly step: number;
  readonly totalSteps: number;
  readonly metrics: MetricsRow;
  readonly groups: readonly { readonly problem: P; readonly answers: readonly ScoredAnswer[] }[];
}

/** Events of {@link trainPolicyGradient}. The last one is always `done`. */
export type PolicyGradientEvent<P extends Problem> =
  | PolicyStepDone<P>
  | { readonly type: "checkpoint"; readonly record: CheckpointRecord }
  | ({ readonly type: "done" } & PolicyGradientResult);

/** How the run ended. */
export type PolicyGradientResult = RunResult;

/**
 * Trains on rewards. Iterate to run it; the last event, `done`, says how it ended (and so does the generator's return value).
 *
 * @example
 * ```ts
 * const short = (answer: Answer) => -answer.tokens.length;
 * for await (const event of trainPolicyGradient({ trainer, problems, reward: short, steps: 20, learningRate: 1e-4 })) {
 *   if (event.type === "step") console.log(event.metrics["env/all/reward/total"]);
 * }
 * ```
 */
export async function* trainPolicyGradient<P extends Problem>(
  options: PolicyGradientOptions<P>,
): AsyncGenerator<PolicyGradientEvent<P>, PolicyGradientResult, void> {
  try {
    checkOptions("trainPolicyGradient", options, policyGradientNames);
    const result = yield* steps(options);
    await options.run?.close(); // whoever is told that it is done may write there
    yield { type: "done", ...result };
    return result;
  } finally {
    await options.run?.close();
  }
}

async function* steps<P extends Problem>(
  options: PolicyGradientOptions<P>,
): AsyncGenerator<PolicyGradientEvent<P>, PolicyGradientResult, void> {
  const { trainer, run, steps: totalSteps, schedule = "constant", saveEvery = 0, resumeFrom } = options;
  checkValues(options);
  const startStep = resumeFrom === undefined ? 0 : nextStepOf(resumeFrom, 1);
  await run?.rewind(startStep);
  let checkpoint = resumeFrom;
  let step = startStep;
  for (; step < totalSteps && !options.signal?.aborted; step++) {
    const sampler = await trainer.saveWeightsAndGetSamplingClient();
    const groups = await sampleGroups(sampler, options, step);
    if (groups === undefined) break; // aborted: nothing of this step was trained
    const data = groups.flatMap(({ problem, answers }) => groupData(problem, answers));
    const learningRate = options.learningRate * scheduleFactor(schedule, { step, totalSteps });
    // With equal rewards in every group there is no gradient, and an empty batch is an error to most servers.
    const trained =
      data.length === 0
        ? undefined
        : await trainer.step(data, "importance_sampling", { ...options.adam, learningRate });
    const metrics: MetricsRow = {
      step,
      progress: (step + 1) / totalSteps,
      learning_rate: learningRate,
      ...repeatable(trained?.metrics ?? {}),
      ...rewardMetrics(groups),
    };
    await run?.appendMetrics(metrics);
    yield { type: "step", step, totalSteps, metrics, groups };
    if (run !== undefined && saveEvery > 0 && (step + 1) % saveEvery === 0 && step + 1 < totalSteps) {
      checkpoint = await save(trainer, run, step + 1, false);
      yield { type: "checkpoint", record: checkpoint };
    }
  }
  const complete = step >= totalSteps;
  if (run !== undefined && step > startStep && (complete || checkpoint?.batch !== step)) {
    checkpoint = await save(trainer, run, step, complete);
    yield { type: "checkpoint", record: checkpoint };
  }
  return { nextStep: step, totalSteps, ...(complete ? {} : { stopped: "interrupted" }), ...given({ checkpoint }) };
}

function checkValues<P extends Problem>(options: PolicyGradientOptions<P>): void {
  const { problems, groupSize = 8, samplingParams = {} } = options;
  if (problems.length === 0) throw new InvalidInputError("problems", "must not be empty");
  if (!Number.isInteger(groupSize) || groupSize < 2) {
    throw new InvalidInputError("groupSize", `must be an integer above 1, and is ${groupSize}`, {
      hint: "Rewards are compared within a group; a single answer has nothing to be compared with.",
    });
  }
  const { temperature = 1, topK = -1, topP = 1 } = samplingParams as SamplingParamsInput;
  if (temperature !== 1 || topK > 0 || topP !== 1) {
    throw new InvalidInputError("samplingParams", "must leave temperature, topK and topP at their defaults", {
      hint: "Sampled log-probabilities ignore them, so training would be off-policy without anybody noticing.",
    });
  }
}

type ScoredGroup<P extends Problem> = PolicyStepDone<P>["groups"][number];

/** Samples and scores the groups of one step, all at once; undefined when the signal ends the sampling. */
async function sampleGroups<P extends Problem>(
  sampler: Sampler,
  options: PolicyGradientOptions<P>,
  step: number,
): Promise<readonly ScoredGroup<P>[] | undefined> {
  const { problems, groupSize = 8, groupsPerStep = 8, seed = 0, signal } = options;
  const chosen = chooseProblems(problems, groupsPerStep, seed, step);
  const groups = Promise.all(
    chosen.map(async (problem, index) => {
      const { sequences } = await sampler.sample(ModelInput.fromInts(problem.prompt), {
        numSamples: groupSize,
        // Sample i of a request draws from seed + i, so that requests must lie at least a group apart.
        samplingParams: { ...options.samplingParams, seed: derivedSeed(seed, step, index) },
        ...given({ signal }),
      });
      const answers = sequences.map(({ tokens, logprobs, stopReason }) => {
        if (logprobs === undefined)
          throw new InvalidInputError("logprobs", "are missing from a sample; the server must give them");
        return { tokens, logprobs, stopReason };
      });
      const rewards = await Promise.all(answers.map(async (answer) => options.reward(answer, problem)));
      // Compared, not subtracted: the mean of equal rewards is not always their value to the last bit.
      const equal = rewards.every((reward) => reward === rewards[0]);
      const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
      const scored = answers.map((answer, at): ScoredAnswer => {
        const reward = rewards[at] as number;
        if (!Number.isFinite(reward))
          throw new InvalidInputError("reward", `must return a finite number, and returned ${reward}`);
        return { ...answer, reward, advantage: equal ? 0 : reward - mean };
      });
      return { problem, answers: scored };
    }),
  );
  try {
    return await groups;
  } catch (error) {
    // The SDK rejects with the signal's reason; other samplers may make an AbortError of their own.
    if (signal?.aborted && (error === signal.reason || (error as Error)?.name === "AbortError")) return undefined;
    throw error;
  }
}

/** Goes through all problems in a new order each time round. */
function chooseProblems<P>(problems: readonly P[], count: number, seed: number, step: number): P[] {
  return Array.from({ length: count }, (_, index) => {
    const at = step * count + index;
    const order = permutation(problems.length, derivedSeed(seed, 0x9b, Math.floor(at / problems.length)));
    return problems[order[at % problems.length] as number] as P;
  });
}

/** Data of one group; none where all rewards are equal. Prompt positions have advantage 0 and so no gradient. */
function groupData(problem: Problem, answers: readonly ScoredAnswer[]): Datum[] {
  if (answers.every(({ advantage }) => advantage === 0)) return [];
  const padding = new Array<number>(problem.prompt.length - 1).fill(0);
  return answers
    .filter(({ tokens }) => tokens.length > 0)
    .map(({ tokens, logprobs, advantage }) => {
      const all = [...problem.prompt, ...tokens];
      return new Datum({
        modelInput: ModelInput.fromInts(all.slice(0, -1)),
        lossFnInputs: {
          target_tokens: all.slice(1),
          logprobs: [...padding, ...logprobs],
          advantages: [...padding, ...tokens.map(() => advantage)],
        },
      });
    });
}

function rewardMetrics(groups: readonly ScoredGroup<Problem>[]): Record<string, number> {
  const answers = groups.flatMap(({ answers }) => answers);
  const mean = (value: (answer: ScoredAnswer) => number) =>
    answers.reduce((sum, answer) => sum + value(answer), 0) / answers.length;
  const mixed = groups.filter(({ answers }) => answers.some(({ advantage }) => advantage !== 0)).length;
  return {
    "env/all/reward/total": mean(({ reward }) => reward),
    "env/all/ac_tokens_per_turn": mean(({ tokens }) => tokens.length),
    "env/all/ob_tokens_per_turn": groups.reduce((sum, { problem }) => sum + problem.prompt.length, 0) / groups.length,
    "env/all/total_episodes": answers.length,
    "env/all/by_group/frac_mixed": mixed / groups.length,
  };
}

async function save(trainer: Trainer, run: RunFolder, nextStep: number, final: boolean): Promise<CheckpointRecord> {
  const name = final ? "final" : String(nextStep).padStart(6, "0");
  const [state, sampler] = await Promise.all([trainer.saveState(name), trainer.saveWeightsForSampler(name)]);
  const paths = { state_path: state.path, sampler_path: sampler.path };
  const record = { name, batch: nextStep, ...(final ? { final } : {}), ...paths };
  await run.appendCheckpoint(record);
  return record;
}
