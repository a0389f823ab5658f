/**
 * Measures of a server that many cases need, taken once: how large a step must be to show without leaving the linear range, and
 * how far two runs of one program lie apart. With them the same cases hold for a toy in float32 and a large model in bfloat16.
 */
import type { AdamParams, AdamParamsInput, TrainingClient } from "tinklet";
import { fail, largestDifference, show } from "./checks.ts";
import type { Context } from "./context.ts";
import { datumOf, lesson, score, sum } from "./data.ts";

/** How far a plain step should move the log-prob of the lesson's 16 targets together. */
const target = 0.25;
/** An eps so large that Adam's step is the gradient times a constant: lr·g / (|g| + eps) ≈ (lr/eps)·g. */
const largeEps = 1e6;

export class Measures {
  #plain: Promise<number> | undefined;
  #rate: Promise<number> | undefined;
  #noise: Promise<number> | undefined;

  /**
   * Adam's parameters for a step along the gradient itself: what a step does is then proportional to the gradient, so sums, means
   * and clipping can be told apart from outside.
   *
   * @param factor - of the step.
   */
  async plainStep(context: Context, factor = 1): Promise<AdamParams> {
    this.#plain ??= retryLater(
      () => this.#findPlain(context),
      () => (this.#plain = undefined),
    );
    const scale = (await this.#plain) * factor;
    return { learningRate: scale * largeEps, eps: largeEps, beta1: 0, beta2: 0.5, weightDecay: 0, gradClipNorm: 0 };
  }

  /** A learning rate at which one ordinary Adam step on the lesson shows clearly and harms nothing. */
  rate(context: Context): Promise<number> {
    this.#rate ??= retryLater(
      () => findRate(context),
      () => (this.#rate = undefined),
    );
    return this.#rate;
  }

  /** How far log-probs may lie apart that should be the same: 1e-4, and more where the server does not repeat itself. */
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
      `the lesson's log-prob to rise by about ${target}, for some step size`,
      `it moved by ${show(seen)} at a step size of ${show(scale)}`,
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
  return fail("one Adam step on one example", "its log-prob to rise by between 0.5 and 8, for some rate", seen);
}

/** How far one step on the lesson moves the lesson's log-prob. */
async function effect(trainer: TrainingClient, step: AdamParamsInput): Promise<number> {
  const before = sum(await score(trainer));
  await trainer.step([datumOf(lesson)], "cross_entropy", step);
  return sum(await score(trainer)) - before;
}

/** A measure whose case ran out of time is taken again by the next case that needs it. */
function retryLater<T>(measure: () => Promise<T>, forget: () => unknown): Promise<T> {
  const taken = measure();
  taken.catch(forget);
  return taken;
}
