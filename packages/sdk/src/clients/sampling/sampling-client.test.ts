import { ModelInput, type SampleRequest, TensorData } from "@tinklet/wire";
import { APIStatusError, InvalidInputError, RequestFailedError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { describe, expect, it } from "vitest";
import { anyOf, type Fault, faultsInOrder } from "../../testing/faults.ts";
import { failure, harness } from "../../testing/harness.ts";
import type { StubOptions } from "../../testing/stub-server.ts";
import type { ClientOptions } from "../options.ts";
import type { RetryConfig } from "./retry-config.ts";
import { SamplingClient } from "./sampling-client.ts";

async function setup(
  stub: StubOptions = {},
  options: { config?: Record<string, unknown>; retryConfig?: RetryConfig; client?: ClientOptions } = {},
) {
  const kit = harness({ ...stub, config: { ...options.config } }, options.client);
  const { retryConfig } = options;
  const sampler = await kit.run(
    kit.service.createSamplingClient({
      baseModel: "stub/model",
      ...omitUndefined({ retryConfig }),
    }),
  );
  const seqIds = () => kit.stub.callsOf("asample").map(({ body }) => (body as SampleRequest).seqId);
  return { ...kit, sampler, seqIds };
}
const prompt = ModelInput.fromInts([1, 2, 3]);
const status = (code: number, headers: Record<string, string> = {}): Fault => ({
  kind: "status",
  status: code,
  body: { detail: `scripted ${code}` },
  headers,
});
const stall: Fault = { kind: "delivery", delivery: "stall" };
const reset: Fault = { kind: "delivery", delivery: "reset" };

describe("sample", () => {
  it("sends session, number and defaults, and returns sequences", async () => {
    const { sampler, stub, run } = await setup();
    const response = await run(
      sampler.sample(prompt, { numSamples: 2, samplingParams: { maxTokens: 3, seed: 5, stop: ["x"] } }),
    );
    expect(response.sequences.map(({ tokens }) => tokens)).toEqual([
      [4, 5, 6],
      [4, 5, 6],
    ]);
    const [call] = stub.callsOf("asample");
    expect(call?.headers["x-tinker-sampling-backpressure"]).toBe("1");
    expect(call?.body).toMatchObject({
      numSamples: 2,
      samplingSessionId: "session-1:sample:0",
      seqId: 0,
      promptLogprobs: false,
      topkPromptLogprobs: 0,
      samplingParams: { maxTokens: 3, seed: 5, stop: ["x"], temperature: 1, topK: -1, topP: 1 },
      type: "sample",
    });
  });

  it("takes undefined for an option that was not given", async () => {
    const { sampler, stub, run } = await setup();
    await run(sampler.sample(prompt));
    const nothing = {
      ...{ numSamples: undefined, includePromptLogprobs: undefined, topkPromptLogprobs: undefined, signal: undefined },
      ...{
        topkSampleLogprobs: undefined,
        targetPromptLogprobs: undefined,
        promptAltTokensK: undefined,
        constraint: undefined,
      },
      ...{ promptLogprobsLastN: undefined, timeoutMs: undefined },
    };
    const params = { maxTokens: undefined, seed: undefined, stop: undefined, temperature: undefined, topK: undefined };
    await run(sampler.sample(prompt, { ...nothing, samplingParams: undefined }));
    await run(sampler.sample(prompt, { ...nothing, samplingParams: { ...params, topP: undefined } }));
    const [plain, ...others] = stub.callsOf("asample").map(({ body }) => ({ ...(body as SampleRequest), seqId: 0 }));
    for (const other of others) expect(other).toEqual(plain);
  });

  it("an undefined retry setting leaves the service's", async () => {
    const { service, run } = harness(
      { faults: ({ operation }) => (operation === "asample" ? stall : undefined) },
      { retryConfig: { progressTimeoutMs: 30_000 }, maxSockets: { sample: undefined as never } },
    );
    const options = { baseModel: "m", retryConfig: { progressTimeoutMs: undefined } };
    const sampler = await run(service.createSamplingClient(options));
    expect(await run(failure(sampler.sample(prompt)))).toMatchObject({ message: "No sample has succeeded for 30 s" });
  });

  it("numbers from 0, one for each call", async () => {
    const { sampler, seqIds, run } = await setup();
    await run(Promise.all([sampler.sample(prompt), sampler.sample(prompt), sampler.computeLogprobs(prompt)]));
    expect(seqIds()).toEqual([0, 1, 2]);
  });

  it("refuses what cannot be sent, naming the field", async () => {
    const { sampler, stub } = await setup();
    const fields = await Promise.all(
      [
        sampler.sample("text" as unknown as ModelInput),
        sampler.sample(prompt, { numSamples: 0 }),
        sampler.sample(prompt, { numSamples: 1.5 }),
        sampler.sample(prompt, { samplingParams: { temperatur: 1 } as never }),
        sampler.sample(prompt, { samplingParams: { temperature: "hot" } as never }),
      ].map(async (future) => {
        const error = await failure(future);
        expect(error).toBeInstanceOf(InvalidInputError);
        return error["field"];
      }),
    );
    expect(fields).toEqual(["prompt", "numSamples", "numSamples", "temperatur", "temperature"]);
    expect(stub.callsOf("asample")).toHaveLength(0);
  });

  it("takes plain token ids, and what they are when the call is made", async () => {
    const { sampler, stub, run } = await setup();
    const tokens = Int32Array.of(1, 2, 3);
    const chunked = new ModelInput([{ type: "encoded_text", tokens }]);
    const calls = [sampler.sample(tokens), sampler.sample(chunked), sampler.sample([1, 2, 3])];
    const logprobs = sampler.computeLogprobs(tokens);
    tokens.fill(9);
    await run(Promise.all(calls));
    expect(await run(logprobs)).toEqual([null, -0.375, -0.5]);
    for (const { body } of stub.callsOf("asample")) {
      expect((body as SampleRequest).prompt.toInts()).toEqual([1, 2, 3]);
    }
  });

  it("M-704: prompt log-probs and the likeliest tokens", async () => {
    const { sampler, stub, run } = await setup();
    const response = await run(sampler.sample(prompt, { includePromptLogprobs: true, topkPromptLogprobs: 2 }));
    expect(response.promptLogprobs).toEqual([null, -0.375, -0.5]);
    expect(response.topkPromptLogprobs).toHaveLength(3);
    expect(stub.callsOf("asample")[0]?.body).toMatchObject({ promptLogprobs: true, topkPromptLogprobs: 2 });
  });

  it("M-704: computeLogprobs draws one token and returns the prompt's log-probs", async () => {
    const { sampler, stub, run } = await setup();
    expect(await run(sampler.computeLogprobs(prompt))).toEqual([null, -0.375, -0.5]);
    expect(stub.callsOf("asample")[0]?.body).toMatchObject({
      numSamples: 1,
      promptLogprobs: true,
      samplingParams: { maxTokens: 1 },
    });
  });
});

describe("429", () => {
  it("M-702: pauses the whole client for a second, and sends the same number again, however often", async () => {
    const { sampler, stub, clock, seqIds, run } = await setup({
      faults: faultsInOrder("asample", [status(429, { "retry-after": "30" }), status(429)]),
    });
    const first = sampler.sample(prompt);
    await clock.advance(0);
    const second = sampler.sample(prompt);
    await clock.advance(999);
    expect(seqIds()).toEqual([0]); // nothing is sent while the pause lasts, not by others either
    await clock.advance(1);
    await run(Promise.all([first, second]));
    expect(seqIds()).toHaveLength(4);
    expect(new Set(seqIds())).toEqual(new Set([0, 1]));
    expect(clock.monotonic()).toBe(2000);
    expect(stub.repeats).toBe(0);
  });

  it("M-702: pauses five seconds for a large prompt", async () => {
    const { sampler, clock, run, seqIds } = await setup({ faults: faultsInOrder("asample", [status(429)]) });
    const large = sampler.sample(ModelInput.fromInts(new Int32Array(13_108))); // 131,080 bytes as estimated
    await clock.advance(4_999);
    expect(seqIds()).toHaveLength(1);
    await run(large);
    const edge = await setup({ faults: faultsInOrder("asample", [status(429)]) });
    await edge.run(edge.sampler.sample(ModelInput.fromInts(new Int32Array(13_107)))); // 131,070
    expect(edge.clock.monotonic()).toBe(1000);
  });

  it("M-702: lets only ten through at once for ten seconds after a pause, and counts bytes twentyfold", async () => {
    const { sampler, stub, clock, run } = await setup({
      faults: anyOf(faultsInOrder("asample", [status(429)]), ({ operation, index }) =>
        operation === "asample" && index > 0 ? { kind: "delivery", delivery: "stall" } : undefined,
      ),
    });
    const first = sampler.sample(prompt);
    await clock.advance(1_000);
    const more = Array.from({ length: 50 }, () => sampler.sample(prompt));
    await clock.advance(100);
    expect(stub.callsOf("asample")).toHaveLength(1 + 1 + 10);
    for (const future of [first, ...more]) future.cancel();
    await run(Promise.allSettled([first, ...more]));
  });
});

describe("M-701: limits", () => {
  const stall: Fault = { kind: "delivery", delivery: "stall" };

  it("400 submissions are on their way at once", async () => {
    const { sampler, stub, clock, run } = await setup({
      faults: ({ operation }) => (operation === "asample" ? stall : undefined),
    });
    const all = Array.from({ length: 500 }, () => sampler.sample(prompt));
    await clock.advance(0);
    expect(stub.callsOf("asample")).toHaveLength(400);
    for (const future of all) future.cancel();
    await run(Promise.allSettled(all));
  });

  it("prompts of so many bytes are on their way at once", async () => {
    const { sampler, stub, clock, run } = await setup(
      { faults: ({ operation }) => (operation === "asample" ? stall : undefined) },
      { config: { sample_dispatch_bytes_semaphore_size: 60 } },
    );
    const all = Array.from({ length: 10 }, () => sampler.sample(prompt)); // 30 bytes each
    await clock.advance(0);
    expect(stub.callsOf("asample")).toHaveLength(3); // the third overdraws, the fourth waits
    for (const future of all) future.cancel();
    await run(Promise.allSettled(all));
  });

  it("the server's limit, the sockets and maxConnections limit what is under way", async () => {
    const held = { pendingPolls: 1_000_000 };
    const count = async (options: Parameters<typeof setup>[1]) => {
      const { sampler, stub, clock, run } = await setup(
        { ...held, faults: ({ operation }) => (operation === "retrieveFuture" ? stall : undefined) },
        options,
      );
      const all = Array.from({ length: 60 }, () => sampler.sample(prompt));
      await clock.advance(0);
      for (const future of all) future.cancel();
      await run(Promise.allSettled(all));
      return stub.callsOf("retrieveFuture").length;
    };
    expect(await count({})).toBe(60);
    expect(await count({ config: { sample_max_concurrent_requests: 7 } })).toBe(7);
    expect(await count({ retryConfig: { maxConnections: 5 } })).toBe(5);
    expect(await count({ client: { retryConfig: { maxConnections: 6 } } })).toBe(6);
    expect(await count({ client: { maxSockets: { retrieve: 40 } } })).toBe(30); // a quarter is left to training
    expect(await count({ client: { maxSockets: { retrieve: 1 } } })).toBe(1);
  });

  it("a slot is released after every outcome", async () => {
    const { sampler, run } = await setup(
      { faults: faultsInOrder("asample", [status(422), undefined]) },
      { config: { sample_max_concurrent_requests: 1 } },
    );
    const controller = new AbortController();
    const refused = sampler.sample(prompt);
    const aborted = sampler.sample(prompt, { signal: controller.signal });
    const fine = sampler.sample(prompt);
    controller.abort("no");
    expect(await run(failure(refused))).toBeInstanceOf(APIStatusError);
    await expect(run(aborted)).rejects.toBe("no");
    await run(fine);
  });
});

describe("retries", () => {
  it("M-703: one loop: transport errors and 5xx are sent again under the same number", async () => {
    const { sampler, seqIds, clock, run, stub } = await setup(
      { faults: faultsInOrder("asample", [reset, status(503), { kind: "delivery", delivery: "reset_mid_body" }]) },
      { retryConfig: { jitterFactor: 0 } },
    );
    await run(sampler.sample(prompt));
    expect(seqIds()).toEqual([0, 0, 0, 0]);
    expect(clock.monotonic()).toBe(500 + 1000 + 2000);
    expect(stub.repeats).toBe(1); // the third arrived; its acknowledgement was lost
    const retries = stub.callsOf("asample").map(({ headers }) => headers["x-stainless-retry-count"]);
    expect(new Set(retries)).toEqual(new Set(["0"])); // the transport retried nothing
  });

  it("an expired future is sampled again under a new number", async () => {
    const { sampler, seqIds, run } = await setup({ faults: faultsInOrder("retrieveFuture", [status(410)]) });
    await run(sampler.sample(prompt));
    expect(seqIds()).toEqual([0, 1]);
  });

  it("M-503: a failed request and a refusal are not sent again", async () => {
    const refused = await setup({ faults: faultsInOrder("asample", [status(422)]) });
    expect(await refused.run(failure(refused.sampler.sample(prompt)))).toMatchObject({ status: 422 });
    expect(refused.seqIds()).toHaveLength(1);
    const { sampler, stub, seqIds, run } = await setup({ pendingPolls: 5 });
    const future = sampler.sample(prompt, { samplingParams: { maxTokens: 50 } });
    const { requestIds } = await future.submitted;
    stub.fail(requestIds[0]!, "context length exceeded", "user");
    const error = await run(failure(future));
    expect(error).toBeInstanceOf(RequestFailedError);
    expect(error["hint"]).toContain("the input has 3 tokens, maxTokens is 50, together 53");
    expect(seqIds()).toHaveLength(1);
  });

  it("M-802: obeys x-should-retry", async () => {
    const { sampler, seqIds, run } = await setup({
      faults: faultsInOrder("asample", [status(500, { "x-should-retry": "false" })]),
    });
    expect(await run(failure(sampler.sample(prompt)))).toMatchObject({ status: 500 });
    expect(seqIds()).toHaveLength(1);
  });

  it("M-808: enableRetryLogic false, and the server's sample_no_retries, mean one attempt", async () => {
    for (const options of [{ retryConfig: { enableRetryLogic: false } }, { config: { sample_no_retries: true } }]) {
      const { sampler, seqIds, run } = await setup({ faults: faultsInOrder("asample", [status(500)]) }, options);
      expect(await run(failure(sampler.sample(prompt)))).toMatchObject({ status: 500 });
      expect(seqIds()).toHaveLength(1);
    }
  });

  it("M-808: retryDelayBaseMs, retryDelayMaxMs and jitterFactor shape the waits", async () => {
    const { sampler, clock, run } = await setup(
      { faults: faultsInOrder("asample", [reset, reset, reset]) },
      { retryConfig: { retryDelayBaseMs: 10, retryDelayMaxMs: 15, jitterFactor: 0 } },
    );
    await run(sampler.sample(prompt));
    expect(clock.monotonic()).toBe(10 + 15 + 15);
  });

  it("M-808: gives up when no sample of this client has succeeded for progressTimeoutMs", async () => {
    const down = { faults: ({ operation }: { operation: string }) => (operation === "asample" ? reset : undefined) };
    const { sampler, clock, run } = await setup(down, { retryConfig: { progressTimeoutMs: 60_000 } });
    const error = await run(failure(sampler.sample(prompt)));
    expect(error).toMatchObject({ code: "stuck" });
    expect(error["hint"]).toContain("progressTimeoutMs");
    expect(clock.monotonic()).toBeGreaterThanOrEqual(60_000);
    expect(clock.monotonic()).toBeLessThan(71_000);
  });

  it.each<[string, StubOptions]>([
    ["429s", { faults: ({ operation }) => (operation === "asample" ? status(429) : undefined) }],
    ["402s", { faults: ({ operation }) => (operation === "asample" ? status(402) : undefined) }],
    ["503s of polls", { faults: ({ operation }) => (operation === "retrieveFuture" ? status(503) : undefined) }],
    ["a result that is always 'try again'", { sampleMs: 10_000_000, holdMs: 5_000 }],
    ["a hanging server", { faults: ({ operation }) => (operation === "asample" ? stall : undefined) }],
  ])("M-808: gives up after progressTimeoutMs amid %s", async (_, stub) => {
    const { sampler, clock, run } = await setup(stub, { retryConfig: { progressTimeoutMs: 60_000 } });
    const calls = [failure(sampler.sample(prompt)), failure(sampler.sample(prompt))];
    for (const error of await run(Promise.all(calls))) expect(error).toMatchObject({ code: "stuck" });
    expect(clock.monotonic()).toBe(60_000);
  });

  it("M-808: keeps on without stuck detection, of the option or of the server's flag", async () => {
    for (const options of [
      { retryConfig: { progressTimeoutMs: 1_000, enableStuckDetection: false } },
      { retryConfig: { progressTimeoutMs: 1_000 }, config: { sample_enable_stuck_detection: false } },
    ]) {
      const { sampler, run } = await setup({ faults: faultsInOrder("asample", Array<Fault>(8).fill(reset)) }, options);
      await run(sampler.sample(prompt));
    }
  });

  it("M-504: a billing pause is waited out under the same number", async () => {
    const { sampler, seqIds, run, events } = await setup({
      faults: faultsInOrder("asample", [status(402), status(402)]),
    });
    await run(sampler.sample(prompt));
    expect(seqIds()).toEqual([0, 0, 0]);
    expect(events.filter(({ type }) => type === "billing.paused")).toHaveLength(2);
    const over = await setup(
      { faults: ({ operation }) => (operation === "asample" ? status(402) : undefined) },
      { config: { billing_exception_max_pause_duration_sec: 20 } },
    );
    expect(await over.run(failure(over.sampler.sample(prompt)))).toMatchObject({ status: 402 });
  });

  it("nonsense in retryConfig is refused before anything is sent", async () => {
    for (const [retryConfig, field] of [
      [{ maxConnections: 0 }, "retryConfig.maxConnections"],
      [{ progressTimeoutMs: -1 }, "retryConfig.progressTimeoutMs"],
      [{ retryDelayBaseMs: 0 }, "retryConfig.retryDelayBaseMs"],
      [{ retryDelayMaxMs: Number.NaN }, "retryConfig.retryDelayMaxMs"],
      [{ jitterFactor: 1.5 }, "retryConfig.jitterFactor"],
    ] as const) {
      const { service, stub } = harness();
      expect(await failure(service.createSamplingClient({ baseModel: "m", retryConfig }))).toMatchObject({ field });
      expect(stub.calls).toHaveLength(0);
    }
  });
});

describe("the sampler itself", () => {
  it("is opened over a model or a checkpoint, with numbers that go up", async () => {
    const { service, stub, run } = harness();
    await run(service.createSamplingClient({ baseModel: "a" }));
    await run(service.createSamplingClient({ modelPath: "tinker://r/sampler_weights/x" }));
    expect(stub.callsOf("createSamplingSession").map(({ body }) => body)).toMatchObject([
      { sessionId: "session-1", samplingSessionSeqId: 0, baseModel: "a" },
      { sessionId: "session-1", samplingSessionSeqId: 1, modelPath: "tinker://r/sampler_weights/x" },
    ]);
  });

  it("needs one of them, and a path that is one", async () => {
    const { service } = harness();
    expect(await failure(service.createSamplingClient({}))).toMatchObject({ field: "modelPath" });
    expect(await failure(service.createSamplingClient({ modelPath: "org/model" }))).toMatchObject({
      field: "modelPath",
      hint: "Pass the name of a model as baseModel.",
    });
  });

  it("knows its base model, asked for once", async () => {
    const { sampler, stub, run } = await setup({ faults: faultsInOrder("getSampler", [status(404)]) });
    await run(failure(sampler.getBaseModel()));
    expect([await run(sampler.getBaseModel()), await run(sampler.getBaseModel())]).toEqual([
      "stub/model",
      "stub/model",
    ]);
    expect(stub.callsOf("getSampler")).toHaveLength(2); // the failure is not kept
  });
});

const sent = (stub: Awaited<ReturnType<typeof setup>>["stub"]) => stub.callsOf("asample").at(-1)?.body as SampleRequest;

describe("what newer releases added to a sample", () => {
  const ids = TensorData.from([[5], [-1]], { dtype: "int64" });

  it("is sent where it carries something, and nowhere else", async () => {
    const { sampler, stub, run } = await setup();
    await run(sampler.sample(prompt, { topkSampleLogprobs: 0, promptAltTokensK: 0 }));
    expect(Object.keys(sent(stub)).toSorted()).toEqual(
      [
        "numSamples",
        "prompt",
        "promptLogprobs",
        "samplingParams",
        "samplingSessionId",
        "seqId",
        "topkPromptLogprobs",
        "type",
      ].toSorted(),
    );
    await run(
      failure(
        sampler.sample(prompt, { topkSampleLogprobs: 3, promptAltTokensK: 2, targetPromptLogprobs: [[5], [-1]] }),
      ),
    );
    expect(sent(stub)).toMatchObject({ topkSampleLogprobs: 3, promptAltTokensK: 2 });
    expect(sent(stub).targetPromptLogprobs).toEqual(ids);
  });

  it("a constraint is sent to servers that name the extension, and to no other", async () => {
    const constraint = { type: "json_schema" as const, schema: { type: "object", properties: { aKey: true } } };
    const plain = await setup();
    expect(plain.sampler.extensions).toEqual([]);
    const error = await plain.run(failure(plain.sampler.sample(prompt, { constraint })));
    expect(error).toMatchObject({ code: "unsupported_feature", feature: "tinklet_constraint", since: undefined });
    expect(plain.stub.callsOf("asample")).toEqual([]);
    const { sampler, stub, run } = await setup({}, { config: { tinklet_extensions: ["constraint"] } });
    await run(sampler.sample(prompt, { constraint }));
    expect(sent(stub)).toMatchObject({ tinkletConstraint: constraint });
    await run(sampler.sample(prompt));
    expect(sent(stub)).not.toHaveProperty("tinkletConstraint");
  });

  it("a server that passes over it is called too old, by the name of what it lacks", async () => {
    const { sampler, run } = await setup();
    const lacks = async (options: object) => {
      const error = await run(failure(sampler.sample(prompt, options)));
      return [error.name, error["feature"], error["since"]];
    };
    const name = "UnsupportedFeatureError";
    expect(await lacks({ topkSampleLogprobs: 1 })).toEqual([name, "topk_sample_logprobs", "0.29"]);
    expect(await lacks({ targetPromptLogprobs: ids })).toEqual([name, "target_prompt_logprobs", "0.30"]);
    expect(await lacks({ promptAltTokensK: 1 })).toEqual([name, "prompt_alt_tokens_k", "0.31"]);
    const last = { includePromptLogprobs: true, promptLogprobsLastN: 1 };
    expect(await lacks(last)).toEqual([name, "prompt_logprobs_last_n", "0.33"]);
    expect(await run(failure(sampler.computeLogprobs(prompt, { promptLogprobsLastN: 1 })))).toMatchObject({ name });
    expect(await run(sampler.computeLogprobs(prompt, { promptLogprobsLastN: 2 }))).toHaveLength(3); // all that there are
  });

  it("a server that refuses the field is called too old, too", async () => {
    const detail = [
      { type: "extra_forbidden", loc: ["body", "topk_sample_logprobs"], msg: "Extra inputs are not permitted" },
    ];
    const refused: Fault = { kind: "status", status: 422, body: { detail } };
    const { sampler, run } = await setup({ faults: faultsInOrder("asample", [refused, status(422)]) });
    expect(await run(failure(sampler.sample(prompt, { topkSampleLogprobs: 1 })))).toMatchObject({
      code: "unsupported_feature",
      feature: "topk_sample_logprobs",
      cause: { status: 422 },
    });
    expect(await run(failure(sampler.sample(prompt)))).toMatchObject({ code: "http_422" }); // any other refusal stays one
  });

  it("is refused before it is sent when it cannot be meant", async () => {
    const { sampler, stub, run } = await setup();
    for (const [field, options] of [
      ["topkSampleLogprobs", { topkSampleLogprobs: 1.5 }],
      ["promptAltTokensK", { promptAltTokensK: -1 }],
      ["promptLogprobsLastN", { promptLogprobsLastN: -1, includePromptLogprobs: true }],
      ["promptLogprobsLastN", { promptLogprobsLastN: 1 }],
      ["targetPromptLogprobs", { targetPromptLogprobs: [1, 2] }],
      ["targetPromptLogprobs", { targetPromptLogprobs: TensorData.from([[1]], { dtype: "float32" }) }],
    ] as const) {
      expect(await run(failure(sampler.sample(prompt, options))), field).toMatchObject({ field });
    }
    expect(stub.callsOf("asample")).toEqual([]);
  });

  it("sequences have the ids that the server gave them", async () => {
    const { sampler, run } = await setup();
    const { sequences } = await run(sampler.sample(prompt, { numSamples: 2 }));
    expect(sequences.map(({ sequenceId }) => sequenceId)).toEqual(["request-0:0", "request-0:1"]);
    expect(JSON.parse(JSON.stringify(sequences[0]))).toMatchObject({ sequenceId: "request-0:0" });
  });

  it("a client may record what stable_reinforce needs", async () => {
    const { service, stub, run } = await setup();
    const sampler = await run(service.createSamplingClient({ baseModel: "m", recordStabilityInfo: true }));
    await run(sampler.sample(prompt));
    expect(sent(stub)).toMatchObject({ recordStabilityInfo: true });
  });
});

describe("a handle as text", () => {
  it("is the official SDK's, holds no credential, and makes a client of its own", async () => {
    const { sampler, stub, run, clock } = await setup({}, { config: { sample_join_sampling_session: true } });
    const handle = await run(sampler.getSamplerHandle());
    const state = JSON.parse(Buffer.from(handle, "base64url").toString());
    expect(state).toMatchObject({
      session_id: "session-1",
      sampling_session_id: "session-1:sample:0",
      holder: { base_url: "http://stub.example", api_key: null, client_config: { sample_join_sampling_session: true } },
      record_stability_info: false,
    });
    expect(JSON.stringify(state)).not.toContain("tml-");
    const other = await SamplingClient.fromSamplerHandle(handle, {
      apiKey: "tml-other",
      fetch: stub.fetch,
      clock,
      telemetry: false,
    });
    await run(other.sample(prompt));
    expect(stub.callsOf("asample")[0]).toMatchObject({
      headers: { "x-api-key": "tml-other" },
      body: { samplingSessionId: "session-1:sample:0", seqId: 1e9 },
    });
    await other.close();
  });

  it("keeps recordStabilityInfo, and uses URL-safe characters", async () => {
    const { service, stub, run, clock } = await setup();
    const recording = await run(service.createSamplingClient({ baseModel: "m?>~ü", recordStabilityInfo: true }));
    const handle = await run(recording.getSamplerHandle());
    expect(handle).toMatch(/^[\w=-]+$/);
    const other = await SamplingClient.fromSamplerHandle(handle, {
      apiKey: "tml-o",
      fetch: stub.fetch,
      clock,
      telemetry: false,
    });
    await run(other.sample(prompt));
    expect(stub.callsOf("asample")[0]?.body).toMatchObject({ recordStabilityInfo: true });
    await other.close();
  });

  it("has letters of URLs only, both ways, and records nothing unless it says so", async () => {
    const { stub, run, clock } = await setup();
    const id = "s?????>>>>>"; // its base64 has both + and /, wherever it stands
    const holder = { base_url: "http://stub.example", client_config: {} };
    const text = Buffer.from(JSON.stringify({ session_id: "s", sampling_session_id: id, holder })).toString(
      "base64url",
    );
    expect(text).toMatch(/-.*_|_.*-/);
    const options = { apiKey: "tml-x", fetch: stub.fetch, clock, telemetry: false };
    const client = await SamplingClient.fromSamplerHandle(text, options);
    expect(client.samplingSessionId).toBe(id);
    await run(client.sample(prompt));
    expect(sent(stub)).toMatchObject({ samplingSessionId: id });
    expect(sent(stub).recordStabilityInfo).toBeUndefined();
    const again = await run(client.getSamplerHandle());
    expect(again).toMatch(/^[\w=-]+$/);
    expect(JSON.parse(Buffer.from(again, "base64url").toString())).toMatchObject({ sampling_session_id: id });
    await client.close();
  });

  it("an invalid or truncated handle is refused", async () => {
    const text = (state: unknown) => Buffer.from(JSON.stringify(state)).toString("base64url");
    const holder = { base_url: "http://stub.example", client_config: {} };
    const whole = { session_id: "s", sampling_session_id: "s:0", holder };
    const client = await SamplingClient.fromSamplerHandle(text(whole), { apiKey: "tml-x", telemetry: false });
    expect(client.samplingSessionId).toBe("s:0");
    await client.close();
    for (const bad of [
      "",
      "!!!",
      "e30=",
      text([]),
      text(null),
      text({ ...whole, session_id: 5 }),
      text({ ...whole, sampling_session_id: undefined }),
      text({ ...whole, holder: { client_config: {} } }),
      text({ ...whole, holder: "http://stub.example" }),
    ]) {
      const error = await failure(SamplingClient.fromSamplerHandle(bad, { apiKey: "tml-x" }));
      expect(error, bad).toMatchObject({
        field: "handle",
        message: expect.stringContaining("is not a sampler handle"),
      });
    }
  });
});

describe("a handle for another thread", () => {
  it("is plain data, and samples on the same session under numbers of its own", async () => {
    const { sampler, stub, run, clock } = await setup();
    await run(sampler.sample(prompt));
    const handle = structuredClone(await run(sampler.handle()));
    expect(JSON.parse(JSON.stringify(handle))).toEqual(handle);
    const other = SamplingClient.fromHandle(handle, { fetch: stub.fetch, clock, telemetry: false });
    await run(other.sample(prompt));
    const [own, foreign] = stub.callsOf("asample").map(({ body }) => body as SampleRequest);
    expect(foreign?.samplingSessionId).toBe(own?.samplingSessionId);
    expect(foreign?.seqId).toBeGreaterThanOrEqual(1e9);
    expect(stub.callsOf("createSession")).toHaveLength(1);
    expect(stub.callsOf("clientConfig")).toHaveLength(1);
    await clock.advance(10_000);
    expect(stub.callsOf("sessionHeartbeat")).toHaveLength(2); // each keeps the session alive
    await other.close();
    await sampler.close(); // belongs to its service: nothing happens
    await clock.advance(10_000);
    expect(stub.callsOf("sessionHeartbeat")).toHaveLength(3);
  });

  it("M-808: gives up after progressTimeoutMs while it has no number yet", async () => {
    const { sampler, stub, run, clock } = await setup(
      { faults: ({ operation }) => (operation === "joinSamplingSession" ? stall : undefined) },
      { retryConfig: { progressTimeoutMs: 8_000 }, config: { sample_join_sampling_session: true } },
    );
    const handle = await run(sampler.handle());
    const other = SamplingClient.fromHandle(handle, { fetch: stub.fetch, clock, telemetry: false });
    const error = await run(failure(other.sample(prompt)));
    expect(error).toMatchObject({ name: "APIConnectionError", code: "stuck" });
    expect(clock.monotonic()).toBe(8_000);
    await other.close();
  });

  it("keeps its retryConfig", async () => {
    const { sampler, run } = await setup({}, { retryConfig: { maxConnections: 3 } });
    expect((await run(sampler.handle())).retryConfig).toEqual({ maxConnections: 3 });
  });

  it("draws its number from a billion, whose requests are numbered exactly", async () => {
    const { stub, sampler, run, clock } = await setup({ config: { sample_use_retrieve_futures: true } });
    const handle = await run(sampler.handle());
    const others = Array.from({ length: 40 }, () =>
      SamplingClient.fromHandle(handle, { fetch: stub.fetch, clock, telemetry: false }),
    );
    for (const other of others) await run(Promise.all([other.sample([1]), other.sample([1])]));
    const numbers = stub.callsOf("asample").map(({ body }) => BigInt((body as SampleRequest).seqId ?? 0));
    const clients = numbers.map((seqId) => Number(seqId / 1_000_000_000n));
    expect(numbers.map((seqId) => seqId % 1_000_000_000n)).toEqual(others.flatMap(() => [0n, 1n]));
    expect(new Set(clients).size).toBe(40);
    expect(Math.max(...clients)).toBeGreaterThan(9_100_000); // 40 draws from a billion are all below with probability 1e-81
    expect(Math.max(...clients)).toBeLessThanOrEqual(1e9);
    for (const other of others) await other.close();
  });

  it("keeps what its samples record, and the headers of every request", async () => {
    const defaultHeaders = { "X-Team": "red", Authorization: "Bearer secret-of-a-proxy" };
    const kit = harness({}, { defaultHeaders });
    const { stub, clock, run } = kit;
    const sampler = await run(kit.service.createSamplingClient({ baseModel: "m", recordStabilityInfo: true }));
    const trainer = await run(kit.service.createLoraTrainingClient({ baseModel: "m" }));
    const saved = await run(trainer.saveWeightsAndGetSamplingClient({ recordStabilityInfo: true }));
    const text = await run(sampler.getSamplerHandle());
    expect(Buffer.from(text, "base64url").toString()).not.toContain("secret-of-a-proxy"); // it carries no credential
    const options = { apiKey: "tml-x", fetch: stub.fetch, clock, telemetry: false };
    const others = [
      SamplingClient.fromHandle(structuredClone(await run(sampler.handle())), options),
      await SamplingClient.fromSamplerHandle(text, options),
    ];
    const again = SamplingClient.fromHandle(await run(others[0]!.handle()), options);
    for (const each of [sampler, saved, ...others, again]) await run(each.sample([1]));
    const sent = stub.callsOf("asample");
    expect(sent).toHaveLength(5);
    for (const { body, headers } of sent) {
      expect((body as SampleRequest).recordStabilityInfo).toBe(true);
      expect(headers["x-team"]).toBe("red");
    }
    for (const each of [...others, again]) await each.close();
  });

  it("an invalid handle is refused", () => {
    expect(() => SamplingClient.fromHandle({} as never)).toThrow(InvalidInputError);
    expect(() => SamplingClient.fromHandle(undefined as never)).toThrow(InvalidInputError);
  });
});
