/**
 * Access as one table: every route × {owner, another tenant, published, deleted, expired}. Each cell has its own objects, so that
 * it is independent of the others. A route without a row does not compile, and fails the first test.
 */
import { readFileSync } from "node:fs";
import { contract, type Operation } from "@tinklet/wire";
import { beforeAll, describe, expect, test } from "vitest";
import { baseModel, passBytes, TestServer } from "../testing/test-server.ts";
import { chatExport, randomTraceId } from "../testing/trace-exports.ts";
import { hashApiKey } from "./access/auth.ts";
import { type ChatOperation, chatRoutes } from "./chat/routes.ts";

const [customLoss] = JSON.parse(
  readFileSync(new URL("../../../../test/fixtures/custom-losses.json", import.meta.url), "utf8"),
) as [{ inputs: unknown[]; graph: unknown }];

/** Alice's objects in one cell. */
interface Things {
  readonly session: string;
  readonly model: string;
  readonly sampler: string;
  readonly request: string;
  readonly path: string;
  readonly run: string;
  /** A stored response of the Responses API. */
  readonly response: string;
  /** A trace whose prompt is the session's id. */
  readonly trace: string;
  /** A session of the caller. */
  readonly own: string;
}

/** The caller, and the earlier change of Alice's checkpoint. Bob is another tenant. */
const states = {
  owner: { key: "tml-alice", before: "nothing" },
  "other tenant": { key: "tml-bob", before: "nothing" },
  published: { key: "tml-bob", before: "publish" },
  "deleted, its owner": { key: "tml-alice", before: "delete" },
  "deleted, another tenant": { key: "tml-bob", before: "delete" },
  "expired, its owner": { key: "tml-alice", before: "expire" },
  "expired, another tenant": { key: "tml-bob", before: "expire" },
} as const;
type State = keyof typeof states;
const allStates = Object.keys(states) as State[];

/** The response: a success, a success that contains Alice's objects, or the refusal for objects that do not exist. */
type Outcome = "answers" | "shows" | "refuses";
const column = (...outcomes: readonly [Outcome, Outcome, Outcome, Outcome, Outcome, Outcome, Outcome]) =>
  Object.fromEntries(allStates.map((state, i) => [state, outcomes[i]])) as Record<State, Outcome>;

const patterns = {
  /** Concerns the caller only, or no tenant. */
  "any tenant": column("answers", "answers", "answers", "answers", "answers", "answers", "answers"),
  /** Lists of the caller's objects. */
  ownList: column("shows", "answers", "answers", "shows", "answers", "shows", "answers"),
  /** Lists of the caller's checkpoints. */
  ownCheckpoints: column("shows", "answers", "answers", "answers", "answers", "answers", "answers"),
  /** Lists of the objects that the caller may see. */
  visibleList: column("shows", "answers", "shows", "shows", "answers", "shows", "answers"),
  /** A session, model or request, independent of the state of its checkpoints. */
  own: column("answers", "refuses", "refuses", "answers", "refuses", "answers", "refuses"),
  /** A run, which others may see when one of its checkpoints is public. */
  visible: column("answers", "refuses", "answers", "answers", "refuses", "answers", "refuses"),
  /** Reading a checkpoint. */
  readable: column("answers", "refuses", "answers", "refuses", "refuses", "refuses", "refuses"),
  /** Changing a checkpoint, or sampling from the caller's sampler of it. */
  changeable: column("answers", "refuses", "refuses", "refuses", "refuses", "refuses", "refuses"),
  /** Refused for every caller: the request has no valid adapter, or names no object. */
  "no tenant": column("refuses", "refuses", "refuses", "refuses", "refuses", "refuses", "refuses"),
} as const;
type Pattern = keyof typeof patterns;

type Ask = (things: Things) => { readonly path: string; readonly body?: unknown };
const row = (pattern: Pattern, ask: Ask): { readonly pattern: Pattern; readonly ask: Ask } => ({ pattern, ask });

const chatOf = (model: string) => ({ model, messages: [{ role: "user", content: "x" }] });

/** For every route, a request that names Alice's objects, and its pattern. */
const rows: { readonly [K in Operation | ChatOperation]: ReturnType<typeof row> } = {
  clientConfig: row("any tenant", () => ({ path: "client/config", body: { sdk_version: "x" } })),
  clientDynamicConfig: row("any tenant", () => ({ path: "client/dynamic_config", body: { sdk_version: "x" } })),
  authToken: row("any tenant", () => ({ path: "auth/token", body: {} })),
  createSession: row("any tenant", () => ({ path: "create_session", body: { tags: [], sdk_version: "x" } })),
  sessionHeartbeat: row("own", ({ session }) => ({ path: "session_heartbeat", body: { session_id: session } })),
  createSamplingSession: row("readable", ({ path, own }) => ({
    path: "create_sampling_session",
    body: { session_id: own, sampling_session_seq_id: 0, model_path: path },
  })),
  getServerCapabilities: row("any tenant", () => ({ path: "get_server_capabilities" })),
  getTokenizerFiles: row("no tenant", () => ({ path: "tinklet/tokenizer?model=secret" })),
  healthz: row("any tenant", () => ({ path: "healthz" })),
  createModel: row("own", ({ session }) => ({
    path: "create_model",
    body: { session_id: session, model_seq_id: 9, base_model: "test/model", lora_config: { rank: 2 } },
  })),
  getInfo: row("own", ({ model }) => ({ path: "get_info", body: { model_id: model } })),
  unloadModel: row("own", ({ model }) => ({ path: "unload_model", body: { model_id: model } })),
  forwardBackward: row("own", ({ model }) => ({ path: "forward_backward", body: passBytes(model, 4) })),
  optimStep: row("own", ({ model }) => ({ path: "optim_step", body: { model_id: model, seq_id: 4, adam_params: {} } })),
  saveWeights: row("own", ({ model }) => ({ path: "save_weights", body: { model_id: model, seq_id: 4, path: "x" } })),
  saveWeightsForSampler: row("own", ({ model }) => ({
    path: "save_weights_for_sampler",
    body: { model_id: model, seq_id: 4, path: "x" },
  })),
  loadWeights: row("readable", ({ path, own }) => ({
    path: "load_weights",
    body: { session_id: own, model_seq_id: 0, path, optimizer: false },
  })),
  asample: row("changeable", ({ sampler }) => ({
    path: "asample",
    body: { prompt: { chunks: [{ tokens: [1] }] }, sampling_params: {}, sampling_session_id: sampler, seq_id: 0 },
  })),
  retrieveFuture: row("own", ({ request }) => ({ path: "retrieve_future", body: { request_id: request } })),
  retrieveFutures: row("own", ({ sampler }) => ({
    path: "retrieve_futures",
    body: { target: { type: "sampling_session", sampling_session_id: sampler }, timeout: 0 },
  })),
  telemetry: row("any tenant", ({ session }) => ({
    path: "telemetry",
    body: { events: [], platform: "x", sdk_version: "x", session_id: session, process_uuid: "x" },
  })),
  listTrainingRuns: row("visibleList", () => ({ path: "training_runs?access_scope=accessible" })),
  getTrainingRun: row("visible", ({ run }) => ({ path: `training_runs/${run}?access_scope=accessible` })),
  listCheckpoints: row("visible", ({ run }) => ({ path: `training_runs/${run}/checkpoints` })),
  deleteCheckpoint: row("changeable", ({ run }) => ({ path: `training_runs/${run}/checkpoints/weights/secret` })),
  getCheckpointArchiveUrl: row("readable", ({ run }) => ({
    path: `training_runs/${run}/checkpoints/weights/secret/archive`,
  })),
  publishCheckpoint: row("changeable", ({ run }) => ({
    path: `training_runs/${run}/checkpoints/weights/secret/publish`,
  })),
  unpublishCheckpoint: row("changeable", ({ run }) => ({
    path: `training_runs/${run}/checkpoints/weights/secret/publish`,
  })),
  setCheckpointTtl: row("changeable", ({ run }) => ({
    path: `training_runs/${run}/checkpoints/weights/secret/ttl`,
    body: { ttl_seconds: 1 },
  })),
  listUserCheckpoints: row("ownCheckpoints", () => ({ path: "checkpoints" })),
  weightsInfo: row("readable", ({ path }) => ({ path: "weights_info", body: { tinker_path: path } })),
  listSessions: row("ownList", () => ({ path: "sessions?access_scope=accessible" })),
  getSession: row("own", ({ session }) => ({ path: `sessions/${session}?access_scope=accessible` })),
  assignSessionProject: row("own", ({ session }) => ({
    path: `sessions/${session}/project`,
    body: { project_id: "p" },
  })),
  exportSessionTrace: row("own", ({ session }) => ({ path: `sessions/${session}/trace_export` })),
  getSampler: row("own", ({ sampler }) => ({ path: `samplers/${sampler}` })),
  getBillingUsage: row("ownList", () => ({
    path: "billing/usage/events?starting_on=2025-01-01&ending_before=2027-01-01",
  })),
  getAuditLog: row("ownList", () => ({ path: "audit" })),
  createCustomLoss: row("own", ({ session }) => ({
    path: "create_custom_loss",
    body: { session_id: session, custom_loss_seq_id: 0, name: "x", inputs: customLoss.inputs, graph: customLoss.graph },
  })),
  forward: row("own", ({ model }) => ({
    path: "forward",
    body: { model_id: model, seq_id: 4, forward_input: { data: [], loss_fn: "cross_entropy" } },
  })),
  finishSession: row("own", ({ session }) => ({
    path: `sessions/${session}/finish`,
    body: { reason: { type: "success" } },
  })),
  searchSessions: row("ownList", ({ session }) => ({ path: "sessions/search", body: { session_id: session } })),
  joinSamplingSession: row("own", ({ sampler }) => ({
    path: "join_sampling_session",
    body: { sampling_session_id: sampler },
  })),
  cancelFuture: row("own", ({ request }) => ({ path: "cancel_future", body: { request_id: request } })),
  copyWeights: row("readable", ({ path }) => ({ path: "copy_weights", body: { source_path: path } })),
  saveWeightsExternal: row("own", ({ model }) => ({
    path: "save_weights_external",
    body: { model_id: model, seq_id: 4, path: "x" },
  })),
  getExternalWeightsUrls: row("readable", ({ run }) => ({
    path: `training_runs/${run}/checkpoints/external_weights/secret/external_weights_urls`,
  })),
  getCurrentCheckpointStorageUsage: row("any tenant", () => ({ path: "billing/usage/checkpoints/current" })),
  apiKeyMe: row("any tenant", () => ({ path: "auth/apikey/me" })),
  sampleTokens: row("no tenant", ({ request }) => ({ path: `tinklet/samples/${request}/tokens` })),
  deleteRun: row("own", ({ run }) => ({ path: `tinklet/runs/${run}/delete`, body: {} })),
  listRunProgress: row("ownList", () => ({ path: "tinklet/progress" })),
  getRunSteps: row("own", ({ run }) => ({ path: `tinklet/runs/${run}/steps` })),
  watchRuns: row("any tenant", () => ({ path: "tinklet/events?follow=false" })),
  getServerState: row("any tenant", () => ({ path: "tinklet/server" })),
  listRunFolders: row("any tenant", () => ({ path: "tinklet/folders" })),
  getRunFolder: row("no tenant", () => ({ path: "tinklet/folders/secret" })),
  listEvaluations: row("any tenant", () => ({ path: "tinklet/evaluations" })),
  getEvaluation: row("no tenant", () => ({ path: "tinklet/evaluations/secret" })),
  getRollouts: row("no tenant", () => ({ path: "tinklet/folders/secret/rollouts?file=x" })),
  listTraces: row("ownList", () => ({ path: "tinklet/traces" })),
  getTrace: row("own", ({ trace }) => ({ path: `tinklet/traces/${trace}` })),
  rateTrace: row("own", ({ trace }) => ({ path: `tinklet/traces/${trace}/rating`, body: { rating: "up" } })),
  deleteTrace: row("own", ({ trace }) => ({ path: `tinklet/traces/${trace}` })),
  exportTraces: row("ownList", ({ trace }) => ({
    path: "tinklet/traces/export",
    body: { format: "sft", trace_ids: [trace] },
  })),
  importAdapter: row("no tenant", () => ({ path: "tinklet/import_adapter", body: {} })),
  oaiListModels: row("ownCheckpoints", () => ({ path: "/oai/api/v1/models" })),
  oaiGetModel: row("readable", ({ path }) => ({ path: `/v1/models/${encodeURIComponent(path)}` })),
  oaiCompletions: row("readable", ({ path }) => ({ path: "/v1/completions", body: { model: path, prompt: "x" } })),
  oaiChatCompletions: row("readable", ({ path }) => ({ path: "/v1/chat/completions", body: chatOf(path) })),
  oaiCreateResponse: row("own", ({ response }) => ({
    path: "/v1/responses",
    body: { model: baseModel, input: "x", previous_response_id: response, max_output_tokens: 2 },
  })),
  oaiGetResponse: row("own", ({ response }) => ({ path: `/v1/responses/${response}` })),
  oaiDeleteResponse: row("own", ({ response }) => ({ path: `/v1/responses/${response}` })),
  anthropicMessages: row("readable", ({ path }) => ({
    path: "/anthropic/api/v1/messages",
    body: { ...chatOf(path), max_tokens: 2 },
  })),
  oaiEmbeddings: row("no tenant", () => ({ path: "/v1/embeddings", body: {} })),
  anthropicListModels: row("ownCheckpoints", () => ({ path: "/anthropic/api/v1/models" })),
  anthropicGetModel: row("readable", ({ path }) => ({
    path: `/anthropic/api/v1/models/${encodeURIComponent(path)}`,
  })),
  anthropicCountTokens: row("readable", ({ path }) => ({
    path: "/anthropic/api/v1/messages/count_tokens",
    body: chatOf(path),
  })),
};

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.open({
    apiKeys: ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
  });
  return () => server.close();
});

/** Alice's objects in the state of a cell. */
async function prepare(state: State, operation: Operation | ChatOperation): Promise<Things> {
  const { key, before } = states[state];
  server.key = "tml-alice";
  server.clock.jump(1000); // so that each cell's objects are the newest
  const session = await server.session();
  const model = await server.model(session);
  const ttl = before === "expire" ? { ttl_seconds: 600 } : {};
  const save = { model_id: model, path: "secret", ...ttl };
  const saved = await server.result(server.post("save_weights", { ...save, seq_id: 1 }));
  await server.result(server.post("save_weights_external", { ...save, seq_id: 2 }));
  const pass = await server.pass(model, 3);
  await server.passResult(pass);
  const made = await server.post("create_sampling_session", {
    session_id: session,
    sampling_session_seq_id: 0,
    model_path: saved.path,
  });
  const asked = { model: baseModel, input: "x", max_output_tokens: 2 };
  const { id: response } = (await server.post("/v1/responses", asked)).json;
  const trace = randomTraceId();
  if (operation.includes("Trace")) await server.post("/v1/traces", chatExport([{ traceId: trace, prompt: session }]));
  for (const kind of ["weights", "external_weights"]) {
    const at = `training_runs/${model}/checkpoints/${kind}/secret`;
    if (before !== "nothing") expect((await server.send("POST", `${at}/publish`)).status).toBe(200);
    if (before === "delete") expect((await server.send("DELETE", at)).status).toBe(200);
  }
  if (before === "expire") server.clock.jump(601_000);
  server.key = key;
  return {
    session,
    model,
    sampler: made.json.sampling_session_id,
    request: pass.json.request_id,
    path: saved.path,
    run: model,
    response,
    trace,
    own: await server.session(),
  };
}

test("every route has a row", () => {
  expect(Object.keys(rows).sort()).toEqual([...Object.keys(contract), ...Object.keys(chatRoutes)].sort());
});

const routes = { ...contract, ...chatRoutes };
const cells = (Object.keys(routes) as (Operation | ChatOperation)[]).flatMap((operation) =>
  allStates.map((state) => ({ operation, state, outcome: patterns[rows[operation]?.pattern ?? "any tenant"][state] })),
);

describe(`isolation, ${cells.length} cells`, () => {
  test.each(cells)("$operation, $state: $outcome", async ({ operation, state, outcome }) => {
    const things = await prepare(state, operation);
    const { path, body } = rows[operation].ask(things);
    const answer = await server.send(routes[operation].method, path, body);
    const text = answer.json === undefined ? "" : JSON.stringify(answer.json);
    if (outcome === "refuses") {
      // objects of another tenant get the same response as objects that do not exist
      expect([400, 404, 415, 422]).toContain(answer.status);
    } else {
      expect(answer.status, text).toBe(200);
      if (outcome === "shows") expect(text).toContain(things.session);
    }
    if (outcome !== "shows" && server.key === "tml-bob" && state !== "published") {
      // a list of visible objects also contains those that other cells published
      if (rows[operation].pattern !== "visibleList") expect(text).not.toContain("alice");
      const sent = body instanceof Uint8Array ? things.session : JSON.stringify(body ?? "") + path;
      if (!sent.includes(things.session)) expect(text).not.toContain(things.session);
    }
  });
});
