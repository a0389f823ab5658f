import { tmpdir } from "node:os";
import { join } from "node:path";
import { contract, Datum, type Operation } from "@tinklet/wire";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as sdk from "../index.ts";
import type { Fault } from "../testing/faults.ts";
import { batch, datum, failure, harness } from "../testing/harness.ts";
import type { StubOptions } from "../testing/stub-server.ts";
import type { OperationOptions } from "./options.ts";
import { AdminClient } from "./rest/admin-client.ts";
import { RestClient } from "./rest/rest-client.ts";
import { SamplingClient } from "./sampling/sampling-client.ts";
import { ServiceClient } from "./service-client.ts";
import { TrainingClient } from "./training/training-client.ts";
import "./sampling/sampler-handle.ts"; // loaded before the fake clock runs
import "@tinklet/models"; // the same, for exports

/** Calls with a signal must end within this time, in every state of the server. */
const promptlyMs = 100;

const status = (code: number): Fault => ({ kind: "status", status: code, body: { detail: `scripted ${code}` } });
const states: Readonly<Record<string, (on: () => boolean) => StubOptions>> = {
  down: (on) => ({ faults: () => (on() ? { kind: "delivery", delivery: "reset" } : undefined) }),
  hanging: (on) => ({ faults: () => (on() ? { kind: "delivery", delivery: "stall" } : undefined) }),
  "429": (on) => ({ faults: () => (on() ? status(429) : undefined) }),
  "503": (on) => ({ faults: () => (on() ? status(503) : undefined) }),
  "402": (on) => ({ faults: () => (on() ? status(402) : undefined) }),
  // Everything is taken, and no result ever comes.
  "try again": (on) => ({
    faults: ({ operation }) => {
      if (!on()) return undefined;
      if (operation === "exportSessionTrace") return { ...status(200), body: { status: "pending" } } as Fault;
      if (operation === "getCheckpointArchiveUrl") return status(503);
      return operation === "retrieveFuture" ? { kind: "delivery", delivery: "stall" } : undefined;
    },
  }),
};

interface Clients {
  readonly service: ServiceClient;
  readonly trainer: TrainingClient;
  readonly sampler: SamplingClient;
  readonly rest: RestClient;
  readonly admin: AdminClient;
}
type Call = (clients: Clients, options: OperationOptions) => PromiseLike<unknown>;

const path = "tinker://run-1/weights/a";
/** There is none, which is only seen once a server has answered. */
const adapterFolder = join(tmpdir(), "tinklet-no-such-adapter");
const calls: Readonly<Record<string, Call>> = {
  "ServiceClient.connect": ({ service }, o) => service.connect(o),
  "ServiceClient.getServerCapabilities": ({ service }, o) => service.getServerCapabilities(o),
  "ServiceClient.createLoraTrainingClient": ({ service }, o) =>
    service.createLoraTrainingClient({ baseModel: "m", ...o }),
  "ServiceClient.createTrainingClientFromState": ({ service }, o) => service.createTrainingClientFromState(path, o),
  "ServiceClient.createTrainingClientFromStateWithOptimizer": ({ service }, o) =>
    service.createTrainingClientFromStateWithOptimizer(path, { weightsAccessToken: "tml-other", ...o }),
  "ServiceClient.createSamplingClient": ({ service }, o) =>
    service.createSamplingClient({ baseModel: "m", ...(o as { signal: AbortSignal }) }),
  "ServiceClient.future": ({ service }, o) => service.future("request-1", "OptimStep", o),
  "TrainingClient.forward": ({ trainer }, o) => trainer.forward(batch(1), "cross_entropy", o),
  "TrainingClient.forwardBackward": ({ trainer }, o) => trainer.forwardBackward(batch(1), "cross_entropy", o),
  "TrainingClient.forwardBackwardCustom": ({ trainer }, o) =>
    trainer.forwardBackwardCustom([datum()], (_, [logprobs]) => ({ loss: logprobs!.sum() }), o),
  "TrainingClient.optimStep": ({ trainer }, o) => trainer.optimStep({}, o),
  "TrainingClient.step": ({ trainer }, o) => trainer.step(batch(1), "cross_entropy", {}, o),
  "TrainingClient.saveState": ({ trainer }, o) => trainer.saveState("a", o),
  "TrainingClient.loadState": ({ trainer }, o) => trainer.loadState(path, o),
  "TrainingClient.loadStateWithOptimizer": ({ trainer }, o) => trainer.loadStateWithOptimizer(path, o),
  "TrainingClient.saveWeightsForSampler": ({ trainer }, o) => trainer.saveWeightsForSampler("a", o),
  "TrainingClient.saveWeightsAndGetSamplingClient": ({ trainer }, o) => trainer.saveWeightsAndGetSamplingClient(o),
  "TrainingClient.createSamplingClient": ({ trainer }, o) =>
    trainer.createSamplingClient("tinker://run-1/sampler_weights/a", o),
  "TrainingClient.getInfo": ({ trainer }, o) => trainer.getInfo(o),
  "TrainingClient.getTokenizer": ({ trainer }, o) => trainer.getTokenizer(o),
  "TrainingClient.unload": ({ trainer }, o) => trainer.unload(o),
  "SamplingClient.sample": ({ sampler }, o) => sampler.sample([1, 2, 3], o),
  "SamplingClient.computeLogprobs": ({ sampler }, o) => sampler.computeLogprobs([1, 2, 3], o),
  "SamplingClient.stream": async ({ sampler }, o) => {
    for await (const { token } of sampler.stream([1, 2, 3], o)) expect(token).toBeGreaterThan(3);
  },
  "SamplingClient.getBaseModel": ({ sampler }, o) => sampler.getBaseModel(o),
  "SamplingClient.getTokenizer": ({ sampler }, o) => sampler.getTokenizer(o),
  "SamplingClient.handle": ({ sampler }, o) => sampler.handle(o),
  "SamplingClient.getSamplerHandle": ({ sampler }, o) => sampler.getSamplerHandle(o),
  "ServiceClient.copyWeights": ({ service }, o) => service.copyWeights(path, o as { signal: AbortSignal }),
  "ServiceClient.createCustomLoss": ({ service }, o) =>
    service.createCustomLoss(({ logprobs }) => ({ loss: logprobs.sum() }), { logprobs: 1 }, o),
  "ServiceClient.importAdapter": ({ service }, o) => service.importAdapter(adapterFolder, o),
  "RestClient.downloadCheckpoint": ({ rest }, o) =>
    rest.downloadCheckpoint(path, join(tmpdir(), "tinklet-never-written", "x"), o),
  "RestClient.exportCheckpoint": ({ rest }, o) =>
    rest.exportCheckpoint(path, join(tmpdir(), "tinklet-never-written", "y"), { ...o, format: "peft" }),
  "ServiceClient.getTokenizer": ({ service }, o) => service.getTokenizer("m", o),
  "TrainingClient.saveWeightsExternal": ({ trainer }, o) => trainer.saveWeightsExternal("a", o),
  "RestClient.copyWeights": ({ rest }, o) => rest.copyWeights(path, o as { signal: AbortSignal }),
  "RestClient.getCurrentCheckpointStorageUsage": ({ rest }, o) => rest.getCurrentCheckpointStorageUsage(o),
  "RestClient.getExternalWeightsUrls": ({ rest }, o) =>
    rest.getExternalWeightsUrls("tinker://run-1/external_weights/a", o),
  "RestClient.searchSessions": ({ rest }, o) => rest.searchSessions({}, o),
  "RestClient.getTrainingRun": ({ rest }, o) => rest.getTrainingRun("run-1", o),
  "RestClient.getTrainingRunByTinkerPath": ({ rest }, o) => rest.getTrainingRunByTinkerPath(path, o),
  "RestClient.listTrainingRuns": ({ rest }, o) => rest.listTrainingRuns(o),
  "RestClient.listCheckpoints": ({ rest }, o) => rest.listCheckpoints("run-1", o),
  "RestClient.listUserCheckpoints": ({ rest }, o) => rest.listUserCheckpoints(o),
  "RestClient.getCheckpointArchiveUrl": ({ rest }, o) => rest.getCheckpointArchiveUrl("run-1", "weights/a", o),
  "RestClient.getCheckpointArchiveUrlFromTinkerPath": ({ rest }, o) =>
    rest.getCheckpointArchiveUrlFromTinkerPath(path, o),
  "RestClient.deleteCheckpoint": ({ rest }, o) => rest.deleteCheckpoint("run-1", "weights/a", o),
  "RestClient.deleteCheckpointFromTinkerPath": ({ rest }, o) => rest.deleteCheckpointFromTinkerPath(path, o),
  "RestClient.publishCheckpointFromTinkerPath": ({ rest }, o) => rest.publishCheckpointFromTinkerPath(path, o),
  "RestClient.unpublishCheckpointFromTinkerPath": ({ rest }, o) => rest.unpublishCheckpointFromTinkerPath(path, o),
  "RestClient.setCheckpointTtlFromTinkerPath": ({ rest }, o) => rest.setCheckpointTtlFromTinkerPath(path, 60, o),
  "RestClient.getWeightsInfoByTinkerPath": ({ rest }, o) => rest.getWeightsInfoByTinkerPath(path, o),
  "RestClient.getSession": ({ rest }, o) => rest.getSession("session-1", o),
  "RestClient.listSessions": ({ rest }, o) => rest.listSessions(o),
  "RestClient.assignSessionProject": ({ rest }, o) => rest.assignSessionProject("session-1", "p", o),
  "RestClient.exportSessionTrace": ({ rest }, o) => rest.exportSessionTrace("session-1", o),
  "RestClient.getSampler": ({ rest }, o) => rest.getSampler("s", o),
  "RestClient.whoami": ({ rest }, o) => rest.whoami(o),
  "RestClient.getBillingUsage": ({ rest }, o) => rest.getBillingUsage("2026-01-01", "2026-02-01", o),
  "RestClient.getAuditLog": ({ rest }, o) => rest.getAuditLog(o),
  "AdminClient.getBillingUsage": ({ admin }, o) => admin.getBillingUsage("2026-01-01", "2026-02-01", o),
  "AdminClient.getCurrentCheckpointStorageUsage": ({ admin }, o) => admin.getCurrentCheckpointStorageUsage(o),
  "AdminClient.getAuditLog": ({ admin }, o) => admin.getAuditLog(o),
};

/** Requests of the low-level API, by operation; the others are sent without fields, and refused before anything is sent. */
const lowLevel: Readonly<Record<string, object>> = {
  clientConfig: { sdkVersion: "0" },
  getServerCapabilities: {},
  healthz: {},
  getInfo: { modelId: "m" },
  optimStep: { adamParams: {}, modelId: "m", seqId: 1 },
  getTrainingRun: { trainingRunId: "run-1" },
  retrieveFuture: { requestId: "request-1" },
};

const api = Object.fromEntries(
  (Object.keys(contract) as Operation[]).map((operation): [string, Call] => [
    `api.${operation}`,
    ({ service }, options) => service.api[operation]((lowLevel[operation] ?? {}) as never, options),
  ]),
);
/** What a class offers, without what it does not wait for. */
const notCalls: Readonly<Record<string, readonly string[]>> = {
  ServiceClient: [
    "redactor",
    "getConsoleUrl",
    "baseUrl",
    "sessionId",
    "createRestClient",
    "api",
    "getTelemetry",
    "metrics",
    "close",
  ],
  TrainingClient: ["getConsoleUrl", "modelId"],
  SamplingClient: ["extensions", "close"],
  RestClient: ["close", "getTelemetry"],
  AdminClient: ["close"],
};

const methodsOf = (Class: { readonly name: string; readonly prototype: object }): string[] =>
  Object.getOwnPropertyNames(Class.prototype)
    .filter((name) => name !== "constructor" && !notCalls[Class.name]!.includes(name))
    .map((name) => `${Class.name}.${name}`);

it("every public call of the clients is among those that are tried", () => {
  const clients = [ServiceClient, TrainingClient, SamplingClient, RestClient, AdminClient];
  const exported = Object.keys(sdk).filter((name) => name.endsWith("Client"));
  expect(exported.sort()).toEqual(clients.map(({ name }) => name).sort()); // a new one needs its rows
  const all = clients.flatMap(methodsOf);
  expect(Object.keys(calls).sort()).toEqual(all.sort());
});

it("every call refuses an option that there is none of, and names the near one", async () => {
  const { clients, stub } = await setup("down", false);
  const sent = stub.calls.length;
  for (const [name, call] of Object.entries({ ...calls, ...api })) {
    const error = await failure(call(clients, { timoutMs: 1 } as OperationOptions));
    expect(error, name).toMatchObject({ field: "timoutMs", hint: "Did you mean timeoutMs?" });
  }
  expect(stub.calls).toHaveLength(sent);
  const made = (options: object) => () => new ServiceClient({ apiKey: "tml-x", ...options });
  expect(made({ baseURL: "http://x" })).toThrow(/baseURL: is not an option of ServiceClient/);
  expect(made({ maxSockets: { trains: 1 } })).toThrow(expect.objectContaining({ field: "maxSockets.trains" }));
  expect(made({ retryConfig: { maxConnection: 1 } })).toThrow(
    expect.objectContaining({ hint: "Did you mean maxConnections?" }),
  );
  const local = await failure(ServiceClient.local({ model: "x" } as object));
  expect(local).toMatchObject({ field: "model", hint: "Did you mean models?" });
  expect(() => new Datum({ modelInput: [1], lossFnInput: {} } as never)).toThrow(/lossFnInput: is not a field/);
});

/** Clients of a server that works until `on` is set, or, with `fresh`, of a server that has not been contacted yet. */
async function setup(state: string, fresh: boolean) {
  let on = fresh;
  const kit = harness(states[state]!(() => on));
  const { service } = kit;
  const rest = service.createRestClient();
  const { clock, stub, logger } = kit;
  const admin = new AdminClient({ apiKey: "tml-x", baseUrl: "http://stub.example", fetch: stub.fetch, clock, logger });
  if (fresh) return { ...kit, clients: { service, rest, admin } as unknown as Clients };
  const trainer = await kit.run(service.createLoraTrainingClient({ baseModel: "m" }));
  const sampler = await kit.run(service.createSamplingClient({ baseModel: "m" }));
  on = true;
  return { ...kit, clients: { service, rest, admin, trainer, sampler } };
}

/** Starts the calls together and returns those that end later than `promptlyMs` after their bound, on the fake clock. */
async function overruns(
  these: Readonly<Record<string, Call>>,
  { clock, clients, service }: Awaited<ReturnType<typeof setup>>,
  bound: "signal" | "timeoutMs",
): Promise<string[]> {
  const controller = new AbortController();
  const atMs = 2_500; // amid a retry or a poll
  const startedAtMs = clock.monotonic();
  const endedAtMs = new Map<string, number>();
  for (const [name, call] of Object.entries(these)) {
    const end = () => endedAtMs.set(name, clock.monotonic());
    call(clients, bound === "signal" ? { signal: controller.signal } : { timeoutMs: atMs }).then(end, end);
  }
  await clock.advance(atMs);
  controller.abort("enough");
  await clock.advance(promptlyMs);
  // Exports remove temporary folders before they reject: real file I/O, which the fake clock does not wait for.
  const all = Object.keys(these).length;
  for (let turn = 0; turn < 100_000 && endedAtMs.size < all; turn++) await new Promise(setImmediate);
  await clock.advance(40_000);
  await Promise.all([service.close(), clients.admin.close()]);
  const over = (name: string) => (endedAtMs.get(name) ?? Infinity) - startedAtMs - atMs;
  return Object.keys(these)
    .filter((name) => over(name) > promptlyMs)
    .map((name) => `${name}: ${over(name)} ms`);
}

const atFirstContact = Object.fromEntries(
  Object.entries(calls).filter(([name]) => /^(Service|Rest|Admin)Client/.test(name)),
);

describe.each(Object.keys(states))("on a server that is %s", (state) => {
  // Tokenizers are fetched with the global fetch, which never resolves here.
  beforeEach(() => vi.stubGlobal("fetch", () => new Promise(() => {})));
  afterEach(() => vi.unstubAllGlobals());

  it.each(["signal", "timeoutMs"] as const)("every call ends with its %s", async (bound) => {
    expect(await overruns({ ...calls, ...api }, await setup(state, false), bound)).toEqual([]);
    expect(await overruns(atFirstContact, await setup(state, true), bound)).toEqual([]);
  });

  it("close() ends within two seconds", async () => {
    for (const fresh of [false, true]) {
      const { clock, run, service } = await setup(state, fresh);
      const pending = service.getServerCapabilities().catch(() => {});
      await clock.advance(100);
      const before = clock.monotonic();
      await run(service.close());
      await run(pending);
      expect(clock.monotonic() - before).toBeLessThanOrEqual(2_000);
    }
  });
});
