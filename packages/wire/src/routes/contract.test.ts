import { describe, expect, expectTypeOf, it } from "vitest";
import { refusal } from "../../../sdk/src/testing/refusal.ts";
import type { TrainingRun } from "../messages/rest.ts";
import { contract, encodeRequest, type Operation, type RequestOf, type ResponseOf } from "./contract.ts";
import { matchRoute } from "./match-route.ts";
import { encodeQuery, mirroredSdkVersion, type PathParams } from "./route.ts";

describe("the contract table", () => {
  it("has every route of the contract once", () => {
    const routes = Object.values(contract).map(({ method, path }) => `${method} ${path}`);
    expect(new Set(routes).size).toBe(routes.length);
    expect(routes.map((route) => route.replaceAll(/\{\w+\}/g, "{}")).sort()).toEqual(
      [
        "POST /client/config",
        "POST /client/dynamic_config",
        "POST /auth/token",
        "POST /create_session",
        "POST /session_heartbeat",
        "POST /create_sampling_session",
        "GET /get_server_capabilities",
        "GET /healthz",
        "POST /create_model",
        "POST /get_info",
        "POST /unload_model",
        "POST /forward_backward",
        "POST /forward",
        "POST /optim_step",
        "POST /save_weights",
        "POST /save_weights_for_sampler",
        "POST /load_weights",
        "POST /asample",
        "POST /retrieve_future",
        "POST /retrieve_futures",
        "POST /telemetry",
        "GET /training_runs",
        "GET /training_runs/{}",
        "GET /training_runs/{}/checkpoints",
        "DELETE /training_runs/{}/checkpoints/{}",
        "GET /training_runs/{}/checkpoints/{}/archive",
        "POST /training_runs/{}/checkpoints/{}/publish",
        "DELETE /training_runs/{}/checkpoints/{}/publish",
        "PUT /training_runs/{}/checkpoints/{}/ttl",
        "GET /checkpoints",
        "POST /weights_info",
        "GET /sessions",
        "GET /sessions/{}",
        "PUT /sessions/{}/project",
        "GET /sessions/{}/trace_export",
        "GET /samplers/{}",
        "GET /billing/usage/events",
        "GET /audit",
        "GET /auth/apikey/me",
        "GET /tinklet/samples/{}/tokens",
        "POST /tinklet/import_adapter",
        "GET /tinklet/traces",
        "GET /tinklet/traces/{}",
        "POST /tinklet/traces/{}/rating",
        "DELETE /tinklet/traces/{}",
        "POST /tinklet/traces/export",
        "POST /tinklet/runs/{}/delete",
        "POST /cancel_future",
        "POST /copy_weights",
        "POST /save_weights_external",
        "GET /training_runs/{}/checkpoints/external_weights/{}/external_weights_urls",
        "POST /sessions/{}/finish",
        "POST /join_sampling_session",
        "GET /billing/usage/checkpoints/current",
        "POST /sessions/search",
        "POST /create_custom_loss",
        "GET /tinklet/tokenizer",
        "GET /tinklet/progress",
        "GET /tinklet/runs/{}/steps",
        "GET /tinklet/events",
        "GET /tinklet/server",
        "GET /tinklet/folders",
        "GET /tinklet/folders/{}",
        "GET /tinklet/folders/{}/rollouts",
        "GET /tinklet/evaluations",
        "GET /tinklet/evaluations/{}",
      ].sort(),
    );
  });

  it("M-906: the mirrored version is one constant", () => {
    expect(mirroredSdkVersion).toBe("0.36.0");
  });

  it("types follow from the table", () => {
    expectTypeOf<PathParams<"/a/{x}/b/{y}">>().toExtend<{ readonly x: string; readonly y: string }>();
    expectTypeOf<ResponseOf<"getTrainingRun">>().toEqualTypeOf<TrainingRun>();
    expectTypeOf<RequestOf<"getSampler">>().toExtend<{ readonly samplerId: string }>();
    // @ts-expect-error a path parameter is missing
    const request: RequestOf<"getSampler"> = {};
    expect(request).toEqual({});
  });

  it("splits a request into path, query and body", () => {
    expect(encodeRequest("listTrainingRuns", {})).toEqual({
      method: "GET",
      path: "/api/v1/training_runs",
      query: "limit=20&offset=0&access_scope=owned",
      body: undefined,
      contentType: undefined,
    });
    expect(
      encodeRequest("setCheckpointTtl", { trainingRunId: "s:train:0", checkpointId: "weights/x", ttlSeconds: null }),
    ).toEqual({
      method: "PUT",
      path: "/api/v1/training_runs/s:train:0/checkpoints/weights/x/ttl",
      query: "",
      body: { ttl_seconds: null },
      contentType: "application/json",
    });
    expect(encodeRequest("publishCheckpoint", { trainingRunId: "r", checkpointId: "weights/x" })).toMatchObject({
      body: undefined,
      contentType: "application/json",
    });
    expect(encodeRequest("authToken", {})).toMatchObject({ body: {} });
    const query = encodeRequest("getBillingUsage", {
      startingOn: new Date("2026-07-13T00:00:00Z"),
      endingBefore: "2026-07-14T00:00:00+02:00",
    }).query;
    expect(query).toBe("starting_on=2026-07-13T00%3A00%3A00Z&ending_before=2026-07-14T00%3A00%3A00%2B02%3A00");
    expect(encodeRequest("getAuditLog", { day: "2025-01-15" }).query).toBe("event_type=all&day=2025-01-15");
    const pass = encodeRequest("forwardBackward", {
      modelId: "m",
      seqId: 1,
      forwardBackwardInput: { data: [], lossFn: "ppo" },
    });
    expect(pass.contentType).toBe("application/x-protobuf");
    expect(pass.body).toBeInstanceOf(Uint8Array);
  });

  it("refuses what would change which route is meant", () => {
    for (const bad of [
      "",
      "../x",
      "a/b",
      "a/../b",
      "a?b",
      "a#b",
      "a//b",
      "/a",
      "a/",
      "a b",
      "a%2e",
      "a\\b",
      ".",
      5,
      undefined,
    ]) {
      expect(refusal(() => encodeRequest("getSampler", { samplerId: bad as string })).field).toBe("samplerId");
    }
    expect(
      refusal(() => encodeRequest("getBillingUsage", { startingOn: "soon", endingBefore: "2026-01-01" })).field,
    ).toBe("startingOn");
    expect(refusal(() => encodeRequest("listSessions", { limit: 1, ofset: 2 } as never)).field).toBe("ofset");
    expect(refusal(() => encodeRequest("getSampler", { samplerId: "x", extra: 1 } as never)).field).toBe("extra");
    expect(refusal(() => encodeRequest("listSessions", 5 as never)).field).toBe("listSessions");
  });

  it("writes queries as Python does", () => {
    expect(encodeQuery({ a: true, b: "x y", c: "p+q", d: null, e: undefined, f: "", g: 0 })).toBe(
      "a=true&b=x+y&c=p%2Bq&g=0",
    );
  });

  it("finds the route of a path, with ids unescaped and checkpoint ids of two segments", () => {
    expect(matchRoute("GET", "/api/v1/training_runs/s:train:0/checkpoints/sampler_weights/x/archive")).toEqual({
      operation: "getCheckpointArchiveUrl",
      params: { trainingRunId: "s:train:0", checkpointId: "sampler_weights/x" },
    });
    expect(matchRoute("GET", "/api/v1/training_runs/s%3Atrain%3A0")?.params).toEqual({ trainingRunId: "s:train:0" });
    expect(matchRoute("GET", "/api/v1/training_runs/%zz")?.params).toEqual({ trainingRunId: "%zz" });
    expect(matchRoute("DELETE", "/api/v1/training_runs/r/checkpoints/weights/x")?.operation).toBe("deleteCheckpoint");
    expect(matchRoute("DELETE", "/api/v1/training_runs/r/checkpoints/weights/x/publish")?.operation).toBe(
      "unpublishCheckpoint",
    );
    expect(matchRoute("GET", "/api/v1/checkpoints")?.operation).toBe("listUserCheckpoints");
    for (const [method, path] of [
      ["GET", "/api/v1/create_session"],
      ["GET", "/training_runs"],
      ["DELETE", "/api/v1/training_runs/r/checkpoints/x"],
      ["GET", "/api/v1/sessions/a/b"],
      ["GET", "/api/v1/"],
    ] as const) {
      expect(matchRoute(method, path), path).toBeUndefined();
    }
    for (const operation of Object.keys(contract) as Operation[]) {
      const { method, path } = contract[operation];
      const filled = path.replace("{checkpointId}", "weights/x").replace(/\{\w+\}/g, "id");
      expect(matchRoute(method, `/api/v1${filled}`)?.operation).toBe(operation);
    }
  });
});
