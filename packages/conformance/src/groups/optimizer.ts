/** The optimizer: AdamW; the effect of each hyper-parameter is measured by log-probs and by the adapter's values. */
import type { AdamParamsInput, TrainingClient } from "@tinklet/sdk";
import { downloadAdapter, select } from "../archive.ts";
import { group } from "../case.ts";
import { allClose, close, closeRelative, fail, holds, largestDifference } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, otherLesson, passBytes, score, sum } from "../data.ts";

const pass = (trainer: TrainingClient, weights = 1, tokens = lesson) =>
  trainer.forwardBackward([datumOf(tokens, { weights })], "cross_entropy");

/** The change of the lesson's log-prob by one step with these parameters, on a new model. */
async function effect(context: Context, params: AdamParamsInput, weights = 1): Promise<number> {
  const trainer = await context.trainer();
  const before = sum(await score(trainer));
  await step(trainer, params, weights);
  return sum(await score(trainer)) - before;
}

/** One pass with the given weight, then a step. A weight of zero gives an explicit zero gradient. */
async function step(trainer: TrainingClient, params: AdamParamsInput, weights = 1): Promise<void> {
  await pass(trainer, weights);
  await trainer.optimStep(params);
}

type TrainingAction = (trainer: TrainingClient) => PromiseLike<unknown>;

/** The largest change of the lesson's log-probs by `second`, after `first` on the same model. */
async function movedBy(context: Context, first: TrainingAction, second: TrainingAction): Promise<number> {
  const trainer = await context.trainer();
  await first(trainer);
  const before = await score(trainer);
  await second(trainer);
  return largestDifference(await score(trainer), before);
}

async function adapterOf(context: Context, trainer: TrainingClient) {
  const { path } = await trainer.saveWeightsForSampler(context.uniqueName("optimizer"));
  return downloadAdapter(context, path);
}

export const optimizer = group("optimizer", "the optimizer is AdamW, and every hyper-parameter takes effect", [
  [
    "learning-rate-zero",
    "learning rate warm-up starts at zero",
    "a learning rate of 0 changes nothing",
    async (context) => {
      const trainer = await context.trainer();
      const before = await score(trainer);
      await step(trainer, { learningRate: 0 });
      allClose(await score(trainer), before, 1e-5, "log-probs after a step with learning rate 0");
    },
  ],
  [
    "learning-rate-scales",
    "learning rate schedules rely on it",
    "twice the learning rate gives twice the step",
    async (context) => {
      const one = await effect(context, await context.measures.plainStep(context, 1));
      const two = await effect(context, await context.measures.plainStep(context, 2));
      closeRelative(two / one, 2, 0.2, "effect of twice the learning rate");
    },
  ],
  [
    "first-step",
    "Adam's first step has a known size, which distinguishes it from other optimizers",
    "with eps → 0 the first step changes every weight with a gradient by exactly the learning rate",
    async (context) => {
      const trainer = await context.trainer();
      const learningRate = 1e-3;
      await step(trainer, { learningRate });
      const moved: number[] = [];
      for (const [, { values }] of select(await adapterOf(context, trainer), /lora_B/)) moved.push(...values);
      const nonzero = moved.filter((value) => value !== 0).map(Math.abs);
      holds(nonzero.length > 0, "lora_B after one step", "nonzero values", "none");
      nonzero.sort((a, b) => a - b);
      // B starts at zero, so it now equals the step. A few gradients are so small that eps has an effect.
      const median = nonzero[nonzero.length >> 1]!;
      closeRelative(median, learningRate, 0.01, "size of Adam's first step (median of |lora_B|)");
      holds(
        nonzero.at(-1)! <= learningRate * 1.01,
        "largest |lora_B| after one step",
        `at most ${learningRate}`,
        nonzero.at(-1)!,
      );
    },
  ],
  [
    "scale-free",
    "Adam normalises by the gradient's size",
    "with a tiny eps ten times the gradient gives the same step",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const [one, ten] = [await effect(context, { learningRate }), await effect(context, { learningRate }, 10)];
      closeRelative(ten, one, 0.02, "effect of a step on ten times the gradient");
    },
  ],
  [
    "eps",
    "the request's eps must be used",
    "an eps much larger than the gradient reduces the step",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const [usual, damped] = [
        await effect(context, { learningRate }),
        await effect(context, { learningRate, eps: 1e6 }),
      ];
      holds(Math.abs(damped) < 0.01 * usual, "effect of a step with eps 1e6", `less than 1 % of ${usual}`, damped);
    },
  ],
  [
    "beta1",
    "beta1 controls the momentum",
    "a step without gradient continues by momentum with beta1 0.9 and changes nothing with beta1 0",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const drift = (beta1: number) => {
        const params = { learningRate, beta1 };
        return movedBy(
          context,
          (trainer) => step(trainer, params),
          (trainer) => step(trainer, params, 0),
        );
      };
      const [without, withMomentum] = [await drift(0), await drift(0.9)];
      close(without, 0, 1e-5, "change by a step without gradient, beta1 0");
      holds(withMomentum > 1e-3, "change by a step without gradient, beta1 0.9", "above 0.001", withMomentum);
    },
  ],
  [
    "beta2",
    "beta2 controls the decay of the second moment",
    "after large gradients a small gradient gives a small step with beta2 0.999 and a full step with beta2 0",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const second = (beta2: number) => {
        const params = { learningRate, beta1: 0, beta2 };
        const large: TrainingAction = async (trainer) => {
          // Two steps: lora_B starts at zero, so lora_A has no gradient in the first pass.
          await step(trainer, params, 100);
          await step(trainer, params, 100);
        };
        return movedBy(context, large, (trainer) => step(trainer, params, 0.01));
      };
      const [forgetful, longMemory] = [await second(0), await second(0.999)];
      holds(
        longMemory < 0.1 * forgetful,
        "step after large ones, beta2 0.999",
        `less than a tenth of ${forgetful}`,
        longMemory,
      );
    },
  ],
  [
    "weight-decay",
    "ignored weight decay is missing regularisation",
    "decay is decoupled: weights are multiplied by 1 − lr·decay, so lr·decay = 1 without a gradient gives the base model",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const trainer = await context.trainer();
      const base = await score(trainer);
      await step(trainer, { learningRate });
      const trained = await score(trainer);
      holds(
        largestDifference(trained, base) > 1e-2,
        "log-probs after a step",
        "different from the base model",
        "the same",
      );
      await step(trainer, { learningRate: 0.5, weightDecay: 2, beta1: 0 }, 0);
      allClose(await score(trainer), base, 1e-3, "log-probs after a step with lr·decay = 1");
    },
  ],
  [
    "weight-decay-size",
    "Adam with L2 regularisation in the gradient is a different algorithm",
    "lora_A shrinks by exactly the factor 1 − lr·decay in a step without gradient",
    async (context) => {
      const trainer = await context.trainer();
      const before = select(await adapterOf(context, trainer), /lora_A/);
      await step(trainer, { learningRate: 0.1, weightDecay: 1, beta1: 0 }, 0);
      const after = new Map(select(await adapterOf(context, trainer), /lora_A/));
      for (const [name, { values }] of before) {
        const now = after.get(name)?.values ?? fail("tensors of the archive", name, [...after.keys()]);
        allClose(
          now,
          values.map((value) => value * 0.9),
          5e-3 * Math.max(...values.map(Math.abs)),
          `${name} after decay`,
        );
      }
    },
  ],
  [
    "no-decay",
    "the default must not shrink weights",
    "weight_decay 0 does not change weights without a gradient",
    async (context) => {
      const params = { learningRate: await context.measures.rate(context), beta1: 0 };
      const moved = await movedBy(
        context,
        (trainer) => step(trainer, params),
        (trainer) => step(trainer, { ...params, weightDecay: 0 }, 0),
      );
      close(moved, 0, 1e-5, "change by a step without gradient or decay");
    },
  ],
  [
    "clipping",
    "gradient clipping protects a run from one bad batch",
    "grad_clip_norm scales the whole gradient down to that norm",
    async (context) => {
      const step = await context.measures.plainStep(context);
      const gradClipNorm = 1e-3; // far below the gradient norms in this case
      const enlarged = { ...step, learningRate: step.learningRate * 1e3, gradClipNorm };
      const [one, ten] = [await effect(context, enlarged), await effect(context, enlarged, 10)];
      holds(one > 0, "effect of a clipped step", "above 0", one);
      closeRelative(ten, one, 0.1, "effect of a clipped step on ten times the gradient");
      const unclipped = await effect(context, step);
      const tight = await effect(context, { ...step, gradClipNorm });
      holds(tight < 0.5 * unclipped, "effect of a tightly clipped step", `less than half of ${unclipped}`, tight);
    },
  ],
  [
    "clipping-above",
    "clipping must not change gradients below the limit",
    "a limit above the gradient norm has no effect",
    async (context) => {
      const step = await context.measures.plainStep(context);
      const [free, limited] = [await effect(context, step), await effect(context, { ...step, gradClipNorm: 1e9 })];
      closeRelative(limited, free, 0.01, "effect with a limit far above the gradient norm");
    },
  ],
  [
    "gradients-are-cleared",
    "gradients that are not cleared would be applied again in every later step",
    "a step clears the accumulated gradients",
    async (context) => {
      const params = { learningRate: await context.measures.rate(context), beta1: 0 };
      const moved = await movedBy(
        context,
        (trainer) => step(trainer, params),
        (trainer) => trainer.optimStep(params),
      );
      close(moved, 0, 1e-5, "change by a second step without a pass");
    },
  ],
  [
    "defaults",
    "programs without explicit parameters rely on them",
    "learning_rate 1e-4, beta1 0.9, beta2 0.95, eps 1e-12, no decay, no clipping",
    async (context) => {
      const run = async (params: Record<string, number>) => {
        const modelId = await context.rawModel();
        const weights = [1, 0.2].map((weight) => [datumOf(weight === 1 ? lesson : otherLesson, { weights: weight })]);
        for (const i of [0, 1]) {
          await context.http.call("forward_backward", passBytes(modelId, 2 * i + 1, weights[i]));
          const body = { model_id: modelId, seq_id: 2 * i + 2, adam_params: params, type: "optim_step" };
          await context.http.call("optim_step", body);
        }
        const save = {
          model_id: modelId,
          seq_id: 5,
          path: context.uniqueName("defaults"),
          type: "save_weights_for_sampler",
        };
        const { json } = await context.http.call("save_weights_for_sampler", save);
        return downloadAdapter(context, json.path);
      };
      const implicit = await run({});
      const explicit = await run({
        learning_rate: 1e-4,
        beta1: 0.9,
        beta2: 0.95,
        eps: 1e-12,
        weight_decay: 0,
        grad_clip_norm: 0,
      });
      for (const [name, { values }] of explicit.tensors) {
        allClose(implicit.tensors.get(name)?.values ?? [], values, 1e-6, `${name} with omitted parameters`);
      }
    },
  ],
  [
    "repeats",
    "users need reproducible results for debugging",
    "the same program with the same seed gives the same numbers, up to floating-point precision",
    async (context) => {
      const noise = await context.measures.noise(context);
      holds(noise < 0.05, "difference between two runs of one program", "less than 0.05", noise);
    },
  ],
]);
