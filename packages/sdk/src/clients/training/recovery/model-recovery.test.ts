// The option `recovery` of training clients at its edges; test/drills/recovery loses models at random moments.
import { APIStatusError, FutureExpiredError, RequestFailedError, statusError } from "@tinklet/wire/errors";
import { describe, expect, it } from "vitest";
import type { Fault, StubCall } from "../../../testing/faults.ts";
import { batch, failure, harness } from "../../../testing/harness.ts";
import { diagnosed, ModelLostError, modelLossOf } from "./model-loss.ts";

const gone = (what: string): Fault => ({
  kind: "status",
  status: 404,
  body: { detail: `There is no ${what} "x" of this key.` },
});
const modelOf = ({ body }: StubCall) => (body as { modelId?: string } | undefined)?.modelId;
const model = { baseModel: "stub/model", rank: 8 };

describe("modelLossOf", () => {
  const status = (code: number, text: string) => statusError(text, { status: code });
  const failed = (text: string) => new RequestFailedError(text, { requestId: "r", category: "user" });
  it.each([
    [status(404, "There is no model m of this key."), "evicted"],
    [status(410, "The session s was finished by its client."), "session_ended"],
    [failed("The model m was unloaded."), "evicted"],
    [failed("The model m is corrupted."), "corrupted"],
    [failed("The sampling session s has ended: save the weights again."), "session_ended"],
    [new ModelLostError("m", "corrupted"), "corrupted"],
    [status(404, "There is no checkpoint tinker://m/weights/a of this key."), undefined],
    [status(404, "There is no checkpoint tinker://m/weights/corrupt of this key."), undefined],
    [status(404, "tinker://m/weights/session has expired."), undefined],
    [status(404, 'There is no checkpoint "model not found" of this key.'), undefined],
    [failed("The files of the checkpoint a are corrupt."), undefined],
    [status(422, "The model m was unloaded."), undefined],
    [failed("weights: must be finite"), undefined],
    [new Error("The model m was evicted."), undefined],
  ])("%s: %s", (error, reason) => expect(modelLossOf(error)).toBe(reason));

  it("asks the server where an error may mean a loss, and only there", async () => {
    const missing = async () => {
      throw status(404, "no run");
    };
    const corrupted = async () => ({ corrupted: true });
    expect(await diagnosed(status(404, "Not Found"), missing)).toBe("evicted");
    expect(await diagnosed(new FutureExpiredError("r"), missing)).toBe("evicted");
    expect(await diagnosed(new RequestFailedError("overflow", { requestId: "r", category: "server" }), corrupted)).toBe(
      "corrupted",
    );
    expect(await diagnosed(status(404, "Not Found"), async () => ({ corrupted: false }))).toBeUndefined();
    for (const error of [status(422, "bad"), failed("bad"), new TypeError("bad")])
      expect(await diagnosed(error, corrupted)).toBeUndefined();
  });
});

describe("recovery of a training client", () => {
  it("is off by default: the error of the lost model reaches the caller", async () => {
    const { service, run } = harness({
      faults: (call) => (call.operation === "optimStep" ? gone("model") : undefined),
    });
    const trainer = await run(service.createLoraTrainingClient(model));
    expect(await run(failure(trainer.optimStep()))).toBeInstanceOf(APIStatusError);
  });

  it("creates the model again with the same seed, repeats what it had, and lets waiting calls continue there", async () => {
    let losses = 1;
    const { service, stub, events, run } = harness({
      faults: (call) => {
        if (call.operation !== "optimStep" || losses === 0) return undefined;
        losses--;
        return gone("model");
      },
    });
    const trainer = await run(service.createLoraTrainingClient({ ...model, recovery: {} }));
    const first = trainer.modelId;
    await run(trainer.forwardBackward(batch(2), "cross_entropy"));
    const [step, later] = [
      trainer.optimStep({ learningRate: 0.5 }),
      trainer.forwardBackward(batch(1), "cross_entropy"),
    ];
    await run(Promise.all([step, later]));
    expect(trainer.modelId).not.toBe(first);
    expect(stub.applied(trainer.modelId).map(({ kind }) => kind)).toEqual([
      "ForwardBackward",
      "OptimStep",
      "ForwardBackward",
    ]);
    const [one, two] = stub.callsOf("createModel").map(({ body }) => (body as { loraConfig: object }).loraConfig);
    expect(two).toEqual(one);
    expect(one).toHaveProperty("seed");
    expect(events.flatMap((event) => (event.type === "recovery" ? [event.stage] : []))).toEqual(["lost", "recovered"]);
  });

  it("says which checkpoint the new model continues, so that the server gives it the same name", async () => {
    let losses = 1;
    const { service, stub, run } = harness({
      faults: (call) => (call.operation === "optimStep" && losses-- > 0 ? gone("model") : undefined),
    });
    const trainer = await run(service.createLoraTrainingClient({ ...model, name: "bike", recovery: {} }));
    const { path } = await run(trainer.saveState("a"));
    await run(trainer.optimStep());
    const metadata = stub.callsOf("createModel").map(({ body }) => (body as { userMetadata: object }).userMetadata);
    expect(metadata).toEqual([{ name: "bike" }, { name: "bike", resumed_from: path }]);
  });

  it("gives up after maxAttempts with back-off, and every later call says so", async () => {
    const { service, clock, run, events } = harness({
      faults: (call) => (call.operation === "optimStep" && modelOf(call) !== undefined ? gone("model") : undefined),
    });
    const trainer = await run(
      service.createLoraTrainingClient({ ...model, recovery: { maxAttempts: 3, backoffMs: 500 } }),
    );
    const startMs = clock.monotonic();
    expect(await run(failure(trainer.optimStep()))).toMatchObject({ code: "recovery_failed" });
    expect(clock.monotonic() - startMs).toBeGreaterThanOrEqual(500 + 1_000);
    expect(await run(failure(trainer.forward(batch(1), "cross_entropy")))).toMatchObject({ code: "recovery_failed" });
    expect(events.filter((event) => event.type === "recovery").at(-1)).toMatchObject({ stage: "failed" });
  });

  it("does not repeat a call that the server refused, and stays with an error of the caller", async () => {
    let calls = 0;
    const { service, stub, run } = harness({
      faults: ({ operation }) => {
        if (operation !== "optimStep") return undefined;
        calls++;
        if (calls === 1) return { kind: "status", status: 422, body: { detail: "refused" } };
        return calls === 2 ? gone("model") : undefined;
      },
    });
    const trainer = await run(service.createLoraTrainingClient({ ...model, recovery: {} }));
    expect(await run(failure(trainer.optimStep({ learningRate: 1 })))).toMatchObject({ status: 422 });
    await run(trainer.optimStep({ learningRate: 2 }));
    const rates = stub
      .applied(trainer.modelId)
      .map(({ body }) => (body as { adamParams: { learningRate: number } }).adamParams.learningRate);
    expect(rates).toEqual([2]);
  });

  it("fails where the calls since the last checkpoint are no longer known", async () => {
    let isLost = false;
    const { service, logger, run } = harness({
      faults: (call) => (isLost && modelOf(call) !== undefined ? gone("model") : undefined),
    });
    const trainer = await run(service.createLoraTrainingClient({ ...model, recovery: { maxReplayBytes: 10 } }));
    await run(trainer.step(batch(3), "cross_entropy"));
    await run(trainer.step(batch(3), "cross_entropy"));
    expect(logger.with("cannot be recovered until it is saved")).toHaveLength(1);
    isLost = true;
    const error = await run(failure(trainer.optimStep()));
    expect(error).toMatchObject({ code: "recovery_failed", message: expect.stringContaining("no checkpoint") });
  });

  it("gives up where a call cannot be repeated, and gives out no result of a model that lacks it", async () => {
    let first: string | undefined;
    const { service, stub, run } = harness({
      faults: (call) => {
        const id = modelOf(call);
        if (first === undefined) return undefined;
        // Why the call fails is known only after the results of the calls that follow it.
        if (call.operation === "getTrainingRun") return { kind: "delivery", delivery: "stall" };
        if (id === first) return gone("model");
        return call.operation === "forwardBackward" ? { kind: "status", status: 404, body: "Not Found" } : undefined;
      },
    });
    const trainer = await run(service.createLoraTrainingClient({ ...model, recovery: { maxAttempts: 3 } }));
    await run(trainer.forwardBackward(batch(2), "cross_entropy"));
    first = trainer.modelId;
    const outcomes = await run(
      Promise.allSettled(Array.from({ length: 20 }, (_, at) => trainer.optimStep({ learningRate: at }))),
    );
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toEqual([]);
    expect(await run(failure(trainer.optimStep()))).toMatchObject({ code: "recovery_failed" });
    expect(stub.callsOf("createModel")).toHaveLength(1 + 3);
  });

  it("leaves a model alone that the caller has unloaded", async () => {
    let isOver = false;
    const { service, stub, run } = harness({
      faults: (call) => (isOver && modelOf(call) !== undefined ? gone("model") : undefined),
    });
    const trainer = await run(service.createLoraTrainingClient({ ...model, recovery: {} }));
    await run(trainer.unload());
    isOver = true;
    expect(await run(failure(trainer.optimStep()))).toMatchObject({ status: 404 });
    expect(stub.callsOf("createModel")).toHaveLength(1);
  });

  it.each([
    [{ maxAttempts: 0 }, "recovery.maxAttempts"],
    [{ backoffMs: -1 }, "recovery.backoffMs"],
    [{ maxReplayBytes: Number.NaN }, "recovery.maxReplayBytes"],
    [{ attempts: 3 }, "recovery.attempts"],
    [{ checkEveryMs: "10" }, "recovery.checkEveryMs"],
  ])("refuses %j before a model is created", async (recovery, field) => {
    const { service, stub, run } = harness();
    const error = await run(failure(service.createLoraTrainingClient({ ...model, recovery: recovery as object })));
    expect(error.message).toContain(field);
    expect(stub.callsOf("createModel")).toHaveLength(0);
  });
});

it("a checkpoint that does not exist does not end the session, however it is named", async () => {
  const { service, stub, run } = harness({
    faults: ({ operation, body }) =>
      operation === "createSamplingSession"
        ? {
            kind: "status",
            status: 404,
            body: { detail: `There is no checkpoint ${(body as { modelPath: string }).modelPath} of this key.` },
          }
        : undefined,
  });
  await run(service.createLoraTrainingClient(model));
  for (const name of ["session", "session-1", "my.session"]) {
    const modelPath = `tinker://session-1:train:0/sampler_weights/${name}`;
    expect(await run(failure(service.createSamplingClient({ modelPath })))).toMatchObject({ status: 404 });
  }
  expect(stub.callsOf("createSession")).toHaveLength(1);
});

it("a client whose session the server has ended opens a new one for the next model and the next sampler", async () => {
  const ended = { kind: "status", status: 410, body: { detail: "The session session-1 was finished." } } as const;
  const { service, stub, run } = harness({
    faults: ({ operation, body }) =>
      ["createModel", "createSamplingSession", "sessionHeartbeat"].includes(operation) &&
      (body as { sessionId: string }).sessionId === "session-1"
        ? ended
        : undefined,
  });
  const trainer = await run(service.createLoraTrainingClient(model));
  await run(service.createSamplingClient({ baseModel: "stub/model" }));
  expect(trainer.modelId).toContain("session-2");
  expect(service.sessionId).toBe("session-2");
  expect(stub.callsOf("createSession")).toHaveLength(2);
});
