import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@tinklet/wire/clock";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { anyOf, type Fault, faultsInOrder } from "../../testing/faults.ts";
import { failure, harness } from "../../testing/harness.ts";
import type { StubOptions } from "../../testing/stub-server.ts";
import type { FetchLike } from "../../transport/exchange.ts";
import { AdminClient } from "./admin-client.ts";
import { getConsoleUrl, getPlaygroundUrl } from "./console-urls.ts";
import { PagedList } from "./paged-list.ts";
import { RestClient } from "./rest-client.ts";
import "../../../../wire/src/routes/rest-routes.ts"; // loaded before the fake clock runs
import "./rest-waits.ts";

function setup(stub: StubOptions = {}) {
  const kit = harness(stub);
  const last = () => {
    const { path, operation, body } = kit.stub.calls.at(-1)!;
    return { operation, path: path.replace("/api/v1", ""), body };
  };
  return { ...kit, rest: kit.service.createRestClient(), last };
}
const path = "tinker://run-1:train:0/weights/a";
const status = (code: number, body: unknown = {}): Fault => ({ kind: "status", status: code, body });

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

afterEach(() => vi.unstubAllEnvs());

describe("a client that stands alone", () => {
  const alone = (stub: StubOptions = {}) => {
    const kit = harness(stub);
    const options = { apiKey: "tml-alone", baseUrl: "http://stub.example", fetch: kit.stub.fetch, clock: kit.clock };
    return { ...kit, options };
  };

  it("needs no service and opens no session; closing it ends its calls", async () => {
    const { stub, run, options } = alone();
    const rest = new RestClient(options);
    await run(rest.getTrainingRun("r"));
    expect(stub.calls.map(({ operation }) => operation)).toEqual([
      "clientConfig",
      "clientDynamicConfig",
      "getTrainingRun",
    ]);
    expect(stub.calls.at(-1)?.headers).toMatchObject({ "x-api-key": "tml-alone" });
    await rest.close();
    expect(await failure(rest.getTrainingRun("r"))).toMatchObject({ code: "closed" });
  });

  it("has no telemetry unless it is asked for, and closes at the end of a block", async () => {
    const { run, options } = alone();
    let kept: RestClient;
    let keptAdmin: AdminClient;
    {
      await using rest = new RestClient(options);
      await using admin = new AdminClient(options);
      expect(rest.getTelemetry()).toBeUndefined();
      [kept, keptAdmin] = [rest, admin];
      await run(Promise.all([rest.getTrainingRun("r"), admin.getAuditLog()]));
    }
    expect(await failure(kept.getTrainingRun("r"))).toMatchObject({ code: "closed" });
    expect(await failure(keptAdmin.getAuditLog())).toMatchObject({ code: "closed" });
    const asked = new RestClient({ ...options, telemetry: true });
    expect(asked.getTelemetry()).toBeDefined();
    await asked.close();
  });

  it("exports training weights in a session of its own, which ends with it, where archives are off", async () => {
    const off: Fault = status(404, { detail: "archives are off" });
    const kit = alone({
      clock: systemClock(),
      faults: ({ operation }) => (operation === "getCheckpointArchiveUrl" ? off : undefined),
    });
    const files: FetchLike = async (url, init) =>
      url.startsWith("https://files.example/") ? new Response("{}") : kit.stub.fetch(url, init);
    const rest = new RestClient({ ...kit.options, fetch: files, clock: systemClock() });
    const folder = await mkdtemp(join(tmpdir(), "tinklet-alone-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    expect(await rest.downloadCheckpoint(path, join(folder, "to"))).toEqual({ bytes: 2 });
    const operations = () => kit.stub.calls.map(({ operation }) => operation);
    expect(operations()).toContain("createSession");
    expect(kit.stub.callsOf("saveWeightsExternal")).toHaveLength(1);
    expect(kit.stub.callsOf("deleteCheckpoint")).toHaveLength(1);
    expect(operations()).not.toContain("finishSession");
    await rest.close();
    const stopped = operations().length;
    await rest.close(); // nothing is left to close
    expect(operations()).toHaveLength(stopped);
    await expect(rest.downloadCheckpoint(path, folder, { onProgres: 1 } as never)).rejects.toMatchObject({
      field: "onProgres",
      message: expect.stringContaining("is not an option of downloadCheckpoint"),
    });
    await expect(rest.exportCheckpoint(path, folder, { format: "peft", dtyp: 1 } as never)).rejects.toMatchObject({
      field: "dtyp",
      message: expect.stringContaining("is not an option of exportCheckpoint"),
    });
  });

  it("closing the one that a service made closes nothing", async () => {
    const { rest, run } = setup();
    await rest.close();
    await run(rest.getTrainingRun("r"));
  });

  it("AdminClient has what needs a role", async () => {
    const { stub, run, options } = alone();
    const admin = new AdminClient(options);
    await run(admin.getBillingUsage("2026-07-13T00:00:00Z", "2026-07-14T00:00:00Z"));
    await run(admin.getCurrentCheckpointStorageUsage({ projectId: "p" }));
    await run(admin.getAuditLog({ eventType: "projects", day: "2026-07-13" }));
    expect(stub.calls.slice(-3).map(({ path: at, headers }) => [at, headers["x-sdk-method"]])).toEqual([
      [
        "/api/v1/billing/usage/events?starting_on=2026-07-13T00%3A00%3A00Z&ending_before=2026-07-14T00%3A00%3A00Z",
        "get_billing_usage",
      ],
      ["/api/v1/billing/usage/checkpoints/current?project_id=p", "get_current_checkpoint_storage_usage"],
      ["/api/v1/audit?event_type=projects&day=2026-07-13", "get_audit_log"],
    ]);
    await admin.close();
    expect(await failure(admin.getAuditLog())).toMatchObject({ code: "closed" });
  });
});

describe("a server that is too old", () => {
  it("is called so by the route that it lacks, and not when it did not find what was asked for", async () => {
    const faults = faultsInOrder("searchSessions", [
      status(404, { detail: "Not Found" }),
      status(404, { detail: "no such project" }),
    ]);
    const { rest, run } = setup({ faults });
    expect(await run(failure(rest.searchSessions()))).toMatchObject({
      name: "UnsupportedFeatureError",
      feature: "/sessions/search",
      since: "0.36",
      cause: { status: 404 },
    });
    expect(await run(failure(rest.searchSessions()))).toMatchObject({ name: "NotFoundError" });
    const old = setup({ faults: faultsInOrder("getTrainingRun", [status(404, { detail: "Not Found" })]) });
    expect(await old.run(failure(old.rest.getTrainingRun("x")))).toMatchObject({ name: "NotFoundError" }); // every server has it
  });
});

describe("pages of the console", () => {
  it("are the official SDK's", async () => {
    const { service, run } = setup();
    const base = "https://tinker.thinkingmachines.ai";
    expect(service.getConsoleUrl()).toBe(`${base}/sessions`);
    const trainer = await run(service.createLoraTrainingClient({ baseModel: "m" }));
    expect(service.getConsoleUrl()).toBe(`${base}/sessions/session-1`);
    expect(trainer.getConsoleUrl()).toBe(`${base}/training_runs/session-1:train:0`);
    expect(getConsoleUrl(path)).toBe(`${base}/checkpoints/run-1%3Atrain%3A0/weights%2Fa`);
    expect(getPlaygroundUrl("tinker://r/sampler_weights/a")).toBe(
      `${base}/playground?mode=checkpoint&checkpoint=tinker%3A%2F%2Fr%2Fsampler_weights%2Fa`,
    );
    expect(() => getPlaygroundUrl("r")).toThrow(/tinker:/);
  });

  it("are the server's own where it has some", async () => {
    const { service, run } = setup({ config: { tinklet_extensions: ["tokenizer", "studio"] } });
    const trainer = await run(service.createLoraTrainingClient({ baseModel: "m" }));
    expect(service.getConsoleUrl()).toBe("http://stub.example/#/runs");
    expect(trainer.getConsoleUrl()).toBe("http://stub.example/#/runs/session-1%3Atrain%3A0");
  });
});

describe("one request each", () => {
  it("needs no session", async () => {
    const { rest, stub, run } = setup();
    await run(rest.getTrainingRun("r"));
    expect(stub.callsOf("createSession")).toHaveLength(0);
  });

  it("training runs", async () => {
    const { rest, run, last } = setup();
    const found = await run(rest.getTrainingRun("a:train:0", { accessScope: "accessible" }));
    expect(found).toMatchObject({ trainingRunId: "a:train:0", lastRequestTime: new Date("2026-07-01T12:00:00Z") });
    expect(last().path).toBe("/training_runs/a:train:0?access_scope=accessible");
    await run(rest.getTrainingRunByTinkerPath(path));
    expect(last().path).toBe("/training_runs/run-1:train:0?access_scope=owned");
  });

  it("external weights, copies, storage and the search for sessions", async () => {
    const { rest, run, stub, last } = setup();
    const { urls, expires } = await run(rest.getExternalWeightsUrls("tinker://r/external_weights/out"));
    expect(urls).toEqual({ "adapter_config.json": "https://files.example/config" });
    expect(expires).toBeInstanceOf(Date);
    expect(last().path).toBe("/training_runs/r/checkpoints/external_weights/out/external_weights_urls");
    expect(await failure(run(rest.getExternalWeightsUrls(path)))).toMatchObject({
      field: "tinkerPath",
      message: expect.stringContaining(`"${path}" is not an external checkpoint`),
      hint: expect.stringContaining("saveWeightsExternal"),
    });

    const copied = await run(rest.copyWeights(path, { destinationProjectId: "p", weightsAccessToken: "secret" }));
    expect(copied).toEqual({ tinkerPath: "tinker://run-9/weights/copy" });
    expect(last().body).toEqual({ sourcePath: path, destinationProjectId: "p" });
    expect(stub.calls.at(-1)?.headers).toMatchObject({ "x-tinker-weights-access-token": "secret" });

    vi.stubEnv("TINKER_PROJECT_ID", "of-the-environment");
    await run(rest.copyWeights(path));
    expect(last().body).toEqual({ sourcePath: path, destinationProjectId: "of-the-environment" });

    const mine = harness({}, { projectId: "mine" });
    await mine.run(mine.service.copyWeights(path, { ttlSeconds: 3600 }));
    expect(mine.stub.calls.at(-1)?.body).toEqual({ sourcePath: path, destinationProjectId: "mine", ttlSeconds: 3600 });

    const { data } = await run(rest.getCurrentCheckpointStorageUsage({ projectId: "p" }));
    expect(data).toEqual([{ checkpointCount: 2, sizeBytes: 2e9, sizeGigabytes: 2 }]);
    expect(last().path).toBe("/billing/usage/checkpoints/current?project_id=p");

    expect(await run(rest.searchSessions({ displayName: "x", owner: { type: "accessible" } }))).toEqual({
      sessions: [],
    });
    expect(last().body).toEqual({ displayName: "x", owner: { type: "accessible" }, userMetadata: {}, limit: 50 });
  });

  it("checkpoints", async () => {
    const { rest, run, last } = setup();
    expect((await run(rest.listCheckpoints("r"))).checkpoints).toHaveLength(1);
    await run(rest.deleteCheckpoint("r", "sampler_weights/x"));
    expect(last()).toMatchObject({
      operation: "deleteCheckpoint",
      path: "/training_runs/r/checkpoints/sampler_weights/x",
    });
    await run(rest.deleteCheckpointFromTinkerPath(path));
    expect(last()).toMatchObject({
      operation: "deleteCheckpoint",
      path: "/training_runs/run-1:train:0/checkpoints/weights/a",
    });
    await run(rest.publishCheckpointFromTinkerPath(path));
    expect(last().operation).toBe("publishCheckpoint");
    await run(rest.unpublishCheckpointFromTinkerPath(path));
    expect(last().operation).toBe("unpublishCheckpoint");
    await run(rest.setCheckpointTtlFromTinkerPath(path, 60));
    expect(last()).toMatchObject({ operation: "setCheckpointTtl", body: { ttlSeconds: 60 } });
    await run(rest.setCheckpointTtlFromTinkerPath(path, null));
    expect(last().body).toEqual({ ttlSeconds: null });
    expect(await run(rest.getWeightsInfoByTinkerPath(path))).toMatchObject({ baseModel: "stub/model", loraRank: 16 });
  });

  it("a checkpoint that is not there may have expired", async () => {
    const gone = (operation: "weightsInfo" | "getCheckpointArchiveUrl") =>
      setup({ faults: faultsInOrder(operation, [status(404, { detail: "gone" })]) });
    const info = gone("weightsInfo");
    const hint = expect.stringContaining("may have expired");
    expect(await info.run(failure(info.rest.getWeightsInfoByTinkerPath(path)))).toMatchObject({ status: 404, hint });
    const archive = gone("getCheckpointArchiveUrl");
    const asked = archive.rest.getCheckpointArchiveUrlFromTinkerPath(path);
    expect(await archive.run(failure(asked))).toMatchObject({ status: 404, hint });
  });

  it("an option that a call does not have is refused by its name, and by that of the call", async () => {
    const { rest, stub } = setup();
    const wrong = { signl: 1 } as never;
    for (const [name, call] of Object.entries({
      getCheckpointArchiveUrl: () => rest.getCheckpointArchiveUrlFromTinkerPath(path, wrong),
      exportSessionTrace: () => rest.exportSessionTrace("s", wrong),
      whoami: () => rest.whoami(wrong),
      getAuditLog: () => rest.getAuditLog(wrong),
      copyWeights: () => rest.copyWeights(path, wrong),
    })) {
      expect(await failure(call()), name).toMatchObject({
        field: "signl",
        message: `signl: is not an option of ${name}`,
      });
    }
    expect(stub.calls).toHaveLength(0);
  });

  it("a call that takes too long says which it was", async () => {
    const stall: Fault = { kind: "delivery", delivery: "stall" };
    const { rest, run } = setup({ faults: () => stall });
    const never = join(tmpdir(), "tinklet-never-written");
    for (const [name, call] of Object.entries({
      getCheckpointArchiveUrl: () => rest.getCheckpointArchiveUrlFromTinkerPath(path, { timeoutMs: 10 }),
      exportSessionTrace: () => rest.exportSessionTrace("s", { timeoutMs: 10 }),
      whoami: () => rest.whoami({ timeoutMs: 10 }),
      downloadCheckpoint: () => rest.downloadCheckpoint(path, never, { timeoutMs: 10 }),
      exportCheckpoint: () => rest.exportCheckpoint(path, never, { format: "peft", timeoutMs: 10 }),
    })) {
      expect(await run(failure(call())), name).toMatchObject({
        code: "timeout",
        message: expect.stringContaining(name),
      });
    }
  });

  it("an invalid path is refused with a rejection", async () => {
    const { rest, stub } = setup();
    for (const call of [
      rest.deleteCheckpointFromTinkerPath("x"),
      rest.publishCheckpointFromTinkerPath("x"),
      rest.unpublishCheckpointFromTinkerPath("x"),
      rest.setCheckpointTtlFromTinkerPath("x", 1),
      rest.getTrainingRunByTinkerPath("x"),
      rest.getCheckpointArchiveUrlFromTinkerPath("x"),
    ]) {
      expect(await failure(call)).toMatchObject({ field: "tinkerPath" });
    }
    expect(stub.calls).toHaveLength(0);
  });

  it("sessions, samplers, billing and audit", async () => {
    const { rest, run, last } = setup();
    expect(await run(rest.getSession("s"))).toMatchObject({ trainingRunIds: ["run-0"], samplerIds: ["sampler-0"] });
    await run(rest.assignSessionProject("s", "p"));
    expect(last()).toMatchObject({ path: "/sessions/s/project", body: { projectId: "p" } });
    expect(await run(rest.getSampler("x"))).toMatchObject({ samplerId: "x" });
    await run(rest.getBillingUsage(new Date(Date.UTC(2026, 6, 13)), "2026-07-14"));
    expect(last().path).toBe("/billing/usage/events?starting_on=2026-07-13T00%3A00%3A00Z&ending_before=2026-07-14");
    expect((await run(rest.getAuditLog())).entries[0]?.timestamp).toEqual(new Date("2026-07-01T12:00:00Z"));
    expect(last().path).toBe("/audit?event_type=all");
    await run(rest.getAuditLog({ eventType: "checkpoints", day: new Date(Date.UTC(2025, 0, 15, 23)) }));
    expect(last().path).toBe("/audit?event_type=checkpoints&day=2025-01-15");
    await run(rest.getAuditLog({ day: "2025-01-16" }));
    expect(last().path).toBe("/audit?event_type=all&day=2025-01-16");
    for (const day of ["yesterday", "2025-01-160", "on 2025-01-16"]) {
      expect(await failure(rest.getAuditLog({ day }))).toMatchObject({
        field: "day",
        message: `day: must be a Date or YYYY-MM-DD, got "${day}"`,
      });
    }
  });

  it("M-808: per-call options reach the request", async () => {
    const { rest, stub, run } = setup({ faults: faultsInOrder("getSampler", [status(500), status(500)]) });
    expect(
      await run(failure(rest.getSampler("x", { maxRetries: 0, headers: { "X-A": "b" }, token: "tml-other" }))),
    ).toMatchObject({
      status: 500,
    });
    expect(stub.callsOf("getSampler")).toHaveLength(1);
    expect(stub.calls.at(-1)?.headers).toMatchObject({ "x-a": "b", "x-api-key": "tml-other" });
    await expect(rest.getSampler("x", { signal: AbortSignal.abort("no") })).rejects.toBe("no");
  });
});

describe("listings", () => {
  it("await gives the page that was asked for", async () => {
    const { rest, run, last } = setup();
    const page = await run(rest.listTrainingRuns({ limit: 5, offset: 3, projectId: "p", accessScope: "accessible" }));
    expect(page.trainingRuns.map(({ trainingRunId }) => trainingRunId)).toEqual([
      "run-3",
      "run-4",
      "run-5",
      "run-6",
      "run-7",
    ]);
    expect(page.cursor?.totalCount).toBe(25);
    expect(last().path).toBe("/training_runs?limit=5&offset=3&access_scope=accessible&project_id=p");
    await run(rest.listUserCheckpoints());
    expect(last().path).toBe("/checkpoints?limit=100&offset=0");
    await run(rest.listSessions());
    expect(last().path).toBe("/sessions?limit=20&offset=0&access_scope=owned");
  });

  it("for await goes through all pages by itself, and fetches no more than it needs", async () => {
    const { rest, stub, run } = setup();
    const runs = await run(all(rest.listTrainingRuns({ limit: 10 })));
    expect(runs.map(({ trainingRunId }) => trainingRunId)).toEqual(Array.from({ length: 25 }, (_, i) => `run-${i}`));
    expect(stub.callsOf("listTrainingRuns")).toHaveLength(3);
    expect(await run(all(rest.listSessions({ limit: 5 })))).toHaveLength(25); // no count: ends with an empty page
    expect(stub.callsOf("listSessions")).toHaveLength(6);
    expect(await run(all(rest.listSessions({ limit: 7, offset: 20 })))).toHaveLength(5);
    expect(stub.callsOf("listSessions")).toHaveLength(7); // ends with a short page
    expect(await run(all(rest.listUserCheckpoints()))).toHaveLength(25);
    expect(stub.callsOf("listUserCheckpoints")).toHaveLength(1);
    // what the server counts ends it, with no page asked for in vain
    expect(await run(all(rest.listTrainingRuns({ limit: 5 })))).toHaveLength(25);
    expect(stub.callsOf("listTrainingRuns")).toHaveLength(8);
    expect(await run(all(rest.listUserCheckpoints({ limit: 25 })))).toHaveLength(25);
    expect(stub.callsOf("listUserCheckpoints")).toHaveLength(2);
    // and a server that does not count is asked until a page is short
    const uncounted = setup({
      faults: anyOf(
        faultsInOrder("listTrainingRuns", [status(200, { training_runs: [] })]),
        faultsInOrder("listUserCheckpoints", [status(200, { checkpoints: [] })]),
      ),
    });
    expect(await uncounted.run(all(uncounted.rest.listTrainingRuns()))).toEqual([]);
    expect(await uncounted.run(all(uncounted.rest.listUserCheckpoints()))).toEqual([]);
  });

  it("fetches nothing until it is awaited or iterated, and the first page once", async () => {
    const { rest, stub, run } = setup();
    const list = rest.listTrainingRuns();
    expect(stub.calls).toHaveLength(0);
    await run(list);
    await run(list.then((page) => page.trainingRuns));
    for await (const _ of list) break;
    expect(stub.callsOf("listTrainingRuns")).toHaveLength(1);
  });

  it("refuses limits and offsets that make no sense", () => {
    const { rest } = setup();
    expect(() => rest.listSessions({ limit: 0 })).toThrow("limit: must be an integer of at least 1");
    expect(() => rest.listSessions({ limit: 1.5 })).toThrow("limit");
    expect(() => rest.listSessions({ offset: -1 })).toThrow("offset: must be an integer of at least 0");
  });

  it("propagates failures, also to catch, and stops at an empty page for any total", async () => {
    const broken = new PagedList({
      first: { limit: 1, offset: 0 },
      fetch: () => Promise.reject(new Error("x")),
      items: () => [],
      total: () => 9,
    });
    expect(await broken.catch((error: unknown) => (error as Error).message)).toBe("x");
    const lying = new PagedList({
      first: { limit: 1, offset: 0 },
      fetch: async () => [],
      items: () => [],
      total: () => 9,
    });
    expect(await all(lying)).toEqual([]);
  });
});

describe("archives", () => {
  it("M-406: the link and its end come from the redirect, which is not followed", async () => {
    const { rest, stub, run } = setup();
    expect(await run(rest.getCheckpointArchiveUrlFromTinkerPath(path))).toEqual({
      url: "https://files.example/archive.tar.gz",
      expires: new Date("2026-07-01T13:00:00Z"),
    });
    expect(stub.callsOf("getCheckpointArchiveUrl")).toHaveLength(1);
  });

  it("or from the body; without an end it lives a quarter of an hour", async () => {
    const body = { url: "https://x", expires: "2026-08-01T00:00:00Z" };
    const direct = setup({ faults: faultsInOrder("getCheckpointArchiveUrl", [status(200, body)]) });
    expect(await direct.run(direct.rest.getCheckpointArchiveUrl("r", "weights/a"))).toEqual({
      url: "https://x",
      expires: new Date("2026-08-01T00:00:00Z"),
    });
    const open: Fault = { kind: "status", status: 302, headers: { location: "https://y" } };
    const { rest, run, clock } = setup({ faults: faultsInOrder("getCheckpointArchiveUrl", [open]) });
    const { expires } = await run(rest.getCheckpointArchiveUrl("r", "weights/a"));
    expect(expires.getTime()).toBe(clock.now() + 900_000);
  });

  it("503 means that it is being packed: asked for every thirty seconds, six times", async () => {
    const busy = status(503);
    const { rest, run, clock, logger } = setup({ faults: faultsInOrder("getCheckpointArchiveUrl", [busy, busy]) });
    await run(rest.getCheckpointArchiveUrl("r", "weights/a"));
    expect(clock.monotonic()).toBe(60_000);
    expect(logger.with("is being packed")).toHaveLength(1); // once a minute is enough
    const two = setup({ faults: faultsInOrder("getCheckpointArchiveUrl", [busy, busy]) });
    await two.run(Promise.all(["weights/a", "weights/b"].map((id) => two.rest.getCheckpointArchiveUrl("r", id))));
    expect(two.logger.with("is being packed")).toHaveLength(2); // for each of them
    const never = setup({ faults: ({ operation }) => (operation === "getCheckpointArchiveUrl" ? busy : undefined) });
    expect(await never.run(failure(never.rest.getCheckpointArchiveUrl("r", "weights/a")))).toMatchObject({
      status: 503,
    });
    expect(never.stub.callsOf("getCheckpointArchiveUrl")).toHaveLength(6);
  });

  it("other failures are treated like those of any call", async () => {
    const reset: Fault = { kind: "delivery", delivery: "reset" };
    const { rest, run } = setup({ faults: faultsInOrder("getCheckpointArchiveUrl", [reset, status(429)]) });
    expect((await run(rest.getCheckpointArchiveUrl("r", "weights/a"))).url).toContain("archive.tar.gz");
    const refused = setup({
      faults: anyOf(faultsInOrder("getCheckpointArchiveUrl", [status(404, { detail: "gone" })])),
    });
    expect(await refused.run(failure(refused.rest.getCheckpointArchiveUrl("r", "weights/a")))).toMatchObject({
      status: 404,
    });
    expect(refused.stub.callsOf("getCheckpointArchiveUrl")).toHaveLength(1);
    const nowhere = setup({ faults: faultsInOrder("getCheckpointArchiveUrl", [status(302)]) });
    expect(await nowhere.run(failure(nowhere.rest.getCheckpointArchiveUrl("r", "weights/a")))).toMatchObject({
      status: 302,
    });
  });
});

describe("traces", () => {
  it("are waited for, five seconds at a time", async () => {
    const pending = status(200, { status: "pending" });
    const { rest, run, clock } = setup({ faults: faultsInOrder("exportSessionTrace", [pending, pending]) });
    expect(await run(rest.exportSessionTrace("s"))).toBe("https://files.example/trace");
    expect(clock.monotonic()).toBe(10_000);
  });

  it("that fail say why", async () => {
    const { rest, run } = setup({
      faults: faultsInOrder("exportSessionTrace", [status(200, { status: "failed", error: "no disk" })]),
    });
    expect((await run(failure(rest.exportSessionTrace("s")))).message).toContain("no disk");
    const silent = setup({ faults: faultsInOrder("exportSessionTrace", [status(200, { status: "failed" })]) });
    expect(await silent.run(failure(silent.rest.exportSessionTrace("s")))).toMatchObject({
      code: "trace_export_failed",
      message: "The trace of session s could not be exported: no reason given",
    });
    const odd = setup({ faults: faultsInOrder("exportSessionTrace", [status(200, { status: "ready" })]) });
    expect(await odd.run(failure(odd.rest.exportSessionTrace("s")))).toMatchObject({
      field: "url",
      message: expect.stringContaining("is missing although the trace is ready"),
    });
  });
});
