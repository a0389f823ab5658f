/** Loss semantics: compares losses with closed forms of the log-probs that the server returns. */
import {
  Datum,
  type ForwardBackwardOutput,
  type LossFnConfig,
  type LossFnType,
  ModelInput,
  type TrainingClient,
} from "@tinklet/sdk";
import { group } from "../case.ts";
import { allClose, close, closeRelative, fail, holds, notOffered } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, logprobsOf, otherLesson, passBytes, score, sum, tokensOf } from "../data.ts";

const reductions = ["mean", "sum", "min", "max", "slack", "unique", "hash_unordered"];
const n = lesson.length - 1;

function lossSum(output: ForwardBackwardOutput): number {
  return output.metrics["loss:sum"] ?? fail("metrics", "loss:sum", output.metrics);
}

/** The change of the lesson's log-prob by one plain step after `accumulate`, on a new model. */
async function effect(
  context: Context,
  accumulate: (trainer: TrainingClient) => PromiseLike<unknown>,
  factor = 1,
): Promise<number> {
  const step = await context.measures.plainStep(context, factor);
  const trainer = await context.trainer();
  const before = sum(await score(trainer));
  await accumulate(trainer);
  await trainer.optimStep(step);
  return sum(await score(trainer)) - before;
}

const pass = (
  trainer: TrainingClient,
  data: readonly Datum[],
  lossFn: LossFnType = "cross_entropy",
  lossFnConfig?: LossFnConfig,
) => trainer.forwardBackward(data as never, lossFn, { lossFnConfig });

/** Policy data with ratios of 0.5, 0.9, 1, 1.1 and 2 and advantages of both signs, repeated over the lesson. */
async function policyData(trainer: TrainingClient) {
  const logprobs = await score(trainer);
  const shifts = [0.5, 0.9, 1, 1.1, 2].map(Math.log);
  const sampled = logprobs.map((value, i) => value - shifts[i % shifts.length]!);
  const advantages = logprobs.map((_, i) => (i % 2 === 0 ? 1 : -1) * (1 + (i % 3)));
  return { datum: datumOf(lesson, { logprobs: sampled, advantages }), sampled, advantages };
}

type Formula = (l: number, q: number, a: number) => number;

/** Asserts that a loss is the sum of a formula over the returned log-probs. */
async function closedForm(
  context: Context,
  lossFn: LossFnType,
  formula: Formula,
  config?: LossFnConfig,
): Promise<void> {
  const trainer = await context.trainer();
  const { datum, sampled, advantages } = await policyData(trainer);
  const output = await pass(trainer, [datum], lossFn, config);
  const parts = logprobsOf(output).map((l, i) => formula(l, sampled[i]!, advantages[i]!));
  const size = sum(parts.map(Math.abs));
  close(lossSum(output), sum(parts), 1e-4 * size + 1e-3, `loss:sum of ${lossFn}`);
}

const clip = (x: number, low: number, high: number) => Math.min(Math.max(x, low), high);
const ppo =
  (low: number, high: number): Formula =>
  (l, q, a) => {
    const ratio = Math.exp(l - q);
    return -Math.min(ratio * a, clip(ratio, low, high) * a);
  };
const cispo =
  (low: number, high: number): Formula =>
  (l, q, a) =>
    -clip(Math.exp(l - q), low, high) * l * a;
const dro =
  (beta: number): Formula =>
  (l, q, a) =>
    -(l * a - 0.5 * beta * (l - q) ** 2);

const sums = "losses are sums over tokens and data, not means";

export const losses = group("losses", "losses are sums over tokens with the official formulas", [
  [
    "cross-entropy",
    "it is the main metric of supervised runs",
    "cross_entropy is the sum of −w·logprob",
    async (context) => {
      const trainer = await context.trainer();
      const weights = lesson.slice(1).map((_, i) => (i % 4) / 2);
      const output = await pass(trainer, [datumOf(lesson, { weights })]);
      const expected = -sum(logprobsOf(output).map((l, i) => l * weights[i]!));
      closeRelative(lossSum(output), expected, 1e-4, "loss:sum");
    },
  ],
  [
    "metrics-have-reductions",
    "clients combine chunks with the reduction in the metric key and fail without it",
    "metric keys are name:reduction with a known reduction; loss:sum is present",
    async (context) => {
      const { metrics } = await pass(await context.trainer(), [datumOf(lesson)]);
      for (const key of Object.keys(metrics)) {
        const parts = key.split(":");
        holds(parts.length === 2 && reductions.includes(parts[1]!), `metric ${key}`, "name:reduction", key);
      }
      holds("loss:sum" in metrics, "metrics", "loss:sum", metrics);
    },
  ],
  [
    "loss-adds-over-data",
    "with a mean, learning rates would depend on the batch size",
    sums,
    async (context) => {
      const trainer = await context.trainer();
      const [a, b] = [datumOf(lesson), datumOf(otherLesson)];
      const alone = lossSum(await pass(trainer, [a])) + lossSum(await pass(trainer, [b]));
      closeRelative(lossSum(await pass(trainer, [a, b])), alone, 1e-3, "loss:sum of two data in one batch");
    },
  ],
  [
    "loss-scales-with-weights",
    "weights scale the contribution of a token",
    "three times the weights give three times the loss",
    async (context) => {
      const trainer = await context.trainer();
      const one = lossSum(await pass(trainer, [datumOf(lesson)]));
      closeRelative(
        lossSum(await pass(trainer, [datumOf(lesson, { weights: 3 })])),
        3 * one,
        1e-3,
        "loss:sum, weights 3",
      );
    },
  ],
  [
    "gradient-scales-with-weights",
    "a server that normalises by the weights ignores their scale",
    "four times the weights give four times the gradient",
    async (context) => {
      const one = await effect(context, (trainer) => pass(trainer, [datumOf(lesson)]));
      const four = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: 4 })]));
      closeRelative(four / one, 4, 0.25, "effect of a plain step with weights 4 relative to weights 1");
    },
  ],
  [
    "gradient-adds-over-data",
    "with a mean over the batch, the learning rates of all recipes would be wrong",
    "four equal data give four times the gradient",
    async (context) => {
      const datum = datumOf(lesson);
      const one = await effect(context, (trainer) => pass(trainer, [datum]));
      const four = await effect(context, (trainer) => pass(trainer, [datum, datum, datum, datum]));
      closeRelative(four / one, 4, 0.25, "effect of a plain step on four equal data relative to one");
    },
  ],
  [
    "gradient-adds-over-tokens",
    "with a mean over tokens, the tokens of long sequences would count less",
    "the gradient of a datum is the sum of the gradients of its tokens",
    async (context) => {
      const part = (keep: (i: number) => boolean) =>
        effect(context, (trainer) =>
          pass(trainer, [datumOf(lesson, { weights: lesson.slice(1).map((_, i) => (keep(i) ? 1 : 0)) })]),
        );
      const whole = await part(() => true);
      const halves = (await part((i) => i < n / 2)) + (await part((i) => i >= n / 2));
      closeRelative(halves / whole, 1, 0.25, "sum of the effects of two halves of a sequence relative to the whole");
    },
  ],
  [
    "accumulation",
    "large batches are sent as several passes",
    "two passes before a step equal one pass over both",
    async (context) => {
      const [a, b] = [datumOf(lesson), datumOf(otherLesson)];
      const together = await effect(context, (trainer) => pass(trainer, [a, b]));
      const separate = await effect(context, async (trainer) => {
        await pass(trainer, [a]);
        await pass(trainer, [b]);
      });
      closeRelative(separate, together, 0.02, "effect of two passes and one step");
    },
  ],
  [
    "accumulation-over-losses",
    "recipes add a supervised term to a policy gradient",
    "passes with different losses add their gradients",
    async (context) => {
      const separate = await effect(context, async (trainer) => {
        const q = await score(trainer);
        await pass(trainer, [datumOf(lesson)]);
        await pass(trainer, [datumOf(lesson, { logprobs: q, advantages: 1 })], "importance_sampling");
      });
      // On-policy with advantage 1, importance sampling has the same gradient as cross-entropy.
      const twice = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: 2 })]));
      closeRelative(separate, twice, 0.05, "effect of cross_entropy plus importance_sampling");
    },
  ],
  [
    "zero-weights",
    "masked prompts must not be trained on",
    "with zero weights the loss is zero and a step changes nothing",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const trainer = await context.trainer();
      const before = await score(trainer);
      const output = await pass(trainer, [datumOf(lesson, { weights: 0 })]);
      close(lossSum(output), 0, 1e-6, "loss:sum with zero weights");
      await trainer.optimStep({ learningRate });
      allClose(await score(trainer), before, 1e-5, "log-probs after a step on zero weights");
    },
  ],
  [
    "masked-tokens",
    "only the selected tokens must be trained on",
    "tokens of weight zero affect neither the loss nor its scale",
    async (context) => {
      const trainer = await context.trainer();
      const weights = lesson.slice(1).map((_, i) => (i >= n - 3 ? 1 : 0));
      const output = await pass(trainer, [datumOf(lesson, { weights })]);
      closeRelative(lossSum(output), -sum(logprobsOf(output).slice(-3)), 1e-4, "loss:sum of the last three tokens");
    },
  ],
  [
    "negative-weights",
    "unlearning and custom losses need gradients of both signs",
    "weights may be negative",
    async (context) => {
      const moved = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: -1 })]));
      holds(moved < -0.05, "effect of a step with weights −1", "the log-prob to decrease by at least 0.05", moved);
    },
  ],
  [
    "forward-equals-pass",
    "evaluation and training must see the same model",
    "forward returns the loss and log-probs of forward_backward",
    async (context) => {
      const trainer = await context.trainer();
      const a = await trainer.forward([datumOf(lesson)], "cross_entropy");
      const b = await pass(trainer, [datumOf(lesson)]);
      allClose(logprobsOf(a), logprobsOf(b), 1e-3, "log-probs of forward");
      closeRelative(lossSum(a), lossSum(b), 1e-3, "loss:sum of forward");
    },
  ],
  [
    "forward-leaves-no-gradient",
    "evaluation must not train",
    "a step after only a forward changes nothing",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const trainer = await context.trainer();
      const before = await score(trainer);
      await trainer.optimStep({ learningRate });
      allClose(await score(trainer), before, 1e-5, "log-probs after forward and a step");
    },
  ],
  [
    "unloaded-gradients",
    "leftover gradients of an unloaded model must not train the next model",
    "a new model starts without gradients, also after another model was unloaded",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const first = await context.trainer();
      await pass(first, [datumOf(lesson)]); // accumulated but not applied
      await first.unload();
      const second = await context.trainer();
      const before = await score(second);
      await second.optimStep({ learningRate });
      allClose(await score(second), before, 1e-5, "log-probs of a new model after a step without a pass");
    },
  ],
  [
    "importance-sampling",
    "most reinforcement learning recipes use it",
    "importance_sampling is the sum of −exp(l − q)·A",
    (context) => closedForm(context, "importance_sampling", (l, q, a) => -Math.exp(l - q) * a),
  ],
  [
    "importance-sampling-gradient",
    "recipes rely on the scale of the policy gradient",
    "on-policy with advantage 2 its gradient is that of cross_entropy with weight 2",
    async (context) => {
      const policy = await effect(context, async (trainer) => {
        const q = await score(trainer);
        await pass(trainer, [datumOf(lesson, { logprobs: q, advantages: 2 })], "importance_sampling");
      });
      const supervised = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: 2 })]));
      closeRelative(policy, supervised, 0.05, "effect of importance_sampling");
    },
  ],
  [
    "ppo",
    "PPO is defined by its clipping",
    "ppo is the sum of −min(ρA, clip(ρ, 0.8, 1.2)·A)",
    (context) => closedForm(context, "ppo", ppo(0.8, 1.2)),
  ],
  [
    "ppo-config",
    "ignored thresholds silently change the algorithm",
    "loss_fn_config sets clip_low_threshold and clip_high_threshold",
    (context) => closedForm(context, "ppo", ppo(0.95, 1.05), { clip_low_threshold: 0.95, clip_high_threshold: 1.05 }),
  ],
  [
    "ppo-clipped-gradient",
    "clipped tokens must have no gradient",
    "the gradient is zero where the clipped branch is smaller",
    async (context) => {
      const moved = await effect(context, async (trainer) => {
        const q = (await score(trainer)).map((l) => l - Math.log(2)); // ratio 2 with a positive advantage: every token is clipped
        await pass(trainer, [datumOf(lesson, { logprobs: q, advantages: 1 })], "ppo");
      });
      close(moved, 0, 1e-3, "effect of a step on clipped data");
    },
  ],
  [
    "cispo",
    "CISPO is a separate loss, not a variant of PPO",
    "cispo is the sum of −clip(ρ, lo, hi)·l·A",
    (context) => closedForm(context, "cispo", cispo(0.8, 1.2), { clip_low_threshold: 0.8, clip_high_threshold: 1.2 }),
  ],
  [
    "cispo-clipped-gradient",
    "unlike PPO, CISPO keeps the gradient of clipped tokens",
    "the clipped ratio is a constant factor of the gradient",
    async (context) => {
      const config = { clip_low_threshold: 0.8, clip_high_threshold: 1.2 };
      const clipped = await effect(context, async (trainer) => {
        const q = (await score(trainer)).map((l) => l - Math.log(2));
        await pass(trainer, [datumOf(lesson, { logprobs: q, advantages: 1 })], "cispo", config);
      });
      const weighted = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: 1.2 })]));
      closeRelative(clipped, weighted, 0.05, "effect of a step on data with the ratio clipped to 1.2");
    },
  ],
  [
    "dro",
    "it is one of the five official losses",
    "dro is the sum of −(l·A − ½β(l − q)²)",
    (context) => closedForm(context, "dro", dro(0.5), { beta: 0.5 }),
  ],
  [
    "custom-loss",
    "the client implements custom losses through the weights of cross_entropy",
    "weights −dL/dl give the gradient of L",
    async (context) => {
      const custom = await effect(context, (trainer) =>
        trainer.forwardBackwardCustom([datumOf(lesson, {})], (_, logprobs) => ({ loss: logprobs[0]!.sum().mul(-2) })),
      );
      const plain = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: 2 })]));
      closeRelative(custom, plain, 0.05, "effect of the custom loss −2·Σl");
    },
  ],
  [
    "elementwise",
    "users plot the loss per token",
    "if elementwise_loss is returned, its sum is the loss",
    async (context) => {
      const output = await pass(await context.trainer(), [datumOf(lesson, { weights: 2 })]);
      const tensor = output.lossFnOutputs[0]?.["elementwise_loss"];
      if (tensor === undefined) notOffered("the server returns no elementwise_loss");
      const values = Array.from(tensor.values, Number);
      allClose(
        values,
        logprobsOf(output).map((l) => -2 * l),
        1e-3,
        "elementwise_loss",
      );
    },
  ],
  [
    "batch-does-not-matter",
    "padding must not affect shorter sequences of a batch",
    "a datum's log-probs do not depend on the other data in the batch",
    async (context) => {
      const trainer = await context.trainer();
      const short = tokensOf(8, 5);
      const alone = await score(trainer, short);
      const output = await trainer.forward(
        [datumOf(tokensOf(9, 33)), datumOf(short), datumOf(lesson)],
        "cross_entropy",
      );
      allClose(logprobsOf(output, 1), alone, 2e-3, "log-probs of a short datum in a batch with longer ones");
    },
  ],
  [
    "causal",
    "attention to future tokens makes the loss meaningless",
    "log-probs depend only on preceding tokens",
    async (context) => {
      const trainer = await context.trainer();
      const changed = [...lesson.slice(0, 10), ...tokensOf(77, lesson.length - 10)];
      const [a, b] = [await score(trainer), await score(trainer, changed)];
      allClose(b.slice(0, 9), a.slice(0, 9), 2e-3, "log-probs before the first changed token");
    },
  ],
  [
    "log-probs-are-log-probs",
    "log-probs must be normalised over the vocabulary",
    "every log-prob is at most 0, and the probabilities of alternatives sum to at most 1",
    async (context) => {
      const trainer = await context.trainer();
      // One position with each of the kit's token ids as the target: disjoint events.
      const all = Array.from({ length: 28 }, (_, i) => i + 3);
      const prefix = tokensOf(6, 3);
      const data = all.map(
        (token) =>
          new Datum({
            modelInput: ModelInput.fromInts(prefix),
            lossFnInputs: { target_tokens: [...prefix.slice(1), token], weights: prefix.map(() => 1) },
          }),
      );
      const output = await trainer.forward(data, "cross_entropy");
      const mass = sum(all.map((_, i) => Math.exp(logprobsOf(output, i).at(-1)!)));
      holds(
        mass > 0 && mass < 1.02,
        "sum of the probabilities of 28 different next tokens",
        "above 0, at most 1",
        mass,
      );
    },
  ],
  [
    "learns",
    "a model must learn from its training data",
    "repeated steps on one example increase its log-prob",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const trainer = await context.trainer();
      const before = sum(await score(trainer));
      await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
      const once = sum(await score(trainer)) - before;
      for (let i = 1; i < 12; i++) await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
      const all = sum(await score(trainer)) - before;
      holds(
        all > 4 * once,
        "increase of the log-prob in 12 steps",
        `more than four times the increase of one step, ${once}`,
        all,
      );
    },
  ],
  [
    "missing-inputs",
    "a loss must not run with a missing input",
    "a policy loss without advantages is rejected",
    async (context) => {
      const bytes = passBytes(await context.rawModel(), 1, [datumOf(lesson, { logprobs: -1 })], {
        lossFn: "importance_sampling",
      });
      await context.http.refused("importance_sampling without advantages", "forward_backward", bytes);
    },
  ],
]);
