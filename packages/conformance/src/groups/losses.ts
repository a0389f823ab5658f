/** Loss semantics: what the numbers are, against closed forms of the log-probs that the server itself returns. */
import {
  Datum,
  type ForwardBackwardOutput,
  type LossFnConfig,
  type LossFnType,
  ModelInput,
  type TrainingClient,
} from "tinklet";
import { group } from "../case.ts";
import { allClose, close, closeRelative, fail, holds, notOffered } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, logprobsOf, otherLesson, passBytes, score, sum, tokensOf } from "../data.ts";

const reductions = ["mean", "sum", "min", "max", "slack", "unique", "hash_unordered"];
const n = lesson.length - 1;

function lossSum(output: ForwardBackwardOutput): number {
  return output.metrics["loss:sum"] ?? fail("metrics", "loss:sum", output.metrics);
}

/** How far the lesson's log-prob moves by one plain step after `accumulate`, on a fresh model. */
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

/** Ratios of 0.5, 0.9, 1, 1.1, 2 and advantages of both signs, repeated over the lesson. */
async function policyData(trainer: TrainingClient) {
  const logprobs = await score(trainer);
  const shifts = [0.5, 0.9, 1, 1.1, 2].map(Math.log);
  const sampled = logprobs.map((value, i) => value - shifts[i % shifts.length]!);
  const advantages = logprobs.map((_, i) => (i % 2 === 0 ? 1 : -1) * (1 + (i % 3)));
  return { datum: datumOf(lesson, { logprobs: sampled, advantages }), sampled, advantages };
}

type Formula = (l: number, q: number, a: number) => number;

/** Insists that a loss is the sum of a formula over the returned log-probs. */
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

const sums = "sums over tokens and data; nothing is averaged";

export const losses = group("losses", "losses are token sums with the official formulas", [
  [
    "cross-entropy",
    "the number that every supervised run looks at",
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
    "clients combine chunks by the reduction in the key, and crash without one",
    "metric keys are name:reduction, with a known reduction; loss:sum is there",
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
    "a mean would make learning rates depend on the batch",
    sums,
    async (context) => {
      const trainer = await context.trainer();
      const [a, b] = [datumOf(lesson), datumOf(otherLesson)];
      const alone = lossSum(await pass(trainer, [a])) + lossSum(await pass(trainer, [b]));
      closeRelative(lossSum(await pass(trainer, [a, b])), alone, 1e-3, "loss:sum of two data together");
    },
  ],
  [
    "loss-scales-with-weights",
    "weights are how much a token counts",
    "three times the weights, three times the loss",
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
    "a server that normalises by the weights ignores what the user asked for",
    "four times the weights, four times the gradient",
    async (context) => {
      const one = await effect(context, (trainer) => pass(trainer, [datumOf(lesson)]));
      const four = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: 4 })]));
      closeRelative(four / one, 4, 0.25, "effect of a plain step, weights 4 against weights 1");
    },
  ],
  [
    "gradient-adds-over-data",
    "a mean over the batch changes every learning rate in every recipe",
    "four equal data, four times the gradient",
    async (context) => {
      const datum = datumOf(lesson);
      const one = await effect(context, (trainer) => pass(trainer, [datum]));
      const four = await effect(context, (trainer) => pass(trainer, [datum, datum, datum, datum]));
      closeRelative(four / one, 4, 0.25, "effect of a plain step on four equal data against one");
    },
  ],
  [
    "gradient-adds-over-tokens",
    "a mean over tokens makes long answers count less",
    "the gradient of a datum is the sum of the gradients of its tokens",
    async (context) => {
      const part = (keep: (i: number) => boolean) =>
        effect(context, (trainer) =>
          pass(trainer, [datumOf(lesson, { weights: lesson.slice(1).map((_, i) => (keep(i) ? 1 : 0)) })]),
        );
      const whole = await part(() => true);
      const halves = (await part((i) => i < n / 2)) + (await part((i) => i >= n / 2));
      closeRelative(halves / whole, 1, 0.25, "effects of the two halves of a sequence, together, against the whole");
    },
  ],
  [
    "accumulation",
    "batches that do not fit are sent in parts",
    "two passes before a step are one pass on both",
    async (context) => {
      const [a, b] = [datumOf(lesson), datumOf(otherLesson)];
      const together = await effect(context, (trainer) => pass(trainer, [a, b]));
      const apart = await effect(context, async (trainer) => {
        await pass(trainer, [a]);
        await pass(trainer, [b]);
      });
      closeRelative(apart, together, 0.02, "effect of two passes and a step");
    },
  ],
  [
    "accumulation-over-losses",
    "recipes add a supervised term to a policy gradient",
    "passes with different losses add their gradients",
    async (context) => {
      const apart = await effect(context, async (trainer) => {
        const q = await score(trainer);
        await pass(trainer, [datumOf(lesson)]);
        await pass(trainer, [datumOf(lesson, { logprobs: q, advantages: 1 })], "importance_sampling");
      });
      // On-policy with advantage 1, importance sampling has the gradient of cross-entropy.
      const twice = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: 2 })]));
      closeRelative(apart, twice, 0.05, "effect of cross_entropy plus importance_sampling");
    },
  ],
  [
    "zero-weights",
    "masked prompts must teach nothing",
    "zero weights: zero loss, and a step that changes nothing",
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
    "a mask must select exactly its tokens",
    "tokens of weight zero count neither in the loss nor in its scale",
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
      holds(moved < -0.05, "effect of a step with weights −1", "a clear fall of the log-prob", moved);
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
    "a step after forward alone changes nothing",
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
    "gradients that stay behind in a freed place train the next user's model",
    "a new model starts without gradients, whatever was unloaded before it",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const first = await context.trainer();
      await pass(first, [datumOf(lesson)]); // accumulated, and never used
      await first.unload();
      const second = await context.trainer();
      const before = await score(second);
      await second.optimStep({ learningRate });
      allClose(await score(second), before, 1e-5, "log-probs of a new model after a step without a pass");
    },
  ],
  [
    "importance-sampling",
    "the loss of most reinforcement learning recipes",
    "importance_sampling is the sum of −exp(l − q)·A",
    (context) => closedForm(context, "importance_sampling", (l, q, a) => -Math.exp(l - q) * a),
  ],
  [
    "importance-sampling-gradient",
    "on-policy it is the policy gradient, whose scale recipes rely on",
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
    "clipping is what makes it PPO",
    "ppo is the sum of −min(ρA, clip(ρ, 0.8, 1.2)·A)",
    (context) => closedForm(context, "ppo", ppo(0.8, 1.2)),
  ],
  [
    "ppo-config",
    "thresholds that are ignored change the algorithm without a word",
    "loss_fn_config sets clip_low_threshold and clip_high_threshold",
    (context) => closedForm(context, "ppo", ppo(0.95, 1.05), { clip_low_threshold: 0.95, clip_high_threshold: 1.05 }),
  ],
  [
    "ppo-clipped-gradient",
    "beyond the clip there must be no pull",
    "where the clipped branch is the smaller one the gradient is zero",
    async (context) => {
      const moved = await effect(context, async (trainer) => {
        const q = (await score(trainer)).map((l) => l - Math.log(2)); // ratio 2, advantage above 0: clipped everywhere
        await pass(trainer, [datumOf(lesson, { logprobs: q, advantages: 1 })], "ppo");
      });
      close(moved, 0, 1e-3, "effect of a step on data that PPO clips");
    },
  ],
  [
    "cispo",
    "a loss of its own, not a spelling of PPO",
    "cispo is the sum of −clip(ρ, lo, hi)·l·A",
    (context) => closedForm(context, "cispo", cispo(0.8, 1.2), { clip_low_threshold: 0.8, clip_high_threshold: 1.2 }),
  ],
  [
    "cispo-clipped-gradient",
    "CISPO keeps the pull of clipped tokens: that is its point",
    "the clipped ratio is a constant weight of the gradient",
    async (context) => {
      const config = { clip_low_threshold: 0.8, clip_high_threshold: 1.2 };
      const clipped = await effect(context, async (trainer) => {
        const q = (await score(trainer)).map((l) => l - Math.log(2));
        await pass(trainer, [datumOf(lesson, { logprobs: q, advantages: 1 })], "cispo", config);
      });
      const weighted = await effect(context, (trainer) => pass(trainer, [datumOf(lesson, { weights: 1.2 })]));
      closeRelative(clipped, weighted, 0.05, "effect of a step on data whose ratio is clipped to 1.2");
    },
  ],
  [
    "dro",
    "one of the five official losses",
    "dro is the sum of −(l·A − ½β(l − q)²)",
    (context) => closedForm(context, "dro", dro(0.5), { beta: 0.5 }),
  ],
  [
    "custom-loss",
    "any loss of the log-probs can be sent as the gradient of cross_entropy",
    "weights −dL/dl make the gradient of L",
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
    "people plot the loss by token",
    "elementwise_loss, where it is returned, sums to the loss",
    async (context) => {
      const output = await pass(await context.trainer(), [datumOf(lesson, { weights: 2 })]);
      const tensor = output.lossFnOutputs[0]?.["elementwise_loss"];
      if (tensor === undefined) notOffered("The server returns no elementwise_loss.");
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
    "padding must not leak into a shorter neighbour",
    "a datum's log-probs do not depend on what else is in the batch",
    async (context) => {
      const trainer = await context.trainer();
      const short = tokensOf(8, 5);
      const alone = await score(trainer, short);
      const output = await trainer.forward(
        [datumOf(tokensOf(9, 33)), datumOf(short), datumOf(lesson)],
        "cross_entropy",
      );
      allClose(logprobsOf(output, 1), alone, 2e-3, "log-probs of a short datum among longer ones");
    },
  ],
  [
    "causal",
    "a model that sees the future scores perfectly and learns nothing",
    "log-probs depend only on the tokens before",
    async (context) => {
      const trainer = await context.trainer();
      const changed = [...lesson.slice(0, 10), ...tokensOf(77, lesson.length - 10)];
      const [a, b] = [await score(trainer), await score(trainer, changed)];
      allClose(b.slice(0, 9), a.slice(0, 9), 2e-3, "log-probs before the first changed token");
    },
  ],
  [
    "log-probs-are-log-probs",
    "they must be normalised over the vocabulary",
    "every log-prob is at most 0, and alternatives do not add up to more than 1",
    async (context) => {
      const trainer = await context.trainer();
      // One position, every token id the kit uses as its target: disjoint events.
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
      holds(mass > 0 && mass < 1.02, "probability of 28 different next tokens together", "above 0, at most 1", mass);
    },
  ],
  [
    "learns",
    "everything else is for this",
    "repeated steps on one example make it likely",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const trainer = await context.trainer();
      const before = sum(await score(trainer));
      await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
      const once = sum(await score(trainer)) - before;
      for (let i = 1; i < 12; i++) await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
      const all = sum(await score(trainer)) - before;
      holds(all > 4 * once, "rise of the log-prob in 12 steps", `more than four times that of one, ${once}`, all);
    },
  ],
  [
    "missing-inputs",
    "a loss that goes on without an input trains on garbage",
    "a policy loss without advantages is refused",
    async (context) => {
      const bytes = passBytes(await context.rawModel(), 1, [datumOf(lesson, { logprobs: -1 })], {
        lossFn: "importance_sampling",
      });
      await context.http.refused("importance_sampling without advantages", "forward_backward", bytes);
    },
  ],
]);
