/**
 * `SamplingClient`: samples and log-probs from one sampling session. Validates and starts the calls; `sample-dispatch.ts` submits and
 * retries them.
 */
import { Shared, type SharedOptions } from "@tinklet/wire/abort";
import {
  type GetSamplerResponse,
  ModelInput,
  type ModelInputLike,
  type SampleConstraint,
  type SampleResponse,
  SamplingParams,
  type SamplingParamsInput,
  TensorData,
  type TensorLike,
} from "@tinklet/wire/client";
import { entropy } from "@tinklet/wire/entropy";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import { checkOptions, describe, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import type { APIFuture } from "../../futures/api-future.ts";
import type { Tokenizer } from "../../tokenizer/index.ts";
import { Semaphore } from "../../transport/byte-budget.ts";
import type { CallOptions } from "../../transport/transport.ts";
import { modelTokenizer } from "../model-tokenizer.ts";
import { type ClientOptions, callNames, type OperationOptions, operationNames } from "../options.ts";
import { Session, type SessionHandle } from "../session/session.ts";
import { estimatePromptBytes } from "../training/batching.ts";
import { fullRetryConfig, type RetryConfig } from "./retry-config.ts";
import { runSample, type SamplerState } from "./sample-dispatch.ts";
import { SampleStream, type StreamedText, type TextDecoderLike, tokenFeed, tokenFeedHeaders } from "./sample-stream.ts";

/** Options of {@link SamplingClient.sample}. */
export interface SampleOptions extends OperationOptions {
  /** Number of samples. @defaultValue 1 */
  readonly numSamples?: number | undefined;
  readonly samplingParams?: SamplingParamsInput | undefined;
  /** Return the log-probability of each prompt token. @defaultValue false */
  readonly includePromptLogprobs?: boolean | undefined;
  /** Number of most likely tokens to return at each prompt position. @defaultValue 0 */
  readonly topkPromptLogprobs?: number | undefined;
  /** Number of most likely tokens to return at each sampled position. Needs a server of 0.29. @defaultValue 0 */
  readonly topkSampleLogprobs?: number | undefined;
  /**
   * Token ids whose log-probs to return: int64 `[prompt length - 1, K]`, dense or sparse. Row i is scored at prompt position
   * i + 1; a cell of -1 asks for nothing. Needs a server of 0.30.
   */
  readonly targetPromptLogprobs?: TensorLike | undefined;
  /** Number of tokens to draw at each prompt position after the first, at the temperature of the samples. Needs a server of 0.31. @defaultValue 0 */
  readonly promptAltTokensK?: number | undefined;
  /** Score the last n prompt tokens only, which is cheap after a cached prefix. Needs `includePromptLogprobs` and a server of 0.33. @defaultValue all */
  readonly promptLogprobsLastN?: number | undefined;
  /**
   * Format that constrains decoding: tokens that would violate it are not sampled, and the output is complete within `maxTokens`.
   * Log-probs are those of the unconstrained model. An extension: needs a server with `constraint` in its
   * {@link SamplingClient.extensions}. @defaultValue none
   */
  readonly constraint?: SampleConstraint | undefined;
}

/** Options of {@link SamplingClient.stream}. */
export interface StreamOptions extends SampleOptions {
  /** Decodes tokens to text, for example the tokenizer that `getTokenizer()` returns. Loads `@tinklet/models`. */
  readonly tokenizer?: TextDecoderLike | undefined;
}

/**
 * A sampling client as plain data, for a worker thread or another process. It contains a credential: treat it like an API key.
 */
export interface SamplingClientHandle {
  readonly kind: "tinklet.sampling_client";
  readonly session: SessionHandle;
  readonly samplingSessionId: string;
  readonly retryConfig: RetryConfig;
  /** Absent in handles of older releases. */
  readonly recordStabilityInfo?: boolean | undefined;
}

/** The model or checkpoint that a sampling client samples from. */
interface SamplingSource {
  readonly modelPath?: string | undefined;
  readonly baseModel?: string | undefined;
  readonly retryConfig?: RetryConfig | undefined;
  readonly recordStabilityInfo?: boolean | undefined;
}
const sourceNames: OptionNames<SamplingSource & OperationOptions> = {
  ...operationNames,
  modelPath: true,
  baseModel: true,
  retryConfig: true,
  recordStabilityInfo: true,
};
const newerOptions = [
  "topkSampleLogprobs",
  "targetPromptLogprobs",
  "promptAltTokensK",
  "promptLogprobsLastN",
  "constraint",
] as const satisfies readonly (keyof SampleOptions)[];
const field = "targetPromptLogprobs";
const sampleNames: OptionNames<SampleOptions> = {
  ...operationNames,
  numSamples: true,
  samplingParams: true,
  includePromptLogprobs: true,
  topkPromptLogprobs: true,
  topkSampleLogprobs: true,
  targetPromptLogprobs: true,
  promptAltTokensK: true,
  promptLogprobsLastN: true,
  constraint: true,
};

/**
 * Samples from a base model or a checkpoint. Created by {@link ServiceClient.createSamplingClient} and
 * {@link TrainingClient.saveWeightsAndGetSamplingClient}.
 *
 * `sample` and `computeLogprobs` return an {@link APIFuture}, `stream` returns a {@link SampleStream}; all other methods return a
 * `Promise`.
 *
 * @example
 * ```ts
 * const sampler = await service.createSamplingClient({ baseModel: "Qwen/Qwen3-8B" });
 * const { sequences } = await sampler.sample(prompt, { numSamples: 4, samplingParams: { maxTokens: 64 } });
 * ```
 */
export class SamplingClient {
  /** Id of the sampling session on the server. */
  readonly samplingSessionId: string;
  readonly #session: Session;
  readonly #foreign: boolean;
  readonly #recordStabilityInfo: boolean;
  readonly #retryConfig: RetryConfig;
  readonly #state: SamplerState;
  readonly #sampler = new Shared((options) =>
    this.#session.call("getSampler", { samplerId: this.samplingSessionId }, options),
  );

  /** @internal */
  constructor(
    session: Session,
    samplingSessionId: string,
    options: {
      readonly retryConfig?: RetryConfig | undefined;
      readonly recordStabilityInfo?: boolean | undefined;
      /** Whether the sampling session is shared with the client of another process. */
      readonly foreign?: boolean;
    } = {},
  ) {
    this.samplingSessionId = samplingSessionId;
    this.#session = session;
    this.#foreign = options.foreign ?? false;
    this.#recordStabilityInfo = options.recordStabilityInfo ?? false;
    this.#retryConfig = { ...session.options.retryConfig, ...omitUndefined(options.retryConfig ?? {}) };
    const config = fullRetryConfig(this.#retryConfig);
    const own = config.maxConnections === undefined ? undefined : new Semaphore(config.maxConnections);
    this.#state = {
      session,
      config,
      own,
      samplingSessionId,
      client: this.#foreign ? undefined : 0,
      numbered: 0,
      joining: new Shared((shared) => this.#join(shared)),
      poller: undefined,
      lastProgressMs: 0,
      underWay: new Set(),
      stopWatch: undefined,
    };
  }

  /** The number of a client that shares the session: assigned by the server, else random from 1 to 1e9, as in the official SDK. */
  async #join(options: SharedOptions): Promise<number> {
    const { samplingSessionId } = this;
    const { sampleJoinSamplingSession } = await this.#session.connect(options);
    if (!sampleJoinSamplingSession) {
      const drawn = new DataView(entropy.bytes(8).buffer).getBigUint64(0);
      return Number(drawn % 1_000_000_000n) + 1;
    }
    return (await this.#session.transport.call("joinSamplingSession", { samplingSessionId }, options)).clientCounter;
  }

  /** Opens a sampling session. @internal */
  static async create(
    session: Session,
    method: string,
    options: SamplingSource & OperationOptions,
  ): Promise<SamplingClient> {
    checkOptions(method, options, sourceNames);
    const { modelPath, baseModel, retryConfig, recordStabilityInfo } = options;
    if (modelPath === undefined && baseModel === undefined) {
      throw new InvalidInputError("modelPath", "or baseModel must be set");
    }
    if (modelPath !== undefined && !modelPath.startsWith("tinker://")) {
      throw new InvalidInputError("modelPath", `must begin with tinker://, got ${describe(modelPath)}`, {
        hint: "Pass the name of a model as baseModel.",
      });
    }
    fullRetryConfig(retryConfig); // validates before any request is sent
    const { samplingSessionId } = await session.within("createSamplingSession", options, async ({ signal }) => {
      return session.inSession({ signal }, (sessionId) => {
        const request = {
          sessionId,
          samplingSessionSeqId: session.nextSamplingSessionSeqId(),
          ...omitUndefined({ baseModel, modelPath }),
        };
        return session.call("createSamplingSession", request, { signal, facts: { path: modelPath, baseModel } });
      });
    });
    return new SamplingClient(session, samplingSessionId, { retryConfig, recordStabilityInfo });
  }

  /**
   * Samples continuations of a prompt.
   *
   * @throws {@link InvalidInputError} for an invalid parameter, {@link RequestFailedError} when the server failed to sample; both as
   * rejections.
   *
   * @example
   * ```ts
   * const params = { maxTokens: 32, temperature: 0.7, stop: ["\n"], seed: 1 };
   * const { sequences } = await sampler.sample(prompt, { numSamples: 4, samplingParams: params });
   * for (const { tokens, logprobs, stopReason } of sequences) console.log(tokens, logprobs, stopReason);
   * ```
   */
  sample(prompt: ModelInputLike, options: SampleOptions = {}): APIFuture<SampleResponse> {
    return this.#start("sample", prompt, options, sampleNames, (response) => response);
  }

  /**
   * Samples continuations of a prompt and streams their tokens. Tinklet servers stream token by token; with other servers all tokens
   * arrive with the result. Leaving the loop cancels the sample.
   *
   * @param options.tokenizer - adds the decoded text to each token
   *
   * @example
   * ```ts
   * const stream = sampler.stream([1, 2, 3], { samplingParams: { maxTokens: 32 } });
   * for await (const { token, logprob } of stream) console.log(token, logprob);
   * const { sequences } = await stream.response;
   * ```
   */
  stream(
    prompt: ModelInputLike,
    options: StreamOptions & { readonly tokenizer: TextDecoderLike },
  ): SampleStream<StreamedText>;
  stream(prompt: ModelInputLike, options?: StreamOptions): SampleStream;
  stream(prompt: ModelInputLike, options: StreamOptions = {}): SampleStream {
    const { tokenizer, ...rest } = options;
    const shown = this.extensions.includes(tokenFeed);
    const headers = shown ? tokenFeedHeaders : {};
    const response = this.#start("stream", prompt, rest, sampleNames, (whole) => whole, headers);
    return new SampleStream(this.#session, response, tokenizer);
  }

  /**
   * The log-prob of each token of a prompt; null for the first token and, with `promptLogprobsLastN`, for all tokens before the last n.
   *
   * @example
   * ```ts
   * const logprobs = await sampler.computeLogprobs(ModelInput.fromInts([1, 2, 3]));
   * const total = logprobs.reduce<number>((sum, value) => sum + (value ?? 0), 0);
   * ```
   */
  computeLogprobs(
    prompt: ModelInputLike,
    options: OperationOptions & Pick<SampleOptions, "promptLogprobsLastN"> = {},
  ): APIFuture<readonly (number | null)[]> {
    const asked = { ...options, samplingParams: { maxTokens: 1 }, includePromptLogprobs: true };
    const askedNames = { samplingParams: true, includePromptLogprobs: true, promptLogprobsLastN: true } as const;
    return this.#start(
      "compute_logprobs",
      prompt,
      asked,
      { ...operationNames, ...askedNames },
      ({ promptLogprobs }) => {
        if (promptLogprobs === undefined) {
          throw new ResponseValidationError("prompt_logprobs", "is missing from the answer");
        }
        return promptLogprobs;
      },
    );
  }

  #start<T>(
    operation: string,
    given: ModelInputLike,
    options: SampleOptions,
    known: Readonly<Record<string, true>>,
    read: (response: SampleResponse) => T,
    headers: Readonly<Record<string, string>> = {},
  ): APIFuture<T> {
    const session = this.#session;
    const { samplingSessionId: subject } = this;
    return session.start(
      {
        requestType: "Sample",
        operation,
        subject,
        signal: options.signal,
        timeoutMs: options.timeoutMs,
        metadata: options.metadata,
        attributes: { "tinker.sampling_session_id": subject },
      },
      async (state, signal) => {
        checkOptions(operation === "compute_logprobs" ? "computeLogprobs" : operation, options, known);
        // Copied, because the caller may change its arrays before the request is sent.
        const prompt = given instanceof ModelInput ? given.copy() : ModelInput.from(given, "prompt");
        const { numSamples = 1, samplingParams = {} } = options;
        if (!Number.isInteger(numSamples) || numSamples < 1) {
          throw new InvalidInputError("numSamples", `must be an integer above 0, got ${numSamples}`);
        }
        // The code for options of newer releases is imported on first use.
        const newer = newerOptions.some((name) => options[name]) || this.#recordStabilityInfo;
        const { [field]: asked } = options;
        const target = asked === undefined ? undefined : TensorData.from(asked, { dtype: "int64", field }).copy();
        const parts = newer ? await import("./sample-parts.ts") : undefined;
        const request = {
          numSamples,
          prompt,
          // Encoding and decoding validates the parameters and applies defaults.
          samplingParams: SamplingParams.decode(SamplingParams.encode(samplingParams)),
          samplingSessionId: subject,
          promptLogprobs: options.includePromptLogprobs ?? false,
          topkPromptLogprobs: options.topkPromptLogprobs ?? 0,
          ...parts?.newerParts(options, {
            target,
            recordStabilityInfo: this.#recordStabilityInfo,
            extensions: this.extensions,
          }),
        };
        session.offPolicyWarning.sampledWith(request.samplingParams);
        const facts = { promptTokens: prompt.tokenCount, maxTokens: samplingParams.maxTokens };
        const promptBytes = estimatePromptBytes(prompt);
        const response = await runSample(this.#state, { request, promptBytes, subject, facts, headers }, state, signal);
        this.#measure(operation, facts.promptTokens, response);
        parts?.checkHonoured(request, response);
        return read(response);
      },
    );
  }

  #measure(operation: string, promptTokens: number, response: SampleResponse): void {
    const { instruments } = this.#session;
    const attributes = { "gen_ai.operation.name": operation };
    instruments.tokens("input", promptTokens, attributes);
    const drawn = response.sequences.reduce((sum, sequence) => sum + sequence.tokenArray.length, 0);
    instruments.tokens("output", drawn, attributes);
  }

  /** Names of the server's extensions to the official API, for example `constraint` for {@link SampleOptions.constraint}. Empty for servers other than Tinklet's. */
  get extensions(): readonly string[] {
    return this.#session.config.tinkletExtensions ?? [];
  }

  /** Name of the sampler's base model. */
  async getBaseModel(options: CallOptions = {}): Promise<string> {
    checkOptions("getBaseModel", options, callNames);
    return (await this.#lookup(options)).baseModel;
  }

  /**
   * The tokenizer of the base model, from the server if it is a Tinklet server, else from the Hugging Face Hub or its cache. Loads
   * `@tinklet/models`.
   */
  async getTokenizer(options: CallOptions = {}): Promise<Tokenizer> {
    return this.#session.within("getTokenizer", options, async (inner) =>
      modelTokenizer(this.#session, { modelName: await this.getBaseModel(inner) }, inner),
    );
  }

  #lookup(options: CallOptions): Promise<GetSamplerResponse> {
    return this.#session.within("getSampler", options, (inner) => this.#sampler.get(inner));
  }

  /**
   * This client as plain data, for `worker_threads` or another process.
   *
   * @example
   * ```ts
   * const handle = await sampler.handle(); // worker.postMessage(handle)
   * const inTheWorker = SamplingClient.fromHandle(handle);
   * await inTheWorker.sample(prompt);
   * await inTheWorker.close();
   * ```
   */
  async handle(options: CallOptions = {}): Promise<SamplingClientHandle> {
    checkOptions("handle", options, callNames);
    return {
      kind: "tinklet.sampling_client",
      session: await this.#session.within("handle", options, (inner) => this.#session.handle(inner)),
      samplingSessionId: this.samplingSessionId,
      retryConfig: this.#retryConfig,
      recordStabilityInfo: this.#recordStabilityInfo,
    };
  }

  /**
   * Creates a client from a {@link SamplingClient.handle}. It sends its own heartbeats and uses a separate range of sequence ids, so that
   * clients of one session do not collide. Close it when done.
   */
  static fromHandle(handle: SamplingClientHandle, options: ClientOptions = {}): SamplingClient {
    if (handle?.kind !== "tinklet.sampling_client") {
      throw new InvalidInputError("handle", "is not a handle of a sampling client");
    }
    const session = new Session(options, handle.session);
    const { retryConfig, recordStabilityInfo } = handle;
    return new SamplingClient(session, handle.samplingSessionId, {
      retryConfig,
      recordStabilityInfo,
      foreign: true,
    });
  }

  /**
   * This client's sampler as a string without a credential, for other processes and for the official SDK, which uses the same format.
   * {@link SamplingClient.fromSamplerHandle} creates a client from it.
   */
  async getSamplerHandle(options: CallOptions = {}): Promise<string> {
    checkOptions("getSamplerHandle", options, callNames);
    const { samplingSessionId } = this;
    const handle = await this.#session.within("getSamplerHandle", options, (inner) => this.#session.handle(inner));
    const { writeHandle } = await import("./sampler-handle.ts");
    return writeHandle(handle, { samplingSessionId, recordStabilityInfo: this.#recordStabilityInfo });
  }

  /**
   * Creates a client for the sampler of a handle. Its credential is `apiKey`, else the one that {@link ServiceClient} would use. Several
   * clients may share a sampler. Close it when done.
   *
   * @throws {@link InvalidInputError} (as a rejection) when `handle` is not a sampler handle.
   */
  static async fromSamplerHandle(handle: string, options: ClientOptions = {}): Promise<SamplingClient> {
    return (await import("./sampler-handle.ts")).clientOfHandle(handle, options);
  }

  /** Closes a client made by {@link SamplingClient.fromHandle} or {@link SamplingClient.fromSamplerHandle}; other clients belong to their service. */
  async close(): Promise<void> {
    if (this.#foreign) await this.#session.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
