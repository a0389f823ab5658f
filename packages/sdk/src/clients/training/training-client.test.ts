import { Datum, type ForwardBackwardRequest, ModelInput, TensorData } from "@tinklet/wire";
import {
  APIConnectionError,
  InvalidInputError,
  RequestFailedError,
  ResponseValidationError,
  UnprocessableEntityError,
} from "@tinklet/wire/errors";
import { describe, expect, it, vi } from "vitest";
import { anyOf, type Fault, faultsInOrder } from "../../testing/faults.ts";
import { batch, datum, failure, harness, policyDatum } from "../../testing/harness.ts";
import { stubLogprob } from "../../testing/stub-model.ts";
import type { StubOptions } from "../../testing/stub-server.ts";

async function setup(stub: StubOptions = {}, config: Record<string, unknown> = {}) {
  const kit = harness({ ...stub, config: { ...stub.config, ...config } });
  const trainer = await kit.run(kit.service.createLoraTrainingClient({ baseModel: "stub/model" }));
  const seqIds = () =>
    kit.stub.calls
      .map(({ body }) => (body as { seqId?: number } | undefined)?.seqId)
      .filter((seqId) => seqId !== undefined);
  return { ...kit, trainer, seqIds };
}
const status = (code: number, more: Partial<Extract<Fault, { kind: "status" }>> = {}): Fault => ({
  kind: "status",
  status: code,
  body: { detail: `scripted ${code}` },
  ...more,
});
const kinds = (applied: { seqId: number; kind: string }[]) => applied.map(({ seqId, kind }) => `${seqId} ${kind}`);

describe("order", () => {
  it("M-601: one counter for all operations, from 1, in the order of the calls, without awaiting", async () => {
    const { trainer, stub, run } = await setup();
    const all = [
      trainer.forward(batch(1), "cross_entropy"),
      trainer.forwardBackward(batch(1), "cross_entropy"),
      trainer.optimStep(),
      trainer.saveState("a"),
      trainer.loadState("tinker://r/weights/a"),
      trainer.loadStateWithOptimizer("tinker://r/weights/a"),
      trainer.saveWeightsForSampler("s"),
      trainer.saveWeightsAndGetSamplingClient(),
    ];
    await run(Promise.all<unknown>(all));
    expect(kinds(stub.applied())).toEqual([
      "1 Forward",
      "2 ForwardBackward",
      "3 OptimStep",
      "4 SaveWeights",
      "5 LoadWeights",
      "6 LoadWeights",
      "7 SaveWeightsForSampler",
      "8 SaveWeightsForSampler",
    ]);
  });

  it("M-603: pass and step are both submitted before either has a result", async () => {
    const { trainer, stub, clock } = await setup({ pendingPolls: 1000 });
    const pass = trainer.forwardBackward(batch(1), "cross_entropy");
    const step = trainer.optimStep();
    await pass.submitted;
    await step.submitted;
    expect([pass.phase, step.phase]).toEqual(["running", "running"]);
    expect(kinds(stub.applied())).toEqual(["1 ForwardBackward", "2 OptimStep"]);
    expect([pass.requestId, step.requestId]).toEqual(["request-1", "request-2"]);
    pass.cancel();
    step.cancel();
    await clock.advance(0);
  });

  it("M-605: a retry has the same number and the same content, and is applied once", async () => {
    const lostAnswer = { kind: "delivery", delivery: "reset_mid_body" } as const;
    const { trainer, stub, run, seqIds } = await setup({
      faults: anyOf(
        faultsInOrder("optimStep", [lostAnswer, status(500, { executed: true }), status(409)]),
        faultsInOrder("forwardBackward", [lostAnswer]),
      ),
    });
    const pass = trainer.forwardBackward(batch(1), "cross_entropy");
    const step = trainer.optimStep({ learningRate: 0.5 });
    await run(pass);
    await run(step);
    expect(seqIds()).toEqual([1, 1, 2, 2, 2, 2]);
    expect(kinds(stub.applied())).toEqual(["1 ForwardBackward", "2 OptimStep"]);
    expect([stub.repeats, stub.conflicts]).toEqual([3, 0]);
  });

  it("a cancelled, a timed-out and a failed call never block a later one", async () => {
    const { trainer, stub, run } = await setup({
      faults: anyOf(
        faultsInOrder("optimStep", [undefined, status(422)]),
        faultsInOrder("retrieveFuture", [undefined, status(503), status(503)]),
      ),
    });
    const controller = new AbortController();
    const cancelled = trainer.optimStep({}, { signal: controller.signal });
    await cancelled.submitted;
    controller.abort("enough");
    await expect(cancelled).rejects.toBe("enough");
    expect(await run(failure(trainer.optimStep()))).toBeInstanceOf(UnprocessableEntityError);
    const late = trainer.optimStep();
    expect(await run(failure(late.result({ timeoutMs: 500 })))).toMatchObject({ code: "timeout" });
    await run(trainer.optimStep());
    await run(late);
    expect(kinds(stub.applied())).toEqual(["1 OptimStep", "3 OptimStep", "4 OptimStep"]);
  });

  it.each<[string, Fault, string[]]>([
    ["never arrives", { kind: "delivery", delivery: "reset" }, ["1 Forward", "2 OptimStep", "3 SaveWeights"]],
    ["hangs", { kind: "delivery", delivery: "stall", executed: false }, ["1 Forward", "2 OptimStep", "3 SaveWeights"]],
    ["is answered 503 without end", status(503), ["1 Forward", "2 OptimStep", "3 SaveWeights"]],
    ["is answered 429 without end", status(429), ["1 Forward", "2 OptimStep", "3 SaveWeights"]],
    [
      "arrived, but every answer was lost",
      { kind: "delivery", delivery: "reset", executed: true },
      ["1 OptimStep", "2 OptimStep", "3 SaveWeights"],
    ],
  ])("a request that %s does not block the next call: its number is used up first", async (_, fault, applied) => {
    const { trainer, stub, clock, run } = await setup({
      faults: ({ operation, body }) =>
        operation === "optimStep" && (body as { seqId: number }).seqId === 1 ? fault : undefined,
    });
    const first = failure(trainer.optimStep());
    const second = trainer.optimStep();
    const third = trainer.saveState("a");
    await run(first);
    const failedAtMs = clock.monotonic();
    await run(Promise.all([second, third]));
    expect(kinds(stub.applied())).toEqual(applied);
    expect(stub.models.get(trainer.modelId)?.skipped).toEqual([]);
    expect(clock.monotonic() - failedAtMs).toBeLessThan(1_000);
  });

  it("sends the arrays' values at the time of the call, not later changes", async () => {
    const { trainer, stub, run } = await setup();
    const tokens = new Int32Array(2);
    const weights = new Float32Array(2);
    const config = { clip: 0 };
    const pass = (value: number, name: "forwardBackward" | "step" | "forwardBackwardCustom" | "forward") => {
      tokens.fill(value);
      weights.fill(value);
      config.clip = value;
      const chunks = [{ type: "encoded_text" as const, tokens }];
      const targets = BigInt64Array.of(BigInt(value), BigInt(value));
      const data = [
        new Datum({ modelInput: new ModelInput(chunks), lossFnInputs: { target_tokens: targets, weights } }),
      ];
      const options = { lossFnConfig: config };
      switch (name) {
        case "step":
          return trainer.step(data, "cross_entropy", {}, options);
        case "forwardBackwardCustom": {
          const call = trainer.forwardBackwardCustom(data, (_, [logprobs]) => ({ loss: logprobs!.sum() }));
          targets.fill(99n);
          return call;
        }
        default:
          return trainer[name](data, "cross_entropy", options);
      }
    };
    const calls = [pass(1, "forwardBackward"), pass(2, "forward"), pass(3, "step"), pass(4, "forwardBackwardCustom")];
    weights.fill(Number.NaN);
    tokens.fill(77);
    config.clip = 77;
    await run(Promise.all<unknown>(calls));
    const sent = stub.callsOf("forwardBackward").map(({ body }) => {
      const { data, lossFnConfig } = (body as ForwardBackwardRequest).forwardBackwardInput;
      const inputs = data[0]!.lossFnInputs as Record<string, { data: unknown[] }>;
      return [
        data[0]!.modelInput.toInts()[0],
        inputs["target_tokens"]?.data[0],
        inputs["weights"]?.data[0],
        lossFnConfig,
      ];
    });
    expect(sent).toEqual([
      [1, 1, 1, { clip: 1 }],
      [2, 2, 2, { clip: 2 }],
      [3, 3, 3, { clip: 3 }],
      [4, 4, 4, undefined],
      [4, 4, -1, undefined], // the slope of the custom loss
    ]);
  });

  it("aborted before its turn: it is not sent and takes no number", async () => {
    const { trainer, stub, run } = await setup();
    const first = trainer.optimStep();
    const controller = new AbortController();
    const second = trainer.saveState("never", { signal: controller.signal });
    const third = trainer.optimStep();
    controller.abort("no");
    await expect(second).rejects.toBe("no");
    await run(Promise.all([first, third]));
    expect(kinds(stub.applied())).toEqual(["1 OptimStep", "2 OptimStep"]);
  });

  it("invalid input takes no number, and says which field", async () => {
    const { trainer, stub, run } = await setup();
    const wrong = [
      trainer.optimStep({ learningRate: -1 }),
      trainer.saveState(""),
      trainer.loadState("weights/a"),
      trainer.forwardBackward([], "cross_entropy"),
      trainer.forwardBackward(batch(1), "nope" as "cross_entropy"),
      trainer.step(batch(1), "cross_entropy", { beta1: 2 }),
    ];
    const fields = await Promise.all(wrong.map(async (future) => (await failure(future))["field"]));
    expect(fields).toEqual(["learningRate", "name", "path", "data", "lossFn", "beta1"]);
    await run(trainer.optimStep());
    expect(kinds(stub.applied())).toEqual(["1 OptimStep"]);
  });
});

describe("chunks", () => {
  it("M-602: large batches go out in chunks, the first last, and come back as one, in order", async () => {
    const { trainer, stub, run, seqIds } = await setup({}, { fwdbwd_max_chunk_len: 2 });
    const data = batch(5);
    const pass = trainer.forwardBackward(data, "cross_entropy");
    const step = trainer.optimStep();
    const output = await run(pass);
    await run(step);
    expect(seqIds()).toEqual([2, 3, 1, 4]);
    expect(pass.explain().requestIds).toHaveLength(3);
    expect(output.lossFnOutputs.map((outputs) => outputs["logprobs"]?.data)).toEqual(
      data.map((item) => item.lossFnInputs.target_tokens.data.map((token) => stubLogprob(Number(token)))),
    );
    expect(output.metrics["tokens:sum"]).toBe(15);
    expect(kinds(stub.applied())).toEqual([
      "1 ForwardBackward",
      "2 ForwardBackward",
      "3 ForwardBackward",
      "4 OptimStep",
    ]);
  });

  it("M-602: without parallel chunks they go out in order", async () => {
    const { trainer, run, seqIds } = await setup({}, { fwdbwd_max_chunk_len: 1, parallel_fwdbwd_chunks: false });
    await run(trainer.forwardBackward(batch(3), "cross_entropy"));
    expect(seqIds()).toEqual([1, 2, 3]);
  });

  it("M-602: chunks are cut by bytes too, and the bytes under way are limited", async () => {
    const { trainer, run, seqIds } = await setup(
      {},
      { fwdbwd_max_chunk_bytes_count: 60, fwdbwd_dispatch_bytes_semaphore_size: 1 },
    );
    await run(trainer.forwardBackward(batch(3), "cross_entropy")); // 48 bytes each
    expect(seqIds()).toEqual([2, 3, 1]);
  });

  it("the scenario that hangs the Python client: a refused later chunk blocks neither the server nor later calls", async () => {
    const { trainer, stub, run, logger } = await setup(
      { faults: faultsInOrder("forwardBackward", [undefined, status(422)]) },
      { fwdbwd_max_chunk_len: 1 },
    );
    const pass = trainer.forwardBackward(batch(3), "cross_entropy");
    const step = trainer.optimStep();
    const save = trainer.saveState("after");
    const error = await run(failure(pass));
    expect(error).toBeInstanceOf(UnprocessableEntityError);
    expect(error["hint"]).toContain("1 of 3 chunks");
    await run(step);
    expect((await run(save)).path).toContain("after");
    expect(kinds(stub.applied())).toEqual(["1 Forward", "2 ForwardBackward", "4 OptimStep", "5 SaveWeights"]);
    expect(logger.with("did not accept")).toHaveLength(1); // the server remembers the refused number, and says so again
  });

  it("a chunk that stays unclear is a gap at worst, never a hang of the client", async () => {
    const reset = { kind: "delivery", delivery: "reset" } as const;
    const { trainer, stub, run, logger } = await setup(
      { faults: faultsInOrder("forwardBackward", [undefined, ...Array<Fault>(14).fill(reset)]) },
      { fwdbwd_max_chunk_len: 1 },
    );
    const pass = trainer.forwardBackward(batch(2), "cross_entropy");
    const step = trainer.optimStep();
    expect(await run(failure(pass))).toBeInstanceOf(APIConnectionError);
    expect(logger.with("the server did not accept request number 1")).toHaveLength(1);
    await run(step);
    expect(kinds(stub.applied())).toEqual(["1 Forward", "2 ForwardBackward", "3 OptimStep"]);
    expect(stub.models.get(trainer.modelId)?.skipped).toEqual([]);
  });

  it("while the server is down, calls fail one after the other without a second gap", async () => {
    let down = true;
    const { trainer, stub, run, seqIds } = await setup({
      faults: ({ body }) =>
        down && (body as { seqId?: number } | undefined)?.seqId !== undefined
          ? { kind: "delivery", delivery: "reset" }
          : undefined,
    });
    expect(await run(failure(trainer.optimStep()))).toBeInstanceOf(APIConnectionError);
    expect(await run(failure(trainer.saveState("a")))).toBeInstanceOf(APIConnectionError);
    expect(new Set(seqIds())).toEqual(new Set([1]));
    down = false;
    await run(trainer.optimStep());
    expect(kinds(stub.applied())).toEqual(["1 Forward", "2 OptimStep"]);
  });

  it("one failed chunk ends the waiting for the others", async () => {
    const { trainer, stub, clock } = await setup({ pendingPolls: 3 }, { fwdbwd_max_chunk_len: 1 });
    const pass = trainer.forwardBackward(batch(2), "cross_entropy");
    const { requestIds } = await pass.submitted;
    stub.fail(requestIds[1]!, "bad data", "user");
    const error = await failure(pass);
    expect(error).toBeInstanceOf(RequestFailedError);
    expect(error).toMatchObject({ category: "user", requestId: requestIds[1] });
    await clock.advance(100);
    const polls = stub.callsOf("retrieveFuture").length;
    await clock.advance(100);
    expect(stub.callsOf("retrieveFuture")).toHaveLength(polls);
  });

  it("compresses training requests when the server wants it", async () => {
    const { trainer, stub, run } = await setup({}, { proto_compress_fwdbwd: true });
    await run(trainer.forwardBackward(batch(1), "cross_entropy"));
    const [call] = stub.callsOf("forwardBackward");
    expect(call?.headers).toMatchObject({ "content-encoding": "zstd", "content-type": "application/x-protobuf" });
    expect((call!.body as ForwardBackwardRequest).forwardBackwardInput.data).toHaveLength(1);
  });

  it("sends what it was given: loss, configuration, and forward-only for a forward pass", async () => {
    const { trainer, stub, run } = await setup();
    await run(trainer.forward([policyDatum()], "ppo", { lossFnConfig: { clip_low_threshold: 0.5 } }));
    expect(stub.callsOf("forwardBackward")[0]?.body).toMatchObject({
      modelId: "session-1:train:0",
      seqId: 1,
      forwardOnly: true,
      forwardBackwardInput: { lossFn: "ppo", lossFnConfig: { clip_low_threshold: 0.5 } },
    });
    const polls = stub.callsOf("retrieveFuture").at(-1);
    expect(polls?.headers["x-tinker-request-type"]).toBe("Forward");
  });

  it("lets another server's loss pass when asked to", async () => {
    const { trainer, stub, run } = await setup();
    await run(trainer.forwardBackward(batch(1), "dppo", { allowUnknownLoss: true }));
    expect(stub.callsOf("forwardBackward")[0]?.body).toMatchObject({ forwardBackwardInput: { lossFn: "dppo" } });
  });

  it("another optimizer's settings go out under its type, checked where they are known", async () => {
    const { trainer, stub, run } = await setup();
    await run(trainer.optimStep({ type: "dimuon", learningRate: 0.1 }));
    await run(trainer.optimStep({ type: "lion", learning_rate: 0.2, own: [1] }));
    await run(trainer.step(batch(1), "cross_entropy", { type: "dimuon", learningRate: 0.3, beta1: 0.5 }));
    expect(stub.callsOf("optimStep").map(({ body }) => body)).toMatchObject([
      { seqId: 1, optimizerParams: { type: "dimuon", learning_rate: 0.1, grad_clip_norm: 0, beta1: 0.9 } },
      { seqId: 2, optimizerParams: { type: "lion", learning_rate: 0.2, own: [1] } },
      { seqId: 4, optimizerParams: { type: "dimuon", learning_rate: 0.3, beta1: 0.5 } },
    ]);
    for (const { body } of stub.callsOf("optimStep")) expect(body).not.toHaveProperty("adamParams");
    const wrong = trainer.optimStep({ type: "dimuon", learningRate: -1 });
    const next = trainer.optimStep({ learningRate: 1e-4 });
    expect(await run(failure(wrong))).toMatchObject({ field: "learningRate" });
    await run(next); // the refused one drew no number
    expect(stub.callsOf("optimStep").at(-1)?.body).toMatchObject({ seqId: 5, adamParams: { learningRate: 1e-4 } });
  });
});

describe("step", () => {
  it("submits both, and tells loss, gradient norm, tokens and time", async () => {
    const { trainer, stub, run } = await setup({ pendingPolls: 1 });
    const result = await run(trainer.step(batch(2), "cross_entropy", { learningRate: 0.1 }));
    expect(kinds(stub.applied())).toEqual(["1 ForwardBackward", "2 OptimStep"]);
    expect(result).toMatchObject({
      loss: result.output.metrics["loss:sum"],
      gradNorm: 0.5,
      tokens: 6,
      metrics: { "tokens:sum": 6, "unclipped_grad_l2:mean": 0.5 },
      waitMs: 0,
    });
    expect([result.queueMs, result.computeMs]).toEqual([undefined, undefined]);
    expect(stub.callsOf("optimStep")[0]?.body).toMatchObject({ adamParams: { learningRate: 0.1, eps: 1e-12 } });
  });

  it("does not step when the server does not take the pass", async () => {
    const { trainer, stub, run } = await setup({ faults: faultsInOrder("forwardBackward", [status(422)]) });
    const step = trainer.step(batch(1), "cross_entropy");
    expect(await run(failure(step))).toBeInstanceOf(UnprocessableEntityError);
    await run(trainer.optimStep());
    expect(stub.callsOf("optimStep")).toHaveLength(1);
  });
});

describe("M-604: custom losses", () => {
  it("forward, the user's loss, and a pass that carries its gradient as weights", async () => {
    const { trainer, stub, run } = await setup();
    const data = [datum(1), datum(2)];
    const output = await run(
      trainer.forwardBackwardCustom(data, (given, logprobs) => {
        expect(given).toBe(data);
        const loss = logprobs[0]!.mul(logprobs[0]!).sum().add(logprobs[1]!.sum().mul(-3));
        return { loss, metrics: { mine: 7 } };
      }),
    );
    expect(kinds(stub.applied())).toEqual(["1 Forward", "2 ForwardBackward"]);
    const sent = (stub.callsOf("forwardBackward")[1]!.body as ForwardBackwardRequest).forwardBackwardInput;
    const logprobs = [2, 3, 4].map(stubLogprob);
    expect(sent.lossFn).toBe("cross_entropy");
    expect(sent.data[0]?.lossFnInputs["weights"]?.toDense().data).toEqual(logprobs.map((x) => Math.fround(-2 * x)));
    expect(sent.data[1]?.lossFnInputs["weights"]?.toDense().data).toEqual([3, 3, 3]);
    expect(output.metrics["mine"]).toBe(7);
  });

  it("keeps its place: what is called after it is sent after its second pass", async () => {
    const { trainer, stub, run } = await setup();
    const pass = trainer.forwardBackwardCustom([datum()], (_, [x]) => ({ loss: x!.sum() }));
    const step = trainer.optimStep();
    await run(Promise.all([pass, step]));
    expect(kinds(stub.applied())).toEqual(["1 Forward", "2 ForwardBackward", "3 OptimStep"]);
  });

  it("the loss reads inputs of its own, which are not sent: the example of the official docstring", async () => {
    const { trainer, stub, run } = await setup();
    const data = [
      new Datum({
        modelInput: ModelInput.fromInts([1]),
        lossFnInputs: {
          target_tokens: [[2, 3]],
          target_distribution: TensorData.from([[0.25, 0.75]], { dtype: "float32" }),
        },
      }),
    ];
    const output = await run(
      trainer.forwardBackwardCustom(data, (given, logprobs) => ({
        loss: logprobs[0]!.mul(given[0]!.lossFnInputs["target_distribution"]!).sum().neg(),
      })),
    );
    const [forward, backward] = stub.callsOf("forwardBackward").map(({ body }) => body as ForwardBackwardRequest);
    for (const request of [forward!, backward!]) {
      expect(Object.keys(request.forwardBackwardInput.data[0]!.lossFnInputs)).toEqual(["target_tokens", "weights"]);
    }
    const weights = backward!.forwardBackwardInput.data[0]!.lossFnInputs["weights"]!;
    expect(weights.toDense().toList()).toEqual([[0.25, 0.75]]);
    const expected = -(0.25 * stubLogprob(2) + 0.75 * stubLogprob(3));
    expect(output.loss).toBeCloseTo(expected, 6);
    expect(output.metrics["loss:sum"]).toBe(output.loss);
    expect(output.metrics["surrogate_loss:sum"]).toBeTypeOf("number");
  });

  it("takes gradients that the user made", async () => {
    const { trainer, stub, run } = await setup();
    await run(trainer.forwardBackwardCustom([datum()], () => ({ loss: 1, gradients: [[0, 1, -2]] })));
    const sent = (stub.callsOf("forwardBackward")[1]!.body as ForwardBackwardRequest).forwardBackwardInput;
    expect(sent.data[0]?.lossFnInputs["weights"]?.toDense().data).toEqual([-0, -1, 2]);
  });

  it("a loss that throws, or an abort, ends the call and blocks nothing", async () => {
    const { trainer, stub, run } = await setup();
    const controller = new AbortController();
    const thrown = trainer.forwardBackwardCustom([datum()], () => {
      throw new RangeError("mine");
    });
    const aborted = trainer.forwardBackwardCustom(
      [datum()],
      (_, [x]) => {
        controller.abort("enough");
        return { loss: x!.sum() };
      },
      { signal: controller.signal },
    );
    const step = trainer.optimStep();
    expect(await run(failure(thrown))).toBeInstanceOf(RangeError);
    await expect(run(aborted)).rejects.toBe("enough");
    await run(step);
    expect(kinds(stub.applied())).toEqual(["1 Forward", "2 Forward", "3 OptimStep"]);
  });

  it("refuses data it cannot use before anything is sent", async () => {
    const { trainer, stub } = await setup();
    const error = await failure(
      trainer.forwardBackwardCustom(
        [new Datum({ modelInput: ModelInput.fromInts([1]), lossFnInputs: { weights: [1] } })],
        () => ({ loss: 1, gradients: [[]] }),
      ),
    );
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(stub.callsOf("forwardBackward")).toHaveLength(0);
  });
});

describe("M-606: checkpoints and the rest", () => {
  it("saveState and saveWeightsForSampler send name, ttl and overwrite, and return paths", async () => {
    const { trainer, stub, run } = await setup();
    expect(await run(trainer.saveState("a", { ttlSeconds: 60, overwrite: true }))).toMatchObject({
      path: "tinker://session-1:train:0/weights/a",
    });
    expect(await run(trainer.saveWeightsForSampler("b", { ttlSeconds: 5 }))).toEqual({
      path: "tinker://session-1:train:0/sampler_weights/b",
    });
    expect(stub.callsOf("saveWeights")[0]?.body).toMatchObject({ path: "a", ttlSeconds: 60, overwrite: true });
    expect(stub.callsOf("saveWeightsForSampler")[0]?.body).toMatchObject({ path: "b", ttlSeconds: 5 });
  });

  it("saveWeightsExternal sends name, ttl and recipients; notes travel with saves, and only when they are given", async () => {
    const { trainer, stub, run } = await setup();
    const ageEncryptionRecipients = ["age1abc"];
    expect(await run(trainer.saveWeightsExternal("out", { ttlSeconds: 9, ageEncryptionRecipients }))).toEqual({
      path: "tinker://session-1:train:0/external_weights/out",
    });
    expect(stub.callsOf("saveWeightsExternal")[0]?.body).toEqual({
      modelId: "session-1:train:0",
      seqId: 1,
      path: "out",
      ttlSeconds: 9,
      ageEncryptionRecipients,
      type: "save_weights_external",
    });
    await run(trainer.saveState("a", { userMetadata: { step: "3" } }));
    await run(trainer.saveWeightsForSampler("b", { userMetadata: { step: "4" } }));
    expect(stub.callsOf("saveWeights")[0]?.body).toMatchObject({ userMetadata: { step: "3" } });
    expect(stub.callsOf("saveWeightsForSampler")[0]?.body).toMatchObject({ userMetadata: { step: "4" } });
    await run(trainer.saveState("c"));
    expect(stub.callsOf("saveWeights")[1]?.body).not.toHaveProperty("userMetadata");
  });

  it("loadState and loadStateWithOptimizer differ in the optimizer, and pass a token on", async () => {
    const { trainer, stub, run } = await setup();
    await run(trainer.loadState("tinker://r/weights/a"));
    await run(trainer.loadStateWithOptimizer("tinker://r/weights/a", { weightsAccessToken: "tml-theirs" }));
    const [plain, full] = stub.callsOf("loadWeights").map(({ body }) => body);
    expect(plain).toMatchObject({ path: "tinker://r/weights/a", optimizer: false });
    expect("weightsAccessToken" in (plain as object)).toBe(false);
    expect(full).toMatchObject({ optimizer: true, weightsAccessToken: "tml-theirs" });
  });

  it("a checkpoint of the wrong kind is explained", async () => {
    const { trainer, stub, clock } = await setup({ pendingPolls: 5 });
    const load = trainer.loadState("tinker://r/sampler_weights/a");
    const { requestIds } = await load.submitted;
    stub.fail(requestIds[0]!, "wrong checkpoint", "user");
    expect((await failure(load))["hint"]).toContain("saved for sampling");
    await clock.advance(0);
  });

  it("saveWeightsAndGetSamplingClient opens a sampler over the weights as they are", async () => {
    const { trainer, stub, run } = await setup();
    const sampler = await run(trainer.saveWeightsAndGetSamplingClient());
    expect(sampler.samplingSessionId).toBe("session-1:sample:0");
    expect(stub.callsOf("saveWeightsForSampler")[0]?.body).toMatchObject({ samplingSessionSeqId: 0, seqId: 1 });
    expect(stub.callsOf("createSamplingSession")).toHaveLength(0);
    const other = await run(trainer.createSamplingClient("tinker://r/sampler_weights/a"));
    expect(other.samplingSessionId).toBe("session-1:sample:1");
  });

  it("an answer without the path or the session is a typed error", async () => {
    const { trainer, stub, clock, run } = await setup({ pendingPolls: 2 });
    const named = trainer.saveWeightsForSampler("a");
    const unnamed = trainer.saveWeightsAndGetSamplingClient();
    for (const future of [named, unnamed]) {
      const { requestIds } = await future.submitted;
      stub.answer(requestIds[0]!, {});
    }
    expect(await run(failure(named))).toMatchObject({ field: "path" });
    expect(await run(failure(unnamed))).toBeInstanceOf(ResponseValidationError);
    await clock.advance(0);
  });

  it("getInfo removes the part after the tokenizer's colon", async () => {
    const { trainer, run } = await setup();
    expect(await run(trainer.getInfo())).toMatchObject({
      modelId: "session-1:train:0",
      modelData: { tokenizerId: "stub/tokenizer", modelName: "stub/model" },
      loraRank: 32,
    });
  });

  it("getTokenizer asks for the tokenizer that the server names, and by the model's name otherwise", async () => {
    const asked: unknown[] = [];
    vi.doMock("../../tokenizer/index.ts", () => ({ tokenizerForModel: async (model: unknown) => asked.push(model) }));
    const { trainer, run } = await setup();
    await run(trainer.getTokenizer());
    const sampler = await run(trainer.saveWeightsAndGetSamplingClient());
    await run(sampler.getTokenizer());
    vi.doUnmock("../tokenizer/index.ts");
    expect(asked).toEqual([{ modelName: "stub/model", tokenizerId: "stub/tokenizer" }, { modelName: "stub/model" }]);
  });

  it("unload waits for what was called before", async () => {
    const { trainer, stub, run } = await setup();
    const step = trainer.optimStep();
    expect(await run(trainer.unload())).toMatchObject({ modelId: "session-1:train:0" });
    await run(step);
    const operations = stub.calls.map(({ operation }) => operation).filter((name) => /optim|unload/.test(name));
    expect(operations).toEqual(["optimStep", "unloadModel"]);
  });
});

describe("traps", () => {
  it("warns once when samples of another distribution are trained on as if they were not", async () => {
    const { trainer, logger, run } = await setup();
    const sampler = await run(trainer.saveWeightsAndGetSamplingClient());
    await run(sampler.sample(ModelInput.fromInts([1]), { samplingParams: { temperature: 0.7, topP: 0.9, topK: 5 } }));
    await run(trainer.forwardBackward(batch(1), "cross_entropy"));
    expect(logger.with("off-policy")).toHaveLength(0);
    await run(trainer.forwardBackward([policyDatum()], "importance_sampling"));
    await run(trainer.forwardBackward([policyDatum()], "importance_sampling"));
    expect(logger.with("temperature 0.7, topK 5, topP 0.9")).toHaveLength(1);
  });

  it("says nothing when sampling was plain, or greedy as evaluations are", async () => {
    const { trainer, logger, run } = await setup();
    const sampler = await run(trainer.saveWeightsAndGetSamplingClient());
    await run(sampler.sample(ModelInput.fromInts([1])));
    await run(sampler.sample(ModelInput.fromInts([1]), { samplingParams: { temperature: 0 } }));
    await run(trainer.forwardBackward([policyDatum()], "ppo"));
    expect(logger.with("off-policy")).toHaveLength(0);
  });
});

it("data that is no Datum is refused by name", async () => {
  const { trainer } = await setup();
  const field = async (data: unknown[]) =>
    (await failure(trainer.forwardBackward(data as Datum[], "cross_entropy")))["field"];
  expect(await field([5])).toBe("data[0]");
  expect(await field([{}])).toBe("data[0].modelInput");
  expect(new Datum({ modelInput: ModelInput.empty() })).toBeInstanceOf(Datum);
});
