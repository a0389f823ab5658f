/** One sample from the call to its result: what it waits for, what it says meanwhile, and what it leaves behind. */

import type { FuturesRetrieveRequest } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { describe, expect, it } from "vitest";
import { type Fault, faultsInOrder } from "../../testing/faults.ts";
import { failure, harness } from "../../testing/harness.ts";
import type { StubOptions } from "../../testing/stub-server.ts";
import type { RetryConfig } from "./retry-config.ts";
import "../../../../wire/src/routes/rest-routes.ts"; // loaded before the fake clock runs
import "./abandoned-samples.ts";
import "../session/futures-poller.ts";

async function setup(stub: StubOptions = {}, retryConfig?: RetryConfig) {
  const kit = harness(stub);
  const open = (own = retryConfig) =>
    kit.run(kit.service.createSamplingClient({ baseModel: "stub/model", ...omitUndefined({ retryConfig: own }) }));
  return { ...kit, open, sampler: await open() };
}
const prompt = [1, 2, 3];
const status = (code: number): Fault => ({ kind: "status", status: code, body: { detail: `scripted ${code}` } });
const reset: Fault = { kind: "delivery", delivery: "reset" };
const stall: Fault = { kind: "delivery", delivery: "stall" };
const calm = { jitterFactor: 0 };

describe("what a sample says while it waits", () => {
  it("that it is being submitted, and what went wrong last, until the server has it", async () => {
    const { sampler, clock, run } = await setup(
      {
        sampleMs: 1_000,
        faults: faultsInOrder("asample", [status(429), reset]),
      },
      calm,
    );
    const future = sampler.sample(prompt);
    await clock.advance(0);
    expect(future.explain()).toMatchObject({ phase: "submitting", lastError: expect.stringContaining("scripted 429") });
    await clock.advance(1_000);
    expect(future.explain()).toMatchObject({ phase: "submitting", lastError: expect.stringContaining("was reset") });
    await clock.advance(500);
    expect(future.explain()).toMatchObject({ phase: "running", requestIds: ["request-0"] });
    expect(future.explain().lastError).toBeUndefined();
    await run(future);
  });

  it("that it is submitted again after it was lost", async () => {
    const { sampler, stub, clock, run } = await setup(
      {
        faults: ({ operation, index }) => (operation === "retrieveFuture" && index < 7 ? status(410) : undefined),
      },
      calm,
    );
    const future = sampler.sample(prompt);
    await clock.advance(0);
    expect(future.explain().phase).toBe("running");
    await run(future);
    expect(stub.callsOf("asample").length).toBeGreaterThan(1);
  });

  it("each retry, with its number, delay and reason", async () => {
    const { sampler, run, events } = await setup({ faults: faultsInOrder("asample", [status(500), reset]) }, calm);
    await run(sampler.sample(prompt));
    expect(events.filter(({ type }) => type === "request.retry")).toMatchObject([
      { operation: "asample", attempt: 1, delayMs: 500, reason: expect.stringContaining("scripted 500") },
      { operation: "asample", attempt: 2, delayMs: 1_000 },
    ]);
  });

  it("for how long nothing has succeeded, why, and which option is meant, when it gives up", async () => {
    const { sampler, run } = await setup(
      { faults: ({ operation }) => (operation === "asample" ? status(503) : undefined) },
      { ...calm, progressTimeoutMs: 90_000 },
    );
    const error = await run(failure(sampler.sample(prompt)));
    expect(error).toMatchObject({ code: "stuck", name: "APIConnectionError", cause: { status: 503 } });
    expect(error.message).toMatch(/^No sample has succeeded for 90 s: .*scripted 503/);
    expect(error["hint"]).toContain("retryConfig.progressTimeoutMs (90000)");
  });

  it("no reason that it does not have", async () => {
    const { sampler, run } = await setup(
      { faults: ({ operation }) => (operation === "asample" ? stall : undefined) },
      { progressTimeoutMs: 30_000 },
    );
    const error = await run(failure(sampler.sample(prompt)));
    expect([error.message, error.cause]).toEqual(["No sample has succeeded for 30 s", undefined]);
  });
});

describe("the watch over samples", () => {
  it("counts from the last success of any of them", async () => {
    const { sampler, clock, run } = await setup(
      {
        faults: ({ operation, body }) => {
          const long = operation === "asample" && (body as { numSamples: number }).numSamples === 2;
          return long ? stall : undefined;
        },
        sampleMs: 50_000,
        holdMs: 60_000,
      },
      { progressTimeoutMs: 60_000 },
    );
    const began = clock.monotonic();
    const hanging = failure(sampler.sample(prompt, { numSamples: 2 }));
    await run(sampler.sample(prompt));
    expect(clock.monotonic() - began).toBe(50_000);
    const error = await run(hanging);
    expect(clock.monotonic() - began).toBe(110_000);
    expect(error.message).toContain("No sample has succeeded for 60 s");
  });

  it("restarts after a time without samples", async () => {
    const { sampler, clock, run } = await setup({ sampleMs: 50_000, holdMs: 60_000 }, { progressTimeoutMs: 60_000 });
    await run(sampler.sample(prompt));
    await clock.advance(70_000);
    await run(Promise.all([sampler.sample(prompt), sampler.sample(prompt)]));
  });

  it("leaves no timer behind", async () => {
    const { sampler, clock, run } = await setup({}, { progressTimeoutMs: 60_000 });
    const before = clock.pending;
    await run(Promise.all([sampler.sample(prompt), sampler.sample(prompt)]));
    expect(clock.pending).toBe(before);
  });

  it("ends all of them at once", async () => {
    const { sampler, clock, run } = await setup(
      { faults: ({ operation }) => (operation === "asample" ? stall : undefined) },
      { progressTimeoutMs: 60_000 },
    );
    const first = failure(sampler.sample(prompt));
    await clock.advance(30_000);
    const second = failure(sampler.sample(prompt));
    for (const error of await run(Promise.all([first, second]))) expect(error["code"]).toBe("stuck");
    expect(clock.monotonic()).toBe(60_000);
  });
});

describe("a sample that is given up", () => {
  it("while it waits for the service's turn gives back its place among its client's own", async () => {
    const { open, run, clock, stub } = await setup({
      config: { sample_max_concurrent_requests: 1 },
      sampleMs: 1_000,
    });
    const [other, limited] = [await open(), await open({ maxConnections: 1 })];
    const busy = other.sample(prompt);
    await clock.advance(0);
    const controller = new AbortController();
    const waiting = limited.sample(prompt, { signal: controller.signal });
    const next = limited.sample(prompt);
    await clock.advance(0);
    controller.abort("enough");
    await expect(run(waiting)).rejects.toBe("enough");
    await run(Promise.all([busy, next]));
    expect(stub.callsOf("asample")).toHaveLength(2); // the one that was given up took no number
    expect(stub.callsOf("asample").map(({ body }) => (body as { seqId: number }).seqId)).toEqual([0, 0]);
  });

  it("between two attempts ends with its reason, and sends nothing more", async () => {
    const { sampler, run, clock, stub } = await setup(
      { faults: ({ operation }) => (operation === "asample" ? reset : undefined) },
      calm,
    );
    const controller = new AbortController();
    const future = sampler.sample(prompt, { signal: controller.signal });
    await clock.advance(100);
    const reason = new Error("enough");
    controller.abort(reason);
    expect(await run(failure(future))).toBe(reason);
    const sent = stub.callsOf("asample").length;
    await clock.advance(60_000);
    expect(stub.callsOf("asample")).toHaveLength(sent);
  });

  it("before the server has it is not told to the server, afterwards it is, once", async () => {
    const { sampler, run, clock, stub } = await setup({
      sampleMs: 5_000,
      dynamicConfig: { sample_cancel_enabled: true },
      faults: faultsInOrder("asample", [stall]),
    });
    const early = sampler.sample(prompt);
    await clock.advance(100);
    early.cancel();
    await failure(early);
    await clock.advance(1_000);
    expect(stub.callsOf("cancelFuture")).toEqual([]);
    const late = sampler.sample(prompt);
    await run(late.submitted);
    late.cancel();
    await failure(late);
    await clock.advance(10_000);
    expect(stub.callsOf("cancelFuture").map(({ body }) => body)).toMatchObject([{ requestId: late.requestId }]);
  });
});

describe("submission", () => {
  it("takes an answer that is neither a result nor a failure for a refusal", async () => {
    const { sampler, run } = await setup({ faults: faultsInOrder("asample", [status(300)]) });
    expect(await run(failure(sampler.sample(prompt)))).toMatchObject({ status: 300 });
  });

  it("waits out a bill for five seconds, and holds back the others for one", async () => {
    const { sampler, clock, run, stub } = await setup({ faults: faultsInOrder("asample", [status(402)]) });
    const unpaid = sampler.sample(prompt);
    await clock.advance(0);
    const other = sampler.sample(prompt);
    await clock.advance(999);
    expect(stub.callsOf("asample")).toHaveLength(1);
    await run(other);
    expect(clock.monotonic()).toBe(1_000);
    await clock.advance(3_999);
    expect(stub.callsOf("asample")).toHaveLength(2);
    await run(unpaid);
    expect(clock.monotonic()).toBe(5_000);
  });
});

describe("the poll for all samples", () => {
  const flags = { sample_use_retrieve_futures: true };
  const told = (stub: { callsOf(operation: "retrieveFutures"): readonly { body: unknown }[] }) =>
    stub.callsOf("retrieveFutures").flatMap(({ body }) => (body as FuturesRetrieveRequest).retrievedRequestIds);

  it("is not used where the server does not ask for it", async () => {
    const { sampler, run, stub } = await setup({ sampleMs: 100 });
    await run(sampler.sample(prompt));
    expect(stub.callsOf("retrieveFutures")).toEqual([]);
  });

  it("acknowledges failures like results, but not lost samples", async () => {
    const { sampler, run, stub, clock } = await setup({
      config: flags,
      sampleMs: 1_000,
      faults: faultsInOrder("retrieveFuture", [undefined, status(410)]),
    });
    const failing = sampler.sample(prompt);
    await run(failing.submitted);
    stub.fail("request-0", "no such token", "user");
    expect(await run(failure(failing))).toMatchObject({ code: "request_failed" });
    await clock.advance(5_000);
    expect(told(stub)).toEqual(["request-0"]);
    await run(sampler.sample(prompt)); // lost once, then sampled under a new number
    await clock.advance(5_000);
    expect(told(stub)).toEqual(["request-0", "request-2"]);
  });

  it.each([
    ["409", status(409)],
    ["another 4xx that the server wants retried", { ...status(403), headers: { "x-should-retry": "true" } } as Fault],
  ])("a result that is answered %s is asked for again; the sample is not sent twice", async (_, refused) => {
    const { sampler, run, stub, clock } = await setup(
      { config: flags, sampleMs: 1_000, faults: faultsInOrder("retrieveFuture", [refused]) },
      calm,
    );
    const { sequences } = await run(sampler.sample(prompt, { samplingParams: { maxTokens: 2 } }));
    expect(sequences[0]?.tokens).toEqual([4, 5]);
    expect([stub.callsOf("asample").length, stub.callsOf("retrieveFuture").length]).toEqual([1, 2]);
    expect(clock.monotonic()).toBe(1_500); // the sample, and the first retry's delay
  });

  it("a sample whose acknowledgement is lost finds its completion, reported meanwhile", async () => {
    const { sampler, run, stub } = await setup(
      {
        config: flags,
        sampleMs: 100,
        faults: faultsInOrder("asample", [undefined, { kind: "delivery", delivery: "reset", executed: true }]),
      },
      calm,
    );
    await run(Promise.all([sampler.sample(prompt), sampler.sample(prompt)]));
    expect(stub.repeats).toBe(1);
  });
});
