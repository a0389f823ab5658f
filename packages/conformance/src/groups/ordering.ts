/** Ordering: requests of a model run in `seq_id` order, independent of their order of arrival, and models are independent. */
import { decodeForwardBackwardOutput } from "@tinklet/wire";
import { group } from "../case.ts";
import { allClose, fail, holds, largestDifference } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, logprobsOf, otherLesson, passBytes, score, tokensOf } from "../data.ts";

const optim = (modelId: string, seqId: number, learningRate: number) => ({
  model_id: modelId,
  seq_id: seqId,
  adam_params: { learning_rate: learningRate, beta1: 0.9, beta2: 0.95, eps: 1e-12, weight_decay: 0, grad_clip_norm: 0 },
  type: "optim_step",
});

const forwardBytes = (modelId: string, seqId: number) => passBytes(modelId, seqId, undefined, { forwardOnly: true });

async function logprobs(context: Context, requestId: string): Promise<number[]> {
  const { bytes } = await context.http.result(requestId, "ForwardBackward");
  return logprobsOf(decodeForwardBackwardOutput(bytes));
}

/** The log-probs after one step on the lesson through the client, as the reference. */
async function afterOneStep(context: Context, learningRate: number, data = [datumOf(lesson)]): Promise<number[]> {
  const trainer = await context.trainer();
  await trainer.step(data, "cross_entropy", { learningRate });
  return score(trainer);
}

export const ordering = group(
  "ordering",
  "requests of a model run in seq_id order, independent of their order of arrival",
  [
    [
      "gap-does-not-block",
      "the client sends the first chunk of a batch last, so a POST that waits for its predecessor would deadlock",
      "every POST is acknowledged at once, also when an earlier seq_id is missing",
      async (context) => {
        const modelId = await context.rawModel();
        const late = AbortSignal.timeout(20_000);
        try {
          await context.http.submit("forward_backward", passBytes(modelId, 2), { signal: late });
        } catch (error) {
          if (late.aborted)
            fail("POST of seq_id 2 before seq_id 1", "an immediate acknowledgement", "none within 20 s");
          throw error;
        }
        await context.http.call("forward_backward", passBytes(modelId, 1));
      },
    ],
    [
      "later-waits-for-earlier",
      "a request that runs before its predecessor uses the wrong weights",
      "seq_id 2 runs after seq_id 1, even if it arrives first",
      async (context) => {
        const rate = await context.measures.rate(context);
        const modelId = await context.rawModel();
        const forwardRequest = await context.http.submit("forward_backward", forwardBytes(modelId, 3));
        const step = await context.http.submit("optim_step", optim(modelId, 2, rate));
        const pass = await context.http.submit("forward_backward", passBytes(modelId, 1));
        await context.http.result(pass, "ForwardBackward");
        await context.http.result(step, "OptimStep");
        const expected = await afterOneStep(context, rate);
        const tolerance = await context.measures.tolerance(context);
        allClose(
          await logprobs(context, forwardRequest),
          expected,
          tolerance,
          "log-probs of a forward pass that is sent first and has the last seq_id",
        );
      },
    ],
    [
      "step-before-its-pass",
      "an optimizer step that runs before its passes has no gradients",
      "a step with a higher seq_id than a pass uses its gradients, even if it arrives first",
      async (context) => {
        const rate = await context.measures.rate(context);
        const modelId = await context.rawModel();
        const step = await context.http.submit("optim_step", optim(modelId, 2, rate));
        await context.http.submit("forward_backward", passBytes(modelId, 1));
        await context.http.result(step, "OptimStep");
        const seen = await logprobs(context, await context.http.submit("forward_backward", forwardBytes(modelId, 3)));
        const tolerance = await context.measures.tolerance(context);
        allClose(
          seen,
          await afterOneStep(context, rate),
          tolerance,
          "log-probs after a pass and a step that arrive in reverse order",
        );
      },
    ],
    [
      "chunks-out-of-order",
      "the client sends a large batch as chunks 2, 3, 1",
      "the chunks of a batch have the same effect as one request",
      async (context) => {
        const rate = await context.measures.rate(context);
        const modelId = await context.rawModel();
        const chunks = [lesson, otherLesson, tokensOf(3, 9)].map((tokens) => [datumOf(tokens)]);
        for (const i of [1, 2, 0]) await context.http.submit("forward_backward", passBytes(modelId, i + 1, chunks[i]));
        await context.http.call("optim_step", optim(modelId, 4, rate));
        const seen = await logprobs(context, await context.http.submit("forward_backward", forwardBytes(modelId, 5)));
        const expected = await afterOneStep(context, rate, chunks.flat());
        const tolerance = await context.measures.tolerance(context);
        // Another summation order changes the last bits, and Adam's first step amplifies them: its size does not depend on the gradient's.
        allClose(seen, expected, tolerance + 0.02, "log-probs after a step on three chunks");
      },
    ],
    [
      "pipelined",
      "programs submit several steps before they await the first one",
      "calls submitted without awaiting run in the order of submission",
      async (context) => {
        const learningRate = await context.measures.rate(context);
        const [patient, hasty] = [await context.trainer(), await context.trainer()];
        for (let i = 0; i < 3; i++) await patient.step([datumOf(lesson)], "cross_entropy", { learningRate });
        const all = [0, 1, 2].flatMap(() => [
          hasty.forwardBackward([datumOf(lesson)], "cross_entropy"),
          hasty.optimStep({ learningRate }),
        ]);
        const last = hasty.forward([datumOf(lesson)], "cross_entropy");
        for (const future of all) await future;
        const tolerance = await context.measures.tolerance(context);
        allClose(
          logprobsOf(await last),
          await score(patient),
          tolerance,
          "log-probs after three steps submitted without awaiting",
        );
      },
    ],
    [
      "save-in-its-place",
      "an evaluation between steps must use the weights of that step",
      "a save submitted between two steps contains the weights between them",
      async (context) => {
        const learningRate = await context.measures.rate(context);
        const trainer = await context.trainer();
        await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
        const between = await score(trainer);
        const saved = trainer.saveState(context.uniqueName("between"));
        const step = trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
        const { path } = await saved;
        await step;
        const again = context.owned(await context.service.createTrainingClientFromState(path));
        const tolerance = await context.measures.tolerance(context);
        allClose(await score(again), between, tolerance, "log-probs of the state saved between two steps");
      },
    ],
    [
      "forward-between",
      "an evaluation between two passes must not change the accumulated gradients",
      "a forward pass changes neither gradients nor weights",
      async (context) => {
        const learningRate = await context.measures.rate(context);
        const trainer = await context.trainer();
        const pass = trainer.forwardBackward([datumOf(lesson)], "cross_entropy");
        await trainer.forward([datumOf(otherLesson)], "cross_entropy");
        await pass;
        await trainer.optimStep({ learningRate });
        const tolerance = await context.measures.tolerance(context);
        const expected = await afterOneStep(context, learningRate);
        allClose(
          await score(trainer),
          expected,
          tolerance,
          "log-probs after a pass, a forward pass over other data, and a step",
        );
      },
    ],
    [
      "models-do-not-mix",
      "two experiments in one program must not affect each other",
      "models of one session are independent",
      async (context) => {
        const learningRate = await context.measures.rate(context);
        const [a, b] = [await context.trainer(), await context.trainer()];
        const passes = [
          a.forwardBackward([datumOf(lesson)], "cross_entropy"),
          b.forwardBackward([datumOf(otherLesson)], "cross_entropy"),
          a.optimStep({ learningRate }),
          b.optimStep({ learningRate }),
        ];
        for (const future of passes) await future;
        const tolerance = await context.measures.tolerance(context);
        const expected = await afterOneStep(context, learningRate);
        allClose(await score(a), expected, tolerance, "log-probs of the first of two interleaved models");
        const difference = largestDifference(await score(a), await score(b));
        holds(
          difference > 10 * tolerance,
          "the two models",
          "different log-probs",
          `a difference of at most ${difference}`,
        );
      },
    ],
    [
      "sessions-do-not-wait",
      "an incomplete batch of one user must not block other users",
      "a seq_id gap in one model does not block another model",
      async (context) => {
        const stuck = await context.rawModel();
        await context.http.submit("forward_backward", passBytes(stuck, 2)); // waits for seq_id 1, which is not sent yet
        const other = await context.rawModel();
        await context.http.call("forward_backward", passBytes(other, 1));
        await context.http.call("forward_backward", passBytes(stuck, 1));
      },
    ],
    [
      "refused-number-is-used-up",
      "after a rejected request the client continues with the next seq_id",
      "requests after a rejected seq_id still run",
      async (context) => {
        const modelId = await context.rawModel();
        const bad = { model_id: modelId, seq_id: 1, path: "../escape", type: "save_weights" };
        await context.http.refused("a checkpoint named ../escape", "save_weights", bad);
        await context.http.call("forward_backward", passBytes(modelId, 2));
      },
    ],
  ],
);
