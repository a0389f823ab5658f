/**
 * A client that is not the SDK: JSON of older and other releases, requests without a number, samples without a session, names left out. Nothing
 * orders or deduplicates its requests, so that only their ends are checked: each ends, with a result or a typed error.
 */
import { peftFiles } from "@tinklet/models";
import type { ServiceClient } from "@tinklet/sdk";
import type { Clock } from "@tinklet/wire/clock";
import { APIConnectionError } from "@tinklet/wire/errors";
import { baseModel, baseUrl, keyOf } from "./host.ts";
import { madeUpIds } from "./mistakes.ts";
import type { Random } from "./random.ts";

export interface RawClientOptions {
  readonly tenant: string;
  readonly service: ServiceClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** A second base model, which the server may not have at some times. */
  readonly otherModel: string | undefined;
  /** Sampler weights of this tenant. */
  readonly ownPaths: () => readonly string[];
  readonly record: (what: string, run: (signal: AbortSignal) => PromiseLike<unknown>) => Promise<unknown>;
}

type Json = Readonly<Record<string, unknown>>;

const patienceMs = 60_000;

const datum = (more: Json = {}, chunks: readonly Json[] = [{ type: "encoded_text", tokens: [1, 2] }]) => ({
  model_input: { chunks },
  loss_fn_inputs: { target_tokens: { data: [3, 4], dtype: "int64", shape: [2] }, ...more },
});
const weights = { weights: { data: [1, 0], dtype: "float32", shape: [2] } };
const sampling = { prompt: { chunks: [{ type: "encoded_text", tokens: [5, 6, 7] }] }, num_samples: 1 };

export async function rawClient({
  tenant,
  service,
  clock,
  random,
  fetch,
  otherModel,
  ownPaths,
  record,
}: RawClientOptions) {
  const ask = async (path: string, init: RequestInit, signal: AbortSignal, waitsMs = patienceMs): Promise<string> => {
    const late = new AbortController();
    const end = () => late.abort(signal.reason ?? new APIConnectionError("no answer in time"));
    const cancel = clock.timer(waitsMs, end);
    signal.addEventListener("abort", end, { once: true });
    try {
      const response = await fetch(`${baseUrl}/api/v1/${path}`, {
        ...init,
        headers: { "x-api-key": keyOf(tenant), ...(init.headers as Record<string, string>) },
        signal: late.signal,
      });
      const reader = response.body?.getReader();
      const parts: Uint8Array[] = [];
      for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) parts.push(part.value!);
      const text = Buffer.concat(parts).toString();
      if (response.status !== 200) throw new APIConnectionError(`${response.status} ${text.slice(0, 200)}`);
      return text;
    } catch (error) {
      throw error instanceof TypeError ? new APIConnectionError("no whole answer", { cause: error }) : error;
    } finally {
      cancel();
      signal.removeEventListener("abort", end);
    }
  };
  const post = async (path: string, body: Json, signal: AbortSignal): Promise<Json> => {
    const headers = { "content-type": "application/json" };
    const text = await ask(path, { method: "POST", headers, body: JSON.stringify(body) }, signal);
    try {
      return JSON.parse(text) as Json;
    } catch (error) {
      throw new APIConnectionError("no whole answer", { cause: error });
    }
  };
  const done = async (path: string, body: Json, type: "ForwardBackward" | "Sample", signal: AbortSignal) => {
    const { request_id: requestId } = await post(path, body, signal);
    if (typeof requestId !== "string") throw new APIConnectionError("no request was acknowledged");
    return service.future(requestId, type, { signal });
  };
  let sessionId: string | undefined;
  let modelId: string | undefined;
  for (let tries = 0; modelId === undefined && tries < 6; tries++) {
    await record("a session and a model", async (signal) => {
      const session = { tags: [], userMetadata: {}, sdkVersion: "0.20.0" };
      sessionId ??= (await service.api.createSession(session, { signal })).sessionId;
      const model = { sessionId, modelSeqId: 0, baseModel, loraConfig: { rank: 2 } };
      const { requestId } = await service.api.createModel(model as never, { signal });
      ({ modelId } = await service.future(requestId, "CreateModel", { signal }));
    });
    await clock.sleep(random.fraction() * 8000);
  }
  if (modelId === undefined || sessionId === undefined) return;
  const model = modelId;
  /** Numbers that it leaves out are waited for: few clients do it, because the wait is long. */
  const leavesGaps = random.chance(0.3);
  let nextNumber = 3;
  const pass = (data: readonly Json[], config: Json = {}) => ({ data, loss_fn: "cross_entropy", ...config });
  const backward = (input: Json, seq: Json = {}) => ({ model_id: model, forward_backward_input: input, ...seq });
  const adam = { learning_rate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-12 };
  const future = { type: "sampling" };
  const steps: readonly [string, (signal: AbortSignal) => PromiseLike<unknown>][] = [
    ["a pass", (signal) => done("forward_backward", backward(pass([datum()])), "ForwardBackward", signal)],
    [
      "a pass of two chunks",
      (signal) => {
        const chunks = [1, 2].map((token) => ({ type: "encoded_text", tokens: [token] }));
        return done("forward_backward", backward(pass([datum(weights, chunks)])), "ForwardBackward", signal);
      },
    ],
    [
      "a pass without weight",
      (signal) =>
        done(
          "forward_backward",
          backward(pass([datum({ weights: { data: [0, 0], dtype: "float32", shape: [2] } })])),
          "ForwardBackward",
          signal,
        ),
    ],
    [
      "a forward of an older release",
      (signal) => done("forward", { model_id: model, forward_input: pass([datum()]) }, "ForwardBackward", signal),
    ],
    [
      "other kinds of input",
      (signal) => {
        const chunks = [
          { type: "dmel", dmel: "AAAA" },
          { type: "image_asset_pointer", format: "png", location: "x", expected_tokens: 1 },
        ];
        return done("forward_backward", backward(pass([datum({}, chunks)])), "ForwardBackward", signal);
      },
    ],
    [
      "a sparse tensor",
      (signal) => {
        const target_tokens = {
          data: [3],
          dtype: "int64",
          shape: [1, 2],
          sparse_crow_indices: [0, 1],
          sparse_col_indices: [0],
        };
        return done("forward_backward", backward(pass([datum({ target_tokens })])), "ForwardBackward", signal);
      },
    ],
    [
      "a setting of text",
      (signal) => {
        const inputs = { logprobs: weights.weights, advantages: weights.weights };
        const config = { loss_fn: "ppo", loss_fn_config: { clip_low_threshold: "x" } };
        return done("forward_backward", backward(pass([datum(inputs)], config)), "ForwardBackward", signal);
      },
    ],
    [
      "a setting",
      (signal) => {
        const inputs = { logprobs: weights.weights, advantages: weights.weights };
        const config = { loss_fn: "ppo", loss_fn_config: { clip_low_threshold: 0.8 } };
        return done("forward_backward", backward(pass([datum(inputs)], config)), "ForwardBackward", signal);
      },
    ],
    [
      "a loss without its id",
      (signal) => done("forward_backward", backward(pass([datum()], { loss_fn: "custom" })), "ForwardBackward", signal),
    ],
    [
      "a custom loss, forward",
      async (signal) => {
        const loss = await post(
          "create_custom_loss",
          {
            session_id: sessionId,
            custom_loss_seq_id: random.below(3),
            name: "own",
            inputs: [
              { name: "logprobs", rank: 1 },
              { name: "extra", rank: 1 },
            ],
            graph: ownLoss,
          },
          signal,
        );
        const made = await service.future(String(loss["request_id"]), "CreateCustomLoss", { signal });
        const config = { loss_fn: "custom", loss_fn_config: { loss_id: made.lossId } };
        const extra = random.chance(0.5) ? { extra: { data: [1, 2], dtype: "float32" } } : {};
        if (random.chance(0.2)) {
          // Tensors that are much larger when they are dense: one, or all of a batch together.
          const [columns, count] = random.pick([
            [1_000_000_000, 1],
            [1_000_000, 20],
          ] as const);
          const sparse = { data: [3], dtype: "int64", sparse_crow_indices: [0, 1], sparse_col_indices: [0] };
          const wide = datum({ target_tokens: { ...sparse, shape: [1, columns] } });
          const data = Array.from({ length: count }, () => wide);
          return done("forward_backward", backward(pass(data, config)), "ForwardBackward", signal);
        }
        if (random.chance(0.3))
          return done(
            "forward_backward",
            backward(pass([{ ...datum(), loss_fn_inputs: extra }], config)),
            "ForwardBackward",
            signal,
          );
        if (random.chance(0.5))
          return done(
            "forward_backward",
            backward(pass([datum({ ...extra, target_tokens: { data: [3, 4], dtype: "int64" } })], config)),
            "ForwardBackward",
            signal,
          );
        return done(
          "forward",
          { model_id: model, forward_input: pass([datum(extra)], config) },
          "ForwardBackward",
          signal,
        );
      },
    ],
    [
      "a step",
      async (signal) => {
        const sent = await post("optim_step", { model_id: model, adam_params: adam }, signal);
        return service.future(String(sent["request_id"]), "OptimStep", { signal });
      },
    ],
    [
      "a step without settings",
      async (signal) => {
        const sent = await post("optim_step", { model_id: model }, signal);
        return service.future(String(sent["request_id"]), "OptimStep", { signal });
      },
    ],
    [
      "a number that was used",
      (signal) => done("forward_backward", backward(pass([datum()]), { seq_id: 0 }), "ForwardBackward", signal),
    ],
    [
      "a number twice",
      async (signal) => {
        await post("optim_step", { model_id: model, seq_id: 1, adam_params: adam }, signal);
        return post("optim_step", { model_id: model, seq_id: 1, adam_params: { ...adam, learning_rate: 2 } }, signal);
      },
    ],
    [
      "a number after a gap, and none",
      async (signal) => {
        if (leavesGaps) nextNumber += random.between(1, 3);
        const sent = [nextNumber++, undefined].map((seq_id) =>
          post(
            "optim_step",
            { model_id: model, ...(seq_id === undefined ? {} : { seq_id }), adam_params: adam },
            signal,
          ),
        );
        const [first, second] = await Promise.all(sent);
        await service.future(String(first!["request_id"]), "OptimStep", { signal }).catch(() => {});
        return service.future(String(second!["request_id"]), "OptimStep", { signal });
      },
    ],
    [
      "a model of which nothing is trained",
      (signal) => {
        const lora_config = { rank: 2, train_attn: false, train_mlp: false, train_unembed: false };
        return post(
          "create_model",
          { session_id: sessionId, model_seq_id: 4, base_model: baseModel, lora_config },
          signal,
        );
      },
    ],
    [
      "a run that is deleted while it trains",
      async (signal) => {
        const number = random.between(5, 9);
        const id = `${sessionId}:train:${number}`;
        const made = await post(
          "create_model",
          { session_id: sessionId, model_seq_id: number, base_model: baseModel, lora_config: { rank: 2 } },
          signal,
        );
        await service.future(String(made["request_id"]), "CreateModel", { signal });
        const step = await post("optim_step", { model_id: id, seq_id: 1, adam_params: adam }, signal);
        if (random.chance(0.5)) await service.future(String(step["request_id"]), "OptimStep", { signal });
        await ask(`tinklet/runs/${id}/delete`, { method: "POST", body: "{}" }, signal);
        return service.future(String(step["request_id"]), "OptimStep", { signal });
      },
    ],
    [
      "the other model",
      async (signal) => {
        if (otherModel === undefined) return undefined;
        if (random.chance(0.5))
          return done(
            "asample",
            { ...sampling, base_model: otherModel, sampling_params: { max_tokens: 3 } },
            "Sample",
            signal,
          );
        const number = random.between(10, 13);
        const made = await post(
          "create_model",
          { session_id: sessionId, model_seq_id: number, base_model: otherModel, lora_config: { rank: 2 } },
          signal,
        );
        const [path] = ownPaths();
        if (path !== undefined && random.chance(0.3)) {
          const load = { model_id: `${sessionId}:train:${number}`, path, optimizer: false };
          const loaded = await post("load_weights", load, signal);
          return service.future(String(loaded["request_id"]), "LoadWeights", { signal });
        }
        const step = { model_id: `${sessionId}:train:${number}`, adam_params: adam };
        const sent = await post("optim_step", step, signal);
        await service.future(String(made["request_id"]), "CreateModel", { signal });
        return service.future(String(sent["request_id"]), "OptimStep", { signal });
      },
    ],
    [
      "an import",
      (signal) => {
        const body = form(random.pick(adapters));
        const headers = { "content-type": `multipart/form-data; boundary=${boundary}` };
        return ask("tinklet/import_adapter", { method: "POST", headers, body: body as never }, signal);
      },
    ],
    [
      "its events",
      (signal) => {
        const follow = random.chance(0.8);
        const after = random.chance(0.2) ? "&after=none" : "";
        const waitsMs = random.fraction() * 20_000;
        return ask(`tinklet/events?follow=${follow}${after}`, { method: "GET" }, signal, waitsMs);
      },
    ],
    ["its curve", (signal) => ask(`tinklet/runs/${model}/steps`, { method: "GET" }, signal)],
    [
      "a model's number twice",
      (signal) =>
        post(
          "create_model",
          { session_id: sessionId, model_seq_id: 0, base_model: baseModel, lora_config: { rank: 3 } },
          signal,
        ),
    ],
    [
      "a save without a name",
      async (signal) => {
        const sent = await post(
          "save_weights",
          { model_id: model, ...(random.chance(0.5) ? { seq_id: 2 } : {}), user_metadata: { a: "b" } },
          signal,
        );
        return service.future(String(sent["request_id"]), "SaveWeights", { signal });
      },
    ],
    [
      "an export",
      async (signal) => {
        const sent = await post("save_weights_external", { model_id: model, path: `out${random.below(2)}` }, signal);
        return service.future(String(sent["request_id"]), "SaveWeightsExternal", { signal });
      },
    ],
    [
      "a load with the optimizer of sampler weights",
      async (signal) => {
        const [path] = ownPaths();
        if (path === undefined) return undefined;
        const sent = await post("load_weights", { model_id: model, path, optimizer: random.chance(0.5) }, signal);
        return service.future(String(sent["request_id"]), "LoadWeights", { signal });
      },
    ],
    [
      "a sample without a session",
      (signal) =>
        done("asample", { ...sampling, base_model: baseModel, sampling_params: { max_tokens: 3 } }, "Sample", signal),
    ],
    [
      "a sample of weights",
      (signal) => {
        const path = ownPaths().at(-1);
        const from = path === undefined ? { base_model: baseModel } : { model_path: path };
        return done(
          "asample",
          { ...sampling, ...from, sampling_params: { max_tokens: 3, temperature: -1 } },
          "Sample",
          signal,
        );
      },
    ],
    [
      "a constrained sample",
      (signal) => {
        const tinklet_constraint = random.pick<Json>([
          { type: "json_object" },
          { type: "json_schema", schema: { type: "string" } },
          { type: "json_schema", schema: { type: "nothing" } },
        ]);
        return done(
          "asample",
          { ...sampling, base_model: baseModel, tinklet_constraint, sampling_params: { max_tokens: 3 } },
          "Sample",
          signal,
        );
      },
    ],
    [
      "bad targets",
      (signal) => {
        const target_prompt_logprobs = random.pick<Json>([
          { data: [1, 2], dtype: "float32", shape: [2, 1] },
          { data: [1, 2], dtype: "int64" },
        ]);
        return done(
          "asample",
          { ...sampling, base_model: baseModel, target_prompt_logprobs, sampling_params: { max_tokens: 3 } },
          "Sample",
          signal,
        );
      },
    ],
    [
      "a cancelled sample",
      async (signal) => {
        const { request_id: id } = await post(
          "asample",
          { ...sampling, ...future, base_model: baseModel, sampling_params: { max_tokens: 9 } },
          signal,
        );
        await post("cancel_future", { request_id: id }, signal);
        return service.future(String(id), "Sample", { signal });
      },
    ],
    [
      "a cancellation of a made-up id",
      (signal) => post("cancel_future", { request_id: random.pick(madeUpIds) }, signal),
    ],
    [
      "tokens of a made-up id",
      (signal) => service.api.sampleTokens({ requestId: random.pick(madeUpIds), after: 0 } as never, { signal }),
    ],
    [
      "a page of completions that names made-up results",
      async (signal) => {
        await post(
          "create_sampling_session",
          { session_id: sessionId, sampling_session_seq_id: 9, base_model: baseModel },
          signal,
        );
        return post(
          "retrieve_futures",
          {
            target: { type: "sampling_session", sampling_session_id: `${sessionId}:sample:9` },
            prev_cursor: 0,
            retrieved_request_ids: [...madeUpIds],
            timeout: 0,
          },
          signal,
        );
      },
    ],
    ["its progress", (signal) => service.api.listRunProgress({} as never, { signal })],
    ["its run", (signal) => service.createRestClient().getTrainingRun(model, { signal })],
  ];
  const other = steps.find(([name]) => name === "the other model")!;
  for (let rounds = random.between(8, 14); rounds > 0; rounds--) {
    if (random.chance(0.4)) await clock.sleep(random.fraction() * 6000);
    const some = Array.from({ length: random.between(1, 3) }, () =>
      otherModel !== undefined && random.chance(0.3) ? other : random.pick(steps),
    );
    await Promise.all(some.map(([what, run]) => record(what, run)));
  }
}

/** Adapters in PEFT's format: one that fits, and one of a kind that the server does not read. */
const adapters = ["LORA", "IA3"].map((peft_type) => {
  const module = "base_model.model.model.layers.0.self_attn.q_proj";
  return peftFiles(
    {
      lora: { rank: 2, alpha: 32 },
      weights: {
        [`${module}.lora_A.weight`]: { data: new Float32Array(16).fill(0.5), shape: [2, 8] },
        [`${module}.lora_B.weight`]: { data: new Float32Array(16).fill(0.25), shape: [8, 2] },
      },
    },
    baseModel,
  ).map(({ name, parts }) => {
    const bytes = Buffer.concat(parts);
    return { name, bytes: name.endsWith(".json") ? Buffer.from(String(bytes).replace("LORA", peft_type)) : bytes };
  });
});

const boundary = "adapter";
const form = (files: readonly { readonly name: string; readonly bytes: Uint8Array }[]): Uint8Array =>
  new Uint8Array(
    Buffer.concat([
      ...files.flatMap(({ name, bytes }) => [
        Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n`),
        bytes,
        Buffer.from("\r\n"),
      ]),
      Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="base_model"\r\n\r\n${baseModel}\r\n`),
      Buffer.from(`--${boundary}--\r\n`),
    ]),
  );

const node = (op: string, name: string, target: string, args: readonly unknown[]) => ({
  op,
  name,
  target,
  args,
  kwargs: {},
});
const ref = (name: string) => ({ ref: name });
/** The sum of the log-probs, with a mean beside it. */
const ownLoss = {
  format: 1,
  nodes: [
    node("placeholder", "logprobs", "logprobs", []),
    node("placeholder", "extra", "extra", []),
    node("call_method", "total", "sum", [ref("logprobs")]),
    node("call_method", "average", "mean", [ref("logprobs")]),
    node("output", "output", "output", [
      { tuple: [ref("total"), { dict: { "custom/average:mean": ref("average"), "custom/total:sum": ref("total") } }] },
    ]),
  ],
};
