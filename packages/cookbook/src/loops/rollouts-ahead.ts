/**
 * The rollouts of a run, step by step: those of the step that is trained next and, off-policy, those of later steps while it is trained.
 *
 * The rule: the rollouts of step k are sampled with the weights after step k - N, where N is `maxStepsOffPolicy`, or with those of the
 * last checkpoint if these are newer. The weights do not depend on timing, so that no rollout is too old and dropped, and a run that
 * resumes from a checkpoint samples what an uninterrupted run would have sampled.
 */
import type { Sampler } from "../clients.ts";
import { countingPrompts, type PromptTokens } from "../cost/prompt-tokens.ts";
import { EpisodeLimit } from "../environments/episode-limit.ts";
import type { EnvGroup, EpisodeFailure, RolloutSettings } from "../environments/index.ts";
import { rolloutSettingNames, type StartedRollouts, startRollouts } from "../environments/rollout.ts";
import { only } from "../option-names.ts";
import { derivedSeed, permutation } from "../random.ts";
import type { ReinforcementOptions, ReinforcementSettings } from "./reinforcement.ts";

/** The rollouts of one step, under way or done. */
export interface StepRollouts extends StartedRollouts {
  /** So many steps were trained before these weights. */
  readonly sampledAt: number;
  readonly prompts: PromptTokens;
  /** Every failure so far. */
  readonly failures: readonly EpisodeFailure[];
}

/** Rollouts of a run. */
export class RolloutsAhead {
  readonly #options: ReinforcementOptions;
  readonly #limit: EpisodeLimit;
  readonly #stop = new AbortController();
  readonly #begun = new Map<number, StepRollouts>();

  constructor(options: ReinforcementOptions) {
    this.#options = options;
    this.#limit = new EpisodeLimit(options.maxEpisodes ?? 256);
  }

  /** The rollouts of a step, asked for when the steps before it are trained. Begins those of later steps that have these weights. */
  async of(step: number): Promise<StepRollouts> {
    const missing = stepsFrom(this.#options, step).filter((one) => !this.#begun.has(one));
    if (missing.length > 0) {
      const sampler = await this.#options.trainer.saveWeightsAndGetSamplingClient();
      for (const one of missing) this.#begun.set(one, this.#begin(one, step, sampler));
    }
    const rollouts = this.#begun.get(step) as StepRollouts;
    this.#begun.delete(step);
    return rollouts;
  }

  /** Cancels the rollouts under way. */
  async close(): Promise<void> {
    this.#stop.abort(new DOMException("The run has ended.", "AbortError"));
    await Promise.allSettled([...this.#begun.values()].map(({ all }) => all));
  }

  #begin(step: number, sampledAt: number, weights: Sampler): StepRollouts {
    const { signal, seed = 0, onFailure } = this.#options;
    const { sampler, prompts } = countingPrompts(weights);
    const failures: EpisodeFailure[] = [];
    const started = startRollouts(
      groupsOf(this.#options, step),
      {
        ...only<RolloutSettings>(this.#options, rolloutSettingNames),
        sampler,
        seed: derivedSeed(seed, step),
        signal: signal === undefined ? this.#stop.signal : AbortSignal.any([this.#stop.signal, signal]),
        onFailure: (failure) => {
          failures.push(failure);
          onFailure?.(failure);
        },
      },
      this.#limit,
    );
    return { ...started, sampledAt, prompts, failures };
  }
}

/** The steps whose rollouts are under way while a step is trained, itself included. None is beyond the next checkpoint. */
function stepsFrom(options: ReinforcementOptions, step: number): number[] {
  const { maxStepsOffPolicy = 0, steps, run, saveEvery = 0 } = options;
  const saves = run !== undefined && saveEvery > 0;
  const end = saves ? (Math.floor(step / saveEvery) + 1) * saveEvery : Number.POSITIVE_INFINITY;
  const count = Math.min(maxStepsOffPolicy + 1, steps - step, end - step);
  return Array.from({ length: count }, (_, ahead) => step + ahead);
}

/** The groups of a step. A list is used in a new order in each pass. */
function groupsOf(
  { environments, groupsPerStep = 8, seed = 0 }: ReinforcementSettings,
  step: number,
): readonly EnvGroup[] {
  if (typeof environments === "function") return environments(step);
  return Array.from({ length: groupsPerStep }, (_, index) => {
    const at = step * groupsPerStep + index;
    const order = permutation(environments.length, derivedSeed(seed, 0x9b, Math.floor(at / environments.length)));
    return environments[order[at % environments.length] as number] as EnvGroup;
  });
}
