import type { FuturesRetrieveRequest } from "@tinklet/wire";
import { describe, expect, it } from "vitest";
import { type Fault, faultsInOrder } from "../../testing/faults.ts";
import { failure, harness } from "../../testing/harness.ts";
import type { StubOptions } from "../../testing/stub-server.ts";
import { SamplingClient } from "../sampling/sampling-client.ts";
import "../../../../wire/src/routes/rest-routes.ts"; // loaded before the fake clock runs
import "../sampling/abandoned-samples.ts";
import "./futures-poller.ts";

const flags = { sample_use_retrieve_futures: true, sample_join_sampling_session: true };

async function setup(stub: StubOptions = {}) {
  const kit = harness({ config: flags, ...stub });
  const sampler = await kit.run(kit.service.createSamplingClient({ baseModel: "stub/model" }));
  const polls = () => kit.stub.callsOf("retrieveFutures").map(({ body }) => body as FuturesRetrieveRequest);
  return { ...kit, sampler, polls };
}
const prompt = [1, 2, 3];
const samplingParams = { maxTokens: 2 };
const status = (code: number): Fault => ({ kind: "status", status: code, body: { detail: `scripted ${code}` } });

describe("one poll for all samples", () => {
  it("asks for each result once, when it is over, and tells which were fetched", async () => {
    const { sampler, stub, run, polls, clock, logger } = await setup({ sampleMs: 1_000 });
    const all = Array.from({ length: 300 }, () => sampler.sample(prompt, { samplingParams }));
    for (const { sequences } of await run(Promise.all(all))) expect(sequences[0]?.tokens).toEqual([4, 5]);
    expect(stub.callsOf("retrieveFuture")).toHaveLength(300);
    expect(
      stub.callsOf("retrieveFuture").every(({ body }) => !(body as { allowMetadataOnly: boolean }).allowMetadataOnly),
    ).toBe(true);
    expect(polls().length).toBeLessThanOrEqual(30);
    expect(polls()[0]).toMatchObject({
      target: { type: "sampling_session", samplingSessionId: sampler.samplingSessionId, clonedSamplerId: 0 },
      prevCursor: 0,
      retrievedRequestIds: [],
    });
    await clock.advance(2_000);
    const told = polls().flatMap(({ retrievedRequestIds }) => retrievedRequestIds);
    expect(told.toSorted()).toEqual(Array.from({ length: 300 }, (_, i) => `request-${i}`).toSorted());
    expect(polls().at(-1)?.timeout).toBe(0); // no sample waits: the poll only acknowledges
    const before = polls().length;
    await clock.advance(100_000);
    expect(polls()).toHaveLength(before); // and then it rests
    expect(logger.with("one by one")).toEqual([]);
  });

  it("lifts the limit on samples at once", async () => {
    const { sampler, stub, run } = await setup({
      sampleMs: 1_000,
      config: { ...flags, sample_max_concurrent_requests: 2 },
    });
    const all = Array.from({ length: 50 }, () => sampler.sample(prompt, { samplingParams }));
    await run(Promise.all(all.map(({ submitted }) => submitted)));
    expect(stub.callsOf("retrieveFuture")).toHaveLength(0); // all fifty are under way, none is fetched yet
    await run(Promise.all(all));
  });

  it("a sample that fails says why", async () => {
    const { sampler, stub, run } = await setup({ sampleMs: 1_000 });
    const future = sampler.sample(prompt, { samplingParams });
    await run(future.submitted);
    stub.fail(future.requestId!, "no such token", "user");
    expect(await run(failure(future))).toMatchObject({ code: "request_failed", category: "user" });
  });

  it("passing failures of the poll are waited out, and a bare refusal is tried thrice", async () => {
    const script = [503, 429, 400, 400, 400].map(status);
    const { sampler, run, polls } = await setup({ faults: faultsInOrder("retrieveFutures", script), sampleMs: 1_000 });
    await run(sampler.sample(prompt, { samplingParams }));
    expect(polls().length).toBeGreaterThanOrEqual(6);
  });

  it("where the server cannot do it after all, samples are asked for one by one, and that is said once", async () => {
    const { sampler, stub, run, polls, logger } = await setup({
      faults: faultsInOrder("retrieveFutures", [status(404)]),
      sampleMs: 1_000,
    });
    const all = Array.from({ length: 5 }, () => sampler.sample(prompt, { samplingParams }));
    await run(Promise.all(all));
    await run(sampler.sample(prompt, { samplingParams }));
    expect([polls().length, stub.callsOf("retrieveFuture").length]).toEqual([1, 6]);
    expect(logger.with("one by one")).toHaveLength(1);
  });

  it("an aborted sample leaves the poll, which ends when no sample waits", async () => {
    const { sampler, stub, run, clock, polls } = await setup({
      sampleMs: 5_000,
      dynamicConfig: { sample_cancel_enabled: true, sample_cancel_max_batch_size: 2 },
    });
    const controller = new AbortController();
    const all = Array.from({ length: 5 }, () => sampler.sample(prompt, { samplingParams, signal: controller.signal }));
    await run(Promise.all(all.map(({ submitted }) => submitted)));
    await clock.advance(100);
    const kept = sampler.sample(prompt, { samplingParams });
    await run(kept.submitted);
    const reason = new Error("enough");
    controller.abort(reason);
    expect(await Promise.all(all.map((future) => failure(future)))).toEqual(all.map(() => reason));
    await clock.advance(0);
    await run(kept);
    expect(stub.callsOf("cancelFuture").map(({ body }) => (body as { requestId: string }).requestId)).toEqual(
      [0, 1, 2, 3, 4].map((n) => `request-${n}`),
    );
    expect(stub.callsOf("retrieveFuture")).toHaveLength(1);
    const late = sampler.sample(prompt, { samplingParams, timeoutMs: 1_000 });
    expect(await run(failure(late))).toMatchObject({ code: "timeout" });
    const before = polls().length;
    await clock.advance(200_000);
    expect(polls().length).toBeLessThanOrEqual(before + 1);
  });

  it("a server that does not want to know is not told", async () => {
    const { sampler, stub, run, clock } = await setup({ sampleMs: 5_000 });
    const future = sampler.sample(prompt, { samplingParams });
    await run(future.submitted);
    future.cancel();
    await failure(future);
    await clock.advance(1_000);
    expect(stub.callsOf("cancelFuture")).toEqual([]);
  });
});

describe("a client of another process", () => {
  it("joins the session once, before its first sample, and polls for its own", async () => {
    const { sampler, stub, run, clock } = await setup({ sampleMs: 100 });
    const handle = structuredClone(await run(sampler.handle()));
    const other = SamplingClient.fromHandle(handle, { fetch: stub.fetch, clock, telemetry: false });
    await run(Promise.all([other.sample(prompt, { samplingParams }), other.sample(prompt, { samplingParams })]));
    expect(stub.callsOf("joinSamplingSession").map(({ body }) => body)).toEqual([
      { samplingSessionId: sampler.samplingSessionId, type: "join_sampling_session" },
    ]);
    expect(stub.callsOf("asample").map(({ body }) => (body as { seqId: number }).seqId)).toEqual([1e9, 1e9 + 1]);
    expect(stub.callsOf("retrieveFutures")[0]?.body).toMatchObject({ target: { clonedSamplerId: 1 } });
    await other.close();
  });
});
