/**
 * Assembles the server from store, engines, queue and HTTP, and owns their life cycle. Opening recovers the requests that were pending;
 * closing finishes them or keeps them for the next start. It opens no socket: `fetch` answers requests, and `serve()` listens.
 */
import { dirname } from "node:path";
import { arithmeticVersion, type DeviceInfo, type Engine } from "@tinklet/engine";
import type { TokenizerFiles } from "@tinklet/models";
import type { Studio } from "@tinklet/wire";
import { type Clock, systemClock } from "@tinklet/wire/clock";
import { omitUndefined } from "@tinklet/wire/options";
import { type ApiKey, Auth } from "./http/access/auth.ts";
import { parsePublicUrl } from "./http/access/public-url.ts";
import { SignedLinks } from "./http/access/signed-links.ts";
import type { ServedModel } from "./http/api.ts";
import { createApp } from "./http/app.ts";
import type { Peer } from "./http/body/peer.ts";
import { createChatModels } from "./http/chat/chat-models.ts";
import { createPromptThreads } from "./http/chat/prompt-threads.ts";
import { Metrics } from "./http/metrics.ts";
import { SignIn } from "./http/studio/sign-in.ts";
import { createTraceThreads } from "./http/traces/trace-thread.ts";
import { defaultLimits, type Limits } from "./limits.ts";
import { createLog, type Log, type LogFormat } from "./log.ts";
import { Queue } from "./queue/queue.ts";
import { EngineQueue } from "./queue/scheduling/engine-queue.ts";
import { createSessionActivity } from "./session-activity.ts";
import { keepArithmetic, keepDevice } from "./store/arithmetic.ts";
import { removeRecord, writeRecord } from "./store/server-record.ts";
import { openStore, type Store } from "./store/store.ts";
import { nameRuns } from "./store/tables/names.ts";
import { countDeaths } from "./store/tables/requests.ts";
import { noteStart } from "./store/tables/starts.ts";
import { releaseLeftovers, sweep } from "./sweep.ts";
import { createSideThread } from "./thread/side-thread.ts";

/** A base model to serve. */
export interface ModelSource {
  /** The value of `base_model` in requests. */
  readonly name: string;
  /** Opens the engine; called again after an engine has died. */
  readonly open: () => Promise<Engine>;
  /** A folder with `tokenizer.json` that the Python client can load. */
  readonly tokenizerId?: string | undefined;
  /** The contents of the tokenizer's files, which clients can download. @throws ModelError when the model has no tokenizer */
  readonly tokenizerFiles?: (() => Promise<TokenizerFiles>) | undefined;
}

/** Options of {@link createServer}. */
export interface ServerOptions {
  /** Base models to serve. */
  readonly models: readonly ModelSource[];
  /** Data folder: checkpoints, pending requests and results. @defaultValue none: kept in memory, lost with the process */
  readonly dataDir?: string | undefined;
  /** API keys that are accepted, each a tenant of its own. @defaultValue none: any well-formed key is accepted, as the same tenant */
  readonly apiKeys?: readonly ApiKey[];
  /** Accepted `Host` headers besides `localhost` and IP addresses. */
  readonly allowedHosts?: readonly string[];
  /**
   * The origin at which clients reach the server through a proxy, such as `https://tinker.example.com`. Only pages of this origin may sign
   * in, their cookie is `Secure` with https, and links in responses begin with it. @defaultValue none: the address of each request
   */
  readonly publicUrl?: string | undefined;
  /** Whether `healthz` needs no key. `/metrics` then needs none either, unless keys are configured. @defaultValue true */
  readonly openProbes?: boolean;
  /**
   * Refuse what the hosted service is known to refuse (see `http/access/hosted-rules.ts`), so that a program that works here works there.
   * Otherwise such a call succeeds and is logged once. @defaultValue false
   */
  readonly strict?: boolean;
  /** The studio, served at `/`: `openStudio()` of `@tinklet/studio`. @defaultValue none */
  readonly studio?: Studio | undefined;
  /** Limits on requests, queue and memory; those left out keep their defaults. */
  readonly limits?: Partial<Limits>;
  /** Maximum size of the data folder in bytes; beyond it new work is refused with 507. @defaultValue no limit */
  readonly maxDiskBytes?: number | undefined;
  /** Log format, or a logger. @defaultValue "pretty" on a terminal, else "json" */
  readonly log?: LogFormat | Log;
  /** Source of time, for tests. */
  readonly clock?: Clock;
  /** Tell clients to create a model from a checkpoint with one call instead of three. @defaultValue false */
  readonly createModelViaLoadWeights?: boolean;
  /** Tell clients to compress training requests. @defaultValue false */
  readonly compressRequests?: boolean;
  /** Version of the engines' arithmetic, for tests of upgrades. @defaultValue the version of this release */
  readonly arithmetic?: number;
  /** Runs a function after the I/O callbacks of this turn of the event loop; for the simulator. @defaultValue setImmediate */
  readonly nextTurn?: (run: () => void) => void;
  /** Called with notices for the user, for example that the folder was used on another device. */
  readonly onNotice?: ((message: string) => void) | undefined;
  /** Called at named instants of the life of a request; for crash drills. */
  readonly onPoint?: (point: string) => void;
}

/** The kinds of device that engines compute on, for example `cuda` or, with models on several, `cpu+cuda`. */
const deviceKinds = (engines: readonly Engine[]): string =>
  [...new Set(engines.map(({ info }) => info.device?.kind ?? "cpu"))].sort().join("+") || "cpu";

/** The devices' names for people. */
const deviceNames = (engines: readonly Engine[]): string =>
  [...new Set(engines.map(({ info }) => nameOf(info.device)))].join(", ") || "CPU";

const nameOf = (device: DeviceInfo | undefined): string =>
  device === undefined ? "CPU" : `${device.name} (${device.kind}, ${(device.memoryBytes / 1e9).toFixed(1)} GB)`;

/** A server without a socket: requests go through `fetch`. */
export interface TinkletServer {
  /** Names of the devices that the engines compute on, with their memory: `CPU`, `NVIDIA H200 (cuda, 127.8 GB)`. */
  readonly device: string;
  /** Answers one request. Never rejects. @param peer - the connection of the request. @defaultValue none: a call from this process */
  readonly fetch: (request: Request, peer?: Peer) => Promise<Response>;
  readonly log: Log;
  /** Number of requests that a crash interrupted and that run again now. */
  readonly recovered: { readonly requests: number };
  /** The studio's path with a token that signs a browser in once; without a token if keys are configured. `undefined` without a studio. */
  readonly studioPath: (place?: string) => string | undefined;
  /** Shuts down: finishes running requests or keeps them for the next start, then closes engines and store. Idempotent. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Opens a server.
 *
 * @throws {@link StoreError} when the data folder cannot be used.
 * @throws InvalidInputError when `publicUrl` is not an origin.
 *
 * @example
 * ```ts
 * await using server = await createServer({ models: [{ name: "tinklet/base", open: () => openEngine(folder) }] });
 * const answer = await server.fetch(new Request("http://localhost/healthz"));
 * ```
 */
export async function createServer(options: ServerOptions): Promise<TinkletServer> {
  const { dataDir } = options;
  const clock = options.clock ?? systemClock();
  const format = options.log ?? (process.stderr.isTTY === true ? "pretty" : "json");
  const log = typeof format === "string" ? createLog(clock, format) : format;
  const limits: Limits = { ...defaultLimits, ...options.limits };
  const metrics = new Metrics();
  const { onPoint } = options;
  const publicUrl = options.publicUrl === undefined ? undefined : parsePublicUrl(options.publicUrl);
  const store = await openStore({
    dataDir: options.dataDir,
    now: () => clock.monotonic(),
    onCommit: (ms, writers) => metrics.commit(ms / 1000, writers),
    ...omitUndefined({ onPoint, nextTurn: options.nextTurn }),
  });
  const engines: Engine[] = [];
  try {
    return await serveFrom(store, { options, engines, clock, log, limits, metrics, publicUrl });
  } catch (error) {
    // Without this the folder would stay locked in this process, and a second attempt would fail.
    await Promise.all(engines.map((engine) => engine.close()));
    if (dataDir !== undefined) await removeRecord(dataDir).catch(recordFailed(log));
    await store.close();
    throw error;
  }
}

interface ServerParts {
  readonly options: ServerOptions;
  /** Receives the engines as they are opened. */
  readonly engines: Engine[];
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Limits;
  readonly metrics: Metrics;
  readonly publicUrl: URL | undefined;
}

/** The server on an open store. If it throws, its caller closes the store and the engines. */
async function serveFrom(store: Store, parts: ServerParts): Promise<TinkletServer> {
  const { options, engines, clock, log, limits, metrics, publicUrl } = parts;
  const { dataDir, onPoint } = options;
  if (store.setAside.length > 0) {
    const reason = "the database does not list these adapters: it is an older copy, or belongs to another server";
    log.warn("adapters.set_aside", { count: store.setAside.length, in: dirname(store.setAside[0]!), reason });
  }
  if (dataDir !== undefined) await writeRecord(dataDir).catch(recordFailed(log));
  await noteStart(store.db, clock.now());
  const interrupted = store.running.takeInterrupted();
  if (interrupted.length > 0) await store.db.write((sql) => countDeaths(sql, interrupted));
  const before = await keepArithmetic(store.db, options.arithmetic ?? arithmeticVersion);
  if (before !== undefined) {
    log.warn("arithmetic.changed", {
      ...before,
      meaning: "passes that run again may differ in their last bits from the results that clients received",
    });
  }

  // One thread per kind of work, so that a slow custom loss delays no body, chat or import.
  const startThread = () => createSideThread({ clock });
  const [losses, unpacking, imports] = [startThread(), startThread(), startThread()];
  const promptThreads = createPromptThreads(clock, startThread(), startThread());
  const traceThreads = createTraceThreads(startThread, { clock, limits });
  const queue = new Queue({
    store,
    clock,
    log,
    limits,
    losses,
    imports,
    maxDiskBytes: options.maxDiskBytes,
    onPoint,
    onFinished: ({ kind }, outcome) => metrics.finished(kind, outcome),
    onUsed: (usage) => metrics.used(usage),
  });
  const served = new Map<string, ServedModel>();
  const chatModel = createChatModels({ log });
  for (const source of options.models) {
    const engine = await source.open();
    engines.push(engine);
    const { name, tokenizerId, tokenizerFiles } = source;
    const model = { name, info: engine.info, tokenizerId, tokenizerFiles };
    served.set(name, model);
    // Loaded before the first request. A model without a tokenizer still trains and samples; only its chats are refused.
    await chatModel(model).catch(() => {});
    const reopen = () => source.open();
    queue.engineQueues.set(
      source.name,
      new EngineQueue(engine, { baseModel: source.name, context: queue.context, reopen }),
    );
  }

  const device = deviceKinds(engines);
  const deviceBefore = await keepDevice(store.db, device);
  if (deviceBefore !== undefined) {
    const meaning = "runs that resume here may differ in their last bits from runs that stay on one device";
    log.warn("device.changed", { folder: deviceBefore, now: device, meaning });
    options.onNotice?.(`this data folder was last used on ${deviceBefore} and now runs on ${device}: ${meaning}`);
  }

  const named = await nameRuns(store.db, (name) => served.has(name));
  if (named > 0) log.info("runs.named", { count: named });
  const sessionActivity = createSessionActivity(clock);
  let closing: Promise<void> | undefined;
  await releaseLeftovers({ store, clock, log, isLoaded: () => false });
  const recovered = queue.recover();
  if (recovered.requests > 0) log.info("requests.recovered", recovered);
  const stopSweeping = sweep({ store, queue, clock, log, limits, sessionActivity });

  const auth = new Auth(options.apiKeys ?? [], store.secret, clock);
  const signIn = new SignIn({ auth, db: store.db, clock });
  const { studio } = options;
  const studioPath = (place = "/runs"): string | undefined => {
    if (studio === undefined) return undefined;
    return signIn.needsKey ? `/#${place}` : `/#${place}?token=${signIn.token()}`;
  };
  const app = createApp({
    studio,
    signIn,
    api: {
      store,
      queue,
      clock,
      log,
      limits,
      auth,
      links: new SignedLinks(store.secret, clock),
      sessionActivity,
      models: served,
      chatModel,
      promptThreads,
      traceThreads,
      clientConfig: {
        createModelViaLoadWeights: options.createModelViaLoadWeights ?? false,
        protoCompressFwdbwd: options.compressRequests ?? false,
      },
    },
    metrics,
    thread: unpacking,
    allowedHosts: options.allowedHosts ?? [],
    publicUrl,
    openProbes: options.openProbes ?? true,
    strict: options.strict ?? false,
    health: () => (closing === undefined ? { ready: true } : { ready: false, reason: "The server is shutting down." }),
    gauges: async () => {
      const gauges: Record<string, number> = {
        tinklet_pending_requests: queue.pending,
        tinklet_open_polls: queue.context.futures.waiting,
        tinklet_resident_memory_bytes: process.memoryUsage.rss(),
      };
      for (const [name, engineQueue] of queue.engineQueues) {
        const label = `{base_model=${JSON.stringify(name)}}`;
        const stats = await engineQueue.engine.stats();
        gauges[`tinklet_waiting_training${label}`] = engineQueue.waiting.training;
        gauges[`tinklet_waiting_samples${label}`] = engineQueue.waiting.sampling;
        gauges[`tinklet_engine_weights_bytes${label}`] = stats.weightsBytes;
        gauges[`tinklet_engine_adapters_bytes${label}`] = stats.adaptersBytes;
        gauges[`tinklet_engine_cache_bytes${label}`] = stats.cacheBytes;
        gauges[`tinklet_engine_prefix_cache_bytes${label}`] = stats.prefixCacheBytes;
        gauges[`tinklet_engine_grammar_bytes${label}`] = stats.grammarBytes;
        gauges[`tinklet_engine_active_sequences${label}`] = stats.activeSequences;
      }
      return gauges;
    },
  });

  const close = async (): Promise<void> => {
    stopSweeping();
    queue.context.steps.close();
    await queue.close();
    const stored = { store, clock, log, isLoaded: () => false }; // the states of all models are on disk
    await releaseLeftovers(stored).catch((error: unknown) => log.warn("sweep.failed", { error: String(error) }));
    await Promise.all([...queue.engineQueues.values()].map((engineQueue) => engineQueue.engine.close()));
    await Promise.all([losses, unpacking, imports, promptThreads, traceThreads].map((threads) => threads.close()));
    if (dataDir !== undefined) await removeRecord(dataDir).catch(recordFailed(log));
    await store.close();
    log.info("server.closed");
  };
  const closeOnce = () => {
    closing ??= close();
    return closing;
  };
  return {
    device: deviceNames(engines),
    fetch: app,
    log,
    recovered,
    studioPath,
    close: closeOnce,
    [Symbol.asyncDispose]: closeOnce,
  };
}

/** The record is for other programs; a full disk must not stop the server. */
export const recordFailed =
  (log: Log) =>
  (error: Error): void =>
    log.warn("record.failed", { error: error.message });
