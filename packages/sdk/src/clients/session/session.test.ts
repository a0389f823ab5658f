import { APIConnectionError } from "@tinklet/wire/errors";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type FaultScript, faultsInOrder } from "../../testing/faults.ts";
import { failure, harness } from "../../testing/harness.ts";
import { stubToken } from "../../testing/stub-server.ts";
import type { FetchLike } from "../../transport/exchange.ts";
import type { CallOptions } from "../../transport/transport.ts";
import { ServiceClient } from "../service-client.ts";
import { noInstruments } from "./instruments.ts";
import { Session } from "./session.ts";

afterEach(() => vi.unstubAllEnvs());

describe("connecting", () => {
  it("making a client does no I/O; connect fetches the configuration once; the session waits until it is needed", async () => {
    const { service, stub, run } = harness();
    expect(stub.calls).toEqual([]);
    await run(Promise.all([service.connect(), service.connect()]));
    expect(stub.calls.map(({ operation }) => operation)).toEqual(["clientConfig", "clientDynamicConfig"]);
    await run(service.getServerCapabilities());
    expect(service.sessionId).toBeUndefined();
    await run(service.createSamplingClient({ baseModel: "m" }));
    await run(service.createSamplingClient({ baseModel: "m" }));
    expect(stub.callsOf("createSession")).toHaveLength(1);
    expect(service.sessionId).toBe("session-1");
    expect(stub.calls.map(({ operation }) => operation).slice(0, 5)).toEqual([
      "clientConfig",
      "clientDynamicConfig",
      "getServerCapabilities",
      "createSession",
      "createSamplingSession",
    ]);
  });

  it("a failure to connect may be tried again", async () => {
    const { service, run } = harness({
      faults: faultsInOrder("clientConfig", [{ kind: "status", status: 404, body: {} }]),
    });
    expect(await run(failure(service.connect()))).toMatchObject({ status: 404 });
    await run(service.connect());
  });

  it("ServiceClient.connect shows a dead server at once, and leaves nothing behind", async () => {
    const { clock, run } = harness();
    const error = await run(
      failure(
        ServiceClient.connect({
          apiKey: "tml-x",
          baseUrl: "http://dead.example",
          clock,
          fetch: () => Promise.reject(new TypeError("fetch failed")),
        }),
      ),
    );
    expect(error).toBeInstanceOf(APIConnectionError);
    expect(error.message).toContain("http://dead.example");
    expect(clock.pending).toBe(0);
  });

  describe("ServiceClient.connect, where the connection is refused,", () => {
    const setup = (answersAfterMs = Infinity) => {
      const { clock, run, stub } = harness();
      const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
      const fetch: FetchLike = (url, init) =>
        clock.monotonic() < answersAfterMs
          ? Promise.reject(new TypeError("fetch failed", { cause: refused }))
          : stub.fetch(url, init);
      const options = { apiKey: "tml-x", baseUrl: "http://127.0.0.1:8000", clock, fetch, telemetry: false };
      const connect = (call?: CallOptions) => ServiceClient.connect(options, call);
      return { clock, run, connect };
    };

    it("fails after three seconds", async () => {
      const { clock, run, connect } = setup();
      expect(await run(failure(connect()))).toMatchObject({
        code: "unreachable",
        message: expect.stringContaining("connection refused"),
        hint: expect.stringContaining("npx tinklet serve"),
      });
      expect(clock.monotonic()).toBeLessThanOrEqual(3_000);
      expect(clock.pending).toBe(0);
    });

    it("tries for timeoutMs, longer or shorter, and says what was wrong", async () => {
      for (const timeoutMs of [500, 2_000, 60_000]) {
        const { clock, run, connect } = setup();
        expect(await run(failure(connect({ timeoutMs })))).toMatchObject({ code: "unreachable" });
        expect(clock.monotonic()).toBeLessThanOrEqual(timeoutMs);
        expect(clock.monotonic()).toBeGreaterThanOrEqual(timeoutMs - 1_000);
        expect(clock.pending).toBe(0);
      }
    });

    it("finds a server that starts within timeoutMs", async () => {
      const { run, connect } = setup(40_000);
      const service = await run(connect({ timeoutMs: 60_000 }));
      await run(service.close());
    });

    it("ends with its signal", async () => {
      const { clock, connect } = setup();
      const controller = new AbortController();
      const connecting = failure(connect({ signal: controller.signal, timeoutMs: 60_000 }));
      await clock.advance(10_000);
      const reason = new Error("enough");
      controller.abort(reason);
      await clock.advance(0);
      expect(await connecting).toBe(reason);
      expect(clock.pending).toBe(0);
    });

    it("tries longer for a call that joins and wants to wait longer", async () => {
      const { clock, run, stub } = harness();
      let up = false;
      const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
      const fetch: FetchLike = (url, init) =>
        up ? stub.fetch(url, init) : Promise.reject(new TypeError("fetch failed", { cause: refused }));
      const service = new ServiceClient({ apiKey: "tml-x", baseUrl: "http://127.0.0.1:8000", clock, fetch });
      const impatient = failure(service.connect());
      const patient = service.connect({ timeoutMs: 30_000 });
      await clock.advance(5_000);
      expect(await impatient).toMatchObject({ code: "unreachable" });
      up = true;
      await run(patient);
      await run(service.close());
    });
  });

  it("a call's own signal and limits apply to the first contact, in every state of the server", async () => {
    const down = () => Promise.reject(new TypeError("fetch failed"));
    const hanging = () => new Promise<never>(() => {});
    for (const fetch of [down, hanging]) {
      const { clock, service, run } = harness({}, { fetch });
      const controller = new AbortController();
      const aborted = service.getServerCapabilities({ signal: controller.signal });
      const late = service.createLoraTrainingClient({ baseModel: "m", timeoutMs: 500 });
      await clock.advance(400);
      controller.abort("enough");
      await expect(aborted).rejects.toBe("enough");
      await clock.advance(100);
      await expect(late).rejects.toMatchObject({ code: "timeout" });
      await run(clock.sleep(1)); // no caller waits: nothing continues in the background
      expect(clock.pending).toBe(0);
      const before = clock.monotonic();
      const once = service.getServerCapabilities({ timeoutMs: 500, maxRetries: 0 });
      expect((await run(failure(once))).constructor.name).toMatch(/^API(Connection|Timeout)Error$/);
      expect(clock.monotonic() - before).toBeLessThanOrEqual(500);
    }
  });

  it("connecting continues as long as one call waits for it, with that call's number of retries", async () => {
    const { clock, service, stub, run } = harness({
      faults: faultsInOrder("clientConfig", [{ kind: "status", status: 503, body: {} }]),
    });
    const controller = new AbortController();
    const impatient = service.getServerCapabilities({ signal: controller.signal });
    const once = service.getServerCapabilities({ maxRetries: 0 });
    const patient = service.getServerCapabilities();
    await clock.advance(0);
    controller.abort("enough");
    await expect(impatient).rejects.toBe("enough");
    await run(Promise.all([once, patient]));
    expect(stub.callsOf("clientConfig")).toHaveLength(2);
  });

  it("a call that tries once does not decide for the ones that joined it", async () => {
    const { service, run } = harness({
      faults: faultsInOrder("clientConfig", [{ kind: "status", status: 503, body: {} }]),
    });
    const once = failure(service.getServerCapabilities({ maxRetries: 0 }));
    const patient = service.getServerCapabilities();
    expect((await run(once)).message).toContain("503");
    await run(patient);
  });

  it("keeps nothing of calls that were aborted before they began", async () => {
    const session = new Session({ apiKey: "tml-x", baseUrl: "http://stub.example", telemetry: false });
    const ended: unknown[] = [];
    const start = () => ({ set: () => {}, end: (error: unknown) => ended.push(error) });
    session.instruments = { ...noInstruments, start };
    const calls = Array.from({ length: 5 }, () =>
      session.start({ requestType: "Sample", operation: "sample", signal: AbortSignal.abort("no") }, async () => 1),
    );
    for (const call of calls) await expect(call).rejects.toBe("no");
    expect([session.underWay, ended.length]).toEqual([0, 5]);
    await session.close();
  });

  it("a server without dynamic configuration is fine; one that fails at it is warned about", async () => {
    const absent = harness({
      faults: faultsInOrder("clientDynamicConfig", [{ kind: "status", status: 404, body: {} }]),
    });
    await absent.run(absent.service.connect());
    expect(absent.logger.with("dynamic")).toHaveLength(0);
    const failing = harness({
      faults: ({ operation }) =>
        operation === "clientDynamicConfig" ? { kind: "status", status: 500, body: {} } : undefined,
    });
    await failing.run(failing.service.connect());
    expect(failing.stub.callsOf("clientDynamicConfig")).toHaveLength(3);
    expect(failing.logger.with("defaults are used")).toHaveLength(1);
  });

  it("M-906: says the mirrored version, everywhere", async () => {
    const { service, stub, run } = harness();
    await run(service.createSamplingClient({ baseModel: "m" }));
    for (const operation of ["clientConfig", "clientDynamicConfig", "createSession"] as const) {
      expect(stub.callsOf(operation)[0]?.body).toMatchObject({ sdkVersion: "0.36.0" });
    }
  });
});

describe("the session", () => {
  it("M-808: tags, project and metadata, from options or environment", async () => {
    const plain = harness();
    await plain.run(plain.service.createSamplingClient({ baseModel: "m" }));
    expect(plain.stub.callsOf("createSession")[0]?.body).toEqual({
      tags: [],
      userMetadata: {},
      sdkVersion: "0.36.0",
      type: "create_session",
    });
    vi.stubEnv("TINKER_TAGS", "a,b,a");
    vi.stubEnv("TINKER_PROJECT_ID", "env-project");
    const env = harness();
    await env.run(env.service.createSamplingClient({ baseModel: "m" }));
    expect(env.stub.callsOf("createSession")[0]?.body).toMatchObject({ tags: ["a", "b"], projectId: "env-project" });
    const given = harness({}, { tags: ["x"], projectId: "mine", userMetadata: { n: null } });
    await given.run(given.service.createSamplingClient({ baseModel: "m" }));
    expect(given.stub.callsOf("createSession")[0]?.body).toMatchObject({
      tags: ["x"],
      projectId: "mine",
      userMetadata: { n: null },
    });
    vi.stubEnv("TINKER_TAGS", "");
    const empty = harness();
    await empty.run(empty.service.createSamplingClient({ baseModel: "m" }));
    expect(empty.stub.callsOf("createSession")[0]?.body).toMatchObject({ tags: [""] });
  });

  it("M-412: hands on what the server wants to say", async () => {
    const { service, run, logger, stub } = harness();
    const fetch = stub.fetch;
    const talking = new ServiceClient({
      apiKey: "tml-x",
      baseUrl: "http://stub.example",
      logger,
      logLevel: "info",
      telemetry: false,
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        if (!url.endsWith("/create_session")) return response;
        return Response.json({ session_id: "s", info_message: "I", warning_message: "W", error_message: "E" });
      },
    });
    await talking.createSamplingClient({ baseModel: "m" });
    await talking.close();
    await run(service.close());
    expect(logger.lines).toEqual(["info: [tinklet] I", "warn: [tinklet] W", "error: [tinklet] E"]);
  });

  it("names the session where a name is given", async () => {
    const named = harness({}, { displayName: "maths" });
    await named.run(named.service.createSamplingClient({ baseModel: "m" }));
    expect(named.stub.callsOf("createSession")[0]?.body).toMatchObject({ displayName: "maths" });
    const plain = harness();
    await plain.run(plain.service.createSamplingClient({ baseModel: "m" }));
    expect(plain.stub.callsOf("createSession")[0]?.body).not.toHaveProperty("displayName");
  });

  it("tells the server how the session ended, where that is said, and ends although the server cannot hear it", async () => {
    const told = harness();
    await told.run(told.service.createSamplingClient({ baseModel: "m" }));
    await told.run(told.service.close("errored", "out of data"));
    const [call] = told.stub.callsOf("finishSession");
    expect(call).toMatchObject({ body: { reason: { type: "errored" }, detail: "out of data" } });
    expect(call?.path).toContain("/sessions/session-1/finish");

    const silent = harness();
    await silent.run(silent.service.createSamplingClient({ baseModel: "m" }));
    await silent.run(silent.service.close());
    const never = harness();
    await never.run(never.service.close("success"));
    for (const { stub } of [silent, never]) expect(stub.callsOf("finishSession")).toHaveLength(0);

    const old = harness({
      faults: ({ operation }) =>
        operation === "finishSession" ? { kind: "status", status: 404, body: { detail: "no route" } } : undefined,
    });
    await old.run(old.service.createSamplingClient({ baseModel: "m" }));
    await old.run(old.service.close("success"));
  });

  it("stops heartbeats when the server reports that the session has ended (410)", async () => {
    const { service, stub, run, clock } = harness({
      faults: ({ operation }) =>
        operation === "sessionHeartbeat" ? { kind: "status", status: 410, body: {} } : undefined,
    });
    await run(service.createSamplingClient({ baseModel: "m" }));
    await clock.advance(60_000);
    expect(stub.callsOf("sessionHeartbeat")).toHaveLength(1);
  });

  it("sends a heartbeat every ten seconds, and warns when none has come through for two minutes", async () => {
    let down = false;
    const { service, stub, run, clock, events, logger } = harness({
      faults: ({ operation }) =>
        down && operation === "sessionHeartbeat" ? { kind: "status", status: 500, body: {} } : undefined,
    });
    await run(service.createSamplingClient({ baseModel: "m" }));
    await clock.advance(9_999);
    expect(stub.callsOf("sessionHeartbeat")).toHaveLength(0);
    await clock.advance(20_001);
    expect(stub.callsOf("sessionHeartbeat").map(({ body }) => body)).toEqual([
      { sessionId: "session-1", type: "session_heartbeat" },
      { sessionId: "session-1", type: "session_heartbeat" },
      { sessionId: "session-1", type: "session_heartbeat" },
    ]);
    down = true;
    await clock.advance(120_000);
    expect(stub.callsOf("sessionHeartbeat")).toHaveLength(15); // one each, never retried
    expect(logger.with("heartbeat")).toHaveLength(0);
    await clock.advance(10_000);
    expect(events.at(-1)).toEqual({ type: "session.heartbeat_failing", sessionId: "session-1", sinceMs: 130_000 });
    expect(logger.with("No heartbeat of session session-1")).toHaveLength(1);
    down = false;
    await clock.advance(10_000);
    down = true;
    const before = events.length;
    await clock.advance(120_000);
    expect(events).toHaveLength(before); // a success restarts the count
  });

  it("refreshes the dynamic configuration, at most every ten seconds, and keeps the last good one", async () => {
    let interval = 1;
    let down = false;
    const { service, run, clock, stub } = harness({
      faults: ({ operation }) => {
        if (operation !== "clientDynamicConfig") return undefined;
        if (down) return { kind: "status", status: 500, body: {} };
        return { kind: "status", status: 200, body: { refresh_interval_sec: interval } };
      },
    });
    await run(service.createSamplingClient({ baseModel: "m" }));
    const count = () => stub.callsOf("clientDynamicConfig").length;
    await clock.advance(10_000);
    expect(count()).toBe(2);
    interval = 60;
    await clock.advance(10_000);
    await clock.advance(59_000);
    expect(count()).toBe(3);
    down = true;
    await clock.advance(1_000);
    expect(count()).toBe(4);
    await clock.advance(60_000);
    expect(count()).toBe(5);
  });
});

describe("credentials", () => {
  it("exchanges the key for a token when the server wants it, and uses the token from then on", async () => {
    const { service, stub, run } = harness({ config: { pjwt_auth_enabled: true } });
    await run(service.getServerCapabilities());
    expect(stub.calls.map(({ operation }) => operation)).toEqual([
      "clientConfig",
      "authToken",
      "clientDynamicConfig",
      "getServerCapabilities",
    ]);
    const keys = stub.calls.map(({ headers }) => headers["x-api-key"]);
    expect(keys.slice(0, 2)).toEqual(["tml-test-key", "tml-test-key"]);
    expect(keys[2]).toMatch(/^eyJ/);
    expect(keys[3]).toBe(keys[2]);
    expect(await service.createRestClient().whoami()).toEqual({ userUrn: "urn:user:1", email: "a@b.example" });
  });

  it("refreshes the token in the background", async () => {
    const { service, stub, run, clock } = harness({ config: { pjwt_auth_enabled: true } });
    await run(service.connect());
    await clock.advance(3_300_000);
    expect(stub.callsOf("authToken")).toHaveLength(2);
    await run(service.close());
    expect(clock.pending).toBe(0);
  });

  it("a connection that was given up after its exchange leaves no second token to refresh", async () => {
    const faults = faultsInOrder("clientDynamicConfig", [{ kind: "delivery", delivery: "stall" }]);
    const { service, stub, run, clock } = harness({ config: { pjwt_auth_enabled: true }, faults });
    const controller = new AbortController();
    const first = service.connect({ signal: controller.signal });
    while (stub.callsOf("clientDynamicConfig").length === 0) await clock.advance(0);
    controller.abort(new Error("enough"));
    expect((await run(failure(first))).message).toBe("enough");
    await run(service.connect());
    await clock.advance(3_300_000);
    expect(stub.callsOf("authToken")).toHaveLength(3); // two connections, one refresh
    await run(service.close());
    expect(clock.pending).toBe(0);
  });

  it("hands its token to another thread, which renews it by itself", async () => {
    const { service, run, stub, clock } = harness({ config: { pjwt_auth_enabled: true } });
    const sampler = await run(service.createSamplingClient({ baseModel: "m" }));
    const handle = await run(sampler.handle());
    expect(handle.session.token).toMatch(/^eyJ/);
    const { SamplingClient } = await import("../sampling/sampling-client.ts");
    const other = SamplingClient.fromHandle(handle, { fetch: stub.fetch, clock, telemetry: false });
    await run(other.getBaseModel());
    expect(stub.calls.at(-1)?.headers["x-api-key"]).toBe(handle.session.token);
    expect(stub.callsOf("authToken")).toHaveLength(1);
    await run(Promise.all([other.close(), service.close()]));
  });

  it("a plain key cannot say whose it is; a passport token can", async () => {
    const { service, run } = harness();
    expect(await run(failure(service.createRestClient().whoami()))).toMatchObject({ code: "whoami_unavailable" });
    const passport = harness({}, { apiKey: stubToken(9e9, { iss: "passport-x" }) });
    expect(await passport.run(passport.service.createRestClient().whoami())).toMatchObject({ userUrn: "urn:user:1" });
  });

  it("M-805: Cloudflare Access headers come from the environment, and defaultHeaders win", async () => {
    vi.stubEnv("CLOUDFLARE_ACCESS_CLIENT_ID", "id-1");
    vi.stubEnv("CLOUDFLARE_ACCESS_CLIENT_SECRET", "cf-secret-value");
    const { service, stub, run, logger } = harness({
      faults: () => ({ kind: "status", status: 403, body: { detail: "bad cf-secret-value" } }),
    });
    const error = await run(failure(service.connect()));
    expect(stub.calls[0]?.headers).toMatchObject({
      "cf-access-client-id": "id-1",
      "cf-access-client-secret": "cf-secret-value",
    });
    expect(`${error.message}${JSON.stringify(error["body"])}${logger.lines.join()}`).not.toContain("cf-secret-value");
    const own = harness({}, { defaultHeaders: { "CF-Access-Client-Id": "mine" } });
    await own.run(own.service.connect());
    expect(own.stub.calls[0]?.headers["cf-access-client-id"]).toBe("mine");
    vi.unstubAllEnvs();
    const none = harness();
    await none.run(none.service.connect());
    expect("cf-access-client-id" in none.stub.calls[0]!.headers).toBe(false);
  });

  it("M-808: TINKER_API_KEY and TINKER_BASE_URL replace missing options", async () => {
    vi.stubEnv("TINKER_API_KEY", "tml-from-env");
    vi.stubEnv("TINKER_BASE_URL", "http://from.env/prefix");
    const { stub, clock } = harness();
    const urls: string[] = [];
    const options = {
      clock,
      telemetry: false,
      fetch: (url: string, init: RequestInit) => {
        urls.push(url);
        return stub.fetch(url, init);
      },
    };
    await new ServiceClient(options).connect();
    expect(urls[0]).toBe("http://from.env/prefix/api/v1/client/config");
    expect(stub.calls[0]?.headers["x-api-key"]).toBe("tml-from-env");
    await new ServiceClient({ ...options, apiKey: "tml-mine", baseUrl: "http://mine" }).connect();
    expect(urls[2]).toBe("http://mine/api/v1/client/config");
    vi.stubEnv("TINKER_BASE_URL", "");
    expect(new ServiceClient(options).baseUrl).toBe("https://tinker.thinkingmachines.dev/services/tinker-prod");
  });
});

describe("close", () => {
  it("rejects what is pending, stops every timer, and may be called twice", async () => {
    const { service, run, clock, stub, logger } = harness({ pendingPolls: 1e9, config: { pjwt_auth_enabled: true } });
    const creating = service.createLoraTrainingClient({ baseModel: "m" });
    await creating.submitted;
    await run(service.close());
    expect(await failure(creating)).toMatchObject({ code: "closed" });
    await run(service.close());
    await clock.advance(0);
    expect([clock.pending, clock.nextDueMs]).toEqual([0, undefined]);
    const calls = stub.calls.length;
    await clock.advance(100_000);
    expect(stub.calls).toHaveLength(calls);
    expect(await run(failure(service.getServerCapabilities()))).toMatchObject({ code: "closed" });
    expect(logger.with("is not awaited")).toHaveLength(0);
  });

  it("does not wait for telemetry that is not taken", async () => {
    for (const fault of [
      { kind: "status", status: 402, body: {} },
      { kind: "status", status: 503, body: {} },
      { kind: "delivery", delivery: "stall" },
    ] as const) {
      const faults: FaultScript = ({ operation }) => (operation === "telemetry" ? fault : undefined);
      const { clock, service, run } = harness({ faults }, { telemetry: true });
      await run(service.createSamplingClient({ baseModel: "m" }));
      await clock.advance(10_000); // the first try is under way
      const before = clock.monotonic();
      await run(service.close());
      expect(clock.monotonic() - before).toBeLessThanOrEqual(2_000);
    }
  });

  it("leaves no timer where the server was never reached", async () => {
    const faults: FaultScript = ({ operation }) =>
      operation === "clientConfig" ? { kind: "status", status: 404, body: {} } : undefined;
    const { service, clock, run } = harness({ faults }, { telemetry: true });
    await run(failure(service.createLoraTrainingClient({ baseModel: "m" })));
    await run(service.close());
    await clock.advance(0);
    expect(clock.pending).toBe(0);
  });

  it("works with await using", async () => {
    const { service, clock, run } = harness();
    await run(service.createSamplingClient({ baseModel: "m" }));
    await run(service[Symbol.asyncDispose]());
    expect(clock.pending).toBe(0);
  });
});
