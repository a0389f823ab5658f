/** Idempotency: a request that is retried after a lost response must not run twice. */
import { decodeSampleResponse } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { group } from "../case.ts";
import { allClose, equal, holds, sameBytes } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, otherLesson, passBytes, score, tokensOf } from "../data.ts";
import { described } from "../http.ts";
import { rawScore, stepBody } from "../raw-model.ts";

/** Asserts that a raw model has the state after exactly one step on the lesson. */
async function assertOneStep(
  context: Context,
  rate: number,
  [modelId, seqId]: readonly [modelId: string, seqId: number],
  label: string,
): Promise<void> {
  const trainer = await context.trainer();
  await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate: rate });
  const tolerance = await context.measures.tolerance(context);
  allClose(await rawScore(context, modelId, seqId), await score(trainer), tolerance, label);
}

/** Sends a body twice and asserts that both have the same request_id. */
async function twice(context: Context, path: string, body: unknown): Promise<string> {
  const first = await context.http.submit(path, body, { headers: { "x-idempotency-key": "kit-first" } });
  const again = await context.http.submit(path, body, { headers: { "x-idempotency-key": "kit-again" } });
  equal(again, first, `request_id of the retried ${path}`);
  return first;
}

const sampleBody = (samplingSessionId: string, seqId: number, seed?: number, prompt = tokensOf(4, 6)) => ({
  sampling_session_id: samplingSessionId,
  seq_id: seqId,
  num_samples: 1,
  prompt: { chunks: [{ type: "encoded_text", tokens: prompt }] },
  sampling_params: { max_tokens: 12, ...omitUndefined({ seed }) },
  prompt_logprobs: false,
  topk_prompt_logprobs: 0,
  type: "sample",
});

const samePair = "the pair (model_id, seq_id) identifies a request: a retry returns the same request_id";

export const idempotency = group("idempotency", "a retried request does not run twice", [
  [
    "pass-id",
    "the client retries a pass if the response was lost",
    samePair,
    async (context) => void (await twice(context, "forward_backward", passBytes(await context.rawModel(), 1))),
  ],
  [
    "pass-runs-once",
    "a pass that runs twice silently doubles the gradient",
    "a pass that arrives twice is accumulated once",
    async (context) => {
      // A plain step is proportional to the gradient; an ordinary Adam step does not depend on its size.
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
      allClose(await run(2), await run(1), tolerance, "log-probs after a retried pass");
    },
  ],
  [
    "step-runs-once",
    "an optimizer step that runs twice silently moves the weights twice",
    "an optimizer step that arrives twice is applied once",
    async (context) => {
      const rate = await context.measures.rate(context);
      const modelId = await context.rawModel();
      await context.http.call("forward_backward", passBytes(modelId, 1));
      const requestId = await twice(context, "optim_step", stepBody(modelId, 2, rate));
      await context.http.result(requestId, "OptimStep");
      await assertOneStep(context, rate, [modelId, 3], "log-probs after a retried step");
    },
  ],
  [
    "late-repeat",
    "a retry may arrive long after the first request has finished",
    "a retry after the end returns the same id and the same result",
    async (context) => {
      const modelId = await context.rawModel();
      const body = passBytes(modelId, 1);
      const first = await context.http.submit("forward_backward", body);
      const result = await context.http.result(first, "ForwardBackward");
      equal(await context.http.submit("forward_backward", body), first, "request_id of a late retry");
      const again = await context.http.result(first, "ForwardBackward");
      equal(sameBytes(again.bytes, result.bytes), true, "the two results are equal");
    },
  ],
  [
    "other-payload",
    "if two different requests share a seq_id, one of them would receive the wrong result",
    "a seq_id that was used for another payload is rejected",
    async (context) => {
      const modelId = await context.rawModel();
      const first = await context.http.submit("forward_backward", passBytes(modelId, 1));
      const answer = await context.http.post("forward_backward", passBytes(modelId, 1, [datumOf(otherLesson)]));
      if (answer.status === 200) {
        holds(
          answer.json?.request_id !== first,
          "another payload with a used seq_id",
          "a rejection",
          "the first request's id",
        );
      }
      await context.http.refusal("another payload with a used seq_id", answer);
    },
  ],
  [
    "other-kind",
    "a step with the seq_id of a pass must not be dropped silently",
    "a seq_id that was used by another kind of request is rejected",
    async (context) => {
      const modelId = await context.rawModel();
      await context.http.call("forward_backward", passBytes(modelId, 1));
      await context.http.refused("an optim_step with a pass's seq_id", "optim_step", stepBody(modelId, 1, 0.1));
    },
  ],
  [
    "save",
    "a retried save must not fail because its name exists",
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
    "as for save, with sampler weights; an unnamed save has a new session number in each retry",
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
      equal(await context.http.submit("save_weights_for_sampler", body(1)), first, "request_id of the retried save");
      await context.http.result(first, "SaveWeightsForSampler");
    },
  ],
  [
    "load",
    "a load that runs twice discards the steps in between",
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
      equal(await context.http.submit("load_weights", load), requestId, "request_id of the retried load");
      await assertOneStep(context, rate, [modelId, 5], "log-probs after a retried load");
    },
  ],
  [
    "create-model",
    "a model that is created twice is billed twice",
    "the pair (session_id, model_seq_id) identifies a model",
    async (context) => {
      const body = {
        session_id: await context.session(),
        model_seq_id: 0,
        base_model: context.baseModel,
        lora_config: { rank: 4, seed: 1, train_attn: true, train_mlp: true, train_unembed: true },
        type: "create_model",
      };
      const [a, b] = [await context.http.call("create_model", body), await context.http.call("create_model", body)];
      equal(b.json?.model_id, a.json?.model_id, "model_id of the retried create_model");
      await context.http.post("unload_model", { model_id: a.json?.model_id, type: "unload_model" });
    },
  ],
  [
    "sampling-session",
    "a sampling session opened twice doubles the queue of its samples",
    "the pair (session_id, sampling_session_seq_id) identifies a sampler",
    async (context) => {
      const sessionId = await context.session();
      const open = () => context.rawSampler({ sessionId, seqId: 0 });
      equal(await open(), await open(), "sampling_session_id of the retried request");
    },
  ],
  [
    "sample",
    "a sample that is drawn twice is billed twice and, without a seed, gives two different results",
    "the pair (sampling_session_id, seq_id) identifies a sample",
    async (context) => {
      const body = sampleBody(await context.rawSampler(), 0);
      const tokens = async () => {
        const { bytes } = await context.http.call("asample", body);
        return decodeSampleResponse(bytes).sequences[0]!.tokens;
      };
      equal(await tokens(), await tokens(), "tokens of a retried sample without seed");
    },
  ],
  [
    "sample-other-payload",
    "a request must not receive the result of another prompt",
    "a seq_id that was used for another sample is rejected, or treated as a new sample",
    async (context) => {
      const sampler = await context.rawSampler();
      const first = await context.http.submit("asample", sampleBody(sampler, 0, 1));
      const answer = await context.http.post("asample", sampleBody(sampler, 0, 1, tokensOf(9, 7)));
      const served = answer.status === 200 && answer.json?.request_id === first;
      holds(!served, "another prompt with a used seq_id", "a rejection or a new request", described(answer));
    },
  ],
]);
