import type { Attributes } from "@opentelemetry/api";
import { ModelInput } from "@tinklet/wire";
import { describe, expect, it } from "vitest";
import type { TinkletEvent } from "../../events.ts";
import { failure, harness } from "../../testing/harness.ts";
import { noInstruments } from "./instruments.ts";
import { loadInstruments, type OpenTelemetryApi, openTelemetryInstruments } from "./open-telemetry.ts";

/** An OpenTelemetry API that remembers. */
function recorder() {
  const spans: { name: string; attributes: Attributes; status?: unknown; ended: boolean }[] = [];
  const records: { name: string; value: number; attributes: Attributes }[] = [];
  const api = {
    trace: {
      getTracer: () => ({
        startSpan: (name: string, { attributes }: { attributes: Attributes }) => {
          const span = { name, attributes: { ...attributes }, ended: false } as (typeof spans)[0];
          spans.push(span);
          return {
            setAttributes: (more: Attributes) => Object.assign(span.attributes, more),
            setStatus: (status: unknown) => {
              span.status = status;
            },
            end: () => {
              span.ended = true;
            },
          };
        },
      }),
    },
    metrics: {
      getMeter: () => ({
        createHistogram: (name: string) => ({
          record: (value: number, attributes: Attributes) => records.push({ name, value, attributes }),
        }),
      }),
    },
    context: { active: () => "the active context" },
    propagation: {
      inject: (context: unknown, carrier: Record<string, string>) =>
        Object.assign(carrier, { traceparent: `00-${context}-01`, tracestate: "a=b", baggage: "user=42" }),
    },
  } as unknown as OpenTelemetryApi;
  return { api, spans, records };
}

describe("M-902: OpenTelemetry", () => {
  it("a call is a span and a duration", () => {
    const { api, spans, records } = recorder();
    let now = 1000;
    const instruments = openTelemetryInstruments(api, () => now);
    const measured = instruments.start("optim_step", { "tinker.model_id": "m" });
    now = 3500;
    measured.set({ "tinker.request_id": "r" });
    measured.end();
    expect(spans).toEqual([
      {
        name: "tinker.optim_step",
        attributes: {
          "gen_ai.system": "tinker",
          "gen_ai.operation.name": "optim_step",
          "tinker.model_id": "m",
          "tinker.request_id": "r",
        },
        ended: true,
      },
    ]);
    expect(records).toEqual([
      { name: "tinker.client.operation.duration", value: 2.5, attributes: { "gen_ai.operation.name": "optim_step" } },
    ]);
  });

  it("a failure is marked on both", () => {
    const { api, spans, records } = recorder();
    openTelemetryInstruments(api, () => 0)
      .start("sample", {})
      .end(new RangeError("bad"));
    expect(spans[0]).toMatchObject({
      status: { code: 2, message: "bad" },
      attributes: { "error.type": "RangeError" },
      ended: true,
    });
    expect(records[0]?.attributes).toMatchObject({ "error.type": "RangeError" });
  });

  it("tokens are counted by kind", () => {
    const { api, records } = recorder();
    openTelemetryInstruments(api, () => 0).tokens("input", 7, { a: "b" });
    expect(records).toEqual([
      { name: "gen_ai.client.token.usage", value: 7, attributes: { "gen_ai.token.type": "input", a: "b" } },
    ]);
  });

  it("clients report through what the application registered, with request ids and tokens", async () => {
    const otel = await import("@opentelemetry/api");
    const { api, spans, records } = recorder();
    otel.trace.setGlobalTracerProvider(api.trace as never);
    otel.metrics.setGlobalMeterProvider(api.metrics as never);
    const { service, run } = harness();
    const sampler = await run(service.createSamplingClient({ baseModel: "m" }));
    await run(sampler.sample(ModelInput.fromInts([1, 2, 3]), { samplingParams: { maxTokens: 5 }, numSamples: 2 }));
    await run(failure(sampler.sample("x" as never)));
    await run(service.close());
    otel.trace.disable();
    otel.metrics.disable();
    expect(spans.map(({ name, ended }) => [name, ended])).toEqual([
      ["tinker.sample", true],
      ["tinker.sample", true],
    ]);
    expect(spans[0]?.attributes).toMatchObject({
      "tinker.sampling_session_id": "session-1:sample:0",
      "tinker.request_id": "request-0",
    });
    expect(spans[1]?.status).toBeDefined();
    const tokens = records.filter(({ name }) => name === "gen_ai.client.token.usage");
    expect(tokens.map(({ value, attributes }) => [attributes["gen_ai.token.type"], value])).toEqual([
      ["input", 3],
      ["output", 10],
    ]);
    expect(JSON.stringify([spans, records])).not.toContain("tml-");
  });

  it("requests carry traceparent and tracestate of the active context, without baggage; heartbeats carry none", async () => {
    const otel = await import("@opentelemetry/api");
    const { api } = recorder();
    otel.propagation.setGlobalPropagator({
      inject: (_: unknown, carrier: Record<string, string>) => api.propagation.inject("4bf9", carrier),
    } as never);
    const headers: Record<string, Readonly<Record<string, string>>> = {};
    const { service, run, clock } = harness({
      onRequest: ({ path, headers: sent }) => {
        headers[path.split("?")[0]!.split("/").at(-1)!] = sent as never;
      },
    });
    const trainer = await run(service.createLoraTrainingClient({ baseModel: "m" }));
    await run(trainer.optimStep());
    await clock.advance(11_000);
    otel.propagation.disable();
    expect(headers["optim_step"]).toMatchObject({ traceparent: "00-4bf9-01", tracestate: "a=b" });
    expect(headers["retrieve_future"]).toMatchObject({ traceparent: "00-4bf9-01" });
    expect(headers["optim_step"]).not.toHaveProperty("baggage");
    expect(headers["session_heartbeat"]).toBeDefined();
    expect(headers["session_heartbeat"]).not.toHaveProperty("traceparent");
    await run(service.close());
  });

  it("a call's metadata is on its events and its span, and not on the wire", async () => {
    const otel = await import("@opentelemetry/api");
    const { api, spans } = recorder();
    otel.trace.setGlobalTracerProvider(api.trace as never);
    const events: TinkletEvent[] = [];
    const { service, run, stub } = harness({ pendingPolls: 1 }, { onEvent: (event) => events.push(event) });
    const metadata = { experiment: "a", step: 7 };
    const trainer = await run(service.createLoraTrainingClient({ baseModel: "m", metadata }));
    await run(trainer.optimStep({}, { metadata }));
    const sampler = await run(service.createSamplingClient({ baseModel: "m" }));
    await run(failure(sampler.sample("x" as never, { metadata })));
    await run(service.close());
    otel.trace.disable();
    const future = events.filter(({ type }) => type.startsWith("future."));
    expect(new Set(future.map(({ type }) => type))).toEqual(new Set(["future.queued", "future.done", "future.failed"]));
    expect(future.every((event) => "metadata" in event && event.metadata === metadata)).toBe(true);
    for (const { attributes } of spans) {
      expect(attributes).toMatchObject({ "tinker.metadata.experiment": "a", "tinker.metadata.step": 7 });
    }
    expect(
      JSON.stringify(
        stub.calls.map(({ body }) => body),
        (_, value) => (typeof value === "bigint" ? 0 : value),
      ),
    ).not.toContain("experiment");
  });

  it("without the package everything does nothing", async () => {
    const measured = noInstruments.start("x", {});
    measured.set({});
    measured.end(new Error("x"));
    noInstruments.tokens("input", 1, {});
    expect(noInstruments.traceHeaders()).toEqual({});
    const absent = await loadInstruments(
      () => 0,
      () => Promise.reject(new Error("not installed")),
    );
    expect(absent).toBe(noInstruments);
  });
});
