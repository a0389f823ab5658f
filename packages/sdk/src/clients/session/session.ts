/**
 * One connection to one server, shared by all clients of a {@link ServiceClient}: configuration, credentials, the session with its
 * heartbeat, counters, limits, telemetry. Does nothing before the first call. `close()` ends everything that it started; its timers do
 * not keep the process alive.
 */

import { bounded, Shared, type SharedOptions } from "@tinklet/wire/abort";
import {
  type ClientConfigResponse,
  ClientDynamicConfigResponse,
  type ClientSessionFinishReasonType,
  isKnown,
  loadRoute,
  mirroredSdkVersion,
  type Operation,
  type RequestOf,
  type ResponseOf,
  type WhoamiResponse,
} from "@tinklet/wire/client";
import { type Clock, systemClock } from "@tinklet/wire/clock";
import { APIStatusError, APITimeoutError, InvalidInputError, TinkerError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { APIFuture, type FutureContext, type FutureState } from "../../futures/api-future.ts";
import type { PollContext } from "../../futures/poll.ts";
import { BillingPause } from "../../transport/billing-pause.ts";
import { ByteBudget } from "../../transport/byte-budget.ts";
import {
  type CredentialSource,
  credentialSource,
  exchangeCredentials,
  firstCredentials,
} from "../../transport/credentials/auth.ts";
import type { ExchangedToken } from "../../transport/credentials/token.ts";
import { environment, isNode, rawEnvironment, resolveBaseUrl } from "../../transport/environment.ts";
import { HttpTransport } from "../../transport/http-transport.ts";
import { createExchange, defaultMaxSockets, type MaxSockets } from "../../transport/pools.ts";
import { Reporter, seconds } from "../../transport/report.ts";
import type { CallOptions, SendOptions } from "../../transport/transport.ts";
import { type ClientOptions, checkClientOptions } from "../options.ts";
import { OffPolicyWarning } from "../sampling/off-policy-warning.ts";
import { SampleLimits } from "../sampling/sample-limits.ts";
import { type Instruments, noInstruments } from "./instruments.ts";
import { Telemetry, telemetryEnabled } from "./telemetry.ts";

const heartbeatMs = 10_000;
/** A warning is logged after this time without a successful heartbeat. */
const heartbeatWarningMs = 120_000;
const shortestRefreshMs = 10_000;
/** Timeout of one attempt to report the end of the session. */
const finishMs = 5_000;

/** The data with which another process can use this session. It contains a credential. */
export interface SessionHandle {
  readonly baseUrl: string;
  /** Headers of every request. Absent in handles of older releases. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly apiKey: string | undefined;
  readonly token: string | undefined;
  readonly sessionId: string;
  readonly config: ClientConfigResponse;
}

export class Session {
  readonly clock: Clock;
  readonly background: Clock;
  readonly reporter: Reporter;
  readonly transport: HttpTransport;
  readonly options: ClientOptions;
  readonly maxSockets: MaxSockets;
  readonly telemetry: Telemetry | undefined;
  readonly trainBytes = new ByteBudget(0);
  readonly sampling: SampleLimits;
  readonly offPolicyWarning: OffPolicyWarning;
  instruments: Instruments = noInstruments;
  readonly poll: PollContext;
  readonly futures: FutureContext;
  readonly #source: CredentialSource;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #live = new Set<APIFuture<unknown>>();
  readonly #cancelTimers = new Set<() => void>();
  #config: ClientConfigResponse | undefined;
  readonly #connecting = new Shared((options) => this.#connect(options));
  readonly #opening = new Shared((options) => this.#open(options));
  #sessionId: string | undefined;
  #token: ExchangedToken | undefined;
  #nextModel = 0;
  #nextSampler = 0;
  #nextLoss = 0;
  #closing: Promise<void> | undefined;

  constructor(options: ClientOptions = {}, from?: SessionHandle) {
    checkClientOptions("ServiceClient", options);
    this.options = options;
    this.clock = options.clock ?? systemClock({ ref: true });
    this.background = options.clock ?? systemClock();
    this.reporter = new Reporter({
      clock: this.clock,
      logger: options.logger,
      logLevel: options.logLevel,
      onEvent: options.onEvent,
    });
    this.#headers = { ...from?.headers, ...options.defaultHeaders };
    this.maxSockets = { ...defaultMaxSockets, ...omitUndefined(options.maxSockets ?? {}) };
    this.#source = credentialSource(from ?? options);
    this.reporter.redactor.add(this.#source.apiKey);
    const access = accessHeaders();
    this.reporter.redactor.add(access["cf-access-client-secret"]);
    const billing = new BillingPause(this.clock, this.reporter);
    this.transport = new HttpTransport({
      baseUrl: resolveBaseUrl(from?.baseUrl ?? options.baseUrl),
      credentials: firstCredentials(this.#source, this.clock),
      exchange: createExchange({
        fetch: options.fetch,
        clock: this.clock,
        background: this.background,
        maxSockets: this.maxSockets,
        maxResponseBytes: options.maxResponseBytes,
        http2: options.http2,
        proxy: options.proxy,
        onSecret: (secret) => this.reporter.redactor.add(secret),
      }),
      clock: this.clock,
      reporter: this.reporter,
      billing,
      defaultHeaders: { ...access, ...this.#headers },
      timeoutMs: options.timeoutMs,
      maxRetries: options.maxRetries,
    });
    const { clock, background, reporter, transport } = this;
    this.poll = { transport, clock, billing, reporter, responseBytes: new ByteBudget(0) };
    this.futures = { clock, background, reporter };
    this.sampling = new SampleLimits(clock);
    this.offPolicyWarning = new OffPolicyWarning(reporter);
    this.telemetry = telemetryEnabled(options.telemetry)
      ? new Telemetry({ transport, clock: background, reporter })
      : undefined;
    if (from !== undefined) this.#adopt(from);
  }

  /** The server's flags. @throws {@link TinkerError} before {@link Session.connect}. */
  get config(): ClientConfigResponse {
    if (this.#config === undefined) {
      throw new TinkerError("The client is not connected yet.", {
        code: "not_connected",
        hint: "Call connect() and await it first.",
      });
    }
    return this.#config;
  }

  /** URL of the server's own page of runs, if it has one. Undefined before {@link Session.connect}. */
  get ownPages(): string | undefined {
    return this.#config?.tinkletExtensions?.includes("studio") ? this.transport.baseUrl : undefined;
  }

  get sessionId(): string | undefined {
    return this.#sessionId;
  }

  /**
   * Fetches the configuration and, if the server requires one, a token. Concurrent callers share one attempt, which is aborted when the
   * last of them aborts. A failed attempt can be repeated.
   */
  connect(options: SharedOptions = {}): Promise<ClientConfigResponse> {
    return this.#connecting.get(options);
  }

  async #connect(options: SharedOptions): Promise<ClientConfigResponse> {
    const [config, instruments] = await Promise.all([
      this.transport.call("clientConfig", { sdkVersion: mirroredSdkVersion }, options),
      import("./open-telemetry.ts").then(({ loadInstruments }) => loadInstruments(() => this.clock.monotonic())),
    ]);
    this.instruments = instruments;
    this.transport.traceHeaders = instruments.traceHeaders;
    this.#configure(config);
    if (config.pjwtAuthEnabled) await this.#exchangeToken(options);
    await this.#shareLimits();
    const dynamic = await this.#dynamicConfig(options);
    this.#dynamic = dynamic;
    return config;
  }

  async #shareLimits(): Promise<void> {
    const fromEnvironment = environment("TINKLET_SHARED_SAMPLES");
    const limits =
      this.options.sharedLimits ??
      (fromEnvironment === undefined ? undefined : { maxSamples: Number(fromEnvironment) });
    if (limits === undefined || this.sampling.shared !== undefined) return; // set: of a connection that failed after this
    if (!isNode()) throw new InvalidInputError("sharedLimits", "needs Node");
    const { openSharedLimit } = await import("../sampling/shared-limit.node.ts");
    const { baseUrl } = this.transport;
    const shared = await openSharedLimit(limits, { baseUrl, credential: this.#source.apiKey ?? "" });
    this.sampling.shared = shared;
    if (this.#closing !== undefined) shared.close();
  }

  /** The current flags of `client/dynamic_config`, which are refreshed while the client runs. */
  #dynamic: ClientDynamicConfigResponse = ClientDynamicConfigResponse.decode({});

  #configure(config: ClientConfigResponse): void {
    this.#config = config;
    this.transport.billing.maxPauseMs = config.billingExceptionMaxPauseDurationSec * 1000;
    this.poll.responseBytes.resize(config.inflightResponseBytesSemaphoreSize);
    this.trainBytes.resize(config.fwdbwdDispatchBytesSemaphoreSize);
    this.sampling.configure(config, this.maxSockets.retrieve);
  }

  async #exchangeToken(options: SharedOptions, initial?: string): Promise<void> {
    const source = exchangeCredentials(this.#source, this.config, this.clock);
    const { ExchangedToken } = await import("../../transport/credentials/token.ts"); // not needed for plain keys
    let first = options; // later exchanges belong to no call
    const token = new ExchangedToken({
      exchange: async () => {
        const { jwt } = await this.transport.call("authToken", {}, { ...first, token: await source.token() });
        this.reporter.redactor.add(jwt);
        return jwt;
      },
      clock: this.background,
      warn: (message) => this.reporter.log("warn", message),
      initial,
    });
    await token.start();
    first = {};
    this.#token?.close(); // of a connection that failed after its exchange
    this.#token = token;
    if (this.#closing !== undefined) token.close();
    this.transport.credentials = token;
  }

  /** Fetches the dynamic flags. Defaults are used if the server lacks the route or keeps failing. */
  async #dynamicConfig({ signal, maxRetries = 2 }: SharedOptions): Promise<ClientDynamicConfigResponse> {
    const limits = { signal, maxRetries: Math.min(maxRetries, 2) };
    try {
      return await this.transport.call("clientDynamicConfig", { sdkVersion: mirroredSdkVersion }, limits);
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof APIStatusError && error.status === 404)) {
        if (!(error instanceof TinkerError)) throw error;
        this.reporter.log("warn", `The dynamic configuration is not available, defaults are used: ${error.message}`);
      }
      return ClientDynamicConfigResponse.decode({});
    }
  }

  /** Number of calls without a result. */
  get underWay(): number {
    return this.#live.size;
  }

  /** The session's id; creates the session on the first call. */
  open(options: SharedOptions = {}): Promise<string> {
    return this.#opening.get(options);
  }

  async #open(options: SharedOptions): Promise<string> {
    await this.connect(options);
    const projectId = this.options.projectId ?? environment("TINKER_PROJECT_ID");
    const request = {
      tags: [...sessionTags(this.options.tags)],
      userMetadata: this.options.userMetadata ?? {},
      sdkVersion: mirroredSdkVersion,
      ...omitUndefined({ projectId, displayName: this.options.displayName }),
    };
    const answer = await this.transport.call("createSession", request, options);
    for (const [level, message] of [
      ["info", answer.infoMessage],
      ["warn", answer.warningMessage],
      ["error", answer.errorMessage],
    ] as const) {
      if (message !== undefined) this.reporter.report({ type: "session.message", level, message });
    }
    this.#begin(answer.sessionId);
    return answer.sessionId;
  }

  /** Runs `work` with the session's id; if the server has ended this session, once more with a new one. */
  async inSession<T>(options: SharedOptions, work: (sessionId: string) => Promise<T>): Promise<T> {
    const sessionId = await this.open(options);
    try {
      return await work(sessionId);
    } catch (error) {
      if (!isEnded(error)) throw error;
      if (this.#sessionId === sessionId) {
        this.#sessionId = undefined; // ends its timers
        this.#opening.reset();
      }
      return work(await this.open(options));
    }
  }

  #begin(sessionId: string): void {
    this.#sessionId = sessionId;
    this.telemetry?.begin(sessionId);
    let lastSuccessMs = this.clock.monotonic();
    const isOver = () => (this.#sessionId === sessionId ? undefined : "over");
    this.#every(
      () => heartbeatMs,
      async () => {
        try {
          await this.transport.call("sessionHeartbeat", { sessionId });
          lastSuccessMs = this.clock.monotonic();
        } catch (error) {
          if (isEnded(error)) return "over";
          const sinceMs = this.clock.monotonic() - lastSuccessMs;
          if (sinceMs > heartbeatWarningMs)
            this.reporter.report({ type: "session.heartbeat_failing", sessionId, sinceMs });
        }
        return isOver();
      },
    );
    this.#every(
      () => Math.max(this.#dynamic.refreshIntervalSec * 1000, shortestRefreshMs),
      async () => {
        try {
          this.#dynamic = await this.transport.call("clientDynamicConfig", { sdkVersion: mirroredSdkVersion });
        } catch {
          // The previous flags stay in use.
        }
        return isOver();
      },
    );
  }

  /** Uses a session that another process created. */
  #adopt(from: SessionHandle): void {
    this.#configure(from.config);
    const token = from.config.pjwtAuthEnabled ? this.#exchangeToken({}, from.token) : Promise.resolve();
    this.#connecting.adopt(token.then(() => from.config));
    this.#opening.adopt(token.then(() => from.sessionId));
    this.#begin(from.sessionId);
  }

  /** The handle from which another process can create a {@link Session}. */
  async handle(options: SharedOptions = {}): Promise<SessionHandle> {
    const sessionId = await this.open(options);
    const { apiKey } = this.#source;
    const { baseUrl } = this.transport;
    return { baseUrl, headers: this.#headers, apiKey, token: this.#token?.current, sessionId, config: this.config };
  }

  /** Repeats `run` periodically until it returns "over". */
  #every(periodMs: () => number, run: () => Promise<unknown>): void {
    let cancel = () => {};
    const handle = () => cancel();
    const schedule = () => {
      cancel = this.background.timer(periodMs(), () => {
        void run().then(
          (state) => {
            if (this.#closing === undefined && state !== "over") schedule();
          },
          () => {
            if (this.#closing === undefined) schedule();
          },
        );
      });
    };
    this.#cancelTimers.add(handle);
    schedule();
  }

  /** Runs something once after `ms`, unless the session is closed before. Returns a function that cancels it. */
  later(ms: number, run: () => void): () => void {
    const cancel = () => {
      stop();
      this.#cancelTimers.delete(cancel);
    };
    const stop = this.background.timer(ms, () => {
      this.#cancelTimers.delete(cancel);
      run();
    });
    if (this.#closing === undefined) this.#cancelTimers.add(cancel);
    else stop();
    return cancel;
  }

  nextModelSeqId(): number {
    return this.#nextModel++;
  }

  nextCustomLossSeqId(): number {
    return this.#nextLoss++;
  }

  nextSamplingSessionSeqId(): number {
    return this.#nextSampler++;
  }

  /**
   * Runs a call with its limits: `signal` and `timeoutMs` end it in every state of the server. The options passed to `work` contain both
   * limits in one signal.
   */
  within<T>(name: string, options: CallOptions, work: (options: CallOptions) => Promise<T>): Promise<T> {
    const late = (ms: number) => new APITimeoutError(`${name}: no result within ${seconds(ms)}`);
    return bounded(this.clock, options, late, (signal) => work({ ...options, signal, timeoutMs: undefined }));
  }

  /** A call of the contract; failures are reported to telemetry. */
  async call<K extends Operation>(
    operation: K,
    request: RequestOf<K>,
    options: SendOptions = {},
  ): Promise<ResponseOf<K>> {
    try {
      if (!isKnown(operation)) await loadRoute(operation);
      // Encoded synchronously, so that later changes to the caller's arrays do not affect this call.
      const prepared = this.transport.prepare(operation, request);
      return await this.within(operation, options, async (inner) => {
        await this.connect(inner);
        return this.transport.callPrepared(operation, prepared, { ...options, ...inner });
      });
    } catch (error) {
      if (error instanceof TinkerError && !options.signal?.aborted) this.telemetry?.exception(error);
      throw error;
    }
  }

  /** Starts a future of this session: measured, reported to telemetry if it fails, rejected by `close()`. */
  start<T>(
    options: {
      readonly requestType: string;
      /** The Python SDK's name of the call, for spans. */
      readonly operation: string;
      readonly subject?: string | undefined;
      readonly signal?: AbortSignal | undefined;
      readonly timeoutMs?: number | undefined;
      readonly attributes?: Readonly<Record<string, string | number>>;
      readonly metadata?: Readonly<Record<string, string | number>> | undefined;
    },
    work: (state: FutureState, signal: AbortSignal) => Promise<T>,
  ): APIFuture<T> {
    const measured = this.instruments.start(options.operation, {
      ...options.attributes,
      ...Object.fromEntries(
        Object.entries(options.metadata ?? {}).map(([key, value]) => [`tinker.metadata.${key}`, value]),
      ),
    });
    const future = new APIFuture(this.futures, options, work);
    this.#live.add(future);
    // Not in the work function, which does not run if the call is aborted before it starts.
    future.settled((error) => {
      this.#live.delete(future);
      const { requestId } = future;
      if (requestId !== undefined) measured.set({ "tinker.request_id": requestId });
      measured.end(error);
      if (error instanceof TinkerError && !future.aborted) this.telemetry?.exception(error);
    });
    return future;
  }

  /** Cancels a sample on the server that is no longer awaited, if the server supports it. */
  abandon(requestId: string): void {
    const { sampleCancelEnabled, sampleCancelMaxBatchSize: most } = this.#dynamic;
    if (!sampleCancelEnabled || this.#closing !== undefined) return;
    this.#abandoned.push(requestId);
    if (this.#abandoned.length > 1) return; // a flush is already running
    void import("../sampling/abandoned-samples.ts").then(({ tellAbandoned }) =>
      tellAbandoned(this, this.#abandoned, most),
    );
  }

  readonly #abandoned: string[] = [];

  /** Another account's credential in the form that the server accepts. */
  async foreignToken(credential: string, options: SharedOptions): Promise<string> {
    this.reporter.redactor.add(credential);
    const { pjwtAuthEnabled } = await this.connect(options);
    if (!pjwtAuthEnabled) return credential;
    const { jwt } = await this.transport.call("authToken", {}, { ...options, token: credential });
    this.reporter.redactor.add(jwt);
    return jwt;
  }

  /** The user of the credential. */
  async whoami(options: SharedOptions): Promise<WhoamiResponse> {
    await this.connect(options);
    const { passportToken, whoamiOf } = await import("../../transport/credentials/token.ts");
    return whoamiOf(this.#token?.current ?? passportToken(this.#source));
  }

  /**
   * Ends everything: pending calls reject, timers stop, the last telemetry is sent, sockets close. Idempotent.
   *
   * @param finish - outcome of the session, reported to the server; without it, no outcome is reported
   */
  close(finish?: { readonly type: ClientSessionFinishReasonType; readonly detail: string | undefined }): Promise<void> {
    this.#closing ??= this.#close(finish);
    return this.#closing;
  }

  async #close(finish: Parameters<Session["close"]>[0]): Promise<void> {
    const sessionId = this.#sessionId;
    for (const cancel of this.#cancelTimers) cancel();
    const closed = new TinkerError("The client was closed before the result arrived.", { code: "closed" });
    for (const future of this.#live) future.cancel(closed);
    if (finish !== undefined && sessionId !== undefined) {
      const { type, detail = null } = finish;
      const told = this.transport.call(
        "finishSession",
        { sessionId, reason: { type }, detail },
        { maxRetries: 1, timeoutMs: finishMs },
      );
      await told.catch(() => {}); // a stopped server, or one older than 0.28, must not prevent the program's exit
    }
    this.#token?.close();
    this.sampling.shared?.close();
    await this.telemetry?.close({ isReachable: this.#connecting.begun });
    await this.transport.close();
  }
}

/** Whether the server says that the session no longer exists. The word may also be a part of a checkpoint's or a model's name. */
const isEnded = (error: unknown): boolean =>
  error instanceof APIStatusError &&
  (error.status === 410 || (error.status === 404 && /(?<![\w/:."'`-])session(?![\w/:"'`-])/i.test(error.message)));

/** `TINKER_TAGS` as the Python SDK reads it: set but empty is one empty tag. */
function sessionTags(option: readonly string[] | undefined): ReadonlySet<string> {
  return new Set(option ?? rawEnvironment("TINKER_TAGS")?.split(",") ?? []);
}

/** Headers for servers behind Cloudflare Access. */
function accessHeaders(): Record<string, string> {
  const id = environment("CLOUDFLARE_ACCESS_CLIENT_ID");
  const secret = environment("CLOUDFLARE_ACCESS_CLIENT_SECRET");
  return {
    ...omitUndefined({ "cf-access-client-id": id, "cf-access-client-secret": secret }),
  };
}
