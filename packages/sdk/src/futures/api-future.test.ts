import { getEventListeners } from "node:events";
import { APITimeoutError, InvalidInputError } from "@tinklet/wire/errors";
import { FakeClock } from "@tinklet/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TinkletEvent } from "../events.ts";
import { failure, MemoryLogger } from "../testing/harness.ts";
import { Reporter } from "../transport/report.ts";
import { APIFuture, type FutureOptions, type FutureState, type FutureWork } from "./api-future.ts";

function setup() {
  const clock = new FakeClock();
  const logger = new MemoryLogger();
  const events: TinkletEvent[] = [];
  const reporter = new Reporter({ clock, logger, logLevel: "info", onEvent: (event) => events.push(event) });
  const context = { clock, background: clock, reporter };
  const start = <T>(work: FutureWork<T>, options: Partial<FutureOptions> = {}) =>
    new APIFuture(context, { requestType: "OptimStep", ...options }, work);
  /** A future whose end the test decides. */
  const open = (options: Partial<FutureOptions> = {}) => {
    let control: {
      resolve: (value: number) => void;
      reject: (error: unknown) => void;
      state: FutureState;
      signal: AbortSignal;
    };
    const future = start<number>(
      (state, signal) =>
        new Promise((resolve, reject) => {
          control = { resolve, reject, state, signal };
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
      options,
    );
    return { future, ...control! };
  };
  return { clock, logger, events, start, open };
}

const unhandled: unknown[] = [];
const note = (error: unknown) => unhandled.push(error);
beforeEach(() => process.on("unhandledRejection", note));
afterEach(() => {
  process.off("unhandledRejection", note);
  expect(unhandled.splice(0)).toEqual([]);
});
const macrotask = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("M-505: a result", () => {
  it("starts in the tick of the call, and is cached: awaited many times, computed once", async () => {
    const { start } = setup();
    let runs = 0;
    const future = start(async () => ++runs);
    expect(runs).toBe(1);
    expect([await future, await future, await future.then((n) => n + 1)]).toEqual([1, 1, 2]);
    expect(runs).toBe(1);
    expect(future.phase).toBe("done");
  });

  it("is a promise's equal: then, catch, finally", async () => {
    const { open } = setup();
    const { future, reject } = open();
    const seen: string[] = [];
    const all = [
      future.then(undefined, () => seen.push("then")),
      future.catch(() => seen.push("catch")),
      future.finally(() => seen.push("finally")).catch(() => {}),
    ];
    reject(new Error("x"));
    await Promise.all(all);
    expect(seen.sort()).toEqual(["catch", "finally", "then"]);
  });

  it("a wait times out, and the call continues", async () => {
    const { clock, open } = setup();
    const { future, resolve } = open();
    const failed = failure(future.result({ timeoutMs: 2500 }));
    await clock.advance(2500);
    const error = await failed;
    expect(error).toBeInstanceOf(APITimeoutError);
    expect(error.message).toMatch(/^No result within 2\.5 s\. OptimStep: waiting to be submitted, 2\.5 s/);
    expect(future.phase).toBe("waiting");
    const in_time = future.result({ timeoutMs: 1000 });
    resolve(7);
    expect([await in_time, await future.result(), await future]).toEqual([7, 7, 7]);
    expect(clock.pending).toBe(0);
  });

  it("a waiter's own signal ends that waiting alone", async () => {
    const { open } = setup();
    const { future, resolve, signal } = open();
    const controller = new AbortController();
    const waiting = future.result({ signal: controller.signal });
    controller.abort("mine");
    await expect(waiting).rejects.toBe("mine");
    await expect(future.result({ signal: controller.signal })).rejects.toBe("mine");
    expect(signal.aborted).toBe(false);
    resolve(1);
    expect(await future).toBe(1);
  });

  it("a failure reaches every waiter", async () => {
    const { open, clock } = setup();
    const { future, reject } = open();
    const waiting = failure(future.result({ timeoutMs: 1000, signal: new AbortController().signal }));
    const error = new Error("no");
    reject(error);
    expect(await waiting).toBe(error);
    expect(await failure(future)).toBe(error);
    expect(clock.pending).toBe(0);
  });
});

describe("M-505: cancellation", () => {
  it("ends the work with the given reason, and says nothing about it", async () => {
    const { open, logger, clock } = setup();
    const { future, signal } = open();
    const reason = new Error("enough");
    future.cancel(reason);
    expect(signal.reason).toBe(reason);
    await clock.advance(0);
    expect(await failure(future)).toBe(reason);
    expect(logger.lines).toEqual([]);
  });

  it("has a reason of its own, of the platform's kind", async () => {
    const { open } = setup();
    const { future } = open();
    future.cancel();
    expect((await failure(future)).name).toBe("AbortError");
  });

  it("given up by the client is a failure and no abort: the work ends, the error is the reason", async () => {
    const { open, logger, clock } = setup();
    const { future, signal, state } = open();
    const error = new Error("no progress");
    state.giveUp?.(error);
    await macrotask();
    expect([signal.reason, future.aborted, future.phase]).toEqual([error, false, "failed"]);
    // Unlike an abort, it is logged if the call is not awaited.
    await clock.advance(0);
    expect(logger.lines).toEqual(["error: [tinklet] OptimStep failed and is not awaited: no progress"]);
    await expect(future).rejects.toBe(error);
  });

  it("obeys the caller's signal, aborted before or after", async () => {
    const { start, open } = setup();
    const controller = new AbortController();
    const { future } = open({ signal: controller.signal });
    controller.abort("later");
    await expect(future).rejects.toBe("later");
    let ran = false;
    const never = start(
      async () => {
        ran = true;
      },
      { signal: controller.signal },
    );
    await expect(never).rejects.toBe("later");
    expect(ran).toBe(false);
  });
});

describe("M-505: a signal that outlives its calls", () => {
  const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length;

  it("keeps nothing of a call that is over", async () => {
    const { open } = setup();
    const controller = new AbortController();
    const { signal } = controller;
    const done = open({ signal });
    const failing = open({ signal });
    const aborted = open({ signal });
    expect(listeners(signal)).toBe(1);
    done.resolve(1);
    failing.reject(new Error("x"));
    await done.future;
    await failure(failing.future);
    expect(listeners(signal)).toBe(1);
    const later = open({ signal });
    later.resolve(1);
    await later.future;
    expect(listeners(signal)).toBe(1);
    controller.abort("over");
    expect(listeners(signal)).toBe(0);
    await expect(aborted.future).rejects.toBe("over");
  });

  it("has one listener, and keeps none, however many calls it is given to", async () => {
    const { open } = setup();
    const { signal } = new AbortController();
    const calls = Array.from({ length: 100 }, () => open({ signal }));
    expect(listeners(signal)).toBe(1);
    for (const { future, resolve } of calls) {
      resolve(1);
      await future;
    }
    expect(listeners(signal)).toBe(0);
  });

  it("keeps nothing of a wait that is over, and a wait without a limit sets no timer", async () => {
    const { open, clock } = setup();
    const { future, resolve } = open();
    const timers = clock.pending;
    const [first, second] = [new AbortController(), new AbortController()];
    const waiting = future.result({ signal: first.signal });
    expect([listeners(first.signal), clock.pending]).toEqual([1, timers]);
    const other = future.result({ signal: second.signal, timeoutMs: 5 });
    first.abort("enough");
    await expect(waiting).rejects.toBe("enough");
    expect(listeners(first.signal)).toBe(0);
    resolve(1);
    expect(await other).toBe(1);
    expect(listeners(second.signal)).toBe(0);
  });
});

describe("M-506: a failure that is not awaited", () => {
  it("is logged once, one macrotask later, and ends no process; a later await still throws", async () => {
    const { open, logger, clock } = setup();
    const { future, reject, state } = open();
    state.submitted(["req-7"]);
    reject(new Error("boom"));
    await macrotask();
    expect(logger.lines).toEqual([]);
    await clock.advance(0);
    expect(logger.lines).toEqual(["error: [tinklet] OptimStep req-7 failed and is not awaited: boom"]);
    expect((await failure(future)).message).toBe("boom");
    await clock.advance(60_000);
    expect(logger.lines).toHaveLength(1);
  });

  it("is not logged when a caller awaits it, immediately or within the macrotask", async () => {
    for (const attach of ["before", "after"] as const) {
      const { open, logger, clock } = setup();
      const { future, reject } = open();
      const waiting = attach === "before" ? failure(future) : undefined;
      reject(new Error("boom"));
      await Promise.resolve();
      await Promise.resolve();
      const late = waiting ?? failure(future);
      await clock.advance(10);
      await late;
      expect(logger.lines, attach).toEqual([]);
    }
  });

  it("counts finally and result as looking", async () => {
    for (const look of ["finally", "result"] as const) {
      const { open, logger, clock } = setup();
      const { future, reject } = open();
      future[look]().catch(() => {});
      reject(new Error("boom"));
      await clock.advance(10);
      expect(logger.lines, look).toEqual([]);
    }
  });

  it("a submission that failed is seen by who awaits submitted; a later failure is not", async () => {
    const one = setup();
    const unsent = one.open();
    unsent.future.submitted.catch(() => {});
    unsent.reject(new Error("refused"));
    await one.clock.advance(10);
    expect(one.logger.lines).toEqual([]);
    const two = setup();
    const sent = two.open();
    void sent.future.submitted;
    sent.state.submitted(["r"]);
    sent.reject(new Error("failed"));
    await two.clock.advance(10);
    expect(two.logger.lines).toHaveLength(1);
  });

  it("logs what is not an Error too", async () => {
    const { open, logger, clock } = setup();
    open().reject("text");
    await clock.advance(10);
    expect(logger.lines[0]).toContain("OptimStep failed and is not awaited: text");
  });
});

describe("submitted", () => {
  it("settles with the ids once the server has the request", async () => {
    const { open } = setup();
    const { future, state, resolve } = open();
    expect([future.requestId, future.phase]).toEqual([undefined, "waiting"]);
    const submitted = future.submitted;
    state.submitted(["r1", "r2"]);
    expect(await submitted).toEqual({ requestIds: ["r1", "r2"] });
    expect(future.submitted).toBe(submitted);
    expect([future.requestId, future.phase]).toEqual(["r1", "running"]);
    resolve(1);
    await future;
  });

  it("may be asked for afterwards", async () => {
    const { open } = setup();
    const { future, state, resolve } = open();
    state.submitted(["r1"]);
    expect(await future.submitted).toEqual({ requestIds: ["r1"] });
    resolve(1);
    await future;
  });

  it("rejects when the request was not taken", async () => {
    const { open } = setup();
    const { future, reject } = open();
    const { submitted } = future;
    reject(new InvalidInputError("rank", "bad"));
    await expect(submitted).rejects.toThrow("rank: bad");
    await failure(future);
  });

  it("settles with the result of work that acknowledges nothing", async () => {
    const { start } = setup();
    const future = start(async () => 5);
    expect(await future.submitted).toEqual({ requestIds: [] });
  });
});

describe("never silent", () => {
  it("says once, after ten seconds, that it waits, and why", async () => {
    const { clock, open, logger, events } = setup();
    const { future, state, resolve } = open({ subject: "model-1" });
    state.submitted(["r1"]);
    state.queueState = "paused_capacity";
    state.reason = "short on capacity";
    await clock.advance(9_999);
    expect(events).toEqual([]);
    await clock.advance(1);
    expect(events).toEqual([
      {
        type: "future.slow",
        requestId: "r1",
        requestType: "OptimStep",
        subject: "model-1",
        waitedMs: 10_000,
        reason: "short on capacity",
      },
    ]);
    expect(logger.lines).toEqual(["warn: [tinklet] OptimStep r1 has been waiting for 10 s: short on capacity"]);
    await clock.advance(100_000);
    expect(logger.lines).toHaveLength(1);
    resolve(1);
    await future;
    expect(events[1]).toEqual({ type: "future.done", requestId: "r1", requestType: "OptimStep", waitedMs: 110_000 });
  });

  it("counts its time from its own call, not from the clock's beginning", async () => {
    const { clock, open, events } = setup();
    await clock.advance(70_000);
    const { resolve, future } = open();
    await clock.advance(10_000);
    expect(events[0]).toMatchObject({ type: "future.slow", waitedMs: 10_000 });
    expect(Object.keys(events[0]!)).not.toContain("subject");
    await clock.advance(500);
    resolve(1);
    await future;
    expect(events[1]).toMatchObject({ type: "future.done", waitedMs: 10_500 });
    expect(future.explain().waitedMs).toBe(10_500);
  });

  it("names the last error, or that the turn has not come, as the reason", async () => {
    const one = setup();
    one.open();
    await one.clock.advance(10_000);
    expect(one.events[0]).toMatchObject({ requestId: "", reason: "waiting to be submitted" });
    const two = setup();
    two.open().state.lastError = new Error("reset");
    await two.clock.advance(10_000);
    expect(two.events[0]).toMatchObject({ reason: "reset" });
    const three = setup();
    three.open().state.submitted(["r"]);
    await three.clock.advance(10_000);
    expect("reason" in three.events[0]!).toBe(false);
  });

  it("does not speak up for what ends in time", async () => {
    const { clock, start, events } = setup();
    await start(async () => 1);
    expect(clock.pending).toBe(0);
    expect(events.map(({ type }) => type)).toEqual(["future.done"]);
  });

  it("reports failures as events", async () => {
    const { open, events } = setup();
    const { future, reject } = open();
    const error = new Error("x");
    reject(error);
    await failure(future);
    expect(events).toEqual([{ type: "future.failed", requestId: "", requestType: "OptimStep", error }]);
  });
});

describe("explain", () => {
  it("tells what, how long, where in the queue, what went wrong and what to do", async () => {
    const { clock, open } = setup();
    const { future, state } = open({ subject: "model-1" });
    await clock.advance(3000);
    expect(future.explain()).toEqual({
      requestType: "OptimStep",
      subject: "model-1",
      phase: "waiting",
      requestIds: [],
      waitedMs: 3000,
      advice: "The call has not been submitted yet: the client is connecting or submitting earlier calls.",
      text: "OptimStep of model-1: waiting to be submitted, 3 s; The call has not been submitted yet: the client is connecting or submitting earlier calls.",
    });
    state.phase = "submitting";
    expect(future.explain().text).toBe("OptimStep of model-1: being submitted, 3 s");
    state.submitted(["r1"]);
    state.queueState = "paused_rate_limit";
    state.reason = "too many";
    expect(future.explain()).toMatchObject({
      queueState: "paused_rate_limit",
      queueReason: "too many",
      text: "OptimStep of model-1: waiting for the result, 3 s; request r1; queue: paused_rate_limit (too many); Close training or sampling clients that are no longer needed, or wait.",
    });
    state.queueState = "paused_capacity";
    state.reason = undefined;
    expect(future.explain().text).toContain("queue: paused_capacity; No action is needed");
    state.queueState = "active";
    state.lastError = new Error("reset");
    expect(future.explain()).toMatchObject({ lastError: "reset" });
    expect(future.explain().text).toContain("last error: reset; The connection is being retried");
    state.lastError = new InvalidInputError("a", "b", { hint: "do this" });
    expect(future.explain().advice).toBe("do this");
    state.lastError = undefined;
    expect(future.explain().advice).toBe("");
  });

  it("names every request, and a queue only while the call is in it", async () => {
    const { open } = setup();
    const { future, state, resolve } = open();
    state.queueState = "active";
    expect(future.explain().text).not.toContain("queue");
    state.submitted(["r1", "r2"]);
    expect(future.explain().text).toBe("OptimStep: waiting for the result, 0 s; request r1, r2; queue: active");
    state.queueState = undefined;
    expect(future.explain()).toEqual({
      requestType: "OptimStep",
      phase: "running",
      requestIds: ["r1", "r2"],
      waitedMs: 0,
      advice: "",
      text: "OptimStep: waiting for the result, 0 s; request r1, r2",
    });
    expect(Object.keys(future.explain())).not.toContain("subject");
    expect(Object.keys(future.explain()).filter((key) => key.startsWith("queue"))).toEqual([]);
    state.queueState = "active";
    resolve(1);
    await future;
    expect(future.explain().text).toBe("OptimStep: done, 0 s; request r1, r2");
  });

  it("stands still once it is over, and passes a failure's hint on", async () => {
    const { clock, open, start } = setup();
    const { future, reject } = open();
    await clock.advance(1000);
    reject(new InvalidInputError("a", "b", { hint: "do this" }));
    await failure(future);
    await clock.advance(5000);
    expect(future.explain()).toMatchObject({ phase: "failed", waitedMs: 1000, lastError: "a: b", advice: "do this" });
    const plain = start(() => Promise.reject(new Error("x")));
    await failure(plain);
    expect(plain.explain()).toMatchObject({ advice: "", text: "OptimStep: failed, 0 s; last error: x" });
    const fine = start(async () => 1);
    await fine;
    expect(fine.explain().text).toBe("OptimStep: done, 0 s");
  });
});
