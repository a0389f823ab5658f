/**
 * Runs one of the losses on a model small enough to see: a table of logits, one row per position. It does what
 * `trainer.forwardBackwardCustom(data, loss)` does with a real model: a forward pass gives log-probs, the loss turns them
 * into slopes, minus the slopes become weights of a cross entropy whose gradient changes the model.
 *
 *     node examples/losses/run.ts dpo        (Node 22.18 or newer; or: npx tsx examples/losses/run.ts dpo)
 */
import { argv } from "node:process";
import { pathToFileURL } from "node:url";
import { bradleyTerry, dpo } from "@tinklet/cookbook";
import { autodiff, type CustomLossFn, Datum, gradient, ModelInput, type Var } from "tinklet";
import { clippedSurrogate } from "./clipped-surrogate.ts";
import { reverseKl } from "./reverse-kl.ts";

const vocabulary = 5;
const length = 3;

/** A preferred and another answer of three tokens, as a batch of one pair. */
const answers = [
  [1, 2, 3],
  [4, 0, 2],
];
const pair = answers.map(
  (tokens) =>
    new Datum({
      modelInput: ModelInput.fromInts([0, ...tokens.slice(0, -1)]),
      lossFnInputs: { target_tokens: tokens, weights: [1, 1, 1] },
    }),
);
/** Every token of the vocabulary as a candidate, at each position. */
const everyToken = [
  new Datum({
    modelInput: ModelInput.fromInts([0, 0, 0]),
    lossFnInputs: { target_tokens: Array.from({ length }, () => Array.from({ length: vocabulary }, (_, k) => k)) },
  }),
];
const uniform = Math.log(1 / vocabulary);

export const runs: Readonly<Record<string, { readonly data: readonly Datum[]; readonly loss: CustomLossFn }>> = {
  dpo: { data: pair, loss: dpo({ reference: [3 * uniform, 3 * uniform], beta: 1 }) },
  "bradley-terry": { data: pair, loss: bradleyTerry() },
  "reverse-kl": {
    data: everyToken,
    loss: reverseKl({ teacher: [Array.from({ length }, () => [0.6, 0.1, 0.1, 0.1, 0.1].map(Math.log))] }),
  },
  "clipped-surrogate": {
    data: pair,
    loss: clippedSurrogate({
      sampling: answers.map((tokens) => tokens.map(() => uniform)),
      advantages: [
        [1, 1, 1],
        [-1, -1, -1],
      ],
    }),
  },
};

/** Trains the table for some steps and returns the loss of each. */
export async function train(name: string, steps = 20, learningRate = 0.5): Promise<number[]> {
  const run = runs[name];
  if (run === undefined) throw new Error(`No loss "${name}". Known: ${Object.keys(runs).join(", ")}.`);
  let logits = new Float64Array(length * vocabulary); // [position, token]
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    const table = autodiff.leaf(logits, [length, vocabulary]);
    const all = table.sub(table.logSumExp(1).reshape([length, 1]));
    const picked = run.data.map((datum) => pick(all, datum));
    const leaves = picked.map((logprobs) => autodiff.leaf(logprobs.data, logprobs.shape));
    const { loss } = await run.loss(run.data, leaves);
    if (typeof loss === "number") throw new Error("These losses are all on the tape.");
    losses.push(loss.item());
    const slopes = gradient(loss, leaves);
    // the server's part: the gradient of Σ -logprob · weight, with weights of minus the slope
    const carrier = autodiff.stack(
      picked.map((logprobs, i) => logprobs.mul(autodiff.constant(slopes[i]!, logprobs.shape)).sum()),
    );
    const [grad] = gradient(carrier.sum(), [table]) as [Float64Array];
    logits = logits.map((value, i) => value - learningRate * grad[i]!);
  }
  return losses;
}

/** The log-probs of a datum's targets: one per position, or a row of candidates per position. */
function pick(all: Var, datum: Datum): Var {
  const { shape, values } = datum.lossFnInputs.target_tokens!;
  return shape?.length === 2 ? all : all.gather(Array.from(values as BigInt64Array, Number));
}

if (argv[1] !== undefined && import.meta.url === pathToFileURL(argv[1]).href) {
  const name = argv[2] ?? "dpo";
  for (const [step, loss] of (await train(name)).entries()) console.log(`${name} step ${step} loss ${loss.toFixed(4)}`);
}
