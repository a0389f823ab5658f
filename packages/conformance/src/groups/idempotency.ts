/** Idempotency: a request whose answer was lost is sent again, and must not run again. */
import { decodeSampleResponse } from "@tinklet/wire";
import { given } from "@tinklet/wire/options";
import { group } from "../case.ts";
import { allClose, equal, holds } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, otherLesson, passBytes, score, tokensOf } from "../data.ts";
import { described } from "../http.ts";
import { rawScore, stepBody } from "../raw-model.ts";

/** Insists that a raw model stands where one plain step on the lesson leads. */
async function isOneStepAway(
  context: Context,
  rate: number,
  [modelId, seqId]: readonly [modelId: string, seqId: number],
  what: string,
): Promise<void> {
  const trainer = await context.trainer();
  await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate: rate });
  const tolerance = await context.measures.tolerance(context);
  allClose(await rawScore(context, modelId, seqId), await score(trainer), tolerance, what);
}

/** Sends one body twice and insists on one id. */
async function twice(context: Context, path: string, body: unknown): Promise<string> {
  const first = await context.http.submit(path, body, { headers: { "x-idempotency-key": "kit-first" } });
  const again = await context.http.submit(path, body, { headers: { "x-idempotency-key": "kit-again" } });
  equal(again, first, `request_id of the same ${path} sent again`);
  return first;
}

const sampleBody = (samplingSessionId: string, seqId: number, seed?: number, prompt = tokensOf(4, 6)) => ({
  sampling_session_id: samplingSessionId,
  seq_id: seqId,
  num_samples: 1,
  prompt: { chunks: [{ type: "encoded_text", tokens: prompt }] },
  sampling_params: { max_tokens: 12, ...given({ seed }) },
  prompt_logprobs: false,
  topk_prompt_logprobs: 0,
  type: "sample",
});

const samePair = "the pair (model_id, seq_id) names one request: sent again, it gives the same request_id";

export const idempotency = group("idempotency", "a request that is sent again does not run again", [
  [
    "pass-id",
    "a lost answer makes the client send the pass again",
    samePair,
    async (context) => void (await twice(context, "forward_backward", passBytes(await context.rawModel(), 1))),
  ],
  [
    "pass-runs-once",
    "a doubled pass doubles the gradient, silently",
    "a pass that arrives twice is accumulated once",
    async (context) => {
      // A plain step shows the size of the gradient, which Adam's own step would hide.
      const step = await context.measures.plainStep(context, 2);
      const run = async (times: number) => {
        const modelId = await context.rawModel();
        for (let i = 0; i < times; i++) await context.http.submit("forward_backward", passBytes(modelId, 1));
        const { learningRate: learning_rate, eps, beta1, beta2 } = step;
        const adam_params = { learning_rate, eps, beta1, beta2 };
        await context.http.call("optim_step", { model_id: modelId, seq_id: 2, adam_params, type: "optim_step" });
        return rawScore(context, modelId, 3);
      };
      const tolerance = await context.measures.tolerance(context);
      allClose(await run(2), await run(1), tolerance, "log-probs after a pass that was sent twice");
    },
  ],
  [
    "step-runs-once",
    "a doubled optimizer step moves the weights twice, silently",
    "an optimizer step that arrives twice is taken once",
    async (context) => {
      const rate = await context.measures.rate(context);
      const modelId = await context.rawModel();
      await context.http.call("forward_backward", passBytes(modelId, 1));
      const requestId = await twice(context, "optim_step", stepBody(modelId, 2, rate));
      await context.http.result(requestId, "OptimStep");
      await isOneStepAway(context, rate, [modelId, 3], "log-probs after one step sent twice");
    },
  ],
  [
    "late-repeat",
    "the repetition may come when the first has long finished",
    "a repetition after the end gives the same id and the same result",
    async (context) => {
      const modelId = await context.rawModel();
      const body = passBytes(modelId, 1);
      const first = await context.http.submit("forward_backward", body);
      const result = await context.http.result(first, "ForwardBackward");
      equal(await context.http.submit("forward_backward", body), first, "request_id of a late repetition");
      const again = await context.http.result(first, "ForwardBackward");
      equal(Buffer.compare(again.bytes, result.bytes), 0, "difference between the two results");
    },
  ],
  [
    "other-payload",
    "two different requests under one number: whichever runs, somebody is told a wrong result",
    "a number that was used for something else is refused",
    async (context) => {
      const modelId = await context.rawModel();
      const first = await context.http.submit("forward_backward", passBytes(modelId, 1));
      const answer = await context.http.post("forward_backward", passBytes(modelId, 1, [datumOf(otherLesson)]));
      if (answer.status === 200) {
        holds(
          answer.json?.request_id !== first,
          "another payload under a used seq_id",
          "a refusal",
          "the first request's id",
        );
      }
      await context.http.refusal("another payload under a used seq_id", answer);
    },
  ],
  [
    "other-kind",
    "a step under the number of a pass must not be swallowed",
    "a number that was used by another kind of request is refused",
    async (context) => {
      const modelId = await context.rawModel();
      await context.http.call("forward_backward", passBytes(modelId, 1));
      await context.http.refused("an optim_step under a pass's seq_id", "optim_step", stepBody(modelId, 1, 0.1));
    },
  ],
  [
    "save",
    "a save whose answer was lost is sent again, and must not fail because its name exists",
    samePair,
    async (context) => {
      const modelId = await context.rawModel();
      const body = {
        model_id: modelId,
        seq_id: 1,
        path: context.uniqueName("twice"),
        overwrite: false,
        type: "save_weights",
      };
      const requestId = await twice(context, "save_weights", body);
      const { json } = await context.http.result(requestId, "SaveWeights");
      equal(json?.path, `tinker://${modelId}/weights/${body.path}`, "path");
    },
  ],
  [
    "save-for-sampler",
    "the same, for sampler weights; an unnamed save draws a new session number each time it is sent",
    `${samePair}; sampling_session_seq_id may differ`,
    async (context) => {
      const modelId = await context.rawModel();
      const body = (n: number) => ({
        model_id: modelId,
        seq_id: 1,
        sampling_session_seq_id: n,
        type: "save_weights_for_sampler",
      });
      const first = await context.http.submit("save_weights_for_sampler", body(0));
      equal(await context.http.submit("save_weights_for_sampler", body(1)), first, "request_id of the save sent again");
      await context.http.result(first, "SaveWeightsForSampler");
    },
  ],
  [
    "load",
    "a load that runs twice throws away the steps in between",
    samePair,
    async (context) => {
      const rate = await context.measures.rate(context);
      const modelId = await context.rawModel();
      const save = { model_id: modelId, seq_id: 1, path: context.uniqueName("load"), type: "save_weights" };
      const { json } = await context.http.call("save_weights", save);
      const load = { model_id: modelId, seq_id: 2, path: json.path, optimizer: true, type: "load_weights" };
      const requestId = await context.http.submit("load_weights", load);
      await context.http.result(requestId, "LoadWeights");
      await context.http.call("forward_backward", passBytes(modelId, 3));
      await context.http.call("optim_step", stepBody(modelId, 4, rate));
      equal(await context.http.submit("load_weights", load), requestId, "request_id of the load sent again");
      await isOneStepAway(context, rate, [modelId, 5], "log-probs after a repeated load");
    },
  ],
  [
    "create-model",
    "a model created twice is paid for twice",
    "the pair (session_id, model_seq_id) names one model",
    async (context) => {
      const body = {
        session_id: await context.session(),
        model_seq_id: 0,
        base_model: context.baseModel,
        lora_config: { rank: 4, seed: 1, train_attn: true, train_mlp: true, train_unembed: true },
        type: "create_model",
      };
      const [a, b] = [await context.http.call("create_model", body), await context.http.call("create_model", body)];
      equal(b.json?.model_id, a.json?.model_id, "model_id of the same create_model sent again");
      await context.http.post("unload_model", { model_id: a.json?.model_id, type: "unload_model" });
    },
  ],
  [
    "sampling-session",
    "a sampling session opened twice doubles the queue of its samples",
    "the pair (session_id, sampling_session_seq_id) names one sampler",
    async (context) => {
      const sessionId = await context.session();
      const open = () => context.rawSampler({ sessionId, seqId: 0 });
      equal(await open(), await open(), "sampling_session_id of the same request sent again");
    },
  ],
  [
    "sample",
    "a sample drawn twice is paid for twice, and without a seed gives two answers to one question",
    "the pair (sampling_session_id, seq_id) names one sample",
    async (context) => {
      const body = sampleBody(await context.rawSampler(), 0);
      const tokens = async () => {
        const { bytes } = await context.http.call("asample", body);
        return decodeSampleResponse(bytes).sequences[0]!.tokens;
      };
      equal(await tokens(), await tokens(), "tokens of one unseeded sample, asked for twice");
    },
  ],
  [
    "sample-other-payload",
    "an answer to another prompt must never be handed out",
    "a number used for another sample is refused, or taken as a new sample",
    async (context) => {
      const sampler = await context.rawSampler();
      const first = await context.http.submit("asample", sampleBody(sampler, 0, 1));
      const answer = await context.http.post("asample", sampleBody(sampler, 0, 1, tokensOf(9, 7)));
      const served = answer.status === 200 && answer.json?.request_id === first;
      holds(!served, "another prompt under a used seq_id", "a refusal or a new request", described(answer));
    },
  ],
]);
