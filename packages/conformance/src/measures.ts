/**
 * Calibration values of a server, measured once and used by many cases: a step size with a visible effect in the linear range, and the
 * difference between two runs of the same program. They make the cases valid for a small float32 model and a large bfloat16 model.
 */
import type { AdamParams, AdamParamsInput, TrainingClient } from "@tinklet/sdk";
import { fail, largestDifference, show } from "./checks.ts";
import type { Context } from "./context.ts";
import { datumOf, lesson, score, sum } from "./data.ts";

/** The change of the total log-prob of the lesson's 16 targets that a plain step should have. */
const target = 0.25;
/** An eps so large that Adam's step is proportional to the gradient: lr·g / (|g| + eps) ≈ (lr/eps)·g. */
const largeEps = 1e6;

export class Measures {
  #plain: Promise<number> | undefined;
  #rate: Promise<number> | undefined;
  #noise: Promise<number> | undefined;

  /**
   * Adam parameters for a step proportional to the gradient, so that cases can distinguish sums, means and clipping.
   *
   * @param factor - scales the step.
   */
  async plainStep(context: Context, factor = 1): Promise<AdamParams> {
    this.#plain ??= retryLater(
      () => this.#findPlain(context),
      () => (this.#plain = undefined),
    );
    const scale = (await this.#plain) * factor;
    return { learningRate: scale * largeEps, eps: largeEps, beta1: 0, beta2: 0.5, weightDecay: 0, gradClipNorm: 0 };
  }

  /** A learning rate at which one ordinary Adam step on the lesson has a clear effect and does not diverge. */
  rate(context: Context): Promise<number> {
    this.#rate ??= retryLater(
      () => findRate(context),
      () => (this.#rate = undefined),
    );
    return this.#rate;
  }

  /** Tolerance for log-probs that should be equal: 1e-4, or more if the server is not deterministic. */
  async tolerance(context: Context): Promise<number> {
    this.#noise ??= retryLater(
      () => this.#findNoise(context),
      () => (this.#noise = undefined),
    );
    return Math.min(1e-4 + 4 * (await this.#noise), 0.05);
  }

  /** The largest difference between the log-probs of two runs of one program. */
  async noise(context: Context): Promise<number> {
    await this.tolerance(context);
    return this.#noise!;
  }

  async #findPlain(context: Context): Promise<number> {
    let scale = 1e-4;
    let seen = 0;
    for (let attempt = 0; attempt < 8; attempt++) {
      const step = { learningRate: scale * largeEps, eps: largeEps, beta1: 0, beta2: 0.5 };
      seen = await effect(await context.trainer(), step);
      if (seen > target / 2 && seen < target * 2) return scale;
      scale *= seen > 1e-6 ? Math.min(Math.max(target / seen, 1e-3), 1e3) : 1e3;
    }
    return fail(
      "a step along the gradient (Adam with a large eps)",
      `the lesson's log-prob to increase by about ${target}, for some step size`,
      `a change of ${show(seen)} at a step size of ${show(scale)}`,
    );
  }

  async #findNoise(context: Context): Promise<number> {
    const learningRate = await this.rate(context);
    const run = async () => {
      const trainer = await context.trainer();
      await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
      return score(trainer);
    };
    return largestDifference(await run(), await run());
  }
}

async function findRate(context: Context): Promise<number> {
  let learningRate = 1e-3;
  let seen = 0;
  for (let attempt = 0; attempt < 6; attempt++) {
    seen = await effect(await context.trainer(), { learningRate });
    if (seen > 0.5 && seen < 8) return learningRate;
    learningRate *= seen >= 8 || seen < -0.5 ? 0.25 : 4;
  }
  return fail("one Adam step on one example", "its log-prob to increase by 0.5 to 8, for some learning rate", seen);
}

/** The change of the lesson's log-prob by one step on the lesson. */
async function effect(trainer: TrainingClient, step: AdamParamsInput): Promise<number> {
  const before = sum(await score(trainer));
  await trainer.step([datumOf(lesson)], "cross_entropy", step);
  return sum(await score(trainer)) - before;
}

/** Caches a measurement; if it fails, for example at a case's deadline, the next case repeats it. */
function retryLater<T>(measure: () => Promise<T>, forget: () => unknown): Promise<T> {
  const taken = measure();
  taken.catch(forget);
  return taken;
}
