import {
  APIConnectionError,
  APIStatusError,
  APITimeoutError,
  AuthenticationError,
  BadRequestError,
  BillingError,
  ConflictError,
  InternalServerError,
  InvalidInputError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  ResponseValidationError,
  UnprocessableEntityError,
} from "@tinklet/wire/errors";
import { FakeClock } from "@tinklet/wire/testing";
import { describe, expect, it } from "vitest";
import type { TinkletEvent } from "../events.ts";
import { failure, MemoryLogger, passTime } from "../testing/harness.ts";
import { BillingPause } from "./billing-pause.ts";
import { connectionError, type Exchange, type HttpRequest, type HttpResponse, timeoutError } from "./exchange.ts";
import { checkedBaseUrl, HttpTransport, type HttpTransportOptions } from "./http-transport.ts";
import { Reporter } from "./report.ts";

type Answer = number | Error | { status: number; body?: unknown; headers?: Record<string, string> };

/** A transport whose exchange returns these responses in order; the last one repeats. */
function setup(answers: readonly Answer[], options: Partial<HttpTransportOptions> = {}) {
  const clock = new FakeClock();
  const logger = new MemoryLogger();
  const events: TinkletEvent[] = [];
  const reporter = new Reporter({ clock, logger, logLevel: "debug", onEvent: (event) => events.push(event) });
  const sent: (HttpRequest & { atMs: number })[] = [];
  let closed = false;
  const exchange: Exchange = {
    send: async (request) => {
      request.signal?.throwIfAborted();
      sent.push({ ...request, atMs: clock.monotonic() });
      const answer = answers[Math.min(sent.length, answers.length) - 1]!;
      if (answer instanceof Error) throw answer;
      return response(typeof answer === "number" ? { status: answer } : answer);
    },
    close: async () => {
      closed = true;
    },
  };
  const transport = new HttpTransport({
    baseUrl: "http://host.example/prefix/",
    credentials: { token: () => "tml-the-key" },
    exchange,
    clock,
    reporter,
    billing: new BillingPause(clock, reporter),
    random: () => 0,
    ...options,
  });
  const run = <T>(promise: PromiseLike<T>) => passTime(clock, promise);
  return { clock, logger, events, sent, transport, run, isClosed: () => closed };
}

function response({ status, body, headers = {} }: Exclude<Answer, number | Error>): HttpResponse {
  const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
  return { status, header: (name) => headers[name], body: new TextEncoder().encode(text) };
}

const ok = { status: 200, body: { status: "ok" } };
const failing = { status: 503, body: { detail: "busy" } };
const refused = connectionError(
  { method: "GET", url: "http://host.example/x", timeoutMs: 1 },
  Object.assign(new Error(), { code: "ECONNREFUSED" }),
);

describe("what is sent", () => {
  it("M-806: keeps the path prefix of the base URL", async () => {
    const { sent, transport } = setup([ok]);
    await transport.call("healthz", {});
    expect(sent[0]?.url).toBe("http://host.example/prefix/api/v1/healthz");
    expect(checkedBaseUrl("https://h")).toBe("https://h");
    expect(checkedBaseUrl("https://h:8/a/b//")).toBe("https://h:8/a/b");
  });

  it("refuses an invalid base URL before any request", () => {
    for (const bad of ["", "host:8000", "localhost", "ftp://host"]) {
      expect(() => checkedBaseUrl(bad), bad).toThrow(InvalidInputError);
    }
    expect(() => checkedBaseUrl("nonsense")).toThrow(/baseUrl: "nonsense" is not a URL/);
  });

  it("says what the contract's table of headers says", async () => {
    const { sent, transport } = setup([{ status: 200, body: { session_id: "s" } }]);
    for (let i = 0; i < 2; i++) {
      await transport.call("createSession", { tags: [], sdkVersion: "0.25.0" }, { headers: { "X-More": "1" } });
    }
    sent.shift(); // the first contact has a timeout of its own
    expect(sent[0]).toMatchObject({ method: "POST", pool: "session", timeoutMs: 60_000 });
    expect(sent[0]?.headers).toMatchObject({
      accept: "application/json",
      "content-type": "application/json",
      "user-agent": "tinklet/0.1.0",
      "x-stainless-package-version": "0.36.0",
      "x-stainless-runtime": "node",
      "x-stainless-runtime-version": process.version.slice(1),
      "x-stainless-async": "async",
      "x-api-key": "tml-the-key",
      "x-stainless-retry-count": "0",
      "x-stainless-read-timeout": "60",
      "x-more": "1",
    });
    expect(sent[0]?.headers["x-idempotency-key"]).toMatch(/^tinklet-[0-9a-f-]{36}$/);
    expect(sent[0]?.body).toBe('{"tags":[],"sdk_version":"0.25.0","type":"create_session"}');
  });

  it("says once what the server says will go", async () => {
    const note = (text: string, level?: string) => ({
      ...ok,
      headers: { "x-deprecation-note": text, ...(level === undefined ? {} : { "x-deprecation-level": level }) },
    });
    const { transport, logger } = setup([note("use b"), note("use b"), note("gone soon", " Error "), ok]);
    for (let i = 0; i < 4; i++) await transport.call("healthz", {});
    expect(logger.with("Deprecation")).toEqual([
      "warn: [tinklet] Deprecation notice: use b",
      "error: [tinklet] Deprecation notice: gone soon",
    ]);
  });

  it("sends neither a content type nor an idempotency key with a GET", async () => {
    const { sent, transport } = setup([ok]);
    await transport.call("healthz", {});
    expect(sent[0]?.headers["content-type"]).toBeUndefined();
    expect(sent[0]?.headers["x-idempotency-key"]).toBeUndefined();
    expect(sent[0]?.body).toBeUndefined();
  });

  it("sends a content type with a DELETE, and the query with a listing", async () => {
    const { sent, transport } = setup([{ status: 200, body: { sessions: [] } }]);
    await transport.call("deleteCheckpoint", { trainingRunId: "a:train:0", checkpointId: "weights/x" });
    expect(sent[0]).toMatchObject({ method: "DELETE" });
    expect(sent[0]?.headers["content-type"]).toBe("application/json");
    await transport.call("listSessions", { limit: 5 });
    expect(sent[1]?.url).toBe("http://host.example/prefix/api/v1/sessions?limit=5&offset=0&access_scope=owned");
  });

  it("M-808: defaultHeaders win over the SDK's own, except the credential", async () => {
    const { sent, transport } = setup([ok], {
      defaultHeaders: { "User-Agent": "mine", "X-Api-Key": "other", "X-B": "1" },
    });
    await transport.call("healthz", {});
    expect(sent[0]?.headers).toMatchObject({ "user-agent": "mine", "x-api-key": "tml-the-key", "x-b": "1" });
  });

  it("M-808: timeoutMs replaces the contract's for ordinary calls, and a call's own replaces both", async () => {
    const { sent, transport } = setup([{ status: 200, body: { status: "ok", type: "session_heartbeat" } }], {
      timeoutMs: 7,
    });
    await transport.call("healthz", {});
    await transport.call("healthz", {}, { timeoutMs: 9 });
    await transport.call("sessionHeartbeat", { sessionId: "s" });
    expect(sent.map(({ timeoutMs }) => timeoutMs)).toEqual([7, 9, 10_000]);
    expect(sent.map(({ headers }) => headers["x-stainless-read-timeout"])).toEqual(["0.007", "0.009", "10"]);
  });

  it("M-808: a call's own token replaces the credential", async () => {
    const { sent, transport } = setup([ok]);
    await transport.call("healthz", {}, { token: "tml-another" });
    expect(sent[0]?.headers["x-api-key"]).toBe("tml-another");
  });

  it("waits for a credential that takes time", async () => {
    const { sent, transport } = setup([ok], { credentials: { token: async () => "tml-later" } });
    await transport.call("healthz", {});
    expect(sent[0]?.headers["x-api-key"]).toBe("tml-later");
  });
});

describe("retries", () => {
  it("M-803: 408, 409, 429, 5xx and transport errors are sent again with one key and a count", async () => {
    const { sent, transport, run, events } = setup([ok, 408, 409, 429, failing, refused, ok]);
    await transport.call("healthz", {});
    const result = run(transport.call("weightsInfo", { tinkerPath: "tinker://r/weights/x" }).catch((e: unknown) => e));
    expect(await result).toBeInstanceOf(ResponseValidationError); // the last answer is of another route
    const tries = sent.slice(1);
    expect(tries.map(({ atMs }) => atMs)).toEqual([0, 500, 1500, 3500, 7500, 15_500]);
    expect(new Set(tries.map(({ headers }) => headers["x-idempotency-key"])).size).toBe(1);
    expect(tries.map(({ headers }) => headers["x-stainless-retry-count"])).toEqual(["0", "1", "2", "3", "4", "5"]);
    expect(events.filter(({ type }) => type === "request.retry")).toHaveLength(5);
    expect(events[3]).toEqual({
      type: "request.retry",
      operation: "weightsInfo",
      attempt: 4,
      delayMs: 4000,
      reason: "503 from POST /api/v1/weights_info: busy",
    });
  });

  it("M-703, M-802: at most ten retries, then the last error", async () => {
    const { sent, transport, run } = setup([ok, failing]);
    await transport.call("healthz", {});
    const error = await run(failure(transport.call("healthz", {})));
    expect(error).toBeInstanceOf(InternalServerError);
    expect(sent).toHaveLength(12);
  });

  it("M-703: no attempt starts after five minutes, however many are left", async () => {
    const { sent, transport, run } = setup([ok, { ...failing, headers: { "retry-after": "50" } }], { maxRetries: 100 });
    await transport.call("healthz", {});
    await run(failure(transport.call("healthz", {})));
    expect(sent.slice(1).map(({ atMs }) => atMs)).toEqual([0, 50_000, 100_000, 150_000, 200_000, 250_000, 300_000]);
  });

  it("M-808: maxRetries, of the client and of the call", async () => {
    const { sent, transport, run } = setup([ok, failing], { maxRetries: 1 });
    await transport.call("healthz", {});
    await run(failure(transport.call("healthz", {})));
    expect(sent).toHaveLength(3);
    await run(failure(transport.call("healthz", {}, { maxRetries: 3 })));
    expect(sent).toHaveLength(7);
    await run(failure(transport.call("healthz", {}, { maxRetries: 0 })));
    expect(sent).toHaveLength(8);
  });

  it("M-802: retry-after-ms and retry-after are obeyed", async () => {
    const wait = (headers: Record<string, string>) => ({ ...failing, headers });
    const { sent, transport, run } = setup([ok, wait({ "retry-after-ms": "20" }), wait({ "retry-after": "3" }), ok]);
    await transport.call("healthz", {});
    await run(transport.call("healthz", {}));
    expect(sent.slice(1).map(({ atMs }) => atMs)).toEqual([0, 20, 3020]);
  });

  it("M-802: x-should-retry overrules the status, both ways", async () => {
    const no = setup([ok, { ...failing, headers: { "x-should-retry": "false" } }]);
    await no.transport.call("healthz", {});
    await no.run(failure(no.transport.call("healthz", {})));
    expect(no.sent).toHaveLength(2);
    const yes = setup([ok, { status: 422, body: {}, headers: { "x-should-retry": "true" } }, ok]);
    await yes.transport.call("healthz", {});
    await yes.run(yes.transport.call("healthz", {}));
    expect(yes.sent).toHaveLength(3);
  });

  it("M-803: a user error is thrown at once", async () => {
    for (const [status, type] of [
      [400, BadRequestError],
      [401, AuthenticationError],
      [403, PermissionDeniedError],
      [404, NotFoundError],
      [422, UnprocessableEntityError],
      [410, APIStatusError],
      [413, APIStatusError],
    ] as const) {
      const { sent, transport, run } = setup([{ status, body: { detail: "no" } }]);
      expect(await run(failure(transport.call("healthz", {})))).toBeInstanceOf(type);
      expect(sent).toHaveLength(1);
    }
  });

  it("each status has its class when the budget is spent", async () => {
    for (const [status, type] of [
      [409, ConflictError],
      [402, BillingError],
      [429, RateLimitError],
      [500, InternalServerError],
      [599, InternalServerError],
    ] as const) {
      const { transport, run } = setup([ok, { status, body: {} }]);
      await transport.call("healthz", {});
      expect(await run(failure(transport.call("healthz", {})))).toBeInstanceOf(type);
    }
  });

  it("routes whose caller owns the retries are sent once", async () => {
    const { sent, transport, run } = setup([ok, failing]);
    await transport.call("healthz", {});
    await run(failure(transport.call("sessionHeartbeat", { sessionId: "s" })));
    expect(sent).toHaveLength(2);
  });

  it("stops at an abort, while waiting too, with the reason untouched", async () => {
    const { clock, sent, transport } = setup([ok, failing]);
    await transport.call("healthz", {});
    const controller = new AbortController();
    const reason = new Error("enough");
    const failed = failure(transport.call("healthz", {}, { signal: controller.signal }));
    await clock.advance(100);
    controller.abort(reason);
    expect(await failed).toBe(reason);
    expect(sent).toHaveLength(2);
    expect(clock.pending).toBe(0);
  });

  it("does not retry what is not its business", async () => {
    const bug = new RangeError("bug");
    const { sent, transport } = setup([bug]);
    expect(await failure(transport.call("healthz", {}))).toBe(bug);
    expect(sent).toHaveLength(1);
  });
});

describe("402", () => {
  const unpaid = { status: 402, body: { detail: "pay" } };

  it("M-504: is waited out every five seconds and counts against no budget", async () => {
    const { sent, transport, run, logger } = setup([...Array<Answer>(61).fill(unpaid), failing, ok], {
      maxRetries: 1,
    });
    await run(transport.call("healthz", {}));
    expect(sent).toHaveLength(63);
    expect(sent[1]?.atMs).toBe(5000);
    expect(sent[61]?.atMs).toBe(305_000);
    expect(sent[62]?.atMs).toBe(305_500); // the pause is longer than the window, and the retry still happens
    expect(logger.with("402").length).toBeGreaterThan(1);
  });

  it("M-504: is thrown once the pause has lasted too long", async () => {
    const { transport, run } = setup([unpaid]);
    transport.billing.maxPauseMs = 12_000;
    const error = await run(failure(transport.call("healthz", {})));
    expect(error).toMatchObject({ status: 402, code: "http_402" });
    expect(error["hint"]).toContain("payment method");
  });
});

describe("bare 400", () => {
  /** How often in a row a bare 400 is taken for a lost request. */
  async function lost(transport: HttpTransport, operation: "healthz" | "getServerCapabilities" | "authToken") {
    for (let count = 0; ; count++) {
      const outcome = await transport.attempt(transport.prepare(operation, {})).catch((error: unknown) => error);
      if (!(outcome instanceof APIConnectionError)) return count;
      expect(outcome.message).toContain("status 400 without a body");
    }
  }

  it("M-504: counts as a lost request, sixteen times per pool", async () => {
    const { transport, run } = setup([ok, 400]);
    await transport.call("healthz", {});
    expect(await lost(transport, "healthz")).toBe(16);
    expect(await lost(transport, "getServerCapabilities")).toBe(0); // the same pool
    expect(await lost(transport, "authToken")).toBe(16); // another one
    expect(await run(failure(transport.call("healthz", {})))).toBeInstanceOf(BadRequestError);
  });

  it("regains its budget one by one with every success, up to sixteen", async () => {
    const bare = Array<Answer>(16).fill(400);
    const { transport } = setup([ok, ok, ...bare, ok, ok, ok, 400]);
    await transport.call("healthz", {});
    await transport.call("healthz", {});
    expect(await lost(transport, "healthz")).toBe(16); // ends with the first success
    await transport.call("healthz", {});
    await transport.call("healthz", {});
    expect(await lost(transport, "healthz")).toBe(3);
  });

  it("is retried like one", async () => {
    const { sent, transport, run } = setup([ok, 400, 400, ok]);
    await transport.call("healthz", {});
    await run(transport.call("healthz", {}));
    expect(sent).toHaveLength(4);
  });

  it("is an ordinary 400 when it has a body", async () => {
    const { sent, transport } = setup([{ status: 400, body: { detail: "no" } }]);
    expect(await failure(transport.call("healthz", {}))).toBeInstanceOf(BadRequestError);
    expect(sent).toHaveLength(1);
  });
});

describe("first contact", () => {
  it("fails within three seconds where the connection is refused, with the URL and a hint", async () => {
    const { clock, sent, transport, run } = setup([refused]);
    const error = await run(failure(transport.call("healthz", {})));
    expect(error).toBeInstanceOf(APIConnectionError);
    expect(error["code"]).toBe("unreachable");
    expect(error.message).toBe(
      "No Tinker server answers at http://host.example/prefix: GET http://host.example/x: connection refused",
    );
    expect(error["hint"]).toBe("Check the URL (baseUrl, TINKER_BASE_URL) and the network.");
    expect(clock.monotonic()).toBeLessThanOrEqual(3_000);
    expect(sent).toHaveLength(4);
  });

  it("fails within about fifteen seconds where the server may only be slow", async () => {
    const cause = Object.assign(new Error("reset"), { code: "ECONNRESET" });
    const reset = connectionError({ method: "GET", url: "http://host.example/x", timeoutMs: 1 }, cause);
    const { clock, sent, transport, run } = setup([reset]);
    expect(await run(failure(transport.call("healthz", {})))).toMatchObject({ code: "unreachable" });
    expect(clock.monotonic()).toBeGreaterThan(10_000);
    expect(clock.monotonic()).toBeLessThanOrEqual(15_000);
    expect(sent).toHaveLength(6);
  });

  it("tries for the configured time", async () => {
    const { clock, transport, run } = setup([refused]);
    expect(await run(failure(transport.call("healthz", {}, { firstContactMs: 60_000 })))).toMatchObject({
      code: "unreachable",
    });
    expect(clock.monotonic()).toBe(60_000);
  });

  it("shortens the attempts to the time that is left", async () => {
    const late = timeoutError({ method: "GET", url: "http://host.example/x", timeoutMs: 1 });
    const { sent, transport, run } = setup([late]);
    const error = await run(failure(transport.call("healthz", {})));
    expect(sent.map(({ timeoutMs }) => timeoutMs)).toEqual([15_000, 14_500, 13_500, 11_500, 7500, 1000]);
    expect(error["hint"]).toContain("proxies");
    expect(error.cause).toBeInstanceOf(APITimeoutError);
  });

  it("says what to do about an unknown host and a local server that is not running", async () => {
    const unknown = connectionError(
      { method: "GET", url: "http://h/x", timeoutMs: 1 },
      Object.assign(new Error(), { code: "ENOTFOUND" }),
    );
    const one = setup([unknown]);
    expect((await one.run(failure(one.transport.call("healthz", {}))))["hint"]).toContain("The host name is not known");
    for (const baseUrl of ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"]) {
      const two = setup([refused], { baseUrl });
      expect((await two.run(failure(two.transport.call("healthz", {}))))["hint"]).toContain("npx tinklet serve");
    }
  });

  it("takes a gateway that only answers with errors for a dead server", async () => {
    const { clock, transport, run } = setup([failing]);
    const error = await run(failure(transport.call("healthz", {})));
    expect(error).toMatchObject({ code: "unreachable" });
    expect(error.message).toContain("responds with errors only: 503");
    expect(clock.monotonic()).toBeLessThanOrEqual(15_000);
  });

  it("ends with the first response below 500, including a refusal; later retries use the usual window", async () => {
    const { clock, sent, transport, run } = setup([{ status: 404, body: {} }, refused]);
    await failure(transport.call("healthz", {}));
    const error = await run(failure(transport.call("healthz", {})));
    expect(error).toMatchObject({ code: "connection" });
    expect(sent).toHaveLength(12);
    expect(clock.monotonic()).toBeGreaterThan(120_000);
  });

  it("suggests to check the URL if it is not a Tinker server", async () => {
    const { transport } = setup([{ status: 404, body: "<html>" }]);
    const error = await failure(transport.call("clientConfig", { sdkVersion: "0.25.0" }));
    expect(error["hint"]).toContain("Check that http://host.example/prefix is a Tinker server");
    const page = setup([{ status: 200, body: "<html>", headers: { "content-type": "text/html" } }]);
    const odd = await failure(page.transport.call("clientConfig", { sdkVersion: "0.25.0" }));
    expect(odd).toBeInstanceOf(ResponseValidationError);
    expect(odd["hint"]).toContain("the response is not JSON");
    expect(odd.message).toContain("/client/config, text/html");
  });
});

describe("errors", () => {
  it("M-804: carry message, status, category, body, request id and retryAfterMs", async () => {
    const { transport } = setup([
      {
        status: 422,
        body: { message: "bad rank", category: "USER", request_id: "req-9", retry_after_ms: 5 },
        headers: { "x-request-id": "header-id" },
      },
    ]);
    expect(await failure(transport.call("healthz", {}))).toMatchObject({
      message: "422 from GET /api/v1/healthz: bad rank (request req-9)",
      status: 422,
      category: "user",
      requestId: "req-9",
      retryAfterMs: 5,
      body: { message: "bad rank", category: "USER", request_id: "req-9", retry_after_ms: 5 },
    });
  });

  it("M-804: the message comes from message, error or detail, however nested", async () => {
    for (const [body, said] of [
      [{ message: "m", error: "e" }, ": m"],
      [{ error: "e", detail: "d" }, ": e"],
      [{ error: { message: "inner" } }, ": inner"],
      [{ detail: "d" }, ": d"],
      [{ detail: [{ loc: ["body", "rank"], msg: "too big" }, { msg: "other" }] }, ": body.rank: too big; other"],
      [{ other: 1 }, ""],
      [["a", {}, "b"], ": a; b"],
      ["plain text", ": plain text"],
      [undefined, ""],
    ] as const) {
      const { transport } = setup([{ status: 404, body }]);
      expect((await failure(transport.call("healthz", {}))).message).toBe(`404 from GET /api/v1/healthz${said}`);
    }
  });

  it("takes the request id from a header when the body has none, and cuts endless texts", async () => {
    const { transport } = setup([{ status: 404, body: "x".repeat(5000), headers: { "x-request-id": "h1" } }]);
    const error = await failure(transport.call("healthz", {}));
    expect(error["requestId"]).toBe("h1");
    expect(error.message.length).toBeLessThan(2100);
    expect(error["category"]).toBeUndefined();
  });

  it("M-805: contain no secrets, for everything that the server echoes", async () => {
    const body = { detail: "key tml-the-key is bad", "x-api-key": "tml-the-key", list: ["tml-zzzzzz"] };
    const { transport } = setup([{ status: 401, body }]);
    const error = await failure(transport.call("healthz", {}));
    expect(JSON.stringify([error.message, error["body"], error["hint"]])).not.toMatch(/tml-/);
    expect(error.message).toContain("[redacted] is bad");
  });

  it("names the field of an answer that does not fit, and never retries it", async () => {
    const { sent, transport } = setup([
      { status: 200, body: { status: "bad" }, headers: { "content-type": "application/json" } },
    ]);
    const error = await failure(transport.call("healthz", {}));
    expect(error).toMatchObject({ field: "status" });
    expect(error["hint"]).toContain("another version");
    expect(sent).toHaveLength(1);
  });

  it("ignores the body of an answer that has no result", async () => {
    const { transport } = setup([{ status: 204 }]);
    expect(
      await transport.call("publishCheckpoint", { trainingRunId: "r", checkpointId: "weights/x" }),
    ).toBeUndefined();
  });
});

describe("redirects", () => {
  const to = (status: number, location: string) => ({ status, headers: { location } });

  it("follows them, and keeps method and body where the status says so", async () => {
    const { sent, transport } = setup([
      to(307, "/elsewhere"),
      to(308, "http://host.example/third"),
      { status: 200, body: { jwt: "j" } },
    ]);
    await transport.call("authToken", {});
    expect(sent.map(({ method, url }) => `${method} ${url}`)).toEqual([
      "POST http://host.example/prefix/api/v1/auth/token",
      "POST http://host.example/elsewhere",
      "POST http://host.example/third",
    ]);
    expect(sent[2]?.body).toBe("{}");
    expect(sent[2]?.headers["x-api-key"]).toBe("tml-the-key");
  });

  it("turns a POST into a GET after 301, 302 and 303", async () => {
    for (const status of [301, 302, 303]) {
      const { sent, transport } = setup([to(status, "/b"), { status: 200, body: { jwt: "j" } }]);
      await transport.call("authToken", {});
      expect([sent[1]?.method, sent[1]?.body]).toEqual(["GET", undefined]);
    }
    const { sent, transport } = setup([to(302, "/b"), { status: 204 }]);
    await transport.call("deleteCheckpoint", { trainingRunId: "r", checkpointId: "weights/x" });
    expect(sent[1]?.method).toBe("DELETE");
  });

  it("M-805: leaves the credential behind when it leads to another server", async () => {
    const { sent, transport } = setup([to(307, "https://evil.example/x"), ok], {
      defaultHeaders: { "cf-access-client-secret": "s", authorization: "a", cookie: "c", keep: "1" },
    });
    await transport.call("healthz", {});
    expect(sent[1]?.headers).toMatchObject({ keep: "1" });
    for (const name of ["x-api-key", "cf-access-client-secret", "authorization", "cookie"]) {
      expect(sent[1]?.headers[name], name).toBeUndefined();
    }
  });

  it("gives up after twenty, and leaves an archive's redirect alone", async () => {
    const { sent, transport } = setup([to(307, "/again")], { maxRetries: 0 });
    expect((await failure(transport.call("healthz", {}))).message).toContain("too many redirects");
    expect(sent).toHaveLength(21);
    const archive = setup([to(302, "https://files.example/a")]);
    const request = archive.transport.prepare("getCheckpointArchiveUrl", {
      trainingRunId: "r",
      checkpointId: "weights/x",
    });
    expect((await archive.transport.attempt(request)).status).toBe(302);
    expect(archive.sent).toHaveLength(1);
  });

  it("a redirect that leads nowhere is an error", async () => {
    const { transport } = setup([302]);
    expect(await failure(transport.call("healthz", {}))).toMatchObject({ status: 302 });
  });
});

describe("close", () => {
  it("ends waits at once, and every later call", async () => {
    const { clock, transport, isClosed, sent } = setup([ok, failing]);
    await transport.call("healthz", {});
    const failed = failure(transport.call("healthz", {}));
    const other = failure(transport.call("healthz", {}, { signal: new AbortController().signal }));
    await clock.advance(10);
    await transport.close();
    expect(await failed).toMatchObject({ code: "closed" });
    expect(await other).toMatchObject({ code: "closed" });
    expect(isClosed()).toBe(true);
    expect(await failure(transport.call("healthz", {}))).toMatchObject({ code: "closed" });
    expect(sent).toHaveLength(3);
  });
});
