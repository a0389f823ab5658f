import type { TelemetrySendRequest } from "@tinklet/wire";
import { RequestFailedError, statusError } from "@tinklet/wire/errors";
import { afterEach, describe, expect, it, vi } from "vitest";
import { failure, harness } from "../../testing/harness.ts";
import { telemetryEnabled } from "./telemetry.ts";

afterEach(() => vi.unstubAllEnvs());

function setup(down = false) {
  let broken = down;
  const kit = harness(
    {
      faults: ({ operation }) =>
        broken && operation === "telemetry" ? { kind: "status", status: 500, body: {} } : undefined,
    },
    { telemetry: true },
  );
  const batches = () => kit.stub.callsOf("telemetry").map(({ body }) => body as TelemetrySendRequest);
  const events = () => batches().flatMap((batch) => batch.events);
  return {
    ...kit,
    batches,
    sent: events,
    repair: () => {
      broken = false;
    },
  };
}

it("M-901: a session's start goes out within ten seconds, its end with the duration on close()", async () => {
  const { service, run, clock, batches, sent } = setup();
  await run(service.createSamplingClient({ baseModel: "m" }));
  await clock.advance(9_999);
  expect(batches()).toHaveLength(0);
  await clock.advance(1);
  expect(batches()).toHaveLength(1);
  expect(batches()[0]).toMatchObject({ sessionId: "session-1", sdkVersion: "0.36.0", platform: expect.any(String) });
  await clock.advance(5_000);
  await run(service.close());
  expect(sent().map(({ event, eventSessionIndex, severity }) => [event, eventSessionIndex, severity])).toEqual([
    ["SESSION_START", 0, "INFO"],
    ["SESSION_END", 1, "INFO"],
  ]);
  expect(sent()[1]).toMatchObject({ duration: "0:00:15" });
  expect(new Set(batches().map(({ processUuid }) => processUuid)).size).toBe(1);
});

it("M-901: failures are reported: the caller's as warnings, others as exceptions", async () => {
  const { service, run, sent } = setup();
  await run(service.createSamplingClient({ baseModel: "m" }));
  const telemetry = service.getTelemetry()!;
  telemetry.exception(statusError("bad request", { status: 422 }));
  telemetry.exception(new RequestFailedError("mine", { requestId: "r", category: "user" }));
  telemetry.exception(new RangeError("a bug"));
  telemetry.log("my_event", { n: 1 }, "DEBUG");
  await run(service.close());
  expect(sent().slice(1, 5)).toMatchObject([
    {
      event: "GENERIC_EVENT",
      eventName: "user_error",
      severity: "WARNING",
      eventData: { error_type: "UnprocessableEntityError", message: "bad request", status_code: 422 },
    },
    {
      event: "GENERIC_EVENT",
      eventName: "user_error",
      eventData: { error_type: "RequestFailedError", message: "mine" },
    },
    {
      event: "UNHANDLED_EXCEPTION",
      errorType: "RangeError",
      errorMessage: "a bug",
      severity: "ERROR",
      traceback: expect.stringContaining("telemetry.test.ts"),
    },
    { event: "GENERIC_EVENT", eventName: "my_event", eventData: { n: 1 }, severity: "DEBUG" },
  ]);
});

it("M-901: failures of client calls are reported, aborts are not", async () => {
  const { service, stub, run, sent } = setup();
  const sampler = await run(service.createSamplingClient({ baseModel: "m" }));
  await failure(sampler.sample("x" as never));
  sampler.computeLogprobs("x" as never).cancel();
  await run(failure(service.future("nope", "OptimStep")));
  await run(failure(service.api.getTrainingRun({ trainingRunId: "" })));
  await run(service.close());
  expect(stub.callsOf("retrieveFuture")).toHaveLength(1);
  expect(sent().map(({ event }) => event)).toEqual([
    "SESSION_START",
    "UNHANDLED_EXCEPTION",
    "GENERIC_EVENT",
    "UNHANDLED_EXCEPTION",
    "SESSION_END",
  ]);
});

it("M-805: holds no secrets", async () => {
  const { service, run, stub } = setup();
  await run(service.createSamplingClient({ baseModel: "m" }));
  const telemetry = service.getTelemetry()!;
  telemetry.exception(new Error("with tml-test-key inside"));
  telemetry.log("x", { headers: { "x-api-key": "tml-test-key" }, list: ["tml-test-key"] });
  await run(service.close());
  expect(JSON.stringify(stub.callsOf("telemetry").map(({ body }) => body))).not.toContain("tml-test-key");
});

it("M-901: goes out in batches of a hundred", async () => {
  const { service, run, batches } = setup();
  await run(service.createSamplingClient({ baseModel: "m" }));
  for (let i = 0; i < 150; i++) service.getTelemetry()?.log("e", { i });
  await run(service.close());
  expect(batches().map(({ events }) => events.length)).toEqual([100, 52]);
});

it("M-901: never blocks or breaks work: a broken endpoint is tried again each period, and what waits is bounded", async () => {
  const { service, run, clock, batches, logger, repair, stub } = setup(true);
  await run(service.createSamplingClient({ baseModel: "m" }));
  await clock.advance(10_000);
  await clock.advance(10_000);
  expect(stub.callsOf("telemetry")).toHaveLength(2);
  for (let i = 0; i < 10_050; i++) service.getTelemetry()?.log("e", { i });
  expect(logger.with("further events are dropped")).toHaveLength(1);
  repair();
  await run(service.close());
  expect(
    batches()
      .slice(2)
      .reduce((sum, { events }) => sum + events.length, 0),
  ).toBe(10_000);
  service.getTelemetry()?.log("late", {});
  expect(clock.pending).toBe(0);
});

it("is sessionless without a session, and then knows neither start nor end", async () => {
  const { service, run, batches } = setup();
  await run(service.connect());
  service.getTelemetry()?.log("e", {});
  await run(service.close());
  expect(batches()).toHaveLength(1);
  expect(batches()[0]?.sessionId).toMatch(/^sessionless-[0-9a-f-]{36}$/);
  expect(batches()[0]?.events).toHaveLength(1);
});

describe("the switch", () => {
  it("M-808: TINKER_TELEMETRY, on unless it says otherwise; the option wins", () => {
    vi.stubEnv("TINKER_TELEMETRY", undefined);
    expect(telemetryEnabled(undefined)).toBe(true);
    for (const on of ["1", "true", "YES", "On"]) {
      vi.stubEnv("TINKER_TELEMETRY", on);
      expect(telemetryEnabled(undefined), on).toBe(true);
      expect(telemetryEnabled(false)).toBe(false);
    }
    for (const off of ["", "0", "false", "no", "off", "maybe"]) {
      vi.stubEnv("TINKER_TELEMETRY", off);
      expect(telemetryEnabled(undefined), off).toBe(false);
      expect(telemetryEnabled(true)).toBe(true);
    }
  });

  it("M-901: off means that nothing is sent", async () => {
    const { service, stub, run, clock } = harness({}, { telemetry: false });
    await run(service.createSamplingClient({ baseModel: "m" }));
    expect([service.getTelemetry(), service.createRestClient().getTelemetry()]).toEqual([undefined, undefined]);
    await clock.advance(20_000);
    await run(service.close());
    expect(stub.callsOf("telemetry")).toHaveLength(0);
  });
});
