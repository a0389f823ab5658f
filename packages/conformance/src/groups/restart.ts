import { group } from "../case.ts";
import { allClose, equal } from "../checks.ts";
import { type Context, prompt } from "../context.ts";
import { datumOf, lesson, otherLesson, passBytes, score } from "../data.ts";
import { rawScore, stepBody } from "../raw-model.ts";

/** Two steps on a raw model, with an action in between. */
async function twoSteps(
  context: Context,
  rate: number,
  between: () => Promise<void>,
  midPass = false,
): Promise<number[]> {
  const modelId = await context.rawModel();
  await context.http.call("forward_backward", passBytes(modelId, 1));
  await context.http.call("optim_step", stepBody(modelId, 2, rate));
  if (!midPass) await between();
  await context.http.call("forward_backward", passBytes(modelId, 3, [datumOf(otherLesson)]));
  if (midPass) await between();
  await context.http.call("optim_step", stepBody(modelId, 4, rate));
  return rawScore(context, modelId, 5);
}

const nothing = async () => {};
const survives = "clients do not notice a restart of the service";

export const restart = group(
  "restart",
  "acknowledged requests survive a restart of the server",
  [
    [
      "results",
      "a client may not have read a result before the restart",
      survives,
      async (context) => {
        const requestId = await context.http.submit("forward_backward", passBytes(await context.rawModel(), 1));
        const before = await context.http.result(requestId, "ForwardBackward");
        await context.target.restart!();
        const after = await context.http.result(requestId, "ForwardBackward");
        equal(
          Buffer.compare(after.bytes, before.bytes),
          0,
          "difference between the result before and after the restart",
        );
      },
    ],
    [
      "pending",
      "acknowledged requests must be executed",
      survives,
      async (context) => {
        const modelId = await context.rawModel();
        const waiting = await context.http.submit("forward_backward", passBytes(modelId, 2));
        await context.target.restart!();
        await context.http.submit("forward_backward", passBytes(modelId, 1));
        await context.http.result(waiting, "ForwardBackward");
      },
    ],
    [
      "training-goes-on",
      "weights, moments and step count must be preserved",
      survives,
      async (context) => {
        const rate = await context.measures.rate(context);
        const interrupted = await twoSteps(context, rate, context.target.restart!);
        const expected = await twoSteps(context, rate, nothing);
        allClose(
          interrupted,
          expected,
          await context.measures.tolerance(context),
          "log-probs after a restart between two steps",
        );
      },
    ],
    [
      "gradients",
      "lost gradients change the next step",
      survives,
      async (context) => {
        const rate = await context.measures.rate(context);
        const interrupted = await twoSteps(context, rate, context.target.restart!, true);
        const expected = await twoSteps(context, rate, nothing, true);
        allClose(
          interrupted,
          expected,
          await context.measures.tolerance(context),
          "log-probs after a restart between pass and step",
        );
      },
    ],
    [
      "checkpoints",
      "users resume from checkpoints after a restart",
      survives,
      async (context) => {
        const trainer = await context.trainer();
        const learningRate = await context.measures.rate(context);
        await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
        const saved = await score(trainer);
        const { path } = await trainer.saveState(context.uniqueName("restart"));
        await context.target.restart!();
        const again = context.owned(await context.newService().createTrainingClientFromState(path));
        allClose(await score(again), saved, await context.measures.tolerance(context), "log-probs of the checkpoint");
      },
    ],
    [
      "samplers",
      "samplers in other processes continue after the restart",
      survives,
      async (context) => {
        const trainer = await context.trainer();
        const learningRate = await context.measures.rate(context);
        await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
        const sampler = await trainer.saveWeightsAndGetSamplingClient();
        const before = (await sampler.computeLogprobs(prompt(lesson))).slice(1).map(Number);
        await context.target.restart!();
        const after = (await sampler.computeLogprobs(prompt(lesson))).slice(1).map(Number);
        allClose(after, before, await context.measures.tolerance(context), "log-probs of the sampler");
      },
    ],
  ],
  { needsRestart: true },
);
