import { contract, type Operation } from "tinklet/wire";
import { beforeAll, describe, expect, test } from "vitest";
import { passBytes, TestServer } from "../testing/test-server.ts";
import { hashApiKey } from "./auth.ts";
import { type NewerOperation, newerRoutes } from "./newer-routes.ts";

/** What the first tenant owns; none of it may show in an answer to the second. */
interface Owned {
  session: string;
  model: string;
  sampler: string;
  request: string;
  path: string;
  run: string;
}
let server: TestServer;
let owned: Owned;

beforeAll(async () => {
  server = await TestServer.open({
    apiKeys: [
      { name: "alice", sha256: hashApiKey("tml-alice") },
      { name: "bob", sha256: hashApiKey("tml-bob") },
    ],
  });
  server.key = "tml-alice";
  const session = await server.session();
  const model = await server.model(session);
  const saved = await server.result(server.post("save_weights", { model_id: model, seq_id: 1, path: "secret" }));
  const pass = await server.pass(model, 2);
  await server.passResult(pass);
  await server.result(server.post("save_weights_external", { model_id: model, seq_id: 3, path: "outside" }));
  const sampler = await server.post("create_sampling_session", {
    session_id: session,
    sampling_session_seq_id: 0,
    model_path: saved.path,
  });
  owned = {
    session,
    model,
    sampler: sampler.json.sampling_session_id,
    request: pass.json.request_id,
    path: saved.path,
    run: model,
  };
  return () => server.close();
});

type Probe = (owned: Owned) => { path: string; body?: unknown; method?: string };
/** JSON passes of old clients have a route that is in no table. */
type Route = Operation | NewerOperation | "forward";
const routes: { readonly [K in Route]: { readonly method: string } } = {
  ...contract,
  ...newerRoutes,
  forward: { method: "POST" },
};

/** For every route, the request by which one tenant would reach for another's things. */
const probes: { [K in Route]: Probe } = {
  clientConfig: () => ({ path: "client/config", body: { sdk_version: "x" } }),
  clientDynamicConfig: () => ({ path: "client/dynamic_config", body: { sdk_version: "x" } }),
  authToken: () => ({ path: "auth/token", body: {} }),
  createSession: () => ({ path: "create_session", body: { tags: [], sdk_version: "x" } }),
  sessionHeartbeat: ({ session }) => ({ path: "session_heartbeat", body: { session_id: session } }),
  createSamplingSession: ({ path }) => ({
    path: "create_sampling_session",
    body: { session_id: "own", sampling_session_seq_id: 0, model_path: path },
  }),
  getServerCapabilities: () => ({ path: "get_server_capabilities" }),
  getTokenizerFiles: () => ({ path: "tinklet/tokenizer?model=secret" }),
  healthz: () => ({ path: "healthz" }),
  createModel: ({ session }) => ({
    path: "create_model",
    body: { session_id: session, model_seq_id: 9, base_model: "test/model", lora_config: { rank: 2 } },
  }),
  getInfo: ({ model }) => ({ path: "get_info", body: { model_id: model } }),
  unloadModel: ({ model }) => ({ path: "unload_model", body: { model_id: model } }),
  forwardBackward: ({ model }) => ({ path: "forward_backward", body: passBytes(model, 4) }),
  optimStep: ({ model }) => ({ path: "optim_step", body: { model_id: model, seq_id: 4, adam_params: {} } }),
  saveWeights: ({ model }) => ({ path: "save_weights", body: { model_id: model, seq_id: 4, path: "x" } }),
  saveWeightsForSampler: ({ model }) => ({
    path: "save_weights_for_sampler",
    body: { model_id: model, seq_id: 4, path: "x" },
  }),
  loadWeights: ({ path }) => ({
    path: "load_weights",
    body: { session_id: "own", model_seq_id: 0, path, optimizer: false },
  }),
  asample: ({ sampler }) => ({
    path: "asample",
    body: { prompt: { chunks: [{ tokens: [1] }] }, sampling_params: {}, sampling_session_id: sampler, seq_id: 0 },
  }),
  retrieveFuture: ({ request }) => ({ path: "retrieve_future", body: { request_id: request } }),
  telemetry: ({ session }) => ({
    path: "telemetry",
    body: { events: [], platform: "x", sdk_version: "x", session_id: session, process_uuid: "x" },
  }),
  listTrainingRuns: () => ({ path: "training_runs?access_scope=accessible" }),
  getTrainingRun: ({ run }) => ({ path: `training_runs/${run}?access_scope=accessible` }),
  listCheckpoints: ({ run }) => ({ path: `training_runs/${run}/checkpoints` }),
  deleteCheckpoint: ({ run }) => ({ path: `training_runs/${run}/checkpoints/weights/secret` }),
  getCheckpointArchiveUrl: ({ run }) => ({ path: `training_runs/${run}/checkpoints/weights/secret/archive` }),
  publishCheckpoint: ({ run }) => ({ path: `training_runs/${run}/checkpoints/weights/secret/publish` }),
  unpublishCheckpoint: ({ run }) => ({ path: `training_runs/${run}/checkpoints/weights/secret/publish` }),
  setCheckpointTtl: ({ run }) => ({
    path: `training_runs/${run}/checkpoints/weights/secret/ttl`,
    body: { ttl_seconds: 1 },
  }),
  listUserCheckpoints: () => ({ path: "checkpoints" }),
  weightsInfo: ({ path }) => ({ path: "weights_info", body: { tinker_path: path } }),
  listSessions: () => ({ path: "sessions?access_scope=accessible" }),
  getSession: ({ session }) => ({ path: `sessions/${session}?access_scope=accessible` }),
  assignSessionProject: ({ session }) => ({ path: `sessions/${session}/project`, body: { project_id: "p" } }),
  exportSessionTrace: ({ session }) => ({ path: `sessions/${session}/trace_export` }),
  getSampler: ({ sampler }) => ({ path: `samplers/${sampler}` }),
  getBillingUsage: () => ({ path: "billing/usage/events?starting_on=2025-01-01&ending_before=2027-01-01" }),
  getAuditLog: () => ({ path: "audit" }),
  createCustomLoss: ({ session }) => ({
    path: "create_custom_loss",
    body: { session_id: session, custom_loss_seq_id: 0, name: "x", inputs: [], graph: { nodes: [] } },
  }),
  forward: ({ model }) => ({
    path: "forward",
    body: { model_id: model, seq_id: 4, forward_input: { data: [], loss_fn: "cross_entropy" } },
  }),
  finishSession: ({ session }) => ({ path: `sessions/${session}/finish`, body: { reason: { type: "success" } } }),
  searchSessions: ({ session }) => ({ path: "sessions/search", body: { session_id: session } }),
  joinSamplingSession: ({ sampler }) => ({ path: "join_sampling_session", body: { sampling_session_id: sampler } }),
  cancelFuture: ({ request }) => ({ path: "cancel_future", body: { request_id: request } }),
  copyWeights: ({ path }) => ({ path: "copy_weights", body: { source_path: path } }),
  saveWeightsExternal: ({ model }) => ({
    path: "save_weights_external",
    body: { model_id: model, seq_id: 4, path: "x" },
  }),
  getExternalWeightsUrls: ({ run }) => ({
    path: `training_runs/${run}/checkpoints/external_weights/outside/external_weights_urls`,
  }),
  getCurrentCheckpointStorageUsage: () => ({ path: "billing/usage/checkpoints/current" }),
  apiKeyMe: () => ({ path: "auth/apikey/me" }),
  sampleTokens: ({ request }) => ({ path: `tinklet/samples/${request}/tokens` }),
  importAdapter: () => ({ path: "tinklet/import_adapter", body: {} }),
};
/** Routes that are about nobody's things in particular: they answer, and with nothing of the other's. */
const answering = new Set<Route>([
  "clientConfig",
  "clientDynamicConfig",
  "authToken",
  "createSession",
  "getServerCapabilities",
  "healthz",
  "telemetry",
  "listTrainingRuns",
  "listUserCheckpoints",
  "listSessions",
  "getBillingUsage",
  "getAuditLog",
  "searchSessions",
  "getCurrentCheckpointStorageUsage",
  "apiKeyMe",
]);

describe("a second tenant", () => {
  test.each(Object.keys(routes) as Route[])("%s shows nothing of the first", async (operation) => {
    server.key = "tml-bob";
    const own = await server.session();
    const { path, body } = probes[operation](owned);
    const sent =
      typeof body === "object" && body !== null && "session_id" in body && body.session_id === "own"
        ? { ...body, session_id: own }
        : body;
    const answer = await server.send(routes[operation].method, path, sent);
    if (answering.has(operation)) {
      expect(answer.status).toBe(200);
      const text = JSON.stringify(answer.json);
      for (const secret of [owned.session, "secret", "alice"]) expect(text).not.toContain(secret);
    } else {
      // another's thing and a thing that does not exist: the same answer
      expect([400, 404]).toContain(answer.status);
      expect(JSON.stringify(answer.json)).not.toContain("alice");
    }
  });

  test("the first tenant's things are untouched, and theirs alone", async () => {
    server.key = "tml-alice";
    const { checkpoints } = (await server.get("checkpoints")).json;
    expect(checkpoints).toHaveLength(2);
    for (const each of checkpoints) expect(each).toMatchObject({ public: false });
    for (const each of checkpoints) expect(each).not.toHaveProperty("expires_at");
    expect((await server.retrieve(owned.request)).status).toBe(200);
    // the session is open, and the model's next number is free: nothing of the other's attempts took it
    expect((await server.post("session_heartbeat", { session_id: owned.session })).status).toBe(200);
    expect(await server.result(server.optim(owned.model, 4))).toHaveProperty("metrics");
  });

  test("a token of one tenant is that tenant, and a key that is not configured is nobody", async () => {
    server.key = "tml-alice";
    const { jwt } = (await server.post("auth/token")).json;
    server.key = jwt;
    expect((await server.get("sessions")).json.sessions).toContain(owned.session);
    for (const key of ["tml-carol", "tml-", "", "alice", `${jwt.slice(0, -2)}xx`]) {
      server.key = key;
      expect((await server.get("sessions")).status).toBe(401);
    }
    server.key = jwt;
    await server.clock.advance(3_600_000);
    expect((await server.get("sessions")).status).toBe(401);
  });

  test("what is published can be read and loaded by all, and changed by its owner only", async () => {
    server.key = "tml-alice";
    await server.send("POST", `training_runs/${owned.run}/checkpoints/weights/secret/publish`);
    server.key = "tml-bob";
    expect((await server.post("weights_info", { tinker_path: owned.path })).json).toMatchObject({ lora_rank: 4 });
    const session = await server.session();
    const loaded = server.post("load_weights", {
      session_id: session,
      model_seq_id: 0,
      path: owned.path,
      optimizer: true,
    });
    expect(await server.result(loaded)).toMatchObject({ model_id: `${session}:train:0` });
    const at = `training_runs/${owned.run}/checkpoints/weights/secret`;
    expect((await server.send("DELETE", at)).status).toBe(404);
    expect((await server.send("DELETE", `${at}/publish`)).status).toBe(404);
    expect((await server.send("PUT", `${at}/ttl`, { ttl_seconds: 5 })).status).toBe(404);
    server.key = "tml-alice";
    await server.send("DELETE", `${at}/publish`);
  });

  test("an access token opens another account's weights for one load, and is not stored", async () => {
    server.key = "tml-bob";
    const session = await server.session();
    const body = { session_id: session, model_seq_id: 1, path: owned.path, optimizer: false };
    expect((await server.post("load_weights", body)).status).toBe(400);
    const loaded = server.post("load_weights", { ...body, weights_access_token: "tml-alice" });
    expect(await server.result(loaded)).toMatchObject({ model_id: `${session}:train:1` });
  });
});
