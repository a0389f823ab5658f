/** Routes, fields and losses added by releases after 0.25. A server may not offer them; the ones it offers must work. */
import {
  contract,
  Datum,
  decodeForwardBackwardOutput,
  encodeForwardBackwardRequest,
  ModelInput,
  TensorData,
} from "@tinklet/wire";
import { group } from "../case.ts";
import { closeRelative, equal, fail, finite, holds, listOf, notOffered, text } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, logprobsOf, passBytes, score, tokensOf } from "../data.ts";
import { type Answer, described } from "../http.ts";
import { offered } from "../newer.ts";

const okay = (answer: Answer, label: string): Answer => {
  offered(answer, label);
  holds(answer.status >= 200 && answer.status < 300, label, "a 2xx", described(answer));
  return answer;
};

/** Posts to a route that 0.25 does not have. */
const posted = async ({ http }: Context, path: string, body: unknown): Promise<Answer> =>
  okay(await http.post(path, body), path);

/** Posts to a route that returns a future, and waits for its result. */
async function done(context: Context, path: string, body: unknown): Promise<Answer> {
  const { json } = await posted(context, path, body);
  return context.http.result(text(json?.request_id, `${path}: request_id`));
}

const sampleOf = (sampler: string, seq: number, maxTokens = 2) => ({
  prompt: { chunks: [{ type: "encoded_text", tokens: tokensOf(21, 8) }] },
  sampling_params: { max_tokens: maxTokens, seed: seq },
  sampling_session_id: sampler,
  seq_id: seq,
  type: "sample",
});

/** Cross-entropy as a traced loss graph. */
const tracedLoss = {
  inputs: [
    { name: "logprobs", rank: 1 },
    { name: "weights", rank: 1 },
  ],
  graph: {
    format: 1,
    nodes: [
      { op: "placeholder", name: "logprobs", target: "logprobs", args: [], kwargs: {} },
      { op: "placeholder", name: "weights", target: "weights", args: [], kwargs: {} },
      {
        op: "call_function",
        name: "mul",
        target: "operator.mul",
        args: [{ ref: "logprobs" }, { ref: "weights" }],
        kwargs: {},
      },
      { op: "call_method", name: "sum_1", target: "sum", args: [{ ref: "mul" }], kwargs: {} },
      { op: "call_function", name: "neg", target: "operator.neg", args: [{ ref: "sum_1" }], kwargs: {} },
      { op: "output", name: "output", target: "output", args: [{ tuple: [{ ref: "neg" }, { dict: {} }] }], kwargs: {} },
    ],
  },
};

const createLoss = (sessionId: string, graph: unknown = tracedLoss.graph) => ({
  session_id: sessionId,
  custom_loss_seq_id: 0,
  name: "nll",
  inputs: tracedLoss.inputs,
  graph,
});

/** Saves sampler weights of a new model. */
async function savedSampler(context: Context): Promise<{ path: string; sessionId: string }> {
  const sessionId = await context.session();
  const modelId = await context.rawModel({ sessionId });
  const body = { model_id: modelId, seq_id: 1, path: context.uniqueName("newer"), type: "save_weights_for_sampler" };
  const { json } = await context.http.call("save_weights_for_sampler", body);
  return { path: text(json?.path, "path"), sessionId };
}

/** One gspo pass over the lesson, with sampling log-probs that are `shift` below the model's. */
async function gspo(context: Context, shift: number, advantage: number): Promise<Record<string, number>> {
  const trainer = await context.trainer();
  const modelLogprobs = await score(trainer);
  const datum = new Datum({
    modelInput: ModelInput.fromInts(lesson.slice(0, -1)),
    lossFnInputs: {
      target_tokens: lesson.slice(1),
      logprobs: TensorData.from(Float32Array.from(modelLogprobs, (value) => value - shift)),
      advantages: TensorData.from(Float32Array.from(modelLogprobs, () => advantage)),
      sequence_ratio_mask: TensorData.from(Float32Array.from(modelLogprobs, () => 1)),
    },
  });
  const modelId = await context.rawModel();
  const request = { modelId, seqId: 1, forwardOnly: true, forwardBackwardInput: { data: [datum], lossFn: "gspo" } };
  const answer = offered(await context.http.post("forward_backward", encodeForwardBackwardRequest(request)), "gspo");
  const outcome = await context.http.outcome(text(answer.json?.request_id, "request_id"), {
    requestType: "ForwardBackward",
  });
  if (outcome.kind !== "done") notOffered(`the loss gspo: ${described(outcome.answer)}`);
  return { ...decodeForwardBackwardOutput(outcome.answer.bytes).metrics };
}

export const newer = group("newer", "routes, fields and losses of releases after 0.25", [
  [
    "cancel-future",
    "abandoned samples would continue to cost money",
    "cancel_future stops a sample; its future still resolves",
    async (context) => {
      const sampler = await context.rawSampler();
      const requestId = await context.http.submit("asample", sampleOf(sampler, 0, 64));
      await posted(context, "cancel_future", { request_id: requestId });
      await context.http.outcome(requestId, { requestType: "Sample" }); // cancelled or done, but not pending
    },
    "0.26",
  ],
  [
    "api-key",
    "auth whoami uses it",
    "GET auth/apikey/me returns the key's id",
    async ({ http }) => {
      const { json } = okay(await http.get("auth/apikey/me"), "auth/apikey/me");
      finite(json?.key_id, "key_id");
    },
    "0.26",
  ],
  [
    "retrieve-futures",
    "without it, a thousand samples need a thousand polls",
    "one long poll lists the finished samples of a session, each exactly once",
    async (context) => {
      const sampler = await context.rawSampler();
      const ask = (cursor: number) =>
        posted(context, "retrieve_futures", {
          target: { type: "sampling_session", sampling_session_id: sampler, cloned_sampler_id: 0 },
          prev_cursor: cursor,
          retrieved_request_ids: [],
        });
      const expectedIds = new Set<string>();
      for (let seq = 0; seq < 3; seq++) expectedIds.add(await context.http.submit("asample", sampleOf(sampler, seq)));
      let cursor = 0;
      for (const left = new Set(expectedIds); left.size > 0; ) {
        const { json } = await ask(cursor);
        const { completions, cursor: next } = contract.retrieveFutures.response!.decode(json);
        for (const { requestId, state } of completions) {
          equal(state, "finished", `state of ${requestId}`);
          holds(left.delete(requestId), "a completion", "a request that was not reported before", requestId);
        }
        cursor = next;
      }
    },
    "0.27",
  ],
  [
    "copy-weights",
    "users copy weights between projects and accounts",
    "copy_weights returns the path of a new checkpoint owned by the caller",
    async (context) => {
      const { path } = await savedSampler(context);
      const copy = { source_path: path, destination_project_id: context.uniqueName("project") };
      const { json } = await posted(context, "copy_weights", copy);
      const copied = text(json?.tinker_path, "tinker_path");
      holds(copied !== path, "tinker_path", "a path different from the source", copied);
      const sampler = await context.http.ok("POST", "create_sampling_session", {
        session_id: await context.session(),
        sampling_session_seq_id: 0,
        model_path: copied,
      });
      text(sampler.json?.sampling_session_id, "a sampler of the copy");
    },
    "0.27",
  ],
  [
    "save-metadata",
    "users find checkpoints by their metadata",
    "the list of checkpoints includes the user_metadata of each save",
    async (context) => {
      const modelId = await context.rawModel();
      const name = context.uniqueName("noted");
      const body = { model_id: modelId, seq_id: 1, path: name, user_metadata: { step: "7" }, type: "save_weights" };
      await done(context, "save_weights", body);
      const { json } = await context.http.ok("GET", `training_runs/${modelId}/checkpoints`);
      const found = (
        listOf(json?.checkpoints, "checkpoints") as { tinker_path?: string; user_metadata?: object }[]
      ).find(({ tinker_path }) => tinker_path?.endsWith(name));
      if (found?.user_metadata == null) notOffered("user_metadata: missing from the list of checkpoints");
      equal(found.user_metadata, { step: "7" }, "user_metadata");
    },
    "0.28",
  ],
  [
    "external-weights",
    "it replaces the archive route for downloads",
    "save_weights_external returns links to its files that work without a key",
    async (context) => {
      const modelId = await context.rawModel();
      const name = context.uniqueName("external");
      const body = { model_id: modelId, seq_id: 1, path: name, type: "save_weights_external" };
      const { json } = await done(context, "save_weights_external", body);
      equal(json?.path, `tinker://${modelId}/external_weights/${name}`, "path");
      const route = `training_runs/${modelId}/checkpoints/external_weights/${name}/external_weights_urls`;
      const urls = okay(await context.http.get(route), "external_weights_urls").json?.urls as Record<string, string>;
      const config = Object.keys(urls ?? {}).find((file) => file.endsWith("adapter_config.json"));
      if (config === undefined) fail("urls", "a URL for adapter_config.json", urls);
      const file = await context.http.ok("GET", urls[config]!, undefined, { key: null });
      holds(file.bytes.length > 0, "adapter_config.json", "bytes", "none");
    },
    "0.28",
  ],
  [
    "finish-session",
    "without it, the models of a closed client stay loaded until a time-out",
    "sessions/{id}/finish ends a session; later heartbeats return 410",
    async (context) => {
      const sessionId = await context.session();
      await posted(context, `sessions/${sessionId}/finish`, { reason: { type: "success" }, detail: null });
      const heartbeat = await context.http.post("session_heartbeat", {
        session_id: sessionId,
        type: "session_heartbeat",
      });
      equal(heartbeat.status, 410, "status of a heartbeat");
    },
    "0.28",
  ],
  [
    "optimizer-config",
    "the newest client always sends it",
    "create_model accepts optimizer_config adamw, and rejects an unknown family by name",
    async (context) => {
      const body = (type: string, seq: number, sessionId: string) => ({
        session_id: sessionId,
        model_seq_id: seq,
        base_model: context.baseModel,
        lora_config: { rank: 4 },
        optimizer_config: { type },
        type: "create_model",
      });
      const sessionId = await context.session();
      const { json } = await done(context, "create_model", body("adamw", 0, sessionId));
      text(json?.model_id, "model_id");
      const other = await context.http.post("create_model", body("no-such-family", 1, sessionId));
      if (other.status === 200 && (await context.http.outcome(String(other.json?.request_id))).kind === "done") {
        notOffered("optimizer_config: a nonexistent family is accepted, so the field is ignored");
      }
      holds(other.status < 500, "a nonexistent optimizer", "a rejection", described(other));
    },
    "0.30",
  ],
  [
    "join-sampling-session",
    "samplers in several processes must not use the same seq_ids",
    "join_sampling_session returns a different client_counter to each caller",
    async (context) => {
      const sampling_session_id = await context.rawSampler();
      const join = async () =>
        (await posted(context, "join_sampling_session", { sampling_session_id })).json?.client_counter as number;
      const [first, second] = [await join(), await join()];
      holds(first >= 1 && second > first, "client_counter", "at least 1, and increasing", [first, second]);
    },
    "0.32",
  ],
  [
    "storage-usage",
    "users pay for stored checkpoints",
    "billing/usage/checkpoints/current has the official response format",
    async ({ http }) => {
      const { json } = okay(await http.get("billing/usage/checkpoints/current"), "billing/usage/checkpoints/current");
      contract.getCurrentCheckpointStorageUsage.response!.decode(json);
    },
    "0.32",
  ],
  [
    "display-name",
    "users identify sessions by name",
    "the session has the display_name of create_session",
    async ({ http }) => {
      const body = {
        tags: [],
        user_metadata: {},
        sdk_version: "0.36.0",
        display_name: "a name",
        type: "create_session",
      };
      const made = okay(await http.post("create_session", body), "display_name");
      const { json } = okay(await http.get(`sessions/${made.json?.session_id}`), "sessions/{id}");
      if (json?.display_name == null) notOffered("display_name: missing from the session");
      equal(json.display_name, "a name", "display_name");
    },
    "0.34",
  ],
  [
    "gspo",
    "it is the usual loss for reinforcement learning with mixture-of-experts models",
    "gspo uses the geometric mean of the sequence's ratios for every token",
    async (context) => {
      const metrics = await gspo(context, 0.1, 1);
      const expected = -(lesson.length - 1) * Math.exp(0.1);
      closeRelative(metrics["loss:sum"] ?? Number.NaN, expected, 0.02, "loss:sum at a ratio of e^0.1 and advantage 1");
    },
    "0.34",
  ],
  [
    "gspo-clips",
    "sequences far from the policy must be clipped",
    "gspo clips the ratio of the whole sequence",
    async (context) => {
      const clipped = (await gspo(context, 1, 1))["loss:sum"] ?? Number.NaN;
      const unclipped = -(lesson.length - 1) * Math.E;
      holds(clipped > unclipped * 0.75, "loss:sum at a ratio of e", `well above ${unclipped}`, clipped);
    },
    "0.34",
  ],
  [
    "search-sessions",
    "users search sessions instead of remembering ids",
    "sessions/search finds a session by its id",
    async (context) => {
      const sessionId = await context.session();
      const { json } = await posted(context, "sessions/search", { session_id: sessionId });
      holds(JSON.stringify(json).includes(sessionId), "sessions/search", sessionId, json);
    },
    "0.36",
  ],
  [
    "create-custom-loss",
    "without it, a custom loss takes two passes",
    "create_custom_loss returns the id of a traced loss, and rejects functions that are not allowed",
    async (context) => {
      const sessionId = await context.session();
      const { json } = await done(context, "create_custom_loss", createLoss(sessionId));
      text(json?.loss_id, "loss_id");
      const nodes = tracedLoss.graph.nodes.map((node) =>
        node.name === "mul" ? { ...node, target: "os.system" } : node,
      );
      const hostile = { ...createLoss(sessionId, { format: 1, nodes }), custom_loss_seq_id: 1 };
      await context.http.refused("os.system in a traced loss", "create_custom_loss", hostile);
    },
    "0.36",
  ],
  [
    "custom-loss",
    "the server must compute the traced loss",
    "the loss custom with a traced cross-entropy equals cross_entropy",
    async (context) => {
      const sessionId = await context.session();
      const { json } = await done(context, "create_custom_loss", createLoss(sessionId));
      const modelId = await context.rawModel({ sessionId });
      const config = { lossFn: "custom", lossFnConfig: { loss_id: text(json?.loss_id, "loss_id") } };
      const body = encodeForwardBackwardRequest({
        modelId,
        seqId: 1,
        forwardOnly: false,
        forwardBackwardInput: { data: [datumOf(lesson)], ...config },
      });
      const custom = decodeForwardBackwardOutput((await context.http.call("forward_backward", body)).bytes);
      const plain = decodeForwardBackwardOutput(
        (await context.http.call("forward_backward", passBytes(modelId, 2))).bytes,
      );
      const expected = -logprobsOf(plain).reduce((sum, value) => sum + value, 0);
      closeRelative(custom.metrics["loss:sum"] ?? Number.NaN, expected, 1e-3, "loss:sum");
    },
    "0.36",
  ],
]);
