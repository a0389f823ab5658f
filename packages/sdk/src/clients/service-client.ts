/**
 * `ServiceClient`: the entry point. Creates training, sampling and REST clients over one session, and closes them. Construction does no
 * I/O.
 */

import {
  type ClientSessionFinishReasonType,
  type CopyWeightsResponse,
  type CustomLossGraph,
  type FutureResult,
  type FutureResultName,
  type GetServerCapabilitiesResponse,
  LoraConfig,
  type Operation,
  type OptimizerConfig,
  type RequestOf,
  type ResponseOf,
  type UntypedAPIFuture,
  type UserMetadata,
} from "@tinklet/wire/client";
import { entropy } from "@tinklet/wire/entropy";
import { checkOptions, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import type { APIFuture, FutureState } from "../futures/api-future.ts";
import { pollFuture } from "../futures/poll.ts";
import type { Tokenizer } from "../tokenizer/index.ts";
import type { RequestCounts, RouteMetrics } from "../transport/client-metrics.ts";
import type { FailureFacts } from "../transport/hints.ts";
import type { Redactor } from "../transport/redact.ts";
import type { CallOptions } from "../transport/transport.ts";
import type { LocalOptions } from "./local.ts";
import { modelTokenizer } from "./model-tokenizer.ts";
import { type ClientOptions, callNames, type OperationOptions, operationNames } from "./options.ts";
import { sessionUrl } from "./rest/console-urls.ts";
import { callOptions, RestClient } from "./rest/rest-client.ts";
import type { RetryConfig } from "./sampling/retry-config.ts";
import { SamplingClient } from "./sampling/sampling-client.ts";
import { Session } from "./session/session.ts";
import type { Telemetry } from "./session/telemetry.ts";
import { CustomLoss, type InputRanks, type PerDatumLossFn } from "./training/custom-loss/per-datum-loss.ts";
import { ModelRequests, otherOptimizer } from "./training/model-requests.ts";
import type { RecoveryOptions } from "./training/recovery/options.ts";
import { checkedTinkerPath, TrainingClient } from "./training/training-client.ts";

/** Snapshot of {@link ServiceClient.metrics}. Counters start at the creation of the client. */
export interface ServiceMetrics extends RequestCounts {
  /** Calls in progress. */
  readonly queues: {
    /** Calls without a result: queued in the client, being submitted, or running on the server. */
    readonly calls: number;
    /** Samples between submission and result. */
    readonly samples: number;
    /** Samples that wait for the limit of concurrent samples. */
    readonly samplesWaiting: number;
    /** Chunks of training passes that wait for the byte budget. */
    readonly passesWaiting: number;
  };
  /** Counters and latencies by operation of the API, for example `forwardBackward` or `retrieveFuture`. */
  readonly routes: Readonly<Record<string, RouteMetrics>>;
}

/** Options of {@link ServiceClient.createLoraTrainingClient}. */
export interface LoraOptions extends OperationOptions {
  /** Name of the base model to train, as the service lists it. */
  readonly baseModel: string;
  /** Rank of the LoRA adapter. @defaultValue 32 */
  readonly rank?: number | undefined;
  /** Seed of the adapter's initial weights. @defaultValue chosen by the server */
  readonly seed?: number | undefined;
  /** Whether the MLP layers get adapters. @defaultValue true */
  readonly trainMlp?: boolean | undefined;
  /** Whether the attention layers get adapters. @defaultValue true */
  readonly trainAttn?: boolean | undefined;
  /** Whether the unembedding (output) layer gets an adapter. @defaultValue true */
  readonly trainUnembed?: boolean | undefined;
  /**
   * Name of the run, sent as `name` of the metadata; a Tinklet server adds a number if another run has it.
   * @defaultValue the server's: the program's file name with {@link ServiceClient.local}, else `run`
   */
  readonly name?: string | undefined;
  /** Metadata stored with the model. */
  readonly userMetadata?: UserMetadata | undefined;
  /** The model's optimizer, which cannot be changed later. Optimizers other than AdamW need a server of 0.30. @defaultValue AdamW */
  readonly optimizer?: OptimizerConfig | undefined;
  /**
   * Recover the model when the server has lost it: create it again from its newest checkpoint, with the optimizer, and repeat the later
   * calls. `{}` for the defaults. An extension: the Python SDK has no such option. @defaultValue no recovery
   */
  readonly recovery?: RecoveryOptions | undefined;
}

/** Options of {@link ServiceClient.createTrainingClientFromState}. */
export interface FromStateOptions extends OperationOptions {
  /** Base model to use instead of the one the checkpoint names. */
  readonly baseModel?: string | undefined;
  /** Name of the new run, as for {@link LoraOptions.name}. */
  readonly name?: string | undefined;
  readonly userMetadata?: UserMetadata | undefined;
  /** Access token for another account's weights. */
  readonly weightsAccessToken?: string | undefined;
  /** The optimizer, if its state is not loaded from the checkpoint. @defaultValue AdamW */
  readonly optimizer?: OptimizerConfig | undefined;
  /** As {@link LoraOptions.recovery}. */
  readonly recovery?: RecoveryOptions | undefined;
}

const loraNames: OptionNames<LoraOptions> = {
  ...operationNames,
  baseModel: true,
  name: true,
  rank: true,
  seed: true,
  trainMlp: true,
  trainAttn: true,
  trainUnembed: true,
  userMetadata: true,
  optimizer: true,
  recovery: true,
};
const fromStateNames: OptionNames<FromStateOptions> = {
  ...operationNames,
  baseModel: true,
  name: true,
  userMetadata: true,
  weightsAccessToken: true,
  optimizer: true,
  recovery: true,
};

/** The metadata of a new model, with its name. @throws {@link InvalidInputError} for an invalid name */
async function namedMetadata(options: LoraOptions | FromStateOptions): Promise<UserMetadata | undefined> {
  if (options.name === undefined) return options.userMetadata;
  return (await import("./named-metadata.ts")).namedMetadata(options);
}

/** The operations of the API as functions. Each sends one request, without session, ordering or polling. */
export type LowLevelApi = {
  readonly [K in Operation]: (request: RequestOf<K>, options?: CallOptions) => Promise<ResponseOf<K>>;
};

/**
 * Entry point of the SDK: a client of one Tinker service.
 *
 * Return types of all clients: work that the server queues returns an {@link APIFuture}, which is submitted in the order of the calls
 * and awaited for its result. A single request and response returns a `Promise`. Listings return a {@link PagedList}.
 *
 * @example
 * ```ts
 * const service = await ServiceClient.connect();             // TINKER_API_KEY, TINKER_BASE_URL
 * try {
 *   const trainer = await service.createLoraTrainingClient({ baseModel: "Qwen/Qwen3-8B" });
 *   // …
 * } finally {
 *   await service.close();
 * }
 * ```
 */
export class ServiceClient {
  readonly #session: Session;
  readonly #beforeClose: (() => Promise<void>) | undefined;
  #api: LowLevelApi | undefined;

  /** Does no I/O; the first call connects. @throws {@link TinkerError} when there is no usable key or URL. */
  constructor(options: ClientOptions = {}, ends?: () => Promise<void>) {
    this.#session = new Session(options);
    this.#beforeClose = ends;
  }

  /**
   * Creates a client and fetches the server's configuration, so that a wrong URL or key fails early: within 3 s if the connection is
   * refused, within 15 s if the server does not respond.
   *
   * @param call - `signal` cancels the call; `timeoutMs` replaces both limits, for example for a server that is still starting
   *
   * @example
   * ```ts
   * const service = await ServiceClient.connect({}, { timeoutMs: 60_000 }); // a server that is still starting
   * ```
   */
  static async connect(options: ClientOptions = {}, call: CallOptions = {}): Promise<ServiceClient> {
    const service = new ServiceClient(options);
    try {
      return await service.connect(call);
    } catch (error) {
      await service.close();
      throw error;
    }
  }

  /**
   * Starts a server inside this process and connects to it: no key, no network. Needs the package `@tinklet/server`.
   *
   * @example
   * ```ts
   * const service = await ServiceClient.local();
   * const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 16 });
   * await service.close();
   * ```
   *
   * @throws {@link TinkerError} with code `missing_peer` and the install command in its hint.
   */
  static async local(options: LocalOptions & ClientOptions = {}): Promise<ServiceClient> {
    const { startLocal } = await import("./local.ts"); // not part of browser bundles, which cannot start a server
    const { server, client } = await startLocal(options);
    const service = new ServiceClient(client, () => server.close());
    try {
      return await service.connect();
    } catch (error) {
      await service.close();
      throw error;
    }
  }

  /** Fetches the server's configuration, if that has not happened yet. @param options - as for {@link ServiceClient.connect} */
  async connect(options: CallOptions = {}): Promise<this> {
    checkOptions("connect", options, callNames);
    const { timeoutMs, maxRetries } = options;
    // Ends one second early, so that the last attempt's error is reported instead of a timeout.
    const firstContactMs = timeoutMs === undefined ? undefined : Math.max(timeoutMs - 1_000, 0);
    await this.#session.within("connect", options, ({ signal }) =>
      this.#session.connect({ signal, maxRetries, firstContactMs }),
    );
    return this;
  }

  /** The secrets to redact. @internal */
  get redactor(): Redactor {
    return this.#session.reporter.redactor;
  }

  /** Base URL of the server. */
  get baseUrl(): string {
    return this.#session.transport.baseUrl;
  }

  /** Id of the session; undefined until the session has been created. */
  get sessionId(): string | undefined {
    return this.#session.sessionId;
  }

  /**
   * The models that the server offers, with their context lengths.
   *
   * @example
   * ```ts
   * const { supportedModels } = await service.getServerCapabilities();
   * for (const { modelName, maxContextLength } of supportedModels) console.log(modelName, maxContextLength);
   * ```
   */
  async getServerCapabilities(options: CallOptions = {}): Promise<GetServerCapabilitiesResponse> {
    checkOptions("getServerCapabilities", options, callNames);
    return this.#session.call("getServerCapabilities", {}, options);
  }

  /**
   * The tokenizer of a base model, without a training or sampling client. Comes from the server if it is a Tinklet server, else from the
   * Hugging Face Hub or its cache. Loads `@tinklet/models`. An extension: the Python SDK has it on training and sampling clients only.
   */
  async getTokenizer(baseModel: string, options: CallOptions = {}): Promise<Tokenizer> {
    checkOptions("getTokenizer", options, callNames);
    const model = { modelName: baseModel };
    return this.#session.within("getTokenizer", options, (inner) => modelTokenizer(this.#session, model, inner));
  }

  /**
   * Creates a model to train: a LoRA adapter over a base model.
   *
   * @example
   * ```ts
   * const trainer = await service.createLoraTrainingClient({ baseModel: "Qwen/Qwen3-8B", rank: 32, seed: 1 });
   * console.log(trainer.modelId);
   * ```
   *
   * @throws {@link InvalidInputError} (as a rejection) when the rank is invalid or no layers are trained.
   */
  createLoraTrainingClient(options: LoraOptions): APIFuture<TrainingClient> {
    const { baseModel } = options;
    return this.#start("CreateModel", "create_lora_training_client", baseModel, options, async (state, signal) => {
      checkOptions("createLoraTrainingClient", options, loraNames);
      if (options.recovery === undefined) return new TrainingClient(await this.#createModel(options, state, signal));
      // The same initial weights each time.
      const model = { ...options, seed: options.seed ?? Math.floor(entropy.fraction() * 2 ** 31) };
      return this.#withRecovery(options.recovery, options, state, signal, (...call) =>
        this.#createModel(model, ...call),
      );
    });
  }

  /** Makes a client that recovers its model, and that is made again by `create` where there is no checkpoint. */
  async #withRecovery(
    recovery: RecoveryOptions,
    { name, userMetadata }: LoraOptions | FromStateOptions,
    state: FutureState,
    signal: AbortSignal,
    create: (state: FutureState, signal: AbortSignal) => Promise<ModelRequests>,
  ): Promise<TrainingClient> {
    const { checkedRecovery, continuing, ModelRecovery, untracked } = await import(
      "./training/recovery/model-recovery.ts"
    );
    const checked = checkedRecovery(recovery);
    const first = await create(state, signal);
    const recreate = (path: string | undefined) =>
      path === undefined
        ? create(...untracked())
        : this.#loadInto(path, true, { name, userMetadata: continuing(path, userMetadata) }, ...untracked());
    return new TrainingClient(
      first,
      (requests, onReplace) => new ModelRecovery({ requests, options: checked, recreate, onReplace }),
    );
  }

  async #createModel(options: LoraOptions, state: FutureState, signal: AbortSignal): Promise<ModelRequests> {
    const { baseModel, rank = 32, seed, trainMlp = true, trainAttn = true, trainUnembed = true } = options;
    const loraConfig = { rank, trainUnembed, trainMlp, trainAttn, ...omitUndefined({ seed }) };
    LoraConfig.encode(loraConfig); // validates before a session is opened
    const userMetadata = await namedMetadata(options);
    const session = this.#session;
    const facts = { rank, baseModel };
    return this.#admitted(state, signal, baseModel, async (sessionId) => {
      const request = {
        sessionId,
        modelSeqId: session.nextModelSeqId(),
        baseModel,
        loraConfig,
        ...omitUndefined({ userMetadata, optimizerConfig: otherOptimizer(options.optimizer) }),
      };
      const { modelId } = await this.#submitAndPoll(
        "CreateModel",
        "createModel",
        request,
        state,
        signal,
        baseModel,
        facts,
      );
      return new ModelRequests(session, modelId);
    });
  }

  /** Loaded when the creation of a model fails. */
  #modelLine: typeof import("./training/model-line.ts") | undefined;

  /** Creates a model in the session; waits while the server refuses it because too many are trained. */
  async #admitted<T>(
    state: FutureState,
    signal: AbortSignal,
    subject: string,
    create: (sessionId: string) => Promise<T>,
  ): Promise<T> {
    const attempt = () => this.#session.inSession({ signal }, create);
    const wait = { state, signal, subject };
    const refusal = this.#modelLine?.refusalOfLine(this.#session);
    if (refusal !== undefined) return this.#modelLine!.inModelLine(this.#session, refusal, wait, attempt);
    try {
      return await attempt();
    } catch (error) {
      this.#modelLine ??= await import("./training/model-line.ts");
      return this.#modelLine.inModelLine(this.#session, error, wait, attempt);
    }
  }

  /** Submits a request that does not belong to a model's sequence, and polls its result. */
  async #submitAndPoll<K extends FutureResultName, O extends "createModel" | "loadWeights" | "createCustomLoss">(
    requestType: K,
    operation: O,
    request: RequestOf<O>,
    state: FutureState,
    signal: AbortSignal,
    subject: string,
    facts: Partial<FailureFacts>,
  ): Promise<FutureResult<K>> {
    const { transport, clock, poll } = this.#session;
    const startedAtMs = clock.monotonic();
    state.phase = "submitting";
    const { requestId }: UntypedAPIFuture = await transport.call<"createModel" | "loadWeights" | "createCustomLoss">(
      operation,
      request,
      { signal, facts },
    );
    state.submitted([requestId]);
    const roundtripMs = clock.monotonic() - startedAtMs;
    return pollFuture(poll, { requestId, requestType, subject, roundtripMs, signal, facts, progress: state });
  }

  /**
   * Creates a training client from a checkpoint, with a new optimizer state.
   *
   * @example
   * ```ts
   * const trainer = await service.createTrainingClientFromState("tinker://run-1/weights/epoch-1");
   * ```
   */
  createTrainingClientFromState(path: string, options: FromStateOptions = {}): APIFuture<TrainingClient> {
    return this.#fromState(path, false, options);
  }

  /** Creates a training client from a checkpoint including its optimizer state, to resume training exactly. */
  createTrainingClientFromStateWithOptimizer(path: string, options: FromStateOptions = {}): APIFuture<TrainingClient> {
    return this.#fromState(path, true, options);
  }

  #fromState(path: string, optimizer: boolean, options: FromStateOptions): APIFuture<TrainingClient> {
    const name = `create_training_client_from_state${optimizer ? "_with_optimizer" : ""}`;
    return this.#start("LoadWeights", name, path, options, async (state, signal) => {
      checkOptions("createTrainingClientFromState", options, fromStateNames);
      checkedTinkerPath("path", path);
      const { recovery } = options;
      if (recovery === undefined) {
        return new TrainingClient(await this.#loadInto(path, optimizer, options, state, signal));
      }
      return this.#withRecovery(recovery, options, state, signal, (...call) =>
        this.#loadInto(path, optimizer, options, ...call),
      );
    });
  }

  async #loadInto(
    path: string,
    optimizer: boolean,
    options: FromStateOptions,
    state: FutureState,
    signal: AbortSignal,
  ): Promise<ModelRequests> {
    const { modelFromState } = await import("./training/model-from-state.ts");
    return modelFromState(path, optimizer, options, {
      session: this.#session,
      signal,
      create: (model) => this.#createModel(model, state, signal),
      admitted: (create) => this.#admitted(state, signal, path, create),
      load: (request, subject) =>
        this.#submitAndPoll("LoadWeights", "loadWeights", request, state, signal, subject, { path }),
    });
  }

  /**
   * Creates a sampling client for a base model or for a checkpoint saved for sampling.
   *
   * @example
   * ```ts
   * const base = await service.createSamplingClient({ baseModel: "Qwen/Qwen3-8B" });
   * const tuned = await service.createSamplingClient({ modelPath: "tinker://run-1/sampler_weights/final" });
   * ```
   *
   * @throws {@link InvalidInputError} (as a rejection) when neither `modelPath` nor `baseModel` is set.
   */
  createSamplingClient(options: {
    /** `tinker://<run>/sampler_weights/<name>` */
    readonly modelPath?: string | undefined;
    readonly baseModel?: string | undefined;
    readonly retryConfig?: RetryConfig | undefined;
    /** Record the data that the loss `stable_reinforce` needs of each sample. Needs a server of 0.27. @defaultValue false */
    readonly recordStabilityInfo?: boolean | undefined;
    readonly signal?: AbortSignal | undefined;
    /** Timeout of the whole call, in milliseconds. @defaultValue no limit */
    readonly timeoutMs?: number | undefined;
  }): Promise<SamplingClient> {
    return SamplingClient.create(this.#session, "createSamplingClient", options);
  }

  /**
   * Creates a custom loss of one datum for use in many passes. On servers that run custom losses (0.36 and newer, if their
   * configuration says so), the function is traced to a graph and stored there, and each training pass is one request. On other servers,
   * and for functions that read values or lengths, the client runs the function as `forwardBackwardCustom` does.
   *
   * @param inputRanks - rank of `logprobs` and of each key of `lossFnInputs` that the loss reads: 0 is a scalar, 1 is `[T]`, 2 is `[T, K]`
   *
   * @example
   * ```ts
   * const loss = await service.createCustomLoss(
   *   ({ logprobs, advantages }) => ({ loss: logprobs.mul(advantages).sum().neg() }),
   *   { logprobs: 1, advantages: 1 },
   * );
   * console.log(loss.lossId ?? loss.untraced ?? "run by the client");
   * ```
   *
   * @throws {@link InvalidInputError} (as a rejection) when the ranks, the metrics or the form of the loss are invalid.
   */
  createCustomLoss<const R extends InputRanks>(
    fn: PerDatumLossFn<keyof R & string>,
    inputRanks: R,
    options: OperationOptions & { readonly name?: string | undefined } = {},
  ): APIFuture<CustomLoss> {
    const name = options.name ?? (fn.name === "" ? "loss" : fn.name);
    return this.#start("CreateCustomLoss", "create_custom_loss", name, options, async (state, signal) => {
      checkOptions("createCustomLoss", options, { ...operationNames, name: true });
      const { lossInputs, TraceError, traceLoss } = await import("./training/custom-loss/trace-loss.ts"); // imported on first use
      const inputs = lossInputs(inputRanks);
      const made = { name, inputs, fn: fn as unknown as PerDatumLossFn };
      let graph: CustomLossGraph;
      try {
        graph = traceLoss(fn as never, inputs);
      } catch (error) {
        if (error instanceof TraceError) return new CustomLoss({ ...made, untraced: error.message });
        throw error;
      }
      const session = this.#session;
      if (!(await session.connect({ signal })).customLossServerSide) return new CustomLoss(made);
      const sessionId = await session.open({ signal });
      const request = { sessionId, customLossSeqId: session.nextCustomLossSeqId(), name, inputs, graph };
      const { lossId } = await this.#submitAndPoll(
        "CreateCustomLoss",
        "createCustomLoss",
        request,
        state,
        signal,
        name,
        {},
      );
      return new CustomLoss({ ...made, lossId });
    });
  }

  /**
   * Uploads a LoRA adapter as a checkpoint: a folder in the format of PEFT, which {@link RestClient.downloadCheckpoint} also writes. Only
   * Tinklet servers support it. Node only. An extension: the Python SDK has no such call.
   *
   * @param options.baseModel - the adapter's base model. @defaultValue the server's model, if it has only one
   * @param options.name - name of the checkpoint. @defaultValue the folder's name
   * @param options.ttlSeconds - time to live in seconds; importing the same adapter again gives the same checkpoint, with the longest
   *   time to live requested. @defaultValue no expiry
   *
   * @throws {@link TinkerError} with code `import_failed` when the folder is invalid or the server does not support imports.
   */
  async importAdapter(
    folder: string,
    options: CallOptions & {
      readonly baseModel?: string | undefined;
      readonly name?: string | undefined;
      readonly ttlSeconds?: number | undefined;
    } = {},
  ): Promise<{ readonly path: string }> {
    checkOptions("importAdapter", options, { ...callNames, baseModel: true, name: true, ttlSeconds: true });
    return this.#session.within("importAdapter", options, async (inner) => {
      await this.#session.connect(inner);
      const { importAdapterFolder } = await import("./files/adapter-import.node.ts");
      return { path: await importAdapterFolder(this.#session, folder, options, inner.signal) };
    });
  }

  /** URL of this session in the hosted service's console; of the list of sessions before this session exists. With a Tinklet server, URL of the studio's runs. */
  getConsoleUrl(): string {
    return sessionUrl(this.sessionId, this.#session.ownPages);
  }

  /**
   * Copies a checkpoint into this client's project ({@link ClientOptions.projectId}). Needs a server of 0.27.
   *
   * @param options.weightsAccessToken - access token for another account's weights
   */
  async copyWeights(
    sourcePath: string,
    options: CallOptions & { readonly ttlSeconds?: number; readonly weightsAccessToken?: string } = {},
  ): Promise<CopyWeightsResponse> {
    const destinationProjectId = this.#session.options.projectId;
    return this.createRestClient().copyWeights(sourcePath, { ...options, ...omitUndefined({ destinationProjectId }) });
  }

  /** Creates a client for runs, checkpoints, sessions and billing. Needs no session. */
  createRestClient(): RestClient {
    return new RestClient(this.#session, (path, options) => this.createTrainingClientFromState(path, options));
  }

  /**
   * Low-level access: every operation of the API as one request, for operations that the clients do not have.
   *
   * @example
   * ```ts
   * const { requestId } = await service.api.saveWeights({ modelId: trainer.modelId, seqId: 1, path: "by-hand" });
   * const { path } = await service.future(requestId, "SaveWeights");
   * ```
   */
  get api(): LowLevelApi {
    this.#api ??= new Proxy({} as LowLevelApi, {
      // A proxy, because routes are loaded on the first call. `then` is excluded, so that the object is not a thenable.
      get: (_, operation) =>
        typeof operation !== "string" || operation === "then"
          ? undefined
          : async (request: never, options: CallOptions = {}) => {
              checkOptions(`api.${operation}`, options, callNames);
              return this.#session.call(operation as Operation, request ?? {}, callOptions(options));
            },
    });
    return this.#api;
  }

  /**
   * Attaches to a request by its id, for example after a restart, or after submitting it through {@link ServiceClient.api}.
   *
   * @param requestType - type of the request; determines how the result is decoded.
   */
  future<K extends FutureResultName>(
    requestId: string,
    requestType: K,
    options: OperationOptions = {},
  ): APIFuture<FutureResult<K>> {
    return this.#start(requestType, "retrieve_future", undefined, options, async (state, signal) => {
      checkOptions("future", options, operationNames);
      await this.#session.connect({ signal });
      state.submitted([requestId]);
      return pollFuture(this.#session.poll, { requestId, requestType, signal, progress: state });
    });
  }

  #start<T>(
    requestType: string,
    operation: string,
    subject: string | undefined,
    { signal, timeoutMs, metadata }: OperationOptions,
    work: (state: FutureState, signal: AbortSignal) => Promise<T>,
  ): APIFuture<T> {
    return this.#session.start({ requestType, operation, subject, signal, timeoutMs, metadata }, work);
  }

  /**
   * A snapshot of this client's HTTP requests since its creation: counters, latencies per route, and calls that wait. Independent of
   * OpenTelemetry.
   *
   * @example
   * ```ts
   * const { requests, retries, queues, routes } = service.metrics();
   * console.log(requests, retries, queues.calls, routes["forwardBackward"]?.p95Ms);
   * ```
   */
  metrics(): ServiceMetrics {
    const { transport, underWay: calls, sampling, trainBytes } = this.#session;
    const { held: samples, waiting: samplesWaiting } = sampling.concurrent;
    return {
      ...transport.metrics.snapshot(),
      queues: { calls, samples, samplesWaiting, passesWaiting: trainBytes.waiting },
    };
  }

  /** Telemetry of this session, or `undefined` when it is disabled. */
  getTelemetry(): Telemetry | undefined {
    return this.#session.telemetry;
  }

  /**
   * Closes the client: pending calls reject, heartbeats stop, sockets close. Idempotent. An open client does not keep the process alive.
   *
   * @param status - outcome of the program, which the server stores with the session. @defaultValue no outcome is sent
   * @param detail - description of the outcome
   *
   * @example
   * ```ts
   * await service.close("success", "three epochs");
   * ```
   */
  async close(status?: ClientSessionFinishReasonType, detail?: string): Promise<void> {
    await this.#session.close(status === undefined ? undefined : { type: status, detail });
    await this.#beforeClose?.();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
