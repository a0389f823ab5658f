/**
 * The Tinker API inside a page: a function like `fetch` that answers the routes a training program needs. Messages and routes are those of
 * `@tinklet/wire`; there is no network.
 */
import type { AdapterState } from "@tinklet/engine";
import { peftFiles, readPeftFiles } from "@tinklet/models/bytes";
import { readConfig } from "@tinklet/models/config";
import { type ClientOptions, type FetchLike, ServiceClient } from "@tinklet/sdk";
import { Refusal } from "@tinklet/server/portable";
import { contract, type Message, matchRoute, type Operation, parseJson } from "@tinklet/wire";
import { type Clock, systemClock } from "@tinklet/wire/clock";
import { randomHex } from "@tinklet/wire/entropy";
import { jsonAnswer, problem } from "./answers.ts";
import { Checkpoints } from "./checkpoints.ts";
import { type BrowserModel, EngineHost } from "./engine-host.ts";
import { problemOf } from "./failures.ts";
import type { Call } from "./handlers/handler.ts";
import { restHandlers } from "./handlers/rest.ts";
import { samplingHandlers } from "./handlers/sampling.ts";
import { serviceHandlers } from "./handlers/service.ts";
import { trainingHandlers } from "./handlers/training.ts";
import { hostOf, type PageState } from "./page.ts";
import { Requests } from "./requests.ts";
import { Snapshots } from "./snapshots.ts";
import { openStorage } from "./storage/indexed-db.ts";
import { type BrowserStorage, type RunRecord, runStateKey, stateBytes } from "./storage/storage.ts";

/** Options of {@link startBrowserServer}. */
export interface BrowserServerOptions {
  /** The base models to serve; `browserModel` makes one from an address. */
  readonly models: readonly BrowserModel[];
  /** Where runs and checkpoints are kept. @defaultValue `openStorage()`: IndexedDB of the page's origin */
  readonly storage?: BrowserStorage;
  /** Source of time, for tests. */
  readonly clock?: Clock;
}

/** The files of an adapter in PEFT's format, by name: `adapter_config.json` and `adapter_model.safetensors`. */
export type AdapterFiles = Readonly<Record<string, Uint8Array<ArrayBuffer>>>;

/** A run in the storage of the page. */
export interface StoredRun {
  readonly runId: string;
  readonly baseModel: string;
  /** Optimizer steps that are stored. */
  readonly step: number;
  /** Path of the state after the last step, for `createTrainingClientFromStateWithOptimizer`. */
  readonly path: string;
  readonly updatedAt: Date;
  readonly userMetadata?: Readonly<Record<string, string>>;
}

/** A server inside this page. */
export interface BrowserServer {
  /** The base URL that its clients use. Nothing is sent to it. */
  readonly url: string;
  /** Answers requests of the Tinker API; the `fetch` option of the SDK. */
  readonly fetch: FetchLike;
  /** A client of this server. */
  connect(options?: Omit<ClientOptions, "fetch" | "baseUrl" | "apiKey">): Promise<ServiceClient>;
  /** The stored runs, the most recently trained first; those of earlier visits of the page as well. */
  runs(): readonly StoredRun[];
  /** The weights of a checkpoint as the files of a PEFT folder. @throws Refusal, InvalidInputError if there is no such checkpoint */
  exportAdapter(path: string): Promise<AdapterFiles>;
  /**
   * Stores an adapter in PEFT's format as a new run of no steps, and returns the path of its state.
   * @throws ConfigError, WeightsError for files that are not an adapter of the base model.
   */
  importAdapter(files: Readonly<Record<string, Uint8Array>>, options: { readonly baseModel: string }): Promise<string>;
  /** Ends the engines and releases the storage. Stored runs stay. Idempotent. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

type Handlers = Readonly<Record<string, ((received: never, call: Call) => unknown) | undefined>>;

/** Bodies in which requests carry their `seq_id`. */
const peekNumbers = (wire: unknown): { readonly model_id?: unknown; readonly seq_id?: unknown } =>
  typeof wire === "object" && wire !== null ? wire : {};

const url = "http://tinklet.local";

async function answer(page: PageState, handlers: Handlers, target: string, init: RequestInit): Promise<Response> {
  const { pathname, searchParams } = new URL(target);
  const match = matchRoute(init.method ?? "GET", pathname);
  const handler = match && handlers[match.operation];
  if (match === undefined || handler === undefined) {
    const name = match?.operation ?? `${init.method ?? "GET"} ${pathname.slice(0, 200)}`;
    throw new Refusal(
      404,
      "not_offered",
      `${name} is not offered by the server in this page; its README lists the routes.`,
    );
  }
  const headers = new Headers(init.headers);
  const encoding = headers.get("content-encoding") ?? "identity";
  if (encoding !== "identity")
    throw new Refusal(415, "unknown_encoding", `Content-Encoding: must be identity, got ${encoding.slice(0, 50)}`);
  const bytes = await bytesOf(init.body);
  const schemas = contract[match.operation as Operation] as {
    query?: Message<object>;
    body?: Message<object>;
    response?: Message<object>;
  };
  const isJson = !(headers.get("content-type") ?? "").includes("protobuf");
  const wire = isJson && bytes.byteLength > 0 ? parseJson(new TextDecoder().decode(bytes)) : undefined;
  const call: Call = { bytes, headers, signal: init.signal ?? undefined };
  try {
    const isPass = match.operation === "forwardBackward" || match.operation === "forward";
    const received = {
      params: match.params,
      query: schemas.query?.decode(Object.fromEntries(searchParams)),
      body: isPass ? undefined : schemas.body?.decode(wire),
    };
    const value = await handler(received as never, call);
    if (value instanceof Response) return value;
    return jsonAnswer(
      value === undefined || schemas.response === undefined ? {} : schemas.response.encode(value as object),
    );
  } catch (error) {
    const { model_id: modelId, seq_id: seq } = peekNumbers(wire);
    const isReused = error instanceof Refusal && error.code === "number_reused";
    if (typeof modelId === "string" && typeof seq === "number" && !isReused) page.models.get(modelId)?.skip(seq);
    throw error;
  }
}

async function bytesOf(body: RequestInit["body"]): Promise<Uint8Array> {
  if (body === undefined || body === null) return new Uint8Array(0);
  if (typeof body === "string") return new TextEncoder().encode(body);
  if (body instanceof Uint8Array) return new Uint8Array(body as Uint8Array); // a copy: the caller may reuse its array
  return new Uint8Array(await new Response(body).arrayBuffer());
}

const storedRun = (page: PageState, run: RunRecord): StoredRun => ({
  runId: run.id,
  baseModel: run.baseModel,
  step: run.step,
  path: page.checkpoints.lastStepOf(run.id),
  updatedAt: new Date(run.updatedAt),
  ...(run.userMetadata && { userMetadata: run.userMetadata }),
});

async function exportAdapter(page: PageState, path: string): Promise<AdapterFiles> {
  const found = page.checkpoints.find(path);
  const state = await page.storage.state(found.stateKey);
  if (state === undefined) throw new Refusal(404, "unknown_checkpoint", `The weights of ${path} were deleted.`);
  const files = peftFiles(state, found.baseModel).map(async ({ name, parts }) => {
    const bytes = await new Blob(parts as Uint8Array<ArrayBuffer>[]).arrayBuffer();
    return [name, new Uint8Array(bytes)] as const;
  });
  return Object.fromEntries(await Promise.all(files));
}

async function importAdapter(
  page: PageState,
  files: Readonly<Record<string, Uint8Array>>,
  baseModel: string,
): Promise<string> {
  const { engine } = await hostOf(page, baseModel).opened();
  const read = readPeftFiles(files, { config: readConfig(engine.info.config) });
  // The engine completes an adapter of fewer modules than it trains.
  const { adapterId } = await engine.importState(read);
  let state: AdapterState;
  try {
    state = await engine.exportState(adapterId, { optimizer: true });
  } finally {
    await engine.deleteAdapter(adapterId);
  }
  const now = page.clock.now();
  const run: RunRecord = {
    id: `imported-${randomHex(10)}`,
    baseModel,
    lora: state.lora,
    step: 0,
    bytes: stateBytes(state),
    createdAt: now,
    updatedAt: now,
  };
  await page.storage.commit({ runs: [run], states: new Map([[runStateKey(run.id), state]]) });
  page.checkpoints.note(run);
  return page.checkpoints.lastStepOf(run.id);
}

/**
 * Starts a server inside this page: opens its models and its storage.
 *
 * @throws StorageError `storage_in_use` if another tab has the storage; the errors of the engines that cannot be opened.
 * @example
 * ```ts
 * const server = await startBrowserServer({ models: [browserModel("tinklet/base", "/model/", { runtimeUrl: "/onnxruntime/" })] });
 * const service = await server.connect();
 * const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 16 });
 * ```
 */
export async function startBrowserServer(options: BrowserServerOptions): Promise<BrowserServer> {
  const { models, clock = systemClock() } = options;
  const storage = options.storage ?? (await openStorage());
  const hosts = new Map(models.map((model) => [model.name, new EngineHost(model)]));
  const closeAll = async (): Promise<void> => {
    for (const host of hosts.values()) await host.close();
    await storage.close();
  };
  let page: PageState;
  try {
    page = {
      hosts,
      storage,
      checkpoints: await Checkpoints.open(storage),
      snapshots: new Snapshots(storage),
      requests: new Requests(clock),
      clock,
      sessions: new Map(),
      models: new Map(),
      samplers: new Map(),
    };
    await Promise.all([...hosts.values()].map((host) => host.opened()));
  } catch (error) {
    await closeAll();
    throw error;
  }
  const handlers = {
    ...serviceHandlers(page),
    ...trainingHandlers(page),
    ...samplingHandlers(page),
    ...restHandlers(page),
  } as unknown as Handlers;
  const fetch: FetchLike = async (target, init) => {
    try {
      return await answer(page, handlers, target, init);
    } catch (error) {
      return problem(problemOf(error));
    }
  };
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= (async () => {
      page.requests.close();
      await closeAll();
    })();
    return closing;
  };
  return {
    url,
    fetch,
    connect: (client = {}) =>
      ServiceClient.connect({ telemetry: false, ...client, apiKey: "tml-page", baseUrl: url, fetch }),
    runs: () => page.checkpoints.runs.map((run) => storedRun(page, run)),
    exportAdapter: (path) => exportAdapter(page, path),
    importAdapter: (files, { baseModel }) => importAdapter(page, files, baseModel),
    close,
    [Symbol.asyncDispose]: close,
  };
}
