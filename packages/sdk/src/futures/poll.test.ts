import {
  encodeForwardBackwardOutput,
  encodeSampleResponse,
  ForwardBackwardOutput,
  type FutureResultName,
  SampledSequence,
  SampleResponse,
} from "@tinklet/wire";
import {
  APIConnectionError,
  APIStatusError,
  BadRequestError,
  FutureExpiredError,
  RequestFailedError,
  ResponseValidationError,
} from "@tinklet/wire/errors";
import { FakeClock } from "@tinklet/wire/testing";
import { describe, expect, it, vi } from "vitest";
import type { TinkletEvent } from "../events.ts";
import { failure, MemoryLogger, passTime } from "../testing/harness.ts";
import { BillingPause } from "../transport/billing-pause.ts";
import { ByteBudget } from "../transport/byte-budget.ts";
import { connectionError, type HttpRequest, type HttpResponse } from "../transport/exchange.ts";
import { HttpTransport } from "../transport/http-transport.ts";
import { Reporter } from "../transport/report.ts";
import { classify, type PollProgress, type PollTarget, pollFuture } from "./poll.ts";

type Answer =
  | Error
  | { status?: number; body?: unknown; type?: string | null; headers?: Record<string, string> }
  | "never";

/** Polls against these responses in order; the last one repeats. */
function setup(answers: readonly Answer[], options: { responseBytes?: number } = {}) {
  const clock = new FakeClock();
  const logger = new MemoryLogger();
  const events: TinkletEvent[] = [];
  const reporter = new Reporter({ clock, logger, logLevel: "debug", onEvent: (event) => events.push(event) });
  const sent: (HttpRequest & { atMs: number })[] = [];
  const billing = new BillingPause(clock, reporter);
  const transport = new HttpTransport({
    baseUrl: "http://host.example",
    credentials: { token: () => "tml-key" },
    clock,
    reporter,
    billing,
    exchange: {
      send: (request) =>
        new Promise((resolve, reject) => {
          sent.push({ ...request, atMs: clock.monotonic() });
          const answer = answers[Math.min(sent.length, answers.length) - 1]!;
          if (answer === "never")
            return void request.signal?.addEventListener("abort", () => reject(request.signal?.reason));
          if (answer instanceof Error) return reject(answer);
          resolve(response(answer));
        }),
      close: async () => {},
    },
  });
  const responseBytes = new ByteBudget(options.responseBytes ?? 1000);
  const progress: PollProgress = {
    queueState: undefined,
    reason: undefined,
    lastError: undefined,
    polls: 0,
    timings: [],
  };
  const poll = <K extends FutureResultName>(requestType: K, more: Partial<PollTarget<K>> = {}) =>
    pollFuture(
      { transport, clock, billing, reporter, responseBytes },
      { requestId: "req-1", requestType, progress, ...more },
    );
  const run = <T>(promise: PromiseLike<T>) => passTime(clock, promise);
  return { clock, logger, events, sent, transport, billing, responseBytes, progress, poll, run };
}

function response({
  status = 200,
  body = {},
  type = "application/json",
  headers = {},
}: Exclude<Answer, Error | "never">): HttpResponse {
  const all: Record<string, string> = { ...(type === null ? {} : { "content-type": type }), ...headers };
  const bytes =
    body instanceof Uint8Array
      ? body
      : new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
  return { status, header: (name) => all[name], body: bytes };
}

const done: Answer = { body: { metrics: { "x:mean": 1 } } };
const pending = (queue_state = "active", queue_state_reason?: string): Answer => ({
  body: { type: "try_again", request_id: "req-1", queue_state, queue_state_reason },
});
const proto = "application/x-protobuf";
const sample = encodeSampleResponse(
  new SampleResponse({ sequences: [new SampledSequence({ stopReason: "stop", tokens: [1, 2] })] }),
);
const reset = connectionError(
  { method: "POST", url: "http://h/x", timeoutMs: 1 },
  Object.assign(new Error(), { code: "ECONNRESET" }),
);

describe("the server's time", () => {
  it("is taken from the answer that has the result, one entry for each request", async () => {
    const timed = (answer: Answer, value: string): Answer => ({
      ...(answer as object),
      headers: { "server-timing": value },
    });
    const { poll, progress } = setup([
      timed(pending(), "queue;dur=1, compute;dur=1"),
      timed(done, "queue;dur=5, compute;dur=7"),
      timed({ body: sample, type: proto }, "queue;dur=2"),
      done,
    ]);
    await poll("OptimStep");
    await poll("Sample");
    await poll("OptimStep");
    expect(progress.timings).toEqual([
      { queueMs: 5, computeMs: 7 },
      { queueMs: 2, computeMs: undefined },
    ]);
  });
});

describe("a result with numbers that are not finite", () => {
  it("is still a result", async () => {
    const { poll } = setup([{ body: '{"metrics":{"a:mean":NaN,"b:mean":-Infinity,"d:mean":1}}' }]);
    const { metrics } = await poll("OptimStep");
    expect(metrics).toEqual({ "a:mean": Number.NaN, "b:mean": -Infinity, "d:mean": 1 });
  });
});

describe("what is asked", () => {
  it("M-501: the id, the type, the count and the form that the type has", async () => {
    const { sent, poll } = setup([pending(), done]);
    await poll("OptimStep", { roundtripMs: 1500 });
    expect(sent.map(({ body }) => JSON.parse(body as string))).toEqual([
      { request_id: "req-1", allow_metadata_only: true },
      { request_id: "req-1", allow_metadata_only: true },
    ]);
    expect(sent[0]).toMatchObject({ pool: "retrieve", method: "POST" });
    expect(sent[1]?.timeoutMs).toBe(45_000);
    expect(sent.map(({ headers }) => headers["x-tinker-request-iteration"])).toEqual(["0", "1"]);
    expect(sent.map(({ headers }) => headers["x-tinker-create-promise-roundtrip-time"])).toEqual(["1.5", undefined]);
    expect(sent[0]?.headers).toMatchObject({ accept: "application/json", "x-tinker-request-type": "OptimStep" });
    const binary = setup([{ body: sample, type: proto }]);
    await binary.poll("Sample");
    expect(binary.sent[0]?.headers).toMatchObject({ accept: proto, "x-tinker-create-promise-roundtrip-time": "0" });
  });
});

describe("M-501: each answer is read by what was asked for", () => {
  it("a JSON result", async () => {
    expect(await setup([done]).poll("OptimStep")).toEqual({ metrics: { "x:mean": 1 } });
    expect(await setup([{ body: { path: "tinker://r/weights/x" } }]).poll("SaveWeights")).toMatchObject({
      path: "tinker://r/weights/x",
    });
  });

  it("a binary result", async () => {
    const result = await setup([{ body: sample, type: `${proto}; charset=x` }]).poll("Sample");
    expect(result.sequences[0]?.tokens).toEqual([1, 2]);
    const output = new ForwardBackwardOutput({ lossFnOutputType: "A", lossFnOutputs: [], metrics: { "loss:sum": 2 } });
    const forward = await setup([{ body: encodeForwardBackwardOutput(output), type: proto }]).poll("Forward");
    expect(forward.loss).toBe(2);
  });

  it("an answer without a type is JSON", async () => {
    expect(await setup([{ ...(done as object), type: null }]).poll("OptimStep")).toEqual({ metrics: { "x:mean": 1 } });
  });

  it("a mistake in reading is not the server's: it is not asked for again", async () => {
    const answer = {
      status: 200,
      header: () => {
        throw new RangeError("ours");
      },
      body: sample,
    };
    expect(() =>
      classify(answer, "Sample", () => {
        throw new Error("unused");
      }),
    ).toThrow(RangeError);
  });

  it("a result in the wrong form is a typed error, and is not asked for again", async () => {
    const json = setup([done]);
    const error = await failure(json.poll("Sample"));
    expect(error).toBeInstanceOf(ResponseValidationError);
    expect(error.message).toContain("came as JSON");
    expect(json.sent).toHaveLength(1);
    const missing = await failure(setup([{ body: {} }]).poll("SaveWeights"));
    expect(missing).toMatchObject({ field: "path" });
  });

  it("an answer that cannot be read is asked for three times more", async () => {
    for (const [type, answer] of [
      ["OptimStep", { body: "{broken" }],
      ["Sample", { body: Uint8Array.of(255, 255, 255), type: proto }],
      ["OptimStep", { body: sample, type: proto }],
    ] as const) {
      const { sent, poll, run } = setup([answer]);
      const error = await run(failure(poll(type)));
      expect(error).toBeInstanceOf(ResponseValidationError);
      if (answer.body === sample) expect(error.message).toContain("not binary");
      expect(sent).toHaveLength(4);
      expect(sent.at(-1)?.atMs).toBe(0);
    }
    const healed = setup([{ body: "{" }, { body: "{" }, { body: "{" }, done]);
    await healed.poll("OptimStep");
  });
});

describe("M-502: a request that waits", () => {
  it("is asked for again at once, and its queue state is shown", async () => {
    const { clock, sent, poll, events, progress } = setup([
      pending("active"),
      pending("paused_capacity"),
      pending("paused_rate_limit", "slow down"),
      done,
    ]);
    await poll("OptimStep", { subject: "model-1" });
    expect(clock.monotonic()).toBe(0);
    expect(sent).toHaveLength(4);
    expect(events).toEqual([
      { type: "future.queued", requestId: "req-1", requestType: "OptimStep", subject: "model-1", queueState: "active" },
      {
        type: "future.paused",
        requestId: "req-1",
        requestType: "OptimStep",
        subject: "model-1",
        queueState: "paused_capacity",
        reason: "the service has no free capacity",
      },
      {
        type: "future.paused",
        requestId: "req-1",
        requestType: "OptimStep",
        subject: "model-1",
        queueState: "paused_rate_limit",
        reason: "slow down",
      },
    ]);
    expect(progress).toMatchObject({ queueState: "paused_rate_limit", reason: "slow down", polls: 4 });
  });

  it("names the usual reason of a rate limit by what is limited", async () => {
    const training = setup([pending("paused_rate_limit"), done]);
    await training.poll("OptimStep");
    expect(training.events[0]).toMatchObject({ reason: "the limit of concurrent training clients is reached" });
    const sampling = setup([pending("paused_rate_limit"), { body: sample, type: proto }]);
    await sampling.poll("Sample");
    expect(sampling.events[0]).toMatchObject({ reason: "the limit of concurrent sampler weights is reached" });
  });

  it("says nothing about a state that says nothing", async () => {
    const { events, poll, progress } = setup([pending("odd"), pending("odd", "because"), done]);
    await poll("OptimStep");
    expect(events).toEqual([
      { type: "future.queued", requestId: "req-1", requestType: "OptimStep", queueState: "unknown", reason: "because" },
    ]);
    expect(progress.queueState).toBe("unknown");
  });

  it("M-504: 408 means the same, with or without a body, and restores the budget of suspicious answers", async () => {
    const bad = { status: 400, body: { detail: "odd" } };
    const { clock, sent, poll, events } = setup([
      bad,
      bad,
      bad,
      { status: 408, body: { queue_state: "paused_capacity" } },
      bad,
      bad,
      bad,
      { status: 408, body: "not json" },
      done,
    ]);
    await poll("OptimStep");
    expect([sent.length, clock.monotonic()]).toEqual([9, 0]);
    expect(events).toHaveLength(1);
    expect(Object.keys(events[0]!)).toEqual(["type", "requestId", "requestType", "queueState", "reason"]);
  });
});

describe("a large result", () => {
  const announced = (response_payload_size: number | null): Answer => ({
    body: { status: "complete_metadata", response_payload_size },
  });

  it("M-501: is announced, paid for from the byte budget, and then asked for", async () => {
    const { sent, poll, responseBytes } = setup([announced(400), pending(), { body: sample, type: proto }]);
    const left: number[] = [];
    const watch = setInterval(() => left.push(responseBytes.left), 0);
    await poll("Sample");
    clearInterval(watch);
    expect(
      sent.map(({ body }) => (JSON.parse(body as string) as { allow_metadata_only: boolean }).allow_metadata_only),
    ).toEqual([true, false, false]);
    expect(responseBytes.left).toBe(1000);
  });

  it("whose size is known already needs one request", async () => {
    const { sent, transport, poll } = setup([{ body: sample, type: proto }]);
    const prepare = vi.spyOn(transport, "prepare");
    await poll("Sample", { payloadBytes: 400 });
    expect(prepare).toHaveBeenCalledTimes(1);
    expect(JSON.parse(sent[0]!.body as string)).toMatchObject({ allow_metadata_only: false });
  });

  it("waits while others use up the budget, and gives its share back when it fails", async () => {
    const { clock, sent, poll, responseBytes, run } = setup([announced(400), { status: 410 }]);
    const other = await responseBytes.acquire(2000);
    const failed = failure(poll("Sample"));
    await clock.advance(1000);
    expect(sent).toHaveLength(1);
    other();
    expect(await run(failed)).toBeInstanceOf(FutureExpiredError);
    expect([sent.length, responseBytes.left]).toEqual([2, 1000]);
  });

  it("counts an unknown size as nothing", async () => {
    const { poll, responseBytes } = setup([announced(null), { body: sample, type: proto }], { responseBytes: 0 });
    await poll("Sample");
    expect(responseBytes.left).toBe(0);
  });

  it("cannot be announced twice", async () => {
    const { poll, responseBytes } = setup([announced(1), announced(1)]);
    const error = await failure(poll("Sample"));
    expect(error).toBeInstanceOf(ResponseValidationError);
    expect(error).toMatchObject({ field: "status", message: expect.stringContaining("req-1") });
    expect(responseBytes.left).toBe(1000);
  });
});

describe("M-503: a request that failed", () => {
  it("throws with its category, its id and a hint, and is not asked for again", async () => {
    for (const category of ["user", "server", "unknown"]) {
      const { sent, poll } = setup([{ body: { error: "prompt too long for context", category } }]);
      const error = await failure(poll("OptimStep", { facts: { promptTokens: 9 } }));
      expect(error).toBeInstanceOf(RequestFailedError);
      expect(error).toMatchObject({
        message: "OptimStep failed: prompt too long for context (request req-1)",
        requestId: "req-1",
        category,
        retryable: category !== "user",
      });
      expect(error["hint"]).toContain("9 tokens");
      expect(sent).toHaveLength(1);
    }
  });

  it("has the category unknown when it tells none", async () => {
    expect(await failure(setup([{ body: { error: null } }]).poll("OptimStep"))).toMatchObject({ category: "unknown" });
  });
});

describe("M-504: the other statuses", () => {
  it("410 is an expired future", async () => {
    const { sent, poll } = setup([{ status: 410 }]);
    const error = await failure(poll("Sample"));
    expect(error).toBeInstanceOf(FutureExpiredError);
    expect(error["requestId"]).toBe("req-1");
    expect(error["hint"]).toContain("not repeated"); // a caller who waits for a retry would wait in vain
    expect(sent).toHaveLength(1);
  });

  it("429, 5xx and transport errors back off 1, 2, 4 … 30 s, indefinitely, and a success restarts the back-off", async () => {
    const busy = { status: 429, body: {} };
    const down = { status: 503, body: {} };
    const { sent, poll, run, progress } = setup([busy, down, reset, down, down, down, down, pending(), busy, done]);
    await run(poll("OptimStep"));
    const gaps = sent.slice(1).map(({ atMs }, i) => (atMs - sent[i]!.atMs) / 1000);
    expect(gaps).toEqual([1, 2, 4, 8, 16, 30, 30, 0, 1]);
    expect(progress.lastError?.message).toContain("429");
  });

  it("keeps on as long as it takes", async () => {
    const { sent, poll, run } = setup([...Array<Answer>(60).fill({ status: 500, body: {} }), done]);
    await run(poll("OptimStep"));
    expect(sent).toHaveLength(61);
  });

  it("400 with a body is asked for three times more, at once", async () => {
    const { sent, poll } = setup([{ status: 400, body: { detail: "bad" } }]);
    expect(await failure(poll("OptimStep"))).toBeInstanceOf(BadRequestError);
    expect([sent.length, sent.at(-1)?.atMs]).toEqual([4, 0]);
  });

  it("a bare 400 is a transport error", async () => {
    const { sent, poll, run } = setup([{ status: 400, body: "" }, { status: 400, body: "" }, done]);
    await run(poll("OptimStep"));
    expect(sent.map(({ atMs }) => atMs)).toEqual([0, 1000, 3000]);
  });

  it("402 is waited out every five seconds, until the pause is over", async () => {
    const unpaid = { status: 402, body: {} };
    const { sent, poll, run, events } = setup([unpaid, unpaid, done]);
    await run(poll("OptimStep"));
    expect(sent.map(({ atMs }) => atMs)).toEqual([0, 5000, 10_000]);
    expect(events[0]).toMatchObject({ type: "billing.paused", operation: "retrieveFuture" });
    const over = setup([unpaid]);
    over.billing.maxPauseMs = 7_000;
    expect(await over.run(failure(over.poll("OptimStep")))).toMatchObject({ status: 402 });
    expect(over.sent).toHaveLength(3);
  });

  it("everything else is final", async () => {
    for (const status of [199, 300, 304, 401, 403, 404, 409, 413, 422]) {
      const { sent, poll } = setup([{ status, body: { detail: "no" } }]);
      const error = await failure(poll("OptimStep"));
      expect(error).toBeInstanceOf(APIStatusError);
      expect(error["status"]).toBe(status);
      expect(sent).toHaveLength(1);
    }
  });
});

describe("M-505: cancellation", () => {
  it("ends a poll that is held, with the reason untouched", async () => {
    const { poll } = setup(["never"]);
    const controller = new AbortController();
    const polling = poll("OptimStep", { signal: controller.signal });
    controller.abort("enough");
    await expect(polling).rejects.toBe("enough");
  });

  it("ends a back-off and a wait for bytes", async () => {
    const backing = setup([{ status: 500, body: {} }]);
    const controller = new AbortController();
    const polling = backing.poll("OptimStep", { signal: controller.signal });
    polling.catch(() => {});
    await backing.clock.advance(500);
    controller.abort("enough");
    await expect(polling).rejects.toBe("enough");
    expect(backing.clock.pending).toBe(0);
    const waiting = setup([{ body: { status: "complete_metadata", response_payload_size: 5 } }], { responseBytes: -1 });
    const second = new AbortController();
    const held = waiting.poll("Sample", { signal: second.signal });
    held.catch(() => {});
    await waiting.clock.advance(1);
    second.abort("over");
    await expect(held).rejects.toBe("over");
  });

  it("a client that is closed under a poll ends it, and so does what is no transport error", async () => {
    const closed = setup([new APIConnectionError("closed", { code: "closed" })]);
    expect(await closed.run(failure(closed.poll("OptimStep")))).toMatchObject({ code: "closed" });
    expect(closed.sent).toHaveLength(1);
    const bug = setup([new TypeError("a bug")]);
    expect(await bug.run(failure(bug.poll("OptimStep")))).toBeInstanceOf(TypeError);
    expect(bug.sent).toHaveLength(1);
  });

  it("a listener is optional", async () => {
    const { poll, sent, run } = setup([pending("active"), { status: 500, body: {} }, done]);
    await run(poll("OptimStep", { progress: undefined } as never));
    expect(sent).toHaveLength(3);
  });

  it("a closed client ends the wait", async () => {
    const { clock, poll, transport } = setup([{ status: 500, body: {} }]);
    const failed = failure(poll("OptimStep"));
    await clock.advance(10);
    await transport.close();
    expect(await failed).toMatchObject({ code: "closed" });
  });
});
