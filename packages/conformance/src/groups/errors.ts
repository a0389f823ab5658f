/** Errors: every invalid request gets a 4xx or a failed future; none hangs, causes a 5xx, or changes existing state. */

import { Datum, ModelInput, TensorData } from "@tinklet/sdk";
import { decodeForwardBackwardOutput } from "@tinklet/wire";
import { group } from "../case.ts";
import { allClose, equal, holds } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, logprobsOf, passBytes, score, tokensOf } from "../data.ts";
import { described } from "../http.ts";

const clean = "rejected with a 4xx and a body, or with a failed future";

/** Asserts that a pass over the datum is rejected. */
async function badPass(context: Context, label: string, datum: Datum, lossFn = "cross_entropy"): Promise<void> {
  const modelId = await context.rawModel();
  await context.http.refused(label, "forward_backward", passBytes(modelId, 1, [datum], { lossFn }));
}

/** Asserts that a sample request is rejected. */
async function badSample(context: Context, label: string, more: object): Promise<void> {
  await context.http.refused(label, "asample", {
    sampling_session_id: await context.rawSampler(),
    seq_id: 0,
    num_samples: 1,
    prompt: { chunks: [{ type: "encoded_text", tokens: tokensOf(1, 4) }] },
    sampling_params: { max_tokens: 2 },
    type: "sample",
    ...more,
  });
}

const withTargets = (targets: number[], weights = targets.map(() => 1)): Datum =>
  new Datum({
    modelInput: ModelInput.fromInts(lesson.slice(0, -1)),
    lossFnInputs: { target_tokens: targets, weights },
  });

const adam = (params: object) => async (context: Context) => {
  const body = { model_id: await context.rawModel(), seq_id: 1, adam_params: params, type: "optim_step" };
  await context.http.refused(`adam_params ${JSON.stringify(params)}`, "optim_step", body);
};

export const errors = group("errors", "invalid requests are rejected without hangs, server faults or side effects", [
  [
    "unknown-base-model",
    "a mistyped model name must be an error, not an endless wait for the model",
    clean,
    async (context) => {
      const body = {
        session_id: await context.session(),
        model_seq_id: 0,
        base_model: "no-such/model",
        lora_config: { rank: 4, train_attn: true, train_mlp: true, train_unembed: true },
        type: "create_model",
      };
      await context.http.refused("an unknown base model", "create_model", body);
    },
  ],
  [
    "unknown-model",
    "requests for a model that does not exist must be rejected",
    clean,
    async ({ http }) => {
      await http.refused("a pass of an unknown model", "forward_backward", passBytes("no:train:0", 1));
      const step = { model_id: "no:train:0", seq_id: 1, adam_params: {}, type: "optim_step" };
      await http.refused("a step of an unknown model", "optim_step", step);
    },
  ],
  [
    "unknown-sampler",
    "samples of a session that does not exist must be rejected",
    clean,
    (context) => badSample(context, "an unknown sampling session", { sampling_session_id: "no:sample:0" }),
  ],
  [
    "unknown-checkpoint",
    "a mistyped path must be an error",
    clean,
    async (context) => {
      const modelId = await context.rawModel();
      for (const [i, path] of [`tinker://${modelId}/weights/none`, "not-a-path"].entries()) {
        const body = { model_id: modelId, seq_id: i + 1, path, optimizer: false, type: "load_weights" };
        await context.http.refused(`load_weights of ${path}`, "load_weights", body);
      }
      await context.http.refused("weights_info of an unknown path", "weights_info", {
        tinker_path: `tinker://${modelId}/weights/none`,
      });
    },
  ],
  [
    "unknown-loss",
    "an unknown loss must not be replaced by another one",
    clean,
    (context) => badPass(context, "an unknown loss", datumOf(lesson), "no_such_loss"),
  ],
  [
    "token-outside-vocabulary",
    "a wrong tokenizer gives ids that do not exist",
    clean,
    (context) => badPass(context, "the token id 2000000000", datumOf([3, 4, 2_000_000_000, 5])),
  ],
  [
    "negative-token",
    "other libraries use −100 as padding",
    clean,
    (context) =>
      badPass(context, "a target of −100", withTargets(lesson.slice(1).map((token, i) => (i === 2 ? -100 : token)))),
  ],
  [
    "lengths-differ",
    "targets that are not aligned with the inputs would train the wrong tokens",
    clean,
    (context) => badPass(context, "fewer targets than inputs", withTargets(lesson.slice(1, 9))),
  ],
  [
    "no-targets",
    "a loss is not defined without targets",
    clean,
    (context) => {
      const modelInput = ModelInput.fromInts(lesson.slice(0, -1));
      return badPass(
        context,
        "no target_tokens",
        new Datum({ modelInput, lossFnInputs: { weights: lesson.slice(1).map(() => 1) } }),
      );
    },
  ],
  [
    "empty-batch",
    "an empty batch has no gradient",
    clean,
    async (context) => {
      const modelId = await context.rawModel();
      await context.http.refused("an empty batch", "forward_backward", passBytes(modelId, 1, []));
    },
  ],
  [
    "not-a-number",
    "one NaN in the weights would make the model NaN permanently",
    `${clean}; the model is unchanged`,
    async (context) => {
      const modelId = await context.rawModel();
      const weights = TensorData.from(Float32Array.from(lesson.slice(1), (_, i) => (i === 3 ? Number.NaN : 1)));
      const datum = new Datum({
        modelInput: ModelInput.fromInts(lesson.slice(0, -1)),
        lossFnInputs: { target_tokens: lesson.slice(1), weights },
      });
      await context.http.refused("a weight that is not a number", "forward_backward", passBytes(modelId, 1, [datum]));
    },
  ],
  [
    "too-long",
    "a sequence longer than the context must not be truncated silently",
    clean,
    async (context) => {
      const length = (context.target.contextLength ?? 131_072) + 2;
      await badPass(context, `a sequence of ${length} tokens`, datumOf(tokensOf(1, length + 1)));
    },
  ],
  [
    "prompt-too-long",
    "a prompt longer than the context must not be truncated silently",
    clean,
    (context) => {
      const tokens = tokensOf(1, (context.target.contextLength ?? 131_072) + 1);
      return badSample(context, `a prompt of ${tokens.length} tokens`, {
        prompt: { chunks: [{ type: "encoded_text", tokens }] },
      });
    },
  ],
  [
    "empty-prompt",
    "an empty prompt cannot be continued",
    clean,
    (context) => badSample(context, "an empty prompt", { prompt: { chunks: [] } }),
  ],
  [
    "max-tokens",
    "max_tokens below 1 would generate nothing",
    clean,
    (context) => badSample(context, "max_tokens −1", { sampling_params: { max_tokens: -1 } }),
  ],
  [
    "temperature",
    "a negative temperature has no meaning",
    clean,
    (context) => badSample(context, "temperature −1", { sampling_params: { max_tokens: 2, temperature: -1 } }),
  ],
  [
    "top-p",
    "top_p must be above 0 and at most 1",
    clean,
    async (context) => {
      await badSample(context, "top_p 1.5", { sampling_params: { max_tokens: 2, top_p: 1.5 } });
      await badSample(context, "top_p 0", { sampling_params: { max_tokens: 2, top_p: 0 } });
    },
  ],
  [
    "num-samples",
    "num_samples must be at least 1",
    clean,
    (context) => badSample(context, "num_samples 0", { num_samples: 0 }),
  ],
  ["learning-rate", "a negative learning rate increases the loss", clean, adam({ learning_rate: -1 })],
  ["betas", "a beta of one or more diverges", clean, adam({ learning_rate: 1e-3, beta1: 1.5 })],
  [
    "malformed-json",
    "an incomplete request must not be guessed",
    "400 or 422, with a body and its length",
    async ({ http }) => {
      const answer = await http.post("create_session", '{"tags": [');
      holds([400, 422].includes(answer.status), "half a JSON body", "400 or 422", described(answer));
    },
  ],
  [
    "refusals-have-bodies",
    "official clients treat a 400 without Content-Length as a broken connection and retry for minutes",
    "every 4xx has a body and, over a socket, its Content-Length",
    async ({ http }) => {
      for (const body of ["{", "[]", '{"session_id": 5}']) {
        const answer = await http.post("session_heartbeat", body);
        holds(answer.status >= 400 && answer.status < 500, `the body ${body}`, "a 4xx", described(answer));
        holds(answer.bytes.length > 0, `the response to ${body}`, "a body", "none");
        const length = answer.headers.get("content-length");
        holds(length !== null && Number(length) > 0, "Content-Length of a 4xx", "above 0", length ?? "none");
      }
    },
  ],
  [
    "missing-fields",
    "an error must name the missing field",
    clean,
    async ({ http, baseModel }) => {
      await http.refused("create_model without a session", "create_model", { base_model: baseModel });
      await http.refused("create_session with an invalid body", "create_session", { sdk_version: 5 });
      await http.refused("optim_step without a model", "optim_step", { adam_params: {} });
    },
  ],
  [
    "wrong-types",
    "a string in place of a number is a client error",
    clean,
    async (context) => {
      const model_id = await context.rawModel();
      const body = { model_id, seq_id: "one", adam_params: { learning_rate: "fast" }, type: "optim_step" };
      await context.http.refused('a learning rate of "fast"', "optim_step", body);
    },
  ],
  [
    "deep-json",
    "deeply nested JSON must not crash the server",
    "a 4xx",
    async ({ http }) => {
      const answer = await http.post("create_session", `${"[".repeat(20_000)}${"]".repeat(20_000)}`);
      holds(answer.status >= 400 && answer.status < 500, "20 000 brackets", "a 4xx", described(answer));
      equal((await http.get("healthz")).status, 200, "healthz afterwards");
    },
  ],
  [
    "image-for-a-text-model",
    "a text-only model must reject images",
    `${clean}, if the model does not accept images`,
    async (context) => {
      const modelId = await context.rawModel();
      const image = {
        type: "image" as const,
        data: new Uint8Array([1, 2, 3]),
        format: "png" as const,
        expectedTokens: 4,
      };
      const modelInput = new ModelInput([image, { type: "encoded_text", tokens: lesson.slice(0, 12) }]);
      const targets = lesson.slice(0, 16);
      const datum = new Datum({ modelInput, lossFnInputs: { target_tokens: targets, weights: targets.map(() => 1) } });
      await context.http.refused(
        "three bytes that are not an image",
        "forward_backward",
        passBytes(modelId, 1, [datum]),
      );
    },
  ],
  [
    "nothing-is-broken",
    "a bad request must not affect later requests",
    "after rejected requests the model continues to train",
    async (context) => {
      const trainer = await context.trainer();
      const before = await score(trainer);
      const bad = passBytes(trainer.modelId, 2, [datumOf([3, 4, 2_000_000_000, 5])]);
      await context.http.refused("a token outside the vocabulary", "forward_backward", bad);
      const good = passBytes(trainer.modelId, 3, undefined, { forwardOnly: true });
      const { bytes } = await context.http.call("forward_backward", good);
      allClose(logprobsOf(decodeForwardBackwardOutput(bytes)), before, 1e-4, "log-probs after a rejected pass");
    },
  ],
]);
