/**
 * `ServiceClient`: the entry point. Creates training, sampling and REST clients over one session, and is what gets closed.
 * Making one does no I/O.
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
import { TinkerError } from "@tinklet/wire/errors";
import { checkOptions, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import type { APIFuture, FutureState } from "../futures/api-future.ts";
import { pollFuture } from "../futures/poll.ts";
import type { Tokenizer } from "../tokenizer/index.ts";
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
import { checkedTinkerPath, TrainingClient } from "./training/training-client.ts";

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
  /** Metadata stored with the model. */
  readonly userMetadata?: UserMetadata | undefined;
  /** The optimizer, for good. Others than AdamW need a server of 0.30 that has them. @defaultValue AdamW */
  readonly optimizer?: OptimizerConfig | undefined;
}

/** Options of {@link ServiceClient.createTrainingClientFromState}. */
export interface FromStateOptions extends OperationOptions {
  /** Base model to use instead of the one the checkpoint names. */
  readonly baseModel?: string | undefined;
  readonly userMetadata?: UserMetadata | undefined;
  /** Access token for another account's weights. */
  readonly weightsAccessToken?: string | undefined;
  /** The optimizer, where its state is not loaded. @defaultValue AdamW */
  readonly optimizer?: OptimizerConfig | undefined;
}

const loraNames: OptionNames<LoraOptions> = {
  ...operationNames,
  baseModel: true,
  rank: true,
  seed: true,
  trainMlp: true,
  trainAttn: true,
  trainUnembed: true,
  userMetadata: true,
  optimizer: true,
};
const fromStateNames: OptionNames<FromStateOptions> = {
  ...operationNames,
  baseModel: true,
  userMetadata: true,
  weightsAccessToken: true,
  optimizer: true,
};

/** The contract's operations as functions, one request each, without sessions, order or polling. */
export type LowLevelApi = {
  readonly [K in Operation]: (request: RequestOf<K>, options?: CallOptions) => Promise<ResponseOf<K>>;
};

/**
 * Entry point of the SDK: a client of one Tinker service.
 *
 * What the methods of all clients return follows one rule. What the server works on for a while returns an {@link APIFuture}: the
 * request is on its way, in order, and `await` gives the result. What is one question and its answer returns a `Promise`; listings
 * return a {@link PagedList}.
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
   * Creates a client and fetches the server's configuration, so that a wrong URL or key fails immediately: within 3 s where the
   * connection is refused, within 15 s where the server does not answer.
   *
   * @param call - `signal` ends the wait; with `timeoutMs` the server is tried for so long instead, for example while it starts
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
   * @throws {@link TinkerError} with code `missing_peer` and the line that installs it.
   */
  static async local(options: LocalOptions & ClientOptions = {}): Promise<ServiceClient> {
    const { startLocal } = await import("./local.ts"); // a page, which cannot start one, need not carry it
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
    // The last attempt gets its second, and its failure says more than the end of the time.
    const firstContactMs = timeoutMs === undefined ? undefined : Math.max(timeoutMs - 1_000, 0);
    await this.#session.within("connect", options, ({ signal }) =>
      this.#session.connect({ signal, maxRetries, firstContactMs }),
    );
    return this;
  }

  /** What must not be shown. @internal */
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
   * Which models the server offers, with their context lengths.
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
   * The tokenizer of a base model, before there is a client for it: handed out by a Tinklet server, else from the Hugging Face Hub or
   * its cache. Loads `@tinklet/models`. An extension: the Python SDK has it on its clients alone.
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
   * @throws {@link InvalidInputError} (by rejecting) when rank or flags make no sense.
   */
  createLoraTrainingClient(options: LoraOptions): APIFuture<TrainingClient> {
    const { baseModel } = options;
    return this.#start("CreateModel", "create_lora_training_client", baseModel, options, async (state, signal) => {
      checkOptions("createLoraTrainingClient", options, loraNames);
      return this.#createModel(options, state, signal);
    });
  }

  async #createModel(options: LoraOptions, state: FutureState, signal: AbortSignal): Promise<TrainingClient> {
    const {
      baseModel,
      rank = 32,
      seed,
      trainMlp = true,
      trainAttn = true,
      trainUnembed = true,
      userMetadata,
    } = options;
    const loraConfig = { rank, trainUnembed, trainMlp, trainAttn, ...omitUndefined({ seed }) };
    LoraConfig.encode(loraConfig); // refuses nonsense before a session is opened
    const session = this.#session;
    const sessionId = await session.open({ signal });
    const request = {
      sessionId,
      modelSeqId: session.nextModelSeqId(),
      baseModel,
      loraConfig,
      ...omitUndefined({ userMetadata, optimizerConfig: otherOptimizer(options.optimizer) }),
    };
    const facts = { rank, baseModel };
    const { modelId } = await this.#submitAndPoll(
      "CreateModel",
      "createModel",
      request,
      state,
      signal,
      baseModel,
      facts,
    );
    return new TrainingClient(session, modelId);
  }

  /** A request that stands before any model's order, from submission to result. */
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
      const { createModelViaLoadWeights } = await this.#session.connect({ signal });
      return createModelViaLoadWeights
        ? this.#createByLoading(path, optimizer, options, state, signal)
        : this.#createThenLoad(path, optimizer, options, state, signal);
    });
  }

  /** One request that creates the model and loads the weights; the model's id follows from session and number. */
  async #createByLoading(
    path: string,
    optimizer: boolean,
    options: FromStateOptions,
    state: FutureState,
    signal: AbortSignal,
  ): Promise<TrainingClient> {
    const session = this.#session;
    const sessionId = await session.open({ signal });
    const modelSeqId = session.nextModelSeqId();
    const modelId = `${sessionId}:train:${modelSeqId}`;
    const { baseModel, userMetadata, weightsAccessToken } = options;
    const request = {
      sessionId,
      modelSeqId,
      path,
      optimizer,
      ...omitUndefined({
        baseModel,
        userMetadata,
        weightsAccessToken,
        optimizerConfig: otherOptimizer(options.optimizer),
      }),
    };
    await this.#submitAndPoll("LoadWeights", "loadWeights", request, state, signal, modelId, { path });
    return new TrainingClient(session, modelId);
  }

  async #createThenLoad(
    path: string,
    optimizer: boolean,
    options: FromStateOptions,
    state: FutureState,
    signal: AbortSignal,
  ): Promise<TrainingClient> {
    const { weightsAccessToken, userMetadata } = options;
    const token =
      weightsAccessToken === undefined ? undefined : await this.#session.foreignToken(weightsAccessToken, { signal });
    const info = await this.#session.call("weightsInfo", { tinkerPath: path }, { signal, token, facts: { path } });
    if (!info.isLora || info.loraRank === undefined) {
      throw new TinkerError(`${path} is not a LoRA checkpoint, and only those can be trained on.`, {
        code: "not_lora",
      });
    }
    const { loraRank: rank, trainMlp, trainAttn, trainUnembed } = info;
    const baseModel = options.baseModel ?? info.baseModel;
    const kept = optimizer ? (info.optimizerConfig as OptimizerConfig | undefined) : undefined;
    const lora = {
      baseModel,
      rank,
      trainMlp,
      trainAttn,
      trainUnembed,
      userMetadata,
      optimizer: kept ?? options.optimizer,
    };
    const trainer = await this.#createModel(lora, state, signal);
    const load = { signal, weightsAccessToken };
    await (optimizer ? trainer.loadStateWithOptimizer(path, load) : trainer.loadState(path, load));
    return trainer;
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
   * @throws {@link InvalidInputError} (by rejecting) when neither is given.
   */
  createSamplingClient(options: {
    /** `tinker://<run>/sampler_weights/<name>` */
    readonly modelPath?: string | undefined;
    readonly baseModel?: string | undefined;
    readonly retryConfig?: RetryConfig | undefined;
    /** Keep what the loss `stable_reinforce` needs of the samples. Needs a server of 0.27. @defaultValue false */
    readonly recordStabilityInfo?: boolean | undefined;
    readonly signal?: AbortSignal | undefined;
    /** How long the whole call may take, in milliseconds. @defaultValue no limit */
    readonly timeoutMs?: number | undefined;
  }): Promise<SamplingClient> {
    return SamplingClient.create(this.#session, "createSamplingClient", options);
  }

  /**
   * Makes a loss of one datum that many passes use. Where the server runs such losses (0.36 and newer, as its configuration
   * says), the function is traced into a graph and stored there, and one pass trains by it; elsewhere, and for a function
   * that reads values or lengths, it is run here as `forwardBackwardCustom` does.
   *
   * @param inputRanks - for `logprobs` and each key of `lossFnInputs` that the loss reads: 0 a scalar, 1 `[T]`, 2 `[T, K]`
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
   * @throws {@link InvalidInputError} (by rejecting) when ranks, metrics or the loss's form cannot work anywhere.
   */
  createCustomLoss<const R extends InputRanks>(
    fn: PerDatumLossFn<keyof R & string>,
    inputRanks: R,
    options: OperationOptions & { readonly name?: string | undefined } = {},
  ): APIFuture<CustomLoss> {
    const name = options.name ?? (fn.name === "" ? "loss" : fn.name);
    return this.#start("CreateCustomLoss", "create_custom_loss", name, options, async (state, signal) => {
      checkOptions("createCustomLoss", options, { ...operationNames, name: true });
      const { lossInputs, TraceError, traceLoss } = await import("./training/custom-loss/trace-loss.ts"); // few programs need it
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
   * Makes a checkpoint of an adapter that was trained anywhere: a folder as PEFT and {@link RestClient.downloadCheckpoint} write it.
   * Only Tinklet's own servers take one. Node only. An extension: the Python SDK has no such call.
   *
   * @param options.baseModel - the model that it belongs to; the server's only one, unless given
   * @param options.name - the checkpoint's name; the folder's, unless given
   * @param options.ttlSeconds - how long it is kept; for good, unless given. The same adapter again is the same checkpoint, kept as
   *   long as the longest that was asked for
   *
   * @throws {@link TinkerError} with code `import_failed` saying what is wrong with the folder, or that the server takes none.
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

  /** The hosted service's page of this session; of all sessions before there is one. The studio's list of runs where the server has it. */
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
   * Low-level access: every operation of the API as one request, for what the clients do not offer.
   *
   * @example
   * ```ts
   * const { requestId } = await service.api.saveWeights({ modelId: trainer.modelId, seqId: 1, path: "by-hand" });
   * const { path } = await service.future(requestId, "SaveWeights");
   * ```
   */
  get api(): LowLevelApi {
    this.#api ??= new Proxy({} as LowLevelApi, {
      // Their routes are loaded when one is called, so there is no list to make an object of; `then` would make it a promise.
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
   * Attaches to a request by its id, for example after a restart, or of a request that was submitted through {@link ServiceClient.api}.
   *
   * @param requestType - what the request was; it decides how the result is read.
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
    { signal, timeoutMs }: OperationOptions,
    work: (state: FutureState, signal: AbortSignal) => Promise<T>,
  ): APIFuture<T> {
    return this.#session.start({ requestType, operation, subject, signal, timeoutMs }, work);
  }

  /** Telemetry of this session, or `undefined` when it is off. */
  getTelemetry(): Telemetry | undefined {
    return this.#session.telemetry;
  }

  /**
   * Closes the client: pending calls reject, heartbeats stop, sockets close. May be called twice. A
   * program that forgets it still exits.
   *
   * @param status - how the program ended, for the server to note with the session; nothing is told without it
   * @param detail - a sentence that goes with it
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

/** AdamW goes without saying, which servers older than 0.30 understand, too. */
const otherOptimizer = (optimizer: OptimizerConfig | undefined) =>
  optimizer === undefined || optimizer.type === "adamw" ? undefined : { ...optimizer };
