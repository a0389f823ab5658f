/**
 * Finds common defects of a run in the metrics of its steps, while it runs or afterwards: each once, with what to do about it. Looks at
 * no weights and no data.
 */

import { estimate } from "../evaluation/statistics.ts";

export type FindingCode =
  | "diverging"
  | "loss_not_falling"
  | "overfitting"
  | "no_signal"
  | "reward_falling"
  | "kl_growing"
  | "gradients_exploding"
  | "answers_cut"
  | "examples_cut"
  | "examples_repeated"
  | "test_leaked"
  | "learning_rate";

/** A defect of a run. */
export interface Finding {
  readonly code: FindingCode;
  /** The step at which it was found, from 0. */
  readonly step: number;
  /** What was seen, with its numbers. */
  readonly message: string;
  /** What to change. */
  readonly remedy: string;
}

type Metrics = Readonly<Record<string, number | undefined>>;

/** Steps that are averaged, so that one noisy batch decides nothing. */
const window = 8;
/** Evaluations in succession that must be worse than the best one. */
const worseEvaluations = 2;
/** Steps in succession without a group whose rewards differ. */
const stepsWithoutSignal = 5;
/** Steps in succession whose gradients are far larger than those before, and how much. */
const [steepSteps, steepFactor] = [3, 30];
/** Steps in succession in which most answers end at the token limit, and the share. */
const [cutSteps, cutAnswers] = [5, 0.8];
/** Nats per token between sampler and trainer; asynchronous runs stay well below. */
const largeKl = 0.3;

const shown = (value: number): string => value.toPrecision(3);

/**
 * Watches one run.
 *
 * @example
 * ```ts
 * const diagnosis = new Diagnosis();
 * for await (const event of runSupervised({ … })) {
 *   if (event.type !== "step") continue;
 *   for (const { message, remedy } of diagnosis.observe(event.step, event.totalSteps, event.metrics)) console.warn(message, remedy);
 * }
 * ```
 */
export class Diagnosis {
  readonly #found = new Set<FindingCode>();
  readonly #losses: number[] = [];
  readonly #rewards: number[] = [];
  /** The best of the earlier windows of rewards. */
  #bestRewards = { mean: Number.NEGATIVE_INFINITY, standardError: 0 };
  #firstStep: number | undefined;
  #best: { readonly step: number; readonly loss: number } | undefined;
  #worse = 0;
  #silent = 0;
  #hadSignal = false;
  #kls: number[] = [];
  readonly #norms: number[] = [];
  #cut = 0;

  /** Adds the metrics of a step; returns what is found for the first time. */
  observe(step: number, totalSteps: number, metrics: Metrics): Finding[] {
    this.#firstStep ??= step;
    const findings = [
      this.#training(step, totalSteps, metrics["train_mean_nll"]),
      this.#evaluation(step, metrics["test/nll"]),
      this.#reward(step, totalSteps, metrics["env/all/reward/total"], metrics["env/all/by_group/frac_mixed"]),
      this.#gradients(step, metrics["unclipped_grad_l2:mean"]),
      this.#answers(step, metrics["env/all/frac_cut"]),
      this.#divergence(step, metrics["optim/kl_sample_train_v1"]),
    ];
    const fresh = findings.filter((finding) => finding !== undefined && !this.#found.has(finding.code)) as Finding[];
    for (const { code } of fresh) this.#found.add(code);
    return fresh;
  }

  #training(step: number, totalSteps: number, loss: number | undefined): Finding | undefined {
    if (loss === undefined) return undefined;
    const higher = "Choose a lower learning rate, or warm it up.";
    if (!Number.isFinite(loss)) {
      return { code: "diverging", step, message: `The training loss at step ${step + 1} is ${loss}.`, remedy: higher };
    }
    this.#losses.push(loss);
    // A resumed run may be near its end, where the loss no longer falls.
    if (this.#firstStep !== 0 || this.#losses.length < 2 * window) return undefined;
    const before = estimate(this.#losses.slice(0, window));
    const after = estimate(this.#losses.slice(-window));
    const noise = 3 * Math.hypot(before.standardError, after.standardError);
    if (after.mean > 1.3 * before.mean + noise) {
      const message = `The training loss rose from ${shown(before.mean)} to ${shown(after.mean)}.`;
      return { code: "diverging", step, message, remedy: higher };
    }
    // Thirds of the run so far, at two moments only: each further look would be a further chance to be misled by noise.
    if (step + 1 !== totalSteps && step + 1 !== Math.floor(0.8 * totalSteps)) return undefined;
    const third = Math.floor(this.#losses.length / 3);
    if (third < window) return undefined;
    const { mean: early } = estimate(this.#losses.slice(0, third));
    const { mean: late } = estimate(this.#losses.slice(-third));
    if (early > 0.05 && late > 0.92 * early) {
      return {
        code: "loss_not_falling",
        step,
        message: `After ${step + 1} steps the training loss is ${shown(late)}, from ${shown(early)} at the beginning.`,
        remedy: "Choose a higher learning rate, and look at what is learned (`npx tinklet inspect`).",
      };
    }
    return undefined;
  }

  #evaluation(step: number, loss: number | undefined): Finding | undefined {
    if (loss === undefined || !Number.isFinite(loss)) return undefined;
    if (this.#best === undefined || loss <= this.#best.loss) {
      this.#best = { step, loss };
      this.#worse = 0;
      return undefined;
    }
    const { step: bestStep, loss: best } = this.#best;
    this.#worse = loss > 1.05 * best + 0.01 ? this.#worse + 1 : 0;
    if (this.#worse < worseEvaluations) return undefined;
    return {
      code: "overfitting",
      step,
      message: `The test loss rose to ${shown(loss)}; its best was ${shown(best)} after ${bestStep} steps.`,
      remedy: "Train for fewer epochs, use the best checkpoint, or add examples.",
    };
  }

  #gradients(step: number, norm: number | undefined): Finding | undefined {
    if (norm === undefined || norm === 0) return undefined; // a step of reinforcement learning can have nothing to learn
    if (Number.isNaN(norm)) return undefined; // the loss is not a number either
    this.#norms.push(norm);
    const before = this.#norms.slice(0, -steepSteps);
    if (before.length < window) return undefined;
    const usual = before.toSorted((a, b) => a - b)[Math.floor(before.length / 2)] as number;
    const last = this.#norms.slice(-steepSteps);
    // The largest one so far, too: at the end of training norms fall, and a return to the first ones is no explosion.
    const highest = before.reduce((most, one) => Math.max(most, one), 0);
    if (last.some((one) => one < steepFactor * usual || one <= highest)) return undefined;
    return {
      code: "gradients_exploding",
      step,
      message: `The norm of the gradients rose to ${shown(last.at(-1) as number)}; half of the earlier steps were below ${shown(usual)}.`,
      remedy: "Choose a lower learning rate, or clip the gradients (adam: { gradClipNorm: 1 }).",
    };
  }

  #answers(step: number, cut: number | undefined): Finding | undefined {
    if (cut === undefined) return undefined;
    this.#cut = cut >= cutAnswers ? this.#cut + 1 : 0;
    if (this.#cut < cutSteps) return undefined;
    return {
      code: "answers_cut",
      step,
      message: `In the last ${this.#cut} steps at least ${cutAnswers * 100} % of the answers ended at the token limit.`,
      remedy: "Raise maxTokens, or reward short answers: what is cut off cannot be rewarded.",
    };
  }

  #reward(
    step: number,
    totalSteps: number,
    reward: number | undefined,
    mixed: number | undefined,
  ): Finding | undefined {
    if (reward === undefined) return undefined;
    this.#rewards.push(reward);
    if (mixed !== undefined) {
      this.#silent = mixed === 0 ? this.#silent + 1 : 0;
      this.#hadSignal ||= mixed > 0;
      // A run of a few steps is judged at its end.
      const isSilentRun = step + 1 === totalSteps && this.#silent > 1 && this.#silent === totalSteps;
      if (isSilentRun || (this.#silent >= stepsWithoutSignal && !this.#hasRisen())) {
        return {
          code: "no_signal",
          step,
          message: `In the last ${this.#silent} steps all answers of each group got the same reward (${shown(reward)} on average), so there is nothing to learn from.`,
          remedy: this.#hadSignal
            ? "Raise the temperature or the group size; the model always answers alike."
            : "Check the reward function on a few answers, choose easier tasks or larger groups, or fine-tune on examples first.",
        };
      }
    }
    // Windows of the best and of the last steps: a healthy run returns to what it had.
    const end = this.#rewards.length - window;
    if (end < window) return undefined;
    const earlier = estimate(this.#rewards.slice(end - window, end));
    if (earlier.mean > this.#bestRewards.mean) this.#bestRewards = earlier;
    if (end < 2 * window) return undefined;
    const { mean: best, standardError: bestNoise } = this.#bestRewards;
    const { mean: last, standardError: lastNoise } = estimate(this.#rewards.slice(-window));
    const { mean: first } = estimate(this.#rewards.slice(0, window));
    const noise = 6 * Math.hypot(bestNoise, lastNoise);
    if (last >= Math.min(best - noise, (first + best) / 2) || best - last < 0.2 * Math.abs(best)) return undefined;
    return {
      code: "reward_falling",
      step,
      message: `The reward fell to ${shown(last)}; its best was ${shown(best)}.`,
      remedy: "Choose a lower learning rate, or add a KL penalty; resume from an earlier checkpoint.",
    };
  }

  /** Whether the reward is higher than at the start: then equal rewards mean that the tasks are solved. */
  #hasRisen(): boolean {
    const { mean: first } = estimate(this.#rewards.slice(0, stepsWithoutSignal));
    const { mean: last } = estimate(this.#rewards.slice(-stepsWithoutSignal));
    return this.#hadSignal && last > first;
  }

  #divergence(step: number, kl: number | undefined): Finding | undefined {
    if (kl === undefined) return undefined;
    this.#kls = [...this.#kls, kl].slice(-window);
    const { mean } = estimate(this.#kls);
    if (this.#kls.length < window || mean < largeKl) return undefined;
    return {
      code: "kl_growing",
      step,
      message: `Sampler and trainer differ by ${shown(mean)} nats per token (KL), averaged over ${window} steps.`,
      remedy: "Sample with newer weights (fewer steps off policy), or choose a lower learning rate.",
    };
  }
}
