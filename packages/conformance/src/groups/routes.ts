/** Routes: every route exists and returns the fields that the official clients read. */
import { contract } from "@tinklet/wire";
import { group } from "../case.ts";
import { equal, fail, finite, holds, listOf, notOffered, text } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, passBytes, tokensOf } from "../data.ts";
import { described } from "../http.ts";

/** Creates a run with a training checkpoint and a sampler checkpoint. */
async function savedRun(context: Context) {
  const trainer = await context.trainer({ userMetadata: { kit: "conformance", Schlüssel: "Wert ✓" } });
  const name = context.uniqueName("routes");
  const state = await trainer.saveState(name);
  const sampler = await trainer.saveWeightsForSampler(name);
  return { trainer, name, state: state.path, sampler: sampler.path };
}

/** Asserts that a value is a timestamp. */
function moment(value: unknown, label: string): void {
  const time = typeof value === "number" ? value : typeof value === "string" ? Date.parse(value) : Number.NaN;
  holds(Number.isFinite(time), label, "an ISO 8601 time", value);
}

const read = "rejects any other response format";

export const routes = group("routes", "every route exists and has the official response format", [
  [
    "healthz",
    "load balancers and scripts poll it",
    'GET /healthz returns {"status":"ok"}',
    async ({ http }) => equal((await http.ok("GET", "healthz")).json, { status: "ok" }, "GET /healthz"),
  ],
  [
    "client-config",
    "every client requests it first and stops if the response is invalid",
    "returns a flat object of optional flags",
    async ({ http }) => {
      const { json } = await http.ok("POST", "client/config", { sdk_version: "0.25.0" });
      contract.clientConfig.response!.decode(json);
    },
  ],
  [
    "client-dynamic-config",
    "official clients cannot be constructed if it fails with an error other than 404",
    "returns {refresh_interval_sec}; a 404 means defaults",
    async ({ http }) => {
      const answer = await http.post("client/dynamic_config", { sdk_version: "0.25.0" });
      if (answer.status === 404) return;
      equal(answer.status, 200, "status of client/dynamic_config");
      contract.clientDynamicConfig.response!.decode(answer.json);
    },
  ],
  [
    "capabilities",
    "programs read the available models and the maximum sequence length",
    "lists supported_models, each with model_name and max_context_length",
    async ({ http, baseModel }) => {
      const { json } = await http.ok("GET", "get_server_capabilities");
      const models = listOf(json?.supported_models, "supported_models") as { model_name?: string }[];
      const ours = models.find(({ model_name }) => model_name === baseModel);
      holds(ours !== undefined, "supported_models", `an entry for ${baseModel}`, json);
      const length = (ours as { max_context_length?: number }).max_context_length;
      holds(typeof length === "number" && length > 0, "max_context_length", "a number above 0", length ?? "nothing");
    },
  ],
  [
    "create-session",
    "all other requests need the session's id",
    'answers {session_id, type:"create_session"}',
    async ({ http }) => {
      const body = { tags: ["conformance"], user_metadata: {}, sdk_version: "0.25.0", type: "create_session" };
      const { json } = await http.ok("POST", "create_session", body);
      text(json.session_id, "session_id");
      holds(json.type === undefined || json.type === "create_session", "type", "create_session or nothing", json.type);
    },
  ],
  [
    "create-model",
    "training starts with it",
    "returns a future whose result is {model_id}",
    async (context) => void text(await context.rawModel(), "model_id"),
  ],
  [
    "model-id-form",
    "clients that create models from checkpoints compute the id; paths contain it as the run",
    "the model's id is {session_id}:train:{model_seq_id}",
    async (context) => {
      const sessionId = await context.session();
      equal(await context.rawModel({ sessionId, modelSeqId: 3 }), `${sessionId}:train:3`, "model_id");
    },
  ],
  [
    "get-info",
    "get_tokenizer and get_info use it",
    "returns model_id, model_data{model_name, tokenizer_id}, is_lora and lora_rank",
    async (context) => {
      const modelId = await context.rawModel({ lora: { rank: 4 } });
      const { json } = await context.http.ok("POST", "get_info", { model_id: modelId, type: "get_info" });
      equal(json.model_id, modelId, "model_id");
      equal(json.model_data?.model_name, context.baseModel, "model_data.model_name");
      equal(json.is_lora, true, "is_lora");
      equal(json.lora_rank, 4, "lora_rank");
    },
  ],
  [
    "accepts-at-once",
    "the client expects an immediate request_id instead of a result",
    "a training request is acknowledged with {request_id: string}",
    async (context) => {
      const modelId = await context.rawModel();
      const { json } = await context.http.ok("POST", "forward_backward", passBytes(modelId, 1));
      text(json.request_id, "request_id");
    },
  ],
  [
    "optim-step-result",
    "training loops log the metrics of a step",
    "the result is {metrics?}, a map of numbers",
    async (context) => {
      const trainer = await context.trainer();
      const { metrics = {} } = await trainer.step([datumOf(lesson)], "cross_entropy").then(() => trainer.optimStep());
      for (const [key, value] of Object.entries(metrics)) finite(value, `metrics[${key}]`);
    },
  ],
  [
    "sampling-session",
    "every sampler starts with it",
    "answers {sampling_session_id}",
    async (context) => void text(await context.rawSampler(), "sampling_session_id"),
  ],
  [
    "sample-ids",
    "SDKs since 0.26 require one id per sample in the acknowledgement",
    "asample returns request_id and one sample_sequence_id per sample",
    async (context) => {
      const { json } = await context.http.ok("POST", "asample", {
        sampling_session_id: await context.rawSampler(),
        seq_id: 0,
        num_samples: 3,
        prompt: { chunks: [{ type: "encoded_text", tokens: tokensOf(1, 4) }] },
        sampling_params: { max_tokens: 1 },
        type: "sample",
      });
      text(json.request_id, "request_id");
      equal(listOf(json.sample_sequence_ids, "sample_sequence_ids").length, 3, "number of sample_sequence_ids");
    },
  ],
  [
    "get-sampler",
    "clients find a sampler's tokenizer with it",
    "GET /samplers/{id} returns sampler_id and base_model",
    async (context) => {
      const id = await context.rawSampler();
      const { json } = await context.http.ok("GET", `samplers/${id}`);
      equal(json.sampler_id, id, "sampler_id");
      equal(json.base_model, context.baseModel, "base_model");
    },
  ],
  [
    "training-runs",
    "the CLI and dashboards list runs",
    "lists runs, newest first, with cursor{offset, limit, total_count}",
    async (context) => {
      const { modelId } = await context.trainer();
      const { json } = await context.http.ok("GET", "training_runs?limit=20&offset=0");
      const runs = listOf(json?.training_runs, "training_runs") as { training_run_id: string }[];
      holds(
        runs.some(({ training_run_id: id }) => id === modelId),
        "training_runs",
        `the new run ${modelId}`,
        runs.map(({ training_run_id: id }) => id),
      );
      for (const key of ["offset", "limit", "total_count"]) finite(json.cursor?.[key], `cursor.${key}`);
    },
  ],
  [
    "training-runs-paging",
    "paging must terminate and return every run",
    "limit and offset take effect, and total_count is the number of all runs",
    async (context) => {
      await context.trainer();
      await context.trainer();
      const page = async (offset: number) =>
        (await context.http.ok("GET", `training_runs?limit=1&offset=${offset}`)).json;
      const [first, second] = [await page(0), await page(1)];
      equal(first.training_runs.length, 1, "runs on a page with limit 1");
      const ids = [first.training_runs[0], second.training_runs[0]].map((run) => run?.training_run_id);
      holds(ids[0] !== ids[1], "the second page", "a run different from the first page", ids);
      holds(first.cursor.total_count >= 2, "cursor.total_count", "at least 2", first.cursor.total_count);
    },
  ],
  [
    "training-run",
    "clients read the run before they resume it",
    "returns training_run_id, base_model, model_owner, is_lora, lora_rank, last_request_time",
    async (context) => {
      const { modelId } = await context.trainer({ rank: 4 });
      const { json } = await context.http.ok("GET", `training_runs/${modelId}`);
      equal(json.training_run_id, modelId, "training_run_id");
      equal(json.base_model, context.baseModel, "base_model");
      text(json.model_owner, "model_owner");
      equal(json.is_lora, true, "is_lora");
      equal(json.lora_rank, 4, "lora_rank");
      moment(json.last_request_time, "last_request_time");
    },
  ],
  [
    "user-metadata",
    "users find runs by their metadata",
    "the run has the user_metadata of create_model, as strings",
    async (context) => {
      const userMetadata = { experiment: "7", Schlüssel: "Wert ✓" };
      const { modelId } = await context.trainer({ userMetadata });
      const { json } = await context.http.ok("GET", `training_runs/${modelId}`);
      const seen = json.user_metadata ?? {};
      for (const [key, value] of Object.entries(userMetadata)) equal(seen[key], value, `user_metadata.${key}`);
    },
  ],
  [
    "last-checkpoints",
    "the CLI shows the checkpoints from which a run can be resumed",
    "a run has last_checkpoint and last_sampler_checkpoint",
    async (context) => {
      const { trainer, state, sampler } = await savedRun(context);
      const { json } = await context.http.ok("GET", `training_runs/${trainer.modelId}`);
      equal(json.last_checkpoint?.tinker_path, state, "last_checkpoint.tinker_path");
      equal(json.last_sampler_checkpoint?.tinker_path, sampler, "last_sampler_checkpoint.tinker_path");
    },
  ],
  [
    "run-checkpoints",
    "users cannot find a checkpoint that is not listed",
    "lists checkpoint_id, checkpoint_type, time, tinker_path, size_bytes, public",
    async (context) => {
      const { trainer, name, state, sampler } = await savedRun(context);
      const { json } = await context.http.ok("GET", `training_runs/${trainer.modelId}/checkpoints`);
      // biome-ignore lint/suspicious/noExplicitAny: answers of any server
      const all = listOf(json?.checkpoints, "checkpoints") as any[];
      const find = (type: string) =>
        all.find(({ checkpoint_type: is }) => is === type) ?? fail("checkpoints", type, all);
      const [training, sampling] = [find("training"), find("sampler")];
      equal(training.checkpoint_id, `weights/${name}`, "checkpoint_id of the state");
      equal(sampling.checkpoint_id, `sampler_weights/${name}`, "checkpoint_id of the sampler weights");
      equal([training.tinker_path, sampling.tinker_path], [state, sampler], "tinker_path");
      for (const item of [training, sampling]) {
        moment(item.time, "time");
        equal(item.public ?? false, false, "public");
        holds(item.size_bytes === undefined || item.size_bytes > 0, "size_bytes", "above 0", item.size_bytes);
      }
    },
  ],
  [
    "user-checkpoints",
    "cleanup scripts list all checkpoints of a user",
    "GET /checkpoints lists the user's checkpoints with a cursor",
    async (context) => {
      const { state, sampler } = await savedRun(context);
      const { json } = await context.http.ok("GET", "checkpoints?limit=100&offset=0");
      const paths = (listOf(json?.checkpoints, "checkpoints") as { tinker_path: string }[]).map((c) => c.tinker_path);
      for (const path of [state, sampler]) holds(paths.includes(path), "checkpoints", path, paths);
      holds(json.cursor === undefined || json.cursor.total_count >= 2, "cursor.total_count", "at least 2", json.cursor);
    },
  ],
  [
    "weights-info",
    "a training client from a checkpoint reads rank and flags from it",
    "returns base_model, is_lora, lora_rank and the train_* flags",
    async (context) => {
      const trainer = await context.trainer({ rank: 4, trainMlp: false });
      const { path } = await trainer.saveState(context.uniqueName("info"));
      const { json } = await context.http.ok("POST", "weights_info", { tinker_path: path });
      const { base_model, is_lora, lora_rank, train_mlp } = json;
      equal(
        { base_model, is_lora, lora_rank },
        { base_model: context.baseModel, is_lora: true, lora_rank: 4 },
        "weights_info",
      );
      holds(train_mlp !== true, "train_mlp of a model with train_mlp false", "false or absent", train_mlp);
    },
  ],
  [
    "sessions",
    "the console lists sessions",
    "lists session ids",
    async (context) => {
      const id = await context.session();
      const { json } = await context.http.ok("GET", "sessions?limit=20&offset=0");
      holds(listOf(json?.sessions, "sessions").includes(id), "sessions", `the new session ${id}`, json.sessions);
    },
  ],
  [
    "session",
    "users find the runs and samplers of a session with it",
    "returns training_run_ids and sampler_ids",
    async (context) => {
      const sessionId = await context.session();
      const modelId = await context.rawModel({ sessionId });
      const samplerId = await context.rawSampler({ sessionId });
      const { json } = await context.http.ok("GET", `sessions/${sessionId}`);
      equal(json.training_run_ids, [modelId], "training_run_ids");
      equal(json.sampler_ids, [samplerId], "sampler_ids");
    },
  ],
  [
    "session-project",
    "teams organise sessions in projects",
    "PUT /sessions/{id}/project succeeds; clients ignore its body",
    async (context) => {
      const sessionId = await context.session();
      await context.http.ok("PUT", `sessions/${sessionId}/project`, { project_id: "conformance" });
    },
  ],
  [
    "trace-export",
    "users export the trace of a slow session",
    "returns status pending, ready (with a url) or failed",
    async (context) => {
      const sessionId = await context.session();
      const { json } = await context.http.ok("GET", `sessions/${sessionId}/trace_export`);
      const known = ["pending", "ready", "failed"].includes(json?.status);
      holds(known, "status", "pending, ready or failed", json);
      if (json.status === "ready") text(json.url, "url");
    },
  ],
  [
    "telemetry",
    "without it official clients delay every error by 30 s",
    'answers {"status":"accepted"}',
    async ({ http }) => {
      const body = { events: [], platform: "kit", sdk_version: "0.25.0", session_id: "none", process_uuid: "none" };
      equal((await http.ok("POST", "telemetry", body)).json?.status, "accepted", "status");
    },
  ],
  [
    "audit",
    `it records who changed which checkpoint; the SDK ${read}`,
    "returns {entries: [...]}, newest first",
    async ({ http }) => {
      const { json } = await http.ok("GET", "audit?event_type=checkpoints");
      contract.getAuditLog.response!.decode(json);
    },
  ],
  [
    "billing",
    "it reports usage per session; the SDK rejects unknown event types",
    "returns {data: [...], sessions: {...}} with typed event_info",
    async ({ http }) => {
      const day = (shift: number) => new Date(Date.now() + shift * 86_400_000).toISOString();
      const query = new URLSearchParams({ starting_on: day(-1), ending_before: day(1) });
      const { json } = await http.ok("GET", `billing/usage/events?${query}`);
      contract.getBillingUsage.response!.decode(json);
    },
  ],
  [
    "auth-token",
    "on servers that exchange keys for tokens, the token must work",
    "auth/token returns {jwt}, which is then accepted in X-API-Key",
    async ({ http, target }) => {
      const config = await http.ok("POST", "client/config", { sdk_version: "0.25.0" });
      if (config.json.pjwt_auth_enabled !== true) notOffered("client/config reports that this server uses plain keys");
      const token = await http.ok("POST", "auth/token", {}, { key: target.apiKey });
      const jwt = text(token.json?.jwt, "jwt");
      await http.ok("GET", "get_server_capabilities", undefined, { key: jwt });
    },
  ],
  [
    "no-key",
    "without authentication anyone can read any user's weights",
    "a request without X-API-Key is rejected with 401",
    async ({ http }) => {
      const answer = await http.get("training_runs", { key: null });
      holds([401, 403].includes(answer.status), "a request without a key", "401 or 403", described(answer));
    },
  ],
  [
    "unload-model",
    "programs free memory when they are done",
    "returns a future whose result is {model_id}",
    async (context) => {
      const modelId = await context.rawModel();
      const { json } = await context.http.call("unload_model", { model_id: modelId, type: "unload_model" });
      equal(json?.model_id, modelId, "model_id");
    },
  ],
  [
    "unknown-route",
    "a newer client must distinguish a missing route from a server fault",
    "404 with a body",
    async ({ http }) => {
      const answer = await http.post("no_such_route", {});
      holds(
        [404, 405].includes(answer.status) && answer.bytes.length > 0,
        "an unknown route",
        "404",
        described(answer),
      );
    },
  ],
]);
