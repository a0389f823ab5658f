import { homedir } from "node:os";
import { join } from "node:path";
import { contract, ModelInput } from "@tinklet/wire";
import { InvalidInputError, TinkerError } from "@tinklet/wire/errors";
import { describe, expect, it, vi } from "vitest";
import { type Fault, faultsInOrder } from "../testing/faults.ts";
import { failure, harness } from "../testing/harness.ts";
import { StubServer } from "../testing/stub-server.ts";
import { startLocal } from "./local.ts";
import { ServiceClient } from "./service-client.ts";

const status = (code: number, body: unknown = {}): Fault => ({ kind: "status", status: code, body });
const path = "tinker://run/weights/a";

describe("createLoraTrainingClient", () => {
  it("M-205, M-206: sends a full configuration with its defaults, and numbers the models", async () => {
    const { service, stub, run } = harness();
    const first = await run(service.createLoraTrainingClient({ baseModel: "stub/model" }));
    const second = await run(
      service.createLoraTrainingClient({ baseModel: "m", rank: 8, seed: 3, trainMlp: false, userMetadata: { x: "y" } }),
    );
    expect([first.modelId, second.modelId]).toEqual(["session-1:train:0", "session-1:train:1"]);
    expect(stub.callsOf("createModel").map(({ body }) => body)).toMatchObject([
      { modelSeqId: 0, loraConfig: { rank: 32, trainMlp: true, trainAttn: true, trainUnembed: true } },
      { modelSeqId: 1, loraConfig: { rank: 8, seed: 3, trainMlp: false }, userMetadata: { x: "y" } },
    ]);
    expect("seed" in (stub.callsOf("createModel")[0]!.body as { loraConfig: object }).loraConfig).toBe(false);
  });

  it("sends the name of a run as metadata, and refuses a name that cannot be one before a session is opened", async () => {
    const { service, stub, run } = harness();
    const make = (options: object) => service.createLoraTrainingClient({ baseModel: "tiny", ...options });
    for (const [options, problem] of [
      [{ name: "org/model" }, 'name: looks like a path or a base model: "org/model"'],
      [{ name: "tiny" }, 'name: must not be the name of the base model, "tiny"'],
      [{ name: "a", userMetadata: { name: "b" } }, 'name: is "a", but userMetadata.name is "b"'],
      [{ name: 7 }, "name: must be a string, got 7"],
    ] as const) {
      const error = await failure(make(options));
      expect(error).toBeInstanceOf(InvalidInputError);
      expect(error).toMatchObject({ field: "name", message: problem });
    }
    expect(stub.callsOf("createSession")).toEqual([]);
    await run(make({ name: "bike", userMetadata: { x: "y" } }));
    await run(service.createTrainingClientFromState(path, { name: "bike" }));
    expect(stub.callsOf("createModel").map(({ body }) => body)).toMatchObject([
      { userMetadata: { x: "y", name: "bike" } },
      { userMetadata: { name: "bike" } },
    ]);
  });

  it("M-206: refuses nonsense before a session is opened", async () => {
    const { service, stub } = harness();
    const nothing = { baseModel: "m", trainMlp: false, trainAttn: false, trainUnembed: false };
    expect(await failure(service.createLoraTrainingClient(nothing))).toBeInstanceOf(InvalidInputError);
    expect(await failure(service.createLoraTrainingClient({ baseModel: "m", rank: 0 }))).toMatchObject({
      field: "rank",
    });
    expect(stub.calls).toHaveLength(0);
  });

  it("explains a rank that the server refuses", async () => {
    const { service, run } = harness({
      faults: faultsInOrder("createModel", [status(400, { detail: "rank must be ≤ 64" })]),
    });
    expect((await run(failure(service.createLoraTrainingClient({ baseModel: "m", rank: 100 }))))["hint"]).toContain(
      "got 100",
    );
  });
});

describe("createTrainingClientFromState", () => {
  it("asks what the checkpoint is, creates the model and loads into it", async () => {
    const { service, stub, run } = harness();
    const trainer = await run(service.createTrainingClientFromState(path, { userMetadata: { a: "b" } }));
    expect(stub.callsOf("weightsInfo")[0]?.body).toEqual({ tinkerPath: path });
    expect(stub.callsOf("createModel")[0]?.body).toMatchObject({
      baseModel: "stub/model",
      loraConfig: { rank: 16, trainMlp: false, trainAttn: true, trainUnembed: true },
      userMetadata: { a: "b" },
    });
    expect(stub.callsOf("loadWeights")[0]?.body).toMatchObject({
      modelId: trainer.modelId,
      seqId: 1,
      path,
      optimizer: false,
    });
    await run(trainer.optimStep());
    expect(stub.callsOf("optimStep")[0]?.body).toMatchObject({ seqId: 2 });
  });

  it("names another optimizer than AdamW, and AdamW not at all", async () => {
    const { service, stub, run } = harness();
    await run(service.createLoraTrainingClient({ baseModel: "m", optimizer: { type: "dimuon", version: 1 } }));
    await run(service.createLoraTrainingClient({ baseModel: "m", optimizer: { type: "adamw" } }));
    const [dimuon, adam] = stub.callsOf("createModel").map(({ body }) => body);
    expect(dimuon).toMatchObject({ optimizerConfig: { type: "dimuon", version: 1 } });
    expect(adam).not.toHaveProperty("optimizerConfig");
    const faults = faultsInOrder("weightsInfo", [
      status(200, { base_model: "m", is_lora: true, lora_rank: 4, optimizer_config: { type: "lion" } }),
    ]);
    const other = harness({ faults });
    await other.run(other.service.createTrainingClientFromStateWithOptimizer(path));
    expect(other.stub.callsOf("createModel")[0]?.body).toMatchObject({ optimizerConfig: { type: "lion" } });
  });

  it("with the optimizer, another base model, and another account's credential", async () => {
    const { service, stub, run } = harness();
    const options = { baseModel: "other", weightsAccessToken: "tml-theirs" };
    await run(service.createTrainingClientFromStateWithOptimizer(path, options));
    expect(stub.callsOf("weightsInfo")[0]?.headers["x-api-key"]).toBe("tml-theirs");
    expect(stub.callsOf("createModel")[0]?.headers["x-api-key"]).toBe("tml-test-key");
    expect(stub.callsOf("createModel")[0]?.body).toMatchObject({ baseModel: "other" });
    expect(stub.callsOf("loadWeights")[0]?.body).toMatchObject({ optimizer: true, weightsAccessToken: "tml-theirs" });
  });

  it("exchanges the other account's credential where the server wants tokens", async () => {
    const { service, stub, run } = harness({ config: { pjwt_auth_enabled: true } });
    await run(service.createTrainingClientFromState(path, { weightsAccessToken: "tml-theirs" }));
    expect(stub.callsOf("authToken").map(({ headers }) => headers["x-api-key"])).toEqual([
      "tml-test-key",
      "tml-theirs",
    ]);
    expect(stub.callsOf("weightsInfo")[0]?.headers["x-api-key"]).toMatch(/^eyJ/);
  });

  it("is one request where the server creates by loading; the model's id follows from the session", async () => {
    const { service, stub, run } = harness({ config: { create_model_via_load_weights: true } });
    const trainer = await run(
      service.createTrainingClientFromState(path, {
        baseModel: "b",
        userMetadata: { a: 1 },
        weightsAccessToken: "tml-t",
      }),
    );
    expect(trainer.modelId).toBe("session-1:train:0");
    expect(stub.callsOf("loadWeights")[0]?.body).toEqual({
      sessionId: "session-1",
      modelSeqId: 0,
      baseModel: "b",
      userMetadata: { a: 1 },
      path,
      optimizer: false,
      weightsAccessToken: "tml-t",
      type: "load_weights",
    });
    expect([stub.callsOf("weightsInfo").length, stub.callsOf("createModel").length]).toEqual([0, 0]);
    await run(trainer.optimStep());
    expect(stub.callsOf("optimStep")[0]?.body).toMatchObject({ seqId: 1 });
  });

  it("refuses what is no path and what is no LoRA", async () => {
    const { service, run } = harness();
    expect(await failure(service.createTrainingClientFromState("x"))).toMatchObject({ field: "path" });
    const full = harness({ faults: faultsInOrder("weightsInfo", [status(200, { base_model: "m", is_lora: false })]) });
    expect(await full.run(failure(full.service.createTrainingClientFromState(path)))).toMatchObject({
      code: "not_lora",
    });
    await run(service.close());
  });
});

describe("the low-level API", () => {
  it("has every operation of the contract, and says so of others", async () => {
    const { service, run } = harness();
    const api = service.api as unknown as Record<string, unknown>;
    for (const operation of Object.keys(contract)) expect(api[operation], operation).toBeTypeOf("function");
    expect(service.api).toBe(service.api);
    expect(await Promise.resolve(service.api)).toBe(service.api); // no promise: it has no `then`
    const unheardOf = (service.api as unknown as { dance(): Promise<never> }).dance();
    expect(await run(failure(unheardOf))).toMatchObject({ field: "operation", code: "invalid_input" });
  });

  it("M-208: samples in all three ways", async () => {
    const { service, stub, run } = harness();
    const request = { prompt: ModelInput.fromInts([1]), samplingParams: { temperature: 1, topK: -1, topP: 1 } };
    await run(service.api.asample({ ...request, samplingSessionId: "s:sample:0", seqId: 4 }));
    await run(service.api.asample({ ...request, baseModel: "m" }));
    await run(service.api.asample({ ...request, modelPath: "tinker://r/sampler_weights/x" }));
    expect(stub.callsOf("asample").map(({ body }) => body)).toMatchObject([
      { samplingSessionId: "s:sample:0", seqId: 4 },
      { baseModel: "m" },
      { modelPath: "tinker://r/sampler_weights/x" },
    ]);
  });

  it("M-209: prompt_logprobs is left out, false or true", async () => {
    const bodies: unknown[] = [];
    const { stub, clock } = harness();
    const service = new ServiceClient({
      apiKey: "tml-x",
      baseUrl: "http://stub.example",
      clock,
      telemetry: false,
      fetch: (url, init) => {
        if (url.endsWith("/asample")) bodies.push(JSON.parse(init.body as string));
        return stub.fetch(url, init);
      },
    });
    const request = {
      prompt: ModelInput.fromInts([1]),
      baseModel: "m",
      samplingParams: { temperature: 1, topK: -1, topP: 1 },
    };
    await service.api.asample(request);
    await service.api.asample({ ...request, promptLogprobs: false });
    await service.api.asample({ ...request, promptLogprobs: true });
    expect(bodies.map((body) => (body as Record<string, unknown>)["prompt_logprobs"])).toEqual([
      undefined,
      false,
      true,
    ]);
    expect("prompt_logprobs" in (bodies[0] as object)).toBe(false);
  });

  it("a submitted request's result comes through future()", async () => {
    const { service, run } = harness({ pendingPolls: 2 });
    const { requestId } = await run(service.api.unloadModel({ modelId: "m" }));
    const future = service.future(requestId, "UnloadModel");
    expect(await run(future)).toMatchObject({ modelId: "m" });
    expect(future.requestId).toBe(requestId);
    expect(await run(failure(service.future("nope", "Sample")))).toMatchObject({ status: 404 });
  });

  it("takes calls without arguments", async () => {
    const { service, run } = harness();
    expect(await run(service.api.healthz({}))).toEqual({ status: "ok" });
    expect((await run(service.getServerCapabilities())).supportedModels[0]).toMatchObject({ modelName: "stub/model" });
  });
});

describe("local()", () => {
  it("an undefined option does not replace the server's own address", async () => {
    const startLocalServer = async () => ({ url: "http://127.0.0.1:5", close: async () => {} });
    const started = await startLocal({ baseUrl: undefined, apiKey: undefined }, async () => ({ startLocalServer }));
    expect(started.client).toMatchObject({ baseUrl: "http://127.0.0.1:5", apiKey: "tml-local" });
  });

  it("prints the exact line that installs the server when it is missing", async () => {
    const error = await failure(startLocal({}, () => Promise.reject(new Error("Cannot find package"))));
    expect(error).toBeInstanceOf(TinkerError);
    expect(error).toMatchObject({ code: "missing_peer", hint: expect.stringMatching(/^npm install tinklet/) });
    const from = "imported from node_modules/@tinklet/server/dist/index.js";
    const inner = Object.assign(new Error(`Cannot find package 'libsql' ${from}`), { code: "ERR_MODULE_NOT_FOUND" });
    expect(await failure(startLocal({}, () => Promise.reject(inner)))).toBe(inner);
    expect(await failure(startLocal({}, async () => ({})))).toMatchObject({ code: "missing_peer" });
  });

  it("starts the server with its own options, and hands the rest to the client", async () => {
    const stub = new StubServer();
    const given: unknown[] = [];
    let closed = 0;
    const load = async () => ({
      startLocalServer: async (options: unknown) => {
        given.push(options);
        return { fetch: stub.fetch, close: async () => void closed++ };
      },
    });
    const { server, client } = await startLocal({ dataDir: "/d", models: ["m"], projectId: "p" }, load);
    expect(given).toEqual([{ dataDir: "/d", models: ["m"] }]);
    expect(client).toMatchObject({ apiKey: "tml-local", baseUrl: "http://tinklet.local", projectId: "p" });
    const service = new ServiceClient({ ...client, telemetry: false }, () => server.close());
    await service.getServerCapabilities();
    await service.close();
    expect(closed).toBe(1);
    vi.stubEnv("TINKLET_DATA_DIR", "/from-environment");
    await startLocal({}, load);
    vi.stubEnv("TINKLET_DATA_DIR", undefined);
    await startLocal({}, load);
    await startLocal({ dataDir: "memory" }, load); // only when asked for
    vi.unstubAllEnvs();
    expect(given.slice(1)).toEqual([{ dataDir: "/from-environment" }, { dataDir: join(homedir(), ".tinklet") }, {}]);
    const listening = await startLocal({ apiKey: "tml-own" }, async () => ({
      startLocalServer: async () => ({ url: "http://127.0.0.1:9", close: async () => {} }),
    }));
    const userMetadata = { program: expect.stringMatching(/^[^/\\]+$/) };
    expect(listening.client).toEqual({ apiKey: "tml-own", baseUrl: "http://127.0.0.1:9", userMetadata });
  });
});

it("M-807: importing the client loads no tokenizer, no undici, no server and no telemetry library", async () => {
  vi.resetModules();
  const loaded: string[] = [];
  for (const name of [
    "undici",
    "@huggingface/tokenizers",
    "@huggingface/jinja",
    "@tinklet/models",
    "@tinklet/models/tokenizer",
    "@opentelemetry/api",
    "@bokuweb/zstd-wasm",
  ]) {
    vi.doMock(name, () => {
      loaded.push(name);
      return {};
    });
  }
  await import("../index.ts");
  expect(loaded).toEqual([]);
  vi.doUnmock("undici");
  vi.resetModules();
});
