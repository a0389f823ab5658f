/**
 * Fixed responses of the stub server's REST routes, in the form of the contract.
 */
import type { Operation } from "@tinklet/wire";
import type { StubCall } from "./faults.ts";
import { json, type StubAnswer } from "./stub-answer.ts";

const time = "2026-07-01T12:00:00Z";

const run = (id: string) => ({
  training_run_id: id,
  base_model: "stub/model",
  model_owner: "owner",
  is_lora: true,
  lora_rank: 32,
  last_request_time: time,
});

const checkpoint = (runId: string, name: string) => ({
  checkpoint_id: `weights/${name}`,
  checkpoint_type: "training",
  time,
  tinker_path: `tinker://${runId}/weights/${name}`,
  size_bytes: 1024,
  public: false,
});

/** Number of runs, checkpoints and sessions in listings. */
export const stubListLength = 25;

export function restAnswers(
  operation: Operation,
  params: Readonly<Record<string, string>>,
  call: StubCall,
): StubAnswer {
  const query = new URL(call.path, "http://stub").searchParams;
  const limit = Number(query.get("limit") ?? 20);
  const offset = Number(query.get("offset") ?? 0);
  const listed = (name: string) =>
    Array.from({ length: stubListLength }, (_, i) => `${name}-${i}`).slice(offset, offset + limit);
  const cursor = { offset, limit, total_count: stubListLength };
  switch (operation) {
    case "healthz":
      return json(200, { status: "ok" });
    case "getServerCapabilities":
      return json(200, { supported_models: [{ model_name: "stub/model", max_context_length: 4096 }] });
    case "getInfo": {
      const { modelId } = call.body as { modelId: string };
      const model_data = { arch: "stub", model_name: "stub/model", tokenizer_id: "stub/tokenizer:1" };
      return json(200, { model_id: modelId, model_data, is_lora: true, lora_rank: 32, type: "get_info" });
    }
    case "listTrainingRuns":
      return json(200, { training_runs: listed("run").map(run), cursor });
    case "getTrainingRun":
      return json(200, run(params["trainingRunId"]!));
    case "listCheckpoints":
      return json(200, { checkpoints: [checkpoint(params["trainingRunId"]!, "a")] });
    case "listUserCheckpoints":
      return json(200, { checkpoints: listed("c").map((name) => checkpoint("run-0", name)), cursor });
    case "getCheckpointArchiveUrl":
      return {
        ...json(302, {}),
        headers: { location: "https://files.example/archive.tar.gz", expires: "Wed, 01 Jul 2026 13:00:00 GMT" },
      };
    case "getExternalWeightsUrls":
      return json(200, { urls: { "adapter_config.json": "https://files.example/config" }, expires: time });
    case "copyWeights":
      return json(200, { tinker_path: "tinker://run-9/weights/copy" });
    case "searchSessions":
      return json(200, { sessions: [], next_cursor: null });
    case "getCurrentCheckpointStorageUsage":
      return json(200, { data: [{ checkpoint_count: 2, size_bytes: 2e9, size_gigabytes: 2 }] });
    case "weightsInfo":
      return json(200, { base_model: "stub/model", is_lora: true, lora_rank: 16, train_mlp: false });
    case "listSessions":
      return json(200, { sessions: listed("session") });
    case "getSession":
      return json(200, { training_run_ids: ["run-0"], sampler_ids: ["sampler-0"] });
    case "exportSessionTrace":
      return json(200, { status: "ready", url: "https://files.example/trace" });
    case "getSampler":
      return json(200, { sampler_id: params["samplerId"], base_model: "stub/model" });
    case "getBillingUsage":
      return json(200, { data: [], sessions: {} });
    case "getAuditLog":
      return json(200, { entries: [{ timestamp: time, event: "checkpoint_created" }] });
    case "finishSession":
    case "deleteCheckpoint":
    case "publishCheckpoint":
    case "unpublishCheckpoint":
    case "setCheckpointTtl":
    case "assignSessionProject":
      return { status: 204, headers: {}, body: new Uint8Array(0), delivery: "whole" };
    default:
      return json(404, { detail: `the stub has no response for ${operation}` });
  }
}
