/** Reinforcement learning and on-policy distillation as runs in a folder: begun, resumed, recorded. */
import { checkOptions, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import type { EnvGroup } from "../environments/index.ts";
import { only, runNames, without } from "../option-names.ts";
import { type RunOptions, type RunStarts, runLoop } from "../runs/open-run.ts";
import type { RunRecovers } from "../runs/recovery.ts";
import type { RunResult } from "../runs/run-result.ts";
import type { KlOptions } from "./kl-advantages.ts";
import {
  checkReinforcement,
  type ReinforcementEvent,
  type ReinforcementOptions,
  reinforcementNames,
  trainReinforcement,
} from "./reinforcement.ts";

/** Options of {@link runReinforcement}: those of the loop, without the trainer and the run folder, which it makes. */
export interface ReinforcementRunOptions
  extends RunOptions,
    Omit<ReinforcementOptions, "trainer" | "run" | "resumeFrom" | "signal" | "seed"> {
  /** Further settings for `config.json`, which a resumed run must agree with: what the environments depend on, for example. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

const names: OptionNames<ReinforcementRunOptions> = {
  ...runNames,
  ...without(reinforcementNames, ["trainer", "run", "resumeFrom"]),
  settings: true,
};

/**
 * Trains on the rewards of environments, recorded in a folder: called again after an interruption, or a crash, it resumes where
 * the run stopped. The intervals of evaluating and saving may change from call to call, and the number of steps may grow.
 *
 * @throws {@link DataError} when the folder holds a run with other settings, or another process writes there.
 *
 * @example
 * ```ts
 * for await (const event of runReinforcement({ service, folder: "runs/rl", baseModel, environments, steps: 20, learningRate: 1e-4 })) {
 *   if (event.type === "step") console.log(event.step, event.metrics["env/all/reward/total"], event.failed);
 * }
 * ```
 */
export async function* runReinforcement(
  options: ReinforcementRunOptions,
): AsyncGenerator<RunStarts | RunRecovers | ReinforcementEvent, RunResult, void> {
  checkOptions("runReinforcement", options, names);
  checkReinforcement(options);
  const { steps, environments, learningRate, beforeStep } = options;
  return yield* runLoop(options, {
    settings: settingsOf(options),
    claim: { changeable: ["save_every", "eval_every"], growing: ["steps"] },
    totalSteps: steps,
    beforeStep,
    adam: options.adam ?? {},
    train: (opened) => {
      const loop = only<ReinforcementOptions>(options, reinforcementNames);
      return trainReinforcement({ ...loop, environments, steps, learningRate, ...opened });
    },
  });
}

/** Settings of a run that determine its results, by the official cookbook's names where it has them. */
function settingsOf(options: ReinforcementRunOptions): Record<string, unknown> {
  const { environments, samplingParams, adam, kl, lossFnConfig, microBatches = 1, maxStepsOffPolicy = 0 } = options;
  return {
    steps: options.steps,
    learning_rate: options.learningRate,
    lr_schedule: options.schedule ?? "constant",
    group_size: options.groupSize ?? 8,
    groups_per_batch: options.groupsPerStep ?? 8,
    loss_fn: options.lossFn ?? "importance_sampling",
    num_substeps: options.substeps ?? 1,
    advantages: options.advantages ?? "centred",
    kl_penalty_coef: kl?.coefficient ?? 0,
    max_turns: options.maxTurns ?? 32,
    save_every: options.saveEvery ?? 0,
    eval_every: options.evalEvery ?? 10,
    ...(typeof environments === "function" ? {} : { num_groups: environments.length }),
    ...(kl?.discount ? { kl_discount_factor: kl.discount } : {}),
    ...(microBatches > 1 ? { num_minibatches: microBatches } : {}),
    ...(maxStepsOffPolicy > 0 ? { max_steps_off_policy: maxStepsOffPolicy } : {}),
    ...omitUndefined({ loss_fn_config: lossFnConfig, sampling_params: samplingParams, adam }),
    ...options.settings,
  };
}

/** Options of {@link runDistillation}. */
export interface DistillationRunOptions extends Omit<ReinforcementRunOptions, "kl" | "environments"> {
  /** Prompts for the student; their rewards count too, if they give any. */
  readonly environments: readonly EnvGroup[] | ((step: number) => readonly EnvGroup[]);
  /**
   * The model whose distribution is learned; it must have the student's tokens. For several teachers, a function of the group, for example of
   * its tags; the distance from each is then `teacher_kl/TAG`.
   */
  readonly teacher: KlOptions["reference"];
  /** Weight of a nat of difference. @defaultValue 1 */
  readonly coefficient?: number;
  /** As {@link KlOptions.discount}. @defaultValue 0 */
  readonly discount?: number;
}

/**
 * On-policy distillation: the student answers, and each token's advantage is how much likelier the teacher finds it. Recorded and
 * resumed as {@link runReinforcement}; the distance is `teacher_kl` in the metrics.
 *
 * @example
 * ```ts
 * const teacher = await service.createSamplingClient({ modelPath: "tinker://…" });
 * for await (const event of runDistillation({ service, folder, baseModel, environments, teacher, steps: 20, learningRate: 1e-4 })) {
 *   if (event.type === "step") console.log(event.metrics["teacher_kl"]);
 * }
 * ```
 */
export async function* runDistillation(
  options: DistillationRunOptions,
): AsyncGenerator<RunStarts | RunRecovers | ReinforcementEvent, RunResult, void> {
  const { teacher, coefficient = 1, discount = 0, ...rest } = options;
  checkOptions("runDistillation", rest, without(names, ["kl"]));
  return yield* runReinforcement({ ...rest, kl: { reference: teacher, coefficient, discount, centred: false } });
}
