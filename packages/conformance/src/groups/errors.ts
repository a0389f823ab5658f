/** Errors: every refusal is a clean 4xx or a future that fails; nothing hangs, nothing is a 5xx, and nothing breaks what was there. */

import { decodeForwardBackwardOutput } from "@tinklet/wire";
import { Datum, ModelInput, TensorData } from "tinklet";
import { group } from "../case.ts";
import { allClose, equal, holds } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, logprobsOf, passBytes, score, tokensOf } from "../data.ts";
import { described } from "../http.ts";

const clean = "a 4xx with a body, or a future that fails";

/** Refused as a pass; the model must be as it was. */
async function badPass(context: Context, what: string, datum: Datum, lossFn = "cross_entropy"): Promise<void> {
  const modelId = await context.rawModel();
  await context.http.refused(what, "forward_backward", passBytes(modelId, 1, [datum], { lossFn }));
}

/** Refused as a sample. */
async function badSample(context: Context, what: string, more: object): Promise<void> {
  await context.http.refused(what, "asample", {
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

export const errors = group("errors", "every refusal is clean, nothing hangs, nothing breaks", [
  [
    "unknown-base-model",
    "a mistyped model name should say so, not wait for a model that never comes",
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
    "work for a model that does not exist must be refused",
    clean,
    async ({ http }) => {
      await http.refused("a pass of an unknown model", "forward_backward", passBytes("no:train:0", 1));
      const step = { model_id: "no:train:0", seq_id: 1, adam_params: {}, type: "optim_step" };
      await http.refused("a step of an unknown model", "optim_step", step);
    },
  ],
  [
    "unknown-sampler",
    "samples of a session that does not exist must be refused",
    clean,
    (context) => badSample(context, "an unknown sampling session", { sampling_session_id: "no:sample:0" }),
  ],
  [
    "unknown-checkpoint",
    "a mistyped path should say so",
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
    "a loss the server does not know must not become another one",
    clean,
    (context) => badPass(context, "an unknown loss", datumOf(lesson), "no_such_loss"),
  ],
  [
    "token-outside-vocabulary",
    "a wrong tokenizer gives ids that do not exist",
    clean,
    (context) => badPass(context, "a token id of two thousand million", datumOf([3, 4, 2_000_000_000, 5])),
  ],
  [
    "negative-token",
    "padding of −100 is a habit from elsewhere",
    clean,
    (context) =>
      badPass(context, "a target of −100", withTargets(lesson.slice(1).map((token, i) => (i === 2 ? -100 : token)))),
  ],
  [
    "lengths-differ",
    "targets and inputs that are not aligned train the wrong thing",
    clean,
    (context) => badPass(context, "fewer targets than inputs", withTargets(lesson.slice(1, 9))),
  ],
  [
    "no-targets",
    "a loss without targets is none",
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
    "a batch of nothing has no gradient",
    clean,
    async (context) => {
      const modelId = await context.rawModel();
      await context.http.refused("a batch without data", "forward_backward", passBytes(modelId, 1, []));
    },
  ],
  [
    "not-a-number",
    "one NaN in the weights is a NaN in the model, for good",
    `${clean}; the model is as it was`,
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
    "a sequence beyond the context must not be cut in silence",
    clean,
    async (context) => {
      const length = (context.target.contextLength ?? 131_072) + 2;
      await badPass(context, `a sequence of ${length} tokens`, datumOf(tokensOf(1, length + 1)));
    },
  ],
  [
    "prompt-too-long",
    "a prompt beyond the context must not be cut in silence",
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
    "there is nothing to continue",
    clean,
    (context) => badSample(context, "an empty prompt", { prompt: { chunks: [] } }),
  ],
  [
    "max-tokens",
    "a limit below one asks for nothing",
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
    "a share above one or of nothing has no meaning",
    clean,
    async (context) => {
      await badSample(context, "top_p 1.5", { sampling_params: { max_tokens: 2, top_p: 1.5 } });
      await badSample(context, "top_p 0", { sampling_params: { max_tokens: 2, top_p: 0 } });
    },
  ],
  [
    "num-samples",
    "no samples is no request",
    clean,
    (context) => badSample(context, "num_samples 0", { num_samples: 0 }),
  ],
  ["learning-rate", "a negative rate climbs", clean, adam({ learning_rate: -1 })],
  ["betas", "a beta of one or more diverges", clean, adam({ learning_rate: 1e-3, beta1: 1.5 })],
  [
    "malformed-json",
    "half a request must not be guessed at",
    "400 or 422, with a body and its length",
    async ({ http }) => {
      const answer = await http.post("create_session", '{"tags": [');
      holds([400, 422].includes(answer.status), "half a JSON body", "400 or 422", described(answer));
    },
  ],
  [
    "refusals-have-bodies",
    "official clients take a 400 without Content-Length for a broken connection, and send it again for minutes",
    "every 4xx has a body and, over a socket, its Content-Length",
    async ({ http }) => {
      for (const body of ["{", "[]", '{"session_id": 5}']) {
        const answer = await http.post("session_heartbeat", body);
        holds(answer.status >= 400 && answer.status < 500, `the body ${body}`, "a 4xx", described(answer));
        holds(answer.bytes.length > 0, `the refusal of ${body}`, "a body", "none");
        const length = answer.headers.get("content-length");
        holds(length !== null && Number(length) > 0, "Content-Length of a 4xx", "above 0", length ?? "none");
      }
    },
  ],
  [
    "missing-fields",
    "what is required must be named when it is missing",
    clean,
    async ({ http, baseModel }) => {
      await http.refused("create_model without a session", "create_model", { base_model: baseModel });
      await http.refused("create_session without anything", "create_session", { sdk_version: 5 });
      await http.refused("optim_step without a model", "optim_step", { adam_params: {} });
    },
  ],
  [
    "wrong-types",
    "a text where a number belongs is a mistake of the client's",
    clean,
    async (context) => {
      const model_id = await context.rawModel();
      const body = { model_id, seq_id: "one", adam_params: { learning_rate: "fast" }, type: "optim_step" };
      await context.http.refused('a learning rate of "fast"', "optim_step", body);
    },
  ],
  [
    "deep-json",
    "a bracket bomb must not bring the server down",
    "a 4xx",
    async ({ http }) => {
      const answer = await http.post("create_session", `${"[".repeat(20_000)}${"]".repeat(20_000)}`);
      holds(answer.status >= 400 && answer.status < 500, "20 000 brackets", "a 4xx", described(answer));
      equal((await http.get("healthz")).status, 200, "healthz afterwards");
    },
  ],
  [
    "image-for-a-text-model",
    "a model that cannot see must say so",
    `${clean}, where the model takes no images`,
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
      await context.http.refused("three bytes that are no image", "forward_backward", passBytes(modelId, 1, [datum]));
    },
  ],
  [
    "nothing-is-broken",
    "a bad request is one client's problem",
    "after refusals the model trains on as before",
    async (context) => {
      const trainer = await context.trainer();
      const before = await score(trainer);
      const bad = passBytes(trainer.modelId, 2, [datumOf([3, 4, 2_000_000_000, 5])]);
      await context.http.refused("a token outside of the vocabulary", "forward_backward", bad);
      const good = passBytes(trainer.modelId, 3, undefined, { forwardOnly: true });
      const { bytes } = await context.http.call("forward_backward", good);
      allClose(logprobsOf(decodeForwardBackwardOutput(bytes)), before, 1e-4, "log-probs after a refused pass");
    },
  ],
]);
