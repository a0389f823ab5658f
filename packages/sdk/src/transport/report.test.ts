import { FakeClock } from "@tinklet/wire/testing";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { TinkletEvent } from "../events.ts";
import { MemoryLogger } from "../testing/harness.ts";
import { Reporter, type ReporterOptions, seconds } from "./report.ts";

afterEach(() => vi.unstubAllEnvs());

function setup(options: Partial<ReporterOptions> = {}) {
  const clock = new FakeClock();
  const logger = new MemoryLogger();
  return { clock, logger, reporter: new Reporter({ clock, logger, ...options }) };
}

const paused: TinkletEvent = {
  type: "future.paused",
  requestId: "r",
  requestType: "Sample",
  subject: "s:sample:0",
  queueState: "paused_capacity",
  reason: "short on capacity",
};

describe("levels", () => {
  it("M-808: logLevel decides what is heard; warn by default", () => {
    for (const [level, heard] of [
      [undefined, ["warn", "error"]],
      ["debug", ["debug", "info", "warn", "error"]],
      ["info", ["info", "warn", "error"]],
      ["error", ["error"]],
      ["off", []],
    ] as const) {
      const { logger, reporter } = setup({ logLevel: level });
      for (const at of ["debug", "info", "warn", "error"] as const) reporter.log(at, "x");
      expect(logger.lines).toEqual(heard.map((at) => `${at}: [tinklet] x`));
    }
  });

  it("M-808: TINKER_LOG sets the level unless the option does", () => {
    vi.stubEnv("TINKER_LOG", "DEBUG");
    const fromEnv = setup();
    fromEnv.reporter.log("debug", "x");
    expect(fromEnv.logger.lines).toHaveLength(1);
    const fromOption = setup({ logLevel: "error" });
    fromOption.reporter.log("warn", "x");
    expect(fromOption.logger.lines).toHaveLength(0);
    vi.stubEnv("TINKER_LOG", "loud");
    const nonsense = setup();
    nonsense.reporter.log("info", "x");
    expect(nonsense.logger.lines).toHaveLength(0);
  });

  it("goes to the console when no logger is given", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    new Reporter({ clock: new FakeClock() }).log("warn", "hello");
    expect(warn).toHaveBeenCalledWith("[tinklet] hello");
    warn.mockRestore();
  });
});

it("M-805: log lines hold no secrets", () => {
  const { logger, reporter } = setup();
  reporter.redactor.add("very-secret-value");
  reporter.log("error", "tml-abcdef and very-secret-value");
  expect(logger.lines).toEqual(["error: [tinklet] [redacted] and [redacted]"]);
});

it("M-502: a paused queue is logged at most once a minute for each subject", async () => {
  const { clock, logger, reporter } = setup();
  reporter.report(paused);
  await clock.advance(59_999);
  reporter.report(paused);
  expect(logger.lines).toEqual(["warn: [tinklet] Sample is paused for s:sample:0: short on capacity"]);
  reporter.report({ ...paused, subject: "other" });
  expect(logger.lines).toHaveLength(2);
  await clock.advance(1);
  reporter.report(paused);
  expect(logger.lines).toHaveLength(3);
});

it("says something about a subject once a minute, counted from when it was said, each subject for itself", async () => {
  const { clock, reporter, logger } = setup();
  await clock.advance(500_000);
  reporter.logSometimes("warn", "a", "a1");
  reporter.logSometimes("warn", "b", "b1");
  await clock.advance(59_999);
  reporter.logSometimes("warn", "a", "a2");
  await clock.advance(1);
  reporter.logSometimes("warn", "a", "a3");
  expect(logger.lines.map((line) => line.split(" ").at(-1))).toEqual(["a1", "b1", "a3"]);
});

it("does not remember subjects without end, nor forget them one by one", () => {
  const { reporter, logger } = setup();
  for (let i = 0; i <= 1_000; i++) reporter.logSometimes("warn", `s${i}`, "x");
  reporter.logSometimes("warn", "s0", "known");
  expect(logger.with("known")).toHaveLength(0);
  reporter.logSometimes("warn", "one more", "x"); // now all are forgotten
  reporter.logSometimes("warn", "s0", "known");
  expect(logger.with("known")).toHaveLength(1);
});

it("listeners hear every event; what they throw is ignored", () => {
  const heard: TinkletEvent[] = [];
  const { reporter, logger } = setup({
    onEvent: () => {
      throw new Error("listener");
    },
  });
  const stop = reporter.listen((event) => heard.push(event));
  reporter.report(paused);
  stop();
  reporter.report(paused);
  expect(heard).toEqual([paused]);
  expect(logger.lines).toHaveLength(1);
});

it("an async listener or logger that rejects ends nothing", async () => {
  const unhandled = vi.fn();
  process.on("unhandledRejection", unhandled);
  const reject = (async () => {
    throw new Error("boom");
  }) as () => void; // what a caller without types may bring
  const logger = { debug: reject, info: reject, warn: reject, error: reject };
  const reporter = new Reporter({ clock: new FakeClock(), onEvent: reject, logger });
  reporter.listen(reject);
  reporter.report({ type: "billing.paused", operation: "x", elapsedMs: 0, remainingMs: 1 });
  await new Promise((resolve) => setTimeout(resolve, 0));
  process.off("unhandledRejection", unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

it("a logger that throws breaks nothing", () => {
  const logger = new MemoryLogger();
  logger.warn = () => {
    throw new Error("disk full");
  };
  const { reporter } = setup({ logger });
  expect(() => reporter.log("warn", "x")).not.toThrow();
});

describe("what is said", () => {
  const say = (event: TinkletEvent, logLevel: "debug" | "warn" = "debug") => {
    const { logger, reporter } = setup({ logLevel });
    reporter.report(event);
    return logger.lines;
  };
  it("retries: quietly when short, as a warning when long", () => {
    const retry = { type: "request.retry", operation: "optimStep", attempt: 1, reason: "503" } as const;
    expect(say({ ...retry, delayMs: 4999 })).toEqual(["debug: [tinklet] optimStep: 503; attempt 2 in 5 s"]);
    expect(say({ ...retry, delayMs: 5000 }, "warn")).toEqual(["warn: [tinklet] optimStep: 503; attempt 2 in 5 s"]);
  });
  it("billing with the time left", () => {
    const [line] = say({ type: "billing.paused", operation: "x", elapsedMs: 0, remainingMs: 90_000 });
    expect(line).toMatch(/^warn: .*402.*they fail in 90 s/);
  });
  it("queue states, slow, done and failed futures", () => {
    const base = { requestId: "r1", requestType: "OptimStep" };
    expect(say({ type: "future.queued", ...base, queueState: "active" })).toEqual([
      "debug: [tinklet] OptimStep r1 is queued (active)",
    ]);
    expect(say({ type: "future.paused", ...base, queueState: "paused_capacity" })).toEqual([
      "warn: [tinklet] OptimStep is paused: paused_capacity",
    ]);
    expect(say({ type: "future.slow", ...base, waitedMs: 10_000, reason: "why" })).toEqual([
      "warn: [tinklet] OptimStep r1 has been waiting for 10 s: why",
    ]);
    expect(say({ type: "future.slow", requestId: "", requestType: "Sample", waitedMs: 10_000 })).toEqual([
      "warn: [tinklet] Sample has been waiting for 10 s",
    ]);
    expect(say({ type: "future.done", ...base, waitedMs: 1234 })).toEqual([
      "debug: [tinklet] OptimStep r1 done after 1.2 s",
    ]);
    expect(say({ type: "future.failed", ...base, error: new Error("bad") })).toEqual([
      "debug: [tinklet] OptimStep r1 failed: bad",
    ]);
  });
  it("M-412: the server's messages at their level", () => {
    expect(say({ type: "session.message", level: "error", message: "m" })).toEqual(["error: [tinklet] m"]);
    expect(say({ type: "session.message", level: "info", message: "m" })).toEqual(["info: [tinklet] m"]);
  });
  it("heartbeats that fail", () => {
    expect(say({ type: "session.heartbeat_failing", sessionId: "s1", sinceMs: 130_000 })).toEqual([
      "warn: [tinklet] No heartbeat of session s1 has succeeded for 2 min; the service may end the session.",
    ]);
  });
});

it("seconds are written as people read them", () => {
  expect([0, 0.4, 40, 900, 9_940, 10_400, 119_000, 120_000, 3_600_000].map(seconds)).toEqual([
    "0 s",
    "1 ms",
    "40 ms",
    "0.9 s",
    "9.9 s",
    "10 s",
    "119 s",
    "2 min",
    "60 min",
  ]);
});
