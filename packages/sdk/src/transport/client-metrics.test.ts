/** `service.metrics()`: counters, queues and percentiles of a client over the stub server. */
import { describe, expect, it } from "vitest";
import { faultsInOrder } from "../testing/faults.ts";
import { batch, failure, harness } from "../testing/harness.ts";
import { RequestMetrics } from "./client-metrics.ts";

describe("RequestMetrics", () => {
  it("percentiles are within 5 % of the exact ones, for times from 0.1 ms to a day", () => {
    const metrics = new RequestMetrics();
    const times = Array.from({ length: 1_000 }, (_, i) => 0.1 * 1.0206 ** i);
    for (const ms of times.toReversed()) metrics.sent("optimStep", { retry: false, bytes: 0 }).response(ms);
    const { p50Ms, p95Ms, p99Ms } = metrics.snapshot().routes["optimStep"]!;
    for (const [found, rank] of [
      [p50Ms, 500],
      [p95Ms, 950],
      [p99Ms, 990],
    ] as const) {
      expect(found! / times[rank - 1]!).toBeGreaterThan(0.95);
      expect(found! / times[rank - 1]!).toBeLessThan(1.05);
    }
  });

  it("a route without responses has no percentiles", () => {
    const metrics = new RequestMetrics();
    expect(metrics.snapshot()).toMatchObject({ requests: 0, routes: {} });
    metrics.sent("optimStep", { retry: false, bytes: 3 });
    expect(metrics.snapshot().routes).toEqual({
      optimStep: { requests: 1, retries: 0, failures: 0, bytesSent: 3, bytesReceived: 0 },
    });
  });
});

describe("ServiceClient.metrics", () => {
  it("counts requests, retries, failures and bytes per route", async () => {
    const reset = { kind: "delivery", delivery: "reset" } as const;
    const { service, run } = harness({
      faults: faultsInOrder("optimStep", [{ kind: "status", status: 503, body: {} }, reset]),
    });
    expect(service.metrics()).toMatchObject({ requests: 0, queues: { calls: 0 } });
    const trainer = await run(service.createLoraTrainingClient({ baseModel: "m" }));
    await run(trainer.forwardBackward(batch(2), "cross_entropy"));
    await run(trainer.optimStep({ learningRate: 1e-4 }));
    const { routes, ...total } = service.metrics();
    expect(routes["optimStep"]).toMatchObject({ requests: 3, retries: 2, failures: 2 });
    expect(routes["forwardBackward"]).toMatchObject({ requests: 1, retries: 0, failures: 0 });
    expect(routes["forwardBackward"]!.bytesSent).toBeGreaterThan(20);
    expect(routes["retrieveFuture"]!.bytesReceived).toBeGreaterThan(20);
    const requests = Object.values(routes).map((route) => route.requests);
    expect(total.requests).toBe(requests.reduce((a, b) => a + b));
    expect(total).toMatchObject({ retries: 2, failures: 2, queues: { calls: 0, samples: 0 } });
  });

  it("shows calls and samples that wait", async () => {
    const { service, run } = harness({ sampleMs: 1_000 });
    const sampler = await run(service.createSamplingClient({ baseModel: "m", retryConfig: { maxConnections: 1 } }));
    const samples = [1, 2, 3].map(() => sampler.sample([1, 2]));
    await run(samples[0]!);
    expect(service.metrics().queues).toMatchObject({ calls: 2 });
    await run(Promise.all(samples));
    expect(service.metrics().queues).toEqual({ calls: 0, samples: 0, samplesWaiting: 0, passesWaiting: 0 });
  });

  it("a poll of an unfinished result is no failure; a refused request is one", async () => {
    const { service, run, stub } = harness({ pendingPolls: 2 });
    const trainer = await run(service.createLoraTrainingClient({ baseModel: "m" }));
    await run(trainer.optimStep());
    expect(service.metrics().failures).toBe(0);
    stub.forget("request-0");
    await run(failure(service.future("request-0", "OptimStep")));
    expect(service.metrics()).toMatchObject({ failures: 1, routes: { retrieveFuture: { failures: 1 } } });
  });
});
