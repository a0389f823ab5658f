import fc from "fast-check";
import { describe, expect, expectTypeOf, it } from "vitest";
import { refusal } from "../../../sdk/src/testing/refusal.ts";
import { InvalidInputError, RequestFailedError, ResponseValidationError, requestErrorCategory } from "../errors.ts";
import * as wire from "../index.ts";
import type { Shape } from "../schema/fields.ts";
import { type FieldDescription, type Message, wireOf } from "../schema/message.ts";

const prompt = wire.ModelInput.fromInts([1]);

describe("enums and small values", () => {
  it("M-101: an unknown loss is a typed error before any request, unless allowed", () => {
    expect(wire.lossFnTypes).toContain("gspo");
    for (const name of wire.lossFnTypes) expect(() => wire.checkLossFn(name)).not.toThrow();
    const error = refusal(() => wire.checkLossFn("cross_entrpy"));
    expect(error.field).toBe("lossFn");
    expect(error.hint).toContain('Did you mean "cross_entropy"?');
    expect(() => wire.checkLossFn("dppo")).toThrow(InvalidInputError);
    expect(() => wire.checkLossFn("dppo", { allowUnknown: true })).not.toThrow();
    expect(() => wire.checkLossFn(5 as never)).toThrow(/must be the name of a loss, not 5/);
  });

  it("M-102: unknown values of newer servers are kept unchanged", () => {
    expectTypeOf<wire.StopReason>().toEqualTypeOf<"length" | "stop" | (string & {})>();
    const checkpoint = { checkpoint_id: "external_weights/x", checkpoint_type: "external", time: 0, tinker_path: "t" };
    expect(wire.Checkpoint.decode(checkpoint).checkpointType).toBe("external");
    expect(wire.TraceExportResponse.decode({ status: "cooking" }).status).toBe("cooking");
  });

  it("M-103: categories ignore case; only user errors are not retryable", () => {
    expect(["unknown", "server", "user"].map(requestErrorCategory)).toEqual(["unknown", "server", "user"]);
    expect(["USER", "Server", "weird", null, 5, undefined].map(requestErrorCategory)).toEqual([
      "user",
      "server",
      "unknown",
      "unknown",
      "unknown",
      "unknown",
    ]);
    const failed = (category: "user" | "server" | "unknown") =>
      new RequestFailedError("x", { requestId: "r", category });
    expect(failed("user").retryable).toBe(false);
    expect(failed("server").retryable).toBe(true);
    expect(failed("unknown").retryable).toBe(true);
  });

  it("M-105: an unknown queue state reads as unknown, not as active", () => {
    expect(["active", "paused_capacity", "paused_rate_limit"].map(wire.queueState)).toEqual([
      "active",
      "paused_capacity",
      "paused_rate_limit",
    ]);
    for (const odd of ["ACTIVE", "Active", "", "running", null, undefined, 1])
      expect(wire.queueState(odd)).toBe("unknown");
  });

  it("M-106: checkpoint types, event types and severities", () => {
    expectTypeOf<"training" | "sampler">().toExtend<wire.CheckpointType>();
    expectTypeOf<wire.EventType>().toEqualTypeOf<
      "SESSION_START" | "SESSION_END" | "UNHANDLED_EXCEPTION" | "GENERIC_EVENT"
    >();
    for (const severity of ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]) {
      const event = {
        event: "SESSION_START",
        event_id: "e",
        event_session_index: 0,
        severity,
        timestamp: "2026-01-01T00:00:00Z",
      };
      expect(wire.SessionStartEvent.decode(event).severity).toBe(severity);
    }
  });
});

describe("requests", () => {
  it("M-201: defaults that Python sends are sent, and the time to live is an explicit null", () => {
    expect(wire.SampleRequest.encode({ prompt, samplingParams: wire.SamplingParams.decode({}) })).toStrictEqual({
      num_samples: 1,
      prompt: { chunks: [{ tokens: [1], type: "encoded_text" }] },
      sampling_params: { temperature: 1, top_k: -1, top_p: 1 },
      topk_prompt_logprobs: 0,
      type: "sample",
    });
    expect(wire.SetCheckpointTtlRequest.encode({ ttlSeconds: null })).toStrictEqual({ ttl_seconds: null });
    expect(wire.SetCheckpointTtlRequest.encode({ ttlSeconds: 60 })).toStrictEqual({ ttl_seconds: 60 });
  });

  it("M-202: every request with a type literal carries it", () => {
    const ids = { modelId: "m", sessionId: "s", modelSeqId: 0, samplingSessionSeqId: 0, baseModel: "b", path: "p" };
    const encoded = [
      wire.CreateSessionRequest.encode({ tags: [], sdkVersion: "v" }),
      wire.CreateModelRequest.encode({ sessionId: "s", modelSeqId: 0, baseModel: "b" }),
      wire.CreateSamplingSessionRequest.encode({ sessionId: "s", samplingSessionSeqId: 0 }),
      wire.SampleRequest.encode({ prompt, samplingParams: wire.SamplingParams.decode({}) }),
      wire.OptimStepRequest.encode({ adamParams: wire.AdamParams.decode({}), modelId: ids.modelId }),
      wire.SaveWeightsRequest.encode({ modelId: "m" }),
      wire.LoadWeightsRequest.encode({ path: "p", optimizer: false }),
      wire.SaveWeightsForSamplerRequest.encode({ modelId: "m" }),
      wire.UnloadModelRequest.encode({ modelId: "m" }),
      wire.GetInfoRequest.encode({ modelId: "m" }),
      wire.SessionHeartbeatRequest.encode({ sessionId: "s" }),
    ];
    expect(encoded.map((request) => request["type"])).toEqual([
      "create_session",
      "create_model",
      "create_sampling_session",
      "sample",
      "optim_step",
      "save_weights",
      "load_weights",
      "save_weights_for_sampler",
      "unload_model",
      "get_info",
      "session_heartbeat",
    ]);
  });

  it("M-203: create_session sends tags and metadata even when empty", () => {
    expect(wire.CreateSessionRequest.encode({ tags: [], userMetadata: {}, sdkVersion: "0.25.0" })).toStrictEqual({
      tags: [],
      user_metadata: {},
      sdk_version: "0.25.0",
      type: "create_session",
    });
    expect(
      wire.CreateSessionRequest.encode({ tags: ["a"], userMetadata: { n: null }, sdkVersion: "v", projectId: "p" }),
    ).toMatchObject({ user_metadata: { n: null }, project_id: "p" });
  });

  it("M-204: create_sampling_session has no metadata", () => {
    expect(wire.CreateSamplingSessionRequest.fields.map((field) => field.name)).toEqual([
      "session_id",
      "sampling_session_seq_id",
      "base_model",
      "model_path",
      "type",
    ]);
    expect(
      refusal(() =>
        wire.CreateSamplingSessionRequest.encode({
          sessionId: "s",
          samplingSessionSeqId: 0,
          userMetadata: {},
        } as never),
      ).field,
    ).toBe("userMetadata");
  });

  it("M-205: create_model keeps the adapter's configuration optional", () => {
    expect(wire.CreateModelRequest.encode({ sessionId: "s", modelSeqId: 0, baseModel: "b" })).toStrictEqual({
      session_id: "s",
      model_seq_id: 0,
      base_model: "b",
      type: "create_model",
    });
    const loraConfig = wire.LoraConfig.decode({ rank: 8, seed: 3, train_mlp: false });
    expect(
      wire.CreateModelRequest.encode({
        sessionId: "s",
        modelSeqId: 0,
        baseModel: "b",
        userMetadata: { x: 1 },
        loraConfig,
      }),
    ).toMatchObject({
      user_metadata: { x: 1 },
      lora_config: { rank: 8, seed: 3, train_unembed: true, train_mlp: false, train_attn: true },
    });
  });

  it("M-206: LoraConfig needs a rank and something to train", () => {
    expect(wire.LoraConfig.encode({ rank: 32 })).toStrictEqual({
      rank: 32,
      train_unembed: true,
      train_mlp: true,
      train_attn: true,
    });
    expect(refusal(() => wire.LoraConfig.encode({} as never)).field).toBe("rank");
    expect(refusal(() => wire.LoraConfig.encode({ rank: 0 })).message).toBe("rank: must be at least 1, not 0");
    const none = { rank: 8, trainAttn: false, trainMlp: false, trainUnembed: false };
    expect(refusal(() => wire.LoraConfig.encode(none)).message).toContain(
      "at least one of trainMlp, trainAttn and trainUnembed",
    );
    for (const key of ["trainAttn", "trainMlp", "trainUnembed"])
      expect(() => wire.LoraConfig.encode({ ...none, [key]: true })).not.toThrow();
    expect(
      refusal(() => wire.CreateModelRequest.encode({ sessionId: "s", modelSeqId: 0, baseModel: "b", loraConfig: none }))
        .field,
    ).toBe("loraConfig.trainMlp");
  });

  it("M-207: weight requests use path, and carry what each needs", () => {
    const names = (schema: Message<never, never>) => schema.fields.map((field) => field.name);
    expect(names(wire.SaveWeightsRequest as never)).toEqual(
      expect.arrayContaining(["model_id", "path", "seq_id", "ttl_seconds", "overwrite", "type"]),
    );
    expect(names(wire.SaveWeightsForSamplerRequest as never)).toEqual(
      expect.arrayContaining(["model_id", "path", "sampling_session_seq_id", "seq_id", "ttl_seconds", "type"]),
    );
    expect(names(wire.LoadWeightsRequest as never)).toEqual(
      expect.arrayContaining([
        "model_id",
        "seq_id",
        "session_id",
        "model_seq_id",
        "base_model",
        "user_metadata",
        "path",
        "optimizer",
        "weights_access_token",
        "type",
      ]),
    );
    for (const schema of [wire.SaveWeightsRequest, wire.SaveWeightsForSamplerRequest, wire.LoadWeightsRequest])
      expect(names(schema as never)).not.toContain("checkpoint_name");
    expect(wire.SaveWeightsRequest.encode({ modelId: "m", path: "ck1", seqId: 4, ttlSeconds: 60 })).toStrictEqual({
      model_id: "m",
      path: "ck1",
      seq_id: 4,
      ttl_seconds: 60,
      overwrite: false,
      type: "save_weights",
    });
  });

  it("M-208: a sample request has three modes", () => {
    const base = { prompt, samplingParams: wire.SamplingParams.decode({}) };
    expect(wire.SampleRequest.encode({ ...base, samplingSessionId: "s", seqId: 0 })).toMatchObject({
      sampling_session_id: "s",
      seq_id: 0,
    });
    expect(wire.SampleRequest.encode({ ...base, baseModel: "b" })).toMatchObject({ base_model: "b" });
    expect(wire.SampleRequest.encode({ ...base, modelPath: "tinker://r/weights/x" })).toMatchObject({
      model_path: "tinker://r/weights/x",
    });
    expect(wire.SampleRequest.encode({ ...base, seqId: 54784135000000001n })).toMatchObject({
      seq_id: 54784135000000001n,
    });
  });

  it("M-209: prompt_logprobs is absent, false or true", () => {
    const base = { prompt, samplingParams: wire.SamplingParams.decode({}) };
    expect(wire.SampleRequest.encode(base)).not.toHaveProperty("prompt_logprobs");
    expect(wire.SampleRequest.encode({ ...base, promptLogprobs: false })).toHaveProperty("prompt_logprobs", false);
    expect(wire.SampleRequest.encode({ ...base, promptLogprobs: true })).toHaveProperty("prompt_logprobs", true);
  });

  it("M-210: AdamParams defaults, and refusals that name the field", () => {
    expect(wire.AdamParams.encode({})).toStrictEqual({
      learning_rate: 1e-4,
      beta1: 0.9,
      beta2: 0.95,
      eps: 1e-12,
      weight_decay: 0,
      grad_clip_norm: 0,
    });
    const bad: [object, string][] = [
      [{ learningRate: -1e-4 }, "learningRate"],
      [{ learningRate: Number.NaN }, "learningRate"],
      [{ learningRate: Infinity }, "learningRate"],
      [{ beta1: 1 }, "beta1"],
      [{ beta1: -0.1 }, "beta1"],
      [{ beta2: 1.5 }, "beta2"],
      [{ eps: -1e-8 }, "eps"],
      [{ weightDecay: -1 }, "weightDecay"],
      [{ gradClipNorm: -1 }, "gradClipNorm"],
      [{ lr: 1 }, "lr"],
    ];
    for (const [params, field] of bad) expect(refusal(() => wire.AdamParams.encode(params)).field).toBe(field);
    expect(() => wire.AdamParams.encode({ beta1: 0, beta2: 0, eps: 0, learningRate: 0 })).not.toThrow();
    expect(
      refusal(() => wire.OptimStepRequest.encode({ adamParams: { learningRate: -1 } as never, modelId: "m" })).field,
    ).toBe("adamParams.learningRate");
  });

  it("M-211: optim_step", () => {
    const adamParams = wire.AdamParams.decode({});
    expect(Object.keys(wire.OptimStepRequest.encode({ adamParams, modelId: "m", seqId: 2 }))).toEqual([
      "adam_params",
      "model_id",
      "seq_id",
      "type",
    ]);
  });

  it("M-213: stop is a string, strings or token ids, not a mix", () => {
    for (const stop of ["\n", ["a", "b"], [1, 2], []])
      expect(wire.SamplingParams.encode({ stop })).toMatchObject({ stop });
    for (const stop of [["a", 1], 5, [1.5], { a: 1 }, [null]])
      expect(refusal(() => wire.SamplingParams.encode({ stop: stop as never })).field).toBe("stop");
  });

  it("unknown sampling parameters are errors", () => {
    expect(refusal(() => wire.SamplingParams.encode({ min_p: 0.1 } as never)).field).toBe("min_p");
    expect(refusal(() => wire.SamplingParams.encode({ temprature: 0 } as never)).hint).toBe(
      "Did you mean temperature?",
    );
    expect(refusal(() => wire.SamplingParams.encode({ max_tokens: 5 } as never)).hint).toBe("Did you mean maxTokens?");
  });

  it("a lone surrogate is rejected in every string", () => {
    expect(
      refusal(() => wire.CreateModelRequest.encode({ sessionId: "s", modelSeqId: 0, baseModel: "\ud83e" })).problem,
    ).toContain("lone surrogate");
    expect(refusal(() => wire.SamplingParams.encode({ stop: ["ok", "x\udc00"] })).field).toBe("stop[1]");
    const metadata = (userMetadata: object) => () =>
      wire.CreateSessionRequest.encode({ tags: [], sdkVersion: "v", userMetadata: userMetadata as never });
    expect(refusal(metadata({ a: ["\ud83e"] })).field).toBe("userMetadata.a[0]");
    expect(refusal(metadata({ "\ud83e": 1 })).problem).toContain("lone surrogate");
    expect(metadata({ "🧪": "🧪" })).not.toThrow();
  });

  it("seeds and sequence numbers go up to 64 bits", () => {
    expect(wire.SamplingParams.encode({ seed: 2n ** 64n - 1n })).toMatchObject({ seed: 2n ** 64n - 1n });
    expect(refusal(() => wire.SamplingParams.encode({ seed: 2n ** 64n })).problem).toContain("64 bits");
    expect(refusal(() => wire.SamplingParams.encode({ seed: -(2n ** 63n) - 1n })).problem).toContain("64 bits");
  });

  it("M-214: the remaining requests exist and are spelt as Python spells them", () => {
    expect(wire.FutureRetrieveRequest.encode({ requestId: "r" })).toStrictEqual({
      request_id: "r",
      allow_metadata_only: false,
    });
    expect(wire.GetInfoRequest.encode({ modelId: "m" })).toStrictEqual({ model_id: "m", type: "get_info" });
    expect(wire.UnloadModelRequest.encode({ modelId: "m" })).toStrictEqual({ model_id: "m", type: "unload_model" });
    expect(wire.SessionHeartbeatRequest.encode({ sessionId: "s" })).toStrictEqual({
      session_id: "s",
      type: "session_heartbeat",
    });
    const datum = new wire.Datum({ modelInput: prompt, lossFnInputs: { weights: [0.5] } });
    const forward = wire.ForwardRequest.encode({
      forwardInput: { data: [datum], lossFn: "cross_entropy" },
      modelId: "m",
    });
    expect(forward).toEqual({
      forward_input: {
        data: [
          {
            model_input: { chunks: [{ tokens: [1], type: "encoded_text" }] },
            loss_fn_inputs: { weights: { data: [0.5], dtype: "float32", shape: [1] } },
          },
        ],
        loss_fn: "cross_entropy",
      },
      model_id: "m",
    });
    expect(wire.ForwardRequest.decode(forward).forwardInput.data[0]).toEqual(datum);
    expect(() => wire.ForwardRequest.decode({ forward_input: { data: [5], loss_fn: "x" }, model_id: "m" })).toThrow(
      /forward_input\.data\[0\]/,
    );
  });

  it("M-409: telemetry: events, platform, version, session and process as fields", () => {
    const event = wire.SessionEndEvent.decode({
      event: "SESSION_END",
      event_id: "e",
      event_session_index: 3,
      severity: "INFO",
      timestamp: "2026-11-15T06:21:47.117530Z",
      duration: "0:00:00.551106",
    });
    const batch = wire.TelemetrySendRequest.encode({
      events: [event],
      platform: "Linux",
      sdkVersion: "0.25.0",
      sessionId: "s",
      processUuid: "p",
    });
    expect(Object.keys(batch)).toEqual(["events", "platform", "sdk_version", "session_id", "process_uuid"]);
    expect(batch["events"]).toEqual([
      {
        event: "SESSION_END",
        duration: "0:00:00.551106",
        event_id: "e",
        event_session_index: 3,
        severity: "INFO",
        timestamp: "2026-11-15T06:21:47.117000Z",
      },
    ]);
    expect(() => wire.TelemetrySendRequest.decode({ ...batch, events: [{ event: "NEW" }] })).toThrow(
      /events\[0\]\.event/,
    );
    const data = {
      event: "GENERIC_EVENT",
      event_id: "e",
      event_session_index: 0,
      severity: "INFO",
      timestamp: 0,
      event_name: "n",
      event_data: { camelCase: null },
    };
    expect(wire.GenericEvent.decode(data).eventData).toEqual({ camelCase: null });
  });
});

describe("responses", () => {
  it("M-402: optim_step answers with metrics, absent or empty as they came", () => {
    expect(wire.OptimStepResponse.decode({})).toStrictEqual({});
    expect(wire.OptimStepResponse.decode({ metrics: null })).toStrictEqual({});
    expect(wire.OptimStepResponse.decode({ metrics: {} })).toStrictEqual({ metrics: {} });
    expect(wire.OptimStepResponse.decode({ metrics: { x: 0 } }).metrics).toEqual({ x: 0 });
    expect(() => wire.OptimStepResponse.decode({ metrics: { x: null } })).toThrow(/metrics\.x/);
    expect(wire.OptimStepResponse.fields.map((field) => field.name)).toEqual(["metrics"]);
  });

  it("M-404: responses keep their type literal", () => {
    expect(wire.CreateModelResponse.decode({ model_id: "m" }).type).toBe("create_model");
    expect(wire.CreateSessionResponse.decode({ session_id: "s", type: "create_session" }).type).toBe("create_session");
    expect(wire.CreateSamplingSessionResponse.decode({ sampling_session_id: "s" }).type).toBe(
      "create_sampling_session",
    );
    expect(wire.SaveWeightsResponse.decode({ path: "p", type: "save_weights" }).type).toBe("save_weights");
    expect(wire.SessionHeartbeatResponse.decode({}).type).toBe("session_heartbeat");
    expect(() => wire.CreateModelResponse.decode({ model_id: "m", type: "other" })).toThrow(ResponseValidationError);
  });

  it("M-405: supported models are objects, a bare name is read as one, unknown fields survive", () => {
    const { supportedModels } = wire.GetServerCapabilitiesResponse.decode({
      supported_models: ["a", { model_name: "b", max_context_length: 5, speed: "fast" }],
    });
    expect(supportedModels).toEqual([{ modelName: "a" }, { modelName: "b", maxContextLength: 5 }]);
    expect(wireOf(supportedModels[1]!)).toMatchObject({ speed: "fast" });
    expect(() => wire.GetServerCapabilitiesResponse.decode({ supported_models: [5] })).toThrow(/supported_models\[0\]/);
  });

  it("M-406: an archive's expiry is a Date", () => {
    expect(wire.CheckpointArchiveUrlResponse.decode({ url: "u", expires: "2026-01-01T00:00:00Z" }).expires).toEqual(
      new Date("2026-01-01T00:00:00Z"),
    );
  });

  it("M-407: every timestamp is a Date, and an invalid one names its field", () => {
    const checkpoint = {
      checkpoint_id: "weights/x",
      checkpoint_type: "training",
      time: "2026-01-01T00:00:00.123456Z",
      tinker_path: "t",
      expires_at: 1_800_000_000,
    };
    const run = {
      training_run_id: "r",
      base_model: "b",
      model_owner: "o",
      is_lora: true,
      last_request_time: "2026-01-02",
      last_checkpoint: checkpoint,
    };
    const value = wire.TrainingRun.decode(run);
    expect(value.lastRequestTime).toBeInstanceOf(Date);
    expect(value.lastCheckpoint?.expiresAt).toBeInstanceOf(Date);
    expect(wireOf(value.lastCheckpoint!)?.["time"]).toBe("2026-01-01T00:00:00.123456Z");
    expect(() => wire.TrainingRun.decode({ ...run, last_checkpoint: { ...checkpoint, time: "soon" } })).toThrow(
      /last_checkpoint\.time: must be a timestamp/,
    );
    expect(wire.AuditLogEntry.decode({ timestamp: 5, event: "e" }).timestamp).toBeInstanceOf(Date);
    expect(
      wire.BillingUsageEvent.decode({
        bucket_start: 0,
        bucket_end: 1,
        event_info: { type: "storage", gigabyte_hours: 0.5 },
      }).bucketEnd,
    ).toBeInstanceOf(Date);
  });

  it("M-408: a cursor is typed or absent", () => {
    const cursor = { offset: 0, limit: 20, total_count: 5 };
    expect(wire.CheckpointsListResponse.decode({ checkpoints: [], cursor }).cursor).toEqual({
      offset: 0,
      limit: 20,
      totalCount: 5,
    });
    expect(wire.CheckpointsListResponse.decode({ checkpoints: [] })).toStrictEqual({ checkpoints: [] });
    expect(wire.TrainingRunsResponse.decode({ training_runs: [] })).toStrictEqual({ trainingRuns: [] });
    expect(() => wire.TrainingRunsResponse.decode({ training_runs: [], cursor: {} })).toThrow(/cursor\.offset/);
  });

  it("M-411: a run's metadata is text to text, a model's is anything", () => {
    const run = { training_run_id: "r", base_model: "b", model_owner: "o", is_lora: true, last_request_time: 0 };
    expect(wire.TrainingRun.decode({ ...run, user_metadata: { camelCase: "v" } }).userMetadata).toEqual({
      camelCase: "v",
    });
    expect(() => wire.TrainingRun.decode({ ...run, user_metadata: { a: 1 } })).toThrow(/user_metadata\.a/);
    const metadata = { a: 1, b: [null, { c: true }] };
    expect(
      wire.CreateModelRequest.decode({ session_id: "s", model_seq_id: 0, base_model: "b", user_metadata: metadata })
        .userMetadata,
    ).toEqual(metadata);
  });

  it("M-412: a session's messages are there to be shown", () => {
    expect(
      wire.CreateSessionResponse.decode({
        session_id: "s",
        info_message: "i",
        warning_message: "w",
        error_message: "e",
      }),
    ).toMatchObject({ infoMessage: "i", warningMessage: "w", errorMessage: "e" });
  });

  it("M-501: what an answer of retrieve_future means", () => {
    expect(
      wire.classifyOutcome({ type: "try_again", queue_state: "paused_capacity", queue_state_reason: "full" }),
    ).toEqual({ kind: "pending", queueState: "paused_capacity", reason: "full" });
    expect(wire.classifyOutcome({ type: "try_again", queue_state: "odd", queue_state_reason: "" })).toEqual({
      kind: "pending",
      queueState: "unknown",
    });
    expect(wire.classifyOutcome({ status: "complete_metadata", response_payload_size: 12 })).toEqual({
      kind: "metadata",
      payloadBytes: 12,
    });
    expect(wire.classifyOutcome({ status: "complete_metadata", response_payload_size: null })).toEqual({
      kind: "metadata",
      payloadBytes: 0,
    });
    expect(wire.classifyOutcome({ error: "bad", category: "User" })).toEqual({
      kind: "failed",
      message: "bad",
      category: "user",
    });
    expect(wire.classifyOutcome({ error: null })).toEqual({
      kind: "failed",
      message: "The request failed.",
      category: "unknown",
    });
    expect(wire.classifyOutcome({ error: { a: 1 } })).toMatchObject({ message: '{"a":1}' });
    expect(wire.classifyOutcome({ path: "p" })).toEqual({ kind: "done", body: { path: "p" } });
    expect(wire.classifyOutcome([1])).toEqual({ kind: "done", body: [1] });
    expect(wire.pendingOutcome("text")).toEqual({ kind: "pending", queueState: "unknown" });
  });

  it("billing: kinds of usage differ by type, and a new kind does not break the list", () => {
    const event = (event_info: object) =>
      wire.BillingUsageEvent.decode({ bucket_start: 0, bucket_end: 1, event_info }).eventInfo;
    expect(event({ type: "sampling_prefill", cached: true, token_count: 5 })).toEqual({
      type: "sampling_prefill",
      cached: true,
      tokenCount: 5,
    });
    expect(event({ type: "quantum", qubits: 3 })).toEqual({ type: "quantum", fields: { type: "quantum", qubits: 3 } });
    expect(event({ token_count: 5 }).type).toBe("training");
    expect(event({ token_count: 5, cached: false }).type).toBe("sampling_prefill");
    expect(event({ count: 5 }).type).toBe("checkpoint");
    expect(event({ gigabyte_hours: 5 }).type).toBe("storage");
    expect(() => event({ nothing: 5 })).toThrow(/event_info: has no type/);
    const back = {
      bucketStart: new Date(0),
      bucketEnd: new Date(1000),
      eventInfo: event({ type: "quantum", qubits: 3 }),
    };
    expect(wire.BillingUsageEvent.encode(back)).toMatchObject({ event_info: { type: "quantum", qubits: 3 } });
  });
});

describe("every message", () => {
  const all = Object.entries(wire).filter((entry): entry is [string, Message<object, object>] => isMessage(entry[1]));
  const byName = new Map(all.map(([, schema]) => [schema.name, schema]));
  const runs = Number(process.env["FUZZ_RUNS"] ?? 2000);

  it("M-413: decode(encode(decode(x))) equals decode(x) for every message", () => {
    expect(all.length).toBeGreaterThan(60);
    for (const [, schema] of all) {
      fc.assert(
        fc.property(arbitraryOf(schema, byName), (value) => {
          let first: object;
          try {
            first = schema.decode(value);
          } catch (error) {
            // a rule over the whole value (for example: something must be trained) may refuse what each field allows
            if (error instanceof ResponseValidationError) return;
            throw error;
          }
          expect(schema.decode(schema.encode(first))).toEqual(first);
        }),
        { numRuns: Math.ceil(runs / 20) },
      );
    }
  });

  it("M-107: every required field is present after decoding", () => {
    for (const [, schema] of all) {
      fc.assert(
        fc.property(arbitraryOf(schema, byName), (value) => {
          let parsed: Record<string, unknown>;
          try {
            parsed = schema.decode(value) as Record<string, unknown>;
          } catch (error) {
            if (error instanceof ResponseValidationError) return;
            throw error;
          }
          for (const field of schema.fields) {
            const key = field.name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
            if (field.presence !== "optional") expect(parsed[key], `${schema.name}.${key}`).not.toBeUndefined();
            else if (key in parsed) expect(parsed[key]).not.toBeUndefined();
          }
        }),
        { numRuns: Math.ceil(runs / 100) },
      );
    }
  });

  it("arbitrary JSON gives a value or a typed error, nothing else", () => {
    fc.assert(
      fc.property(fc.constantFrom(...all), fc.jsonValue(), ([, schema], value) => {
        try {
          schema.decode(value);
        } catch (error) {
          if (!(error instanceof ResponseValidationError)) throw error;
        }
      }),
      { numRuns: runs },
    );
  });

  it("arbitrary JSON with the right keys gives a value or a typed error, nothing else", () => {
    fc.assert(
      fc.property(
        fc
          .constantFrom(...all)
          .chain(([, schema]) =>
            fc.tuple(
              fc.constant(schema),
              fc.record(
                Object.fromEntries(schema.fields.map((field) => [field.name, fc.oneof(fc.jsonValue(), fc.bigInt())])),
              ),
            ),
          ),
        ([schema, value]) => {
          for (const run of [() => schema.decode(value), () => schema.encode(value)]) {
            try {
              run();
            } catch (error) {
              if (!(error instanceof ResponseValidationError) && !(error instanceof InvalidInputError)) throw error;
            }
          }
        },
      ),
      { numRuns: runs },
    );
  });
});

function isMessage(value: unknown): value is Message<object, object> {
  return typeof value === "object" && value !== null && "decode" in value && "fields" in value && "field" in value;
}

/** Wire values that fit a message's own description. */
function arbitraryOf(
  schema: Message<never, never> | Message<object, object>,
  byName: Map<string, Message<object, object>>,
): fc.Arbitrary<object> {
  const value = (shape: Shape): fc.Arbitrary<unknown> => {
    switch (shape.type) {
      case "string":
        return fc.string();
      case "integer":
        return fc.integer();
      case "number":
        return fc.double({ noNaN: true, noDefaultInfinity: true }).map((x) => x + 0);
      case "boolean":
        return fc.boolean();
      case "bytes":
        return fc.base64String();
      case "datetime":
        return fc
          .date({ noInvalidDate: true, min: new Date("1900-01-01"), max: new Date("2200-01-01") })
          .map((date) => date.toISOString());
      case "json":
        return fc.jsonValue();
      case "literal":
        return fc.constant(shape.value);
      case "enum":
        return shape.open ? fc.oneof(fc.constantFrom(...shape.values), fc.string()) : fc.constantFrom(...shape.values);
      case "array":
        return fc.array(value(shape.items), { maxLength: 3 });
      case "map":
        return fc.dictionary(
          fc.string().filter((key) => key !== "__proto__"),
          value(shape.values),
          { maxKeys: 3, noNullPrototype: true },
        );
      case "nullable":
        return fc.option(value(shape.of), { nil: null });
      case "union":
        return fc.oneof(...shape.options.map(value));
      case "message": {
        if (shape.name === "ModelInput")
          return fc
            .array(fc.integer(), { maxLength: 4 })
            .map((tokens) => ({ chunks: [{ type: "encoded_text", tokens }] }));
        if (shape.name === "TensorData")
          return fc
            .array(fc.integer(), { maxLength: 4 })
            .map((data) => ({ data, dtype: "int64", shape: [data.length] }));
        if (shape.name === "Datum") return fc.constant({ model_input: { chunks: [] }, loss_fn_inputs: {} });
        const inner = byName.get(shape.name);
        if (inner === undefined) throw new Error(`no message named ${shape.name}`);
        return arbitraryOf(inner, byName);
      }
    }
  };
  const field = (each: FieldDescription) => {
    const present = value(each.shape);
    return each.presence === "required" ? present : fc.option(present, { nil: undefined });
  };
  return fc
    .tuple(...schema.fields.map(field))
    .map((values) =>
      Object.fromEntries(
        schema.fields.map((each, i) => [each.name, values[i]]).filter(([, item]) => item !== undefined),
      ),
    );
}
