import { group } from "../case.ts";
import { allClose, equal } from "../checks.ts";
import { type Context, prompt } from "../context.ts";
import { datumOf, lesson, otherLesson, passBytes, score } from "../data.ts";
import { rawScore, stepBody } from "../raw-model.ts";

/** Two steps on a raw model, with something done in between. */
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
const survives = "a restart of the service is not noticed by its clients";

export const restart = group(
  "restart",
  "what was acknowledged survives a restart of the server",
  [
    [
      "results",
      "a result that was finished before the restart may not have been read yet",
      survives,
      async (context) => {
        const requestId = await context.http.submit("forward_backward", passBytes(await context.rawModel(), 1));
        const before = await context.http.result(requestId, "ForwardBackward");
        await context.target.restart!();
        const after = await context.http.result(requestId, "ForwardBackward");
        equal(Buffer.compare(after.bytes, before.bytes), 0, "difference between the result before and after");
      },
    ],
    [
      "pending",
      "what was acknowledged will be done",
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
      "weights, moments and step must be those of before",
      survives,
      async (context) => {
        const rate = await context.measures.rate(context);
        const interrupted = await twoSteps(context, rate, context.target.restart!);
        const expected = await twoSteps(context, rate, nothing);
        allClose(
          interrupted,
          expected,
          await context.measures.tolerance(context),
          "log-probs, restarted between two steps",
        );
      },
    ],
    [
      "gradients",
      "gradients that are lost make the next step another one",
      survives,
      async (context) => {
        const rate = await context.measures.rate(context);
        const interrupted = await twoSteps(context, rate, context.target.restart!, true);
        const expected = await twoSteps(context, rate, nothing, true);
        allClose(
          interrupted,
          expected,
          await context.measures.tolerance(context),
          "log-probs, restarted between pass and step",
        );
      },
    ],
    [
      "checkpoints",
      "checkpoints are what one restarts from",
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
      "a sampler in another process does not know of the restart",
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
