/**
 * One connection to one server, shared by all clients of a {@link ServiceClient}: configuration, credentials, the session
 * with its heartbeat, counters, limits, telemetry. Does nothing until somebody asks; everything it starts ends in `close()`,
 * and none of it keeps a process alive.
 */
import { type Clock, systemClock } from "../clock.ts";
import { APIStatusError, TinkerError } from "../errors.ts";
import { APIFuture, type FutureContext, type FutureState } from "../futures/api-future.ts";
import type { PollContext } from "../futures/poll.ts";
import {
  type CredentialSource,
  credentialSource,
  ExchangedToken,
  exchangeCredentials,
  firstCredentials,
  passportToken,
  whoamiOf,
} from "../transport/auth.ts";
import { BillingPause } from "../transport/billing-pause.ts";
import { ByteBudget } from "../transport/byte-budget.ts";
import { environment, rawEnvironment } from "../transport/environment.ts";
import { HttpTransport } from "../transport/http-transport.ts";
import { createExchange, defaultMaxSockets, type MaxSockets } from "../transport/pools.ts";
import { Reporter } from "../transport/report.ts";
import type { SendOptions } from "../transport/transport.ts";
import { mirroredSdkVersion, type Operation, type RequestOf, type ResponseOf } from "../wire/contract.ts";
import { type ClientConfigResponse, ClientDynamicConfigResponse, type WhoamiResponse } from "../wire/session.ts";
import { type Instruments, loadInstruments, type Measured, noInstruments } from "./instruments.ts";
import { Notes } from "./notes.ts";
import type { ClientOptions } from "./options.ts";
import { SampleLimits } from "./sample-limits.ts";
import { Telemetry, telemetryEnabled } from "./telemetry.ts";

const hostedBaseUrl = "https://tinker.thinkingmachines.dev/services/tinker-prod";
const heartbeatMs = 10_000;
/** A heartbeat that has not come through for so long is worth a warning. */
const heartbeatWarningMs = 120_000;
const shortestRefreshMs = 10_000;

/** What another process needs to use this session; holds a credential. */
export interface SessionHandle {
  readonly baseUrl: string;
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
  readonly notes: Notes;
  instruments: Instruments = noInstruments;
  readonly poll: PollContext;
  readonly futures: FutureContext;
  readonly #source: CredentialSource;
  readonly #live = new Set<APIFuture<unknown>>();
  readonly #cancelTimers = new Set<() => void>();
  #config: ClientConfigResponse | undefined;
  #connecting: Promise<ClientConfigResponse> | undefined;
  #opening: Promise<string> | undefined;
  #sessionId: string | undefined;
  #token: ExchangedToken | undefined;
  #nextModel = 0;
  #nextSampler = 0;
  #closing: Promise<void> | undefined;

  constructor(options: ClientOptions = {}, from?: SessionHandle) {
    this.options = options;
    this.clock = options.clock ?? systemClock({ ref: true });
    this.background = options.clock ?? systemClock();
    this.reporter = new Reporter({
      clock: this.clock,
      logger: options.logger,
      logLevel: options.logLevel,
      onEvent: options.onEvent,
    });
    this.maxSockets = { ...defaultMaxSockets, ...options.maxSockets };
    this.#source = credentialSource(from ?? options);
    this.reporter.redactor.add(this.#source.apiKey);
    const access = accessHeaders();
    this.reporter.redactor.add(access["cf-access-client-secret"]);
    const billing = new BillingPause(this.clock, this.reporter);
    this.transport = new HttpTransport({
      baseUrl: from?.baseUrl ?? options.baseUrl ?? environment("TINKER_BASE_URL") ?? hostedBaseUrl,
      credentials: firstCredentials(this.#source),
      exchange: createExchange({
        fetch: options.fetch,
        clock: this.clock,
        maxSockets: this.maxSockets,
        maxResponseBytes: options.maxResponseBytes,
      }),
      clock: this.clock,
      reporter: this.reporter,
      billing,
      defaultHeaders: { ...access, ...options.defaultHeaders },
      timeoutMs: options.timeoutMs,
      maxRetries: options.maxRetries,
    });
    const { clock, background, reporter, transport } = this;
    this.poll = { transport, clock, billing, reporter, responseBytes: new ByteBudget(0) };
    this.futures = { clock, background, reporter };
    this.sampling = new SampleLimits(clock);
    this.notes = new Notes(reporter);
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
        hint: "Await connect() first.",
      });
    }
    return this.#config;
  }

  get sessionId(): string | undefined {
    return this.#sessionId;
  }

  /** Fetches the configuration and, where the server wants it, a token. Done once; a failure may be tried again. */
  connect(): Promise<ClientConfigResponse> {
    this.#connecting ??= this.#connect().catch((error: unknown) => {
      this.#connecting = undefined;
      throw error;
    });
    return this.#connecting;
  }

  async #connect(): Promise<ClientConfigResponse> {
    const [config, instruments] = await Promise.all([
      this.transport.call("clientConfig", { sdkVersion: mirroredSdkVersion }),
      loadInstruments(() => this.clock.monotonic()),
    ]);
    this.instruments = instruments;
    this.#configure(config);
    if (config.pjwtAuthEnabled) await this.#exchangeToken();
    const dynamic = await this.#dynamicConfig();
    this.#refreshSec = dynamic.refreshIntervalSec;
    return config;
  }

  #refreshSec = 300;

  #configure(config: ClientConfigResponse): void {
    this.#config = config;
    this.transport.billing.maxPauseMs = config.billingExceptionMaxPauseDurationSec * 1000;
    this.poll.responseBytes.resize(config.inflightResponseBytesSemaphoreSize);
    this.trainBytes.resize(config.fwdbwdDispatchBytesSemaphoreSize);
    this.sampling.configure(config, this.maxSockets.retrieve);
  }

  async #exchangeToken(initial?: string): Promise<void> {
    const source = exchangeCredentials(this.#source, this.config);
    const token = new ExchangedToken({
      exchange: async () => {
        const { jwt } = await this.transport.call("authToken", {}, { token: await source.token() });
        this.reporter.redactor.add(jwt);
        return jwt;
      },
      clock: this.background,
      warn: (message) => this.reporter.log("warn", message),
      initial,
    });
    await token.start();
    this.#token = token;
    this.transport.credentials = token;
  }

  /** A server that does not know the route has nothing to say; neither has one that keeps failing at it. */
  async #dynamicConfig(): Promise<ClientDynamicConfigResponse> {
    try {
      return await this.transport.call("clientDynamicConfig", { sdkVersion: mirroredSdkVersion }, { maxRetries: 2 });
    } catch (error) {
      if (!(error instanceof APIStatusError && error.status === 404)) {
        if (!(error instanceof TinkerError)) throw error;
        this.reporter.log("warn", `The dynamic configuration is not available, defaults are used: ${error.message}`);
      }
      return ClientDynamicConfigResponse.decode({});
    }
  }

  /** The session's id; the session is made when first asked for. */
  open(): Promise<string> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #open(): Promise<string> {
    await this.connect();
    const projectId = this.options.projectId ?? environment("TINKER_PROJECT_ID");
    const answer = await this.transport.call("createSession", {
      tags: [...sessionTags(this.options.tags)],
      userMetadata: this.options.userMetadata ?? {},
      sdkVersion: mirroredSdkVersion,
      ...(projectId === undefined ? {} : { projectId }),
    });
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

  #begin(sessionId: string): void {
    this.#sessionId = sessionId;
    this.telemetry?.begin(sessionId);
    let lastSuccessMs = this.clock.monotonic();
    this.#every(
      () => heartbeatMs,
      async () => {
        try {
          await this.transport.call("sessionHeartbeat", { sessionId });
          lastSuccessMs = this.clock.monotonic();
        } catch {
          const sinceMs = this.clock.monotonic() - lastSuccessMs;
          if (sinceMs > heartbeatWarningMs)
            this.reporter.report({ type: "session.heartbeat_failing", sessionId, sinceMs });
        }
      },
    );
    this.#every(
      () => Math.max(this.#refreshSec * 1000, shortestRefreshMs),
      async () => {
        try {
          const dynamic = await this.transport.call("clientDynamicConfig", { sdkVersion: mirroredSdkVersion });
          this.#refreshSec = dynamic.refreshIntervalSec;
        } catch {
          // The last good configuration stays.
        }
      },
    );
  }

  /** Uses a session that another process opened. */
  #adopt(from: SessionHandle): void {
    this.#configure(from.config);
    const token = from.config.pjwtAuthEnabled ? this.#exchangeToken(from.token) : Promise.resolve();
    this.#connecting = token.then(() => from.config);
    this.#opening = this.#connecting.then(() => from.sessionId);
    this.#opening.catch(() => {});
    this.#begin(from.sessionId);
  }

  /** What {@link Session} of another process can be made from. */
  async handle(): Promise<SessionHandle> {
    const sessionId = await this.open();
    const { apiKey } = this.#source;
    return { baseUrl: this.transport.baseUrl, apiKey, token: this.#token?.current, sessionId, config: this.config };
  }

  #every(periodMs: () => number, run: () => Promise<void>): void {
    let cancel = () => {};
    const handle = () => cancel();
    const schedule = () => {
      cancel = this.background.timer(periodMs(), () => {
        void run().finally(() => {
          if (this.#closing === undefined) schedule();
        });
      });
    };
    this.#cancelTimers.add(handle);
    schedule();
  }

  nextModelSeqId(): number {
    return this.#nextModel++;
  }

  nextSamplingSessionSeqId(): number {
    return this.#nextSampler++;
  }

  /** A call of the contract; failures are told to telemetry. */
  async call<K extends Operation>(
    operation: K,
    request: RequestOf<K>,
    options: SendOptions = {},
  ): Promise<ResponseOf<K>> {
    await this.connect();
    try {
      return await this.transport.call(operation, request, options);
    } catch (error) {
      if (error instanceof TinkerError) this.telemetry?.exception(error);
      throw error;
    }
  }

  /** Starts a future of this session: measured, told to telemetry when it fails, ended by `close()`. */
  start<T>(
    options: {
      readonly requestType: string;
      /** The Python SDK's name of the call, for spans. */
      readonly operation: string;
      readonly subject?: string | undefined;
      readonly signal?: AbortSignal | undefined;
      readonly attributes?: Readonly<Record<string, string | number>>;
    },
    work: (state: FutureState, signal: AbortSignal) => Promise<T>,
  ): APIFuture<T> {
    const measured = this.instruments.start(options.operation, { ...options.attributes });
    const future: APIFuture<T> = APIFuture.start(this.futures, options, async (state, signal) => {
      try {
        const value = await work(state, signal);
        measure(measured, state);
        return value;
      } catch (error) {
        measure(measured, state, error);
        if (error instanceof TinkerError && !signal.aborted) this.telemetry?.exception(error);
        throw error;
      } finally {
        this.#live.delete(future);
      }
    });
    this.#live.add(future);
    return future;
  }

  /** Another account's credential in the form that the server takes. */
  async foreignToken(credential: string): Promise<string> {
    this.reporter.redactor.add(credential);
    const { pjwtAuthEnabled } = await this.connect();
    if (!pjwtAuthEnabled) return credential;
    const { jwt } = await this.transport.call("authToken", {}, { token: credential });
    this.reporter.redactor.add(jwt);
    return jwt;
  }

  /** Whose credential this is. */
  async whoami(): Promise<WhoamiResponse> {
    await this.connect();
    return whoamiOf(this.#token?.current ?? passportToken(this.#source));
  }

  /** Ends everything: pending calls reject, timers stop, the last telemetry is sent, sockets close. May be called twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const cancel of this.#cancelTimers) cancel();
    const closed = new TinkerError("The client was closed before the result arrived.", { code: "closed" });
    for (const future of this.#live) future.cancel(closed);
    this.#token?.close();
    if (this.#connecting !== undefined) await this.telemetry?.close();
    await this.transport.close();
  }
}

function measure(measured: Measured, state: FutureState, error?: unknown): void {
  if (state.requestIds.length > 0) measured.set({ "tinker.request_id": state.requestIds[0]! });
  measured.end(error);
}

/** `TINKER_TAGS` as Python reads it: set but empty is one empty tag. */
function sessionTags(option: readonly string[] | undefined): ReadonlySet<string> {
  return new Set(option ?? rawEnvironment("TINKER_TAGS")?.split(",") ?? []);
}

/** Headers for servers behind Cloudflare Access. */
function accessHeaders(): Record<string, string> {
  const id = environment("CLOUDFLARE_ACCESS_CLIENT_ID");
  const secret = environment("CLOUDFLARE_ACCESS_CLIENT_SECRET");
  return {
    ...(id === undefined ? {} : { "cf-access-client-id": id }),
    ...(secret === undefined ? {} : { "cf-access-client-secret": secret }),
  };
}
