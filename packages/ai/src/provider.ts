/** The provider: models by name, over one `ServiceClient` that is created on the first call. */
import { type LanguageModelV3, NoSuchModelError, type ProviderV3 } from "@ai-sdk/provider";
import {
  type ClientOptions,
  InvalidInputError,
  type LocalOptions,
  type SamplingClient,
  ServiceClient,
  TinkerError,
} from "@tinklet/sdk";
import { findSource, type SamplerSource } from "./find-source.ts";
import { createLanguageModel, type OpenSampler, openSampler } from "./language-model.ts";

/** Options of {@link createTinklet}: those of the SDK's client, or an existing client. */
export interface TinkletProviderOptions extends ClientOptions {
  /** An existing client to use instead of a new one. The provider does not close it. */
  readonly service?: ServiceClient;
}

/** A provider for the AI SDK. Call it with a model's name to get a language model. */
export interface TinkletProvider extends ProviderV3 {
  /**
   * @param modelId - a base model's name, a `tinker://…/sampler_weights/…` path, or a short name: `@latest`, `RUN` or `RUN:NAME`. A short
   *   name is resolved on the first call of the returned model and does not change afterwards.
   */
  (modelId: string): LanguageModelV3;
  languageModel(modelId: string): LanguageModelV3;
  /** The client that the models use. It can also be used for training. */
  service(): Promise<ServiceClient>;
  /**
   * A provider whose server runs inside this process: no key, no network, no HTTP. Needs the package `@tinklet/server` and, unless
   * `models` are given, `@tinklet/base-model`. The server starts on the first call and stops on `close()`.
   *
   * @example
   * ```ts
   * const local = tinklet.local({ dataDir: "memory" });
   * const { text } = await generateText({ model: local("tinklet/base"), prompt: "What is 2 + 3?", maxOutputTokens: 20 });
   * await local.close();
   * ```
   */
  local(options?: LocalOptions & ClientOptions): TinkletProvider;
  /** Closes the client and the in-process server that this provider started; calls in progress reject. Idempotent. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Creates a provider without I/O; the first call of a model connects.
 *
 * @example
 * ```ts
 * const tinklet = createTinklet({ baseUrl: "http://127.0.0.1:8471", apiKey: "tml-any" });
 * const { text } = await generateText({ model: tinklet("tinklet/base"), prompt: "What is 2 + 3?", maxOutputTokens: 20 });
 * await tinklet.close();
 * ```
 */
export function createTinklet(options: TinkletProviderOptions = {}): TinkletProvider {
  const { service, ...client } = options;
  if (service !== undefined && Object.keys(client).length > 0) {
    throw new InvalidInputError("service", `cannot be combined with ${Object.keys(client).join(", ")}`, {
      hint: "Pass these options to the constructor of the client instead.",
    });
  }
  return createProvider(async () => service ?? new ServiceClient(client), service !== undefined);
}

/** @param isForeign - the caller owns the client and closes it */
function createProvider(connect: () => Promise<ServiceClient>, isForeign: boolean): TinkletProvider {
  let closed = false;
  const service = remembered(connect);
  const samplers = new Map<string, () => Promise<OpenSampler>>();
  const checkOpen = () => {
    if (closed) {
      throw new TinkerError("This provider is closed.", {
        code: "closed",
        hint: "Create another with createTinklet().",
      });
    }
  };
  const openService = async (): Promise<ServiceClient> => {
    checkOpen();
    return service.get();
  };
  /** One sampler for all models of the same weights. */
  const samplerOf = (source: SamplerSource): Promise<OpenSampler> => {
    const name = source.modelPath ?? source.baseModel;
    const known =
      samplers.get(name) ??
      remembered(async () => openSampler(await (await openService()).createSamplingClient(source))).get;
    samplers.set(name, known);
    return known();
  };
  const languageModel = (modelId: string): LanguageModelV3 => {
    if (typeof modelId !== "string" || modelId === "") {
      throw new InvalidInputError("modelId", "must be a base model's name or a tinker:// path");
    }
    const source = remembered(async () => findSource(await openService(), modelId));
    return createLanguageModel({
      modelId,
      open: async () => {
        checkOpen();
        return samplerOf(await source.get());
      },
    });
  };
  const none = (modelType: "embeddingModel" | "imageModel") => (modelId: string) => {
    throw new NoSuchModelError({ modelId, modelType, message: "The Tinker API has language models only." });
  };
  const close = async (): Promise<void> => {
    closed = true;
    if (!isForeign)
      await service.ifMade()?.then(
        (client) => client.close(),
        () => {},
      );
  };
  return Object.assign((modelId: string) => languageModel(modelId), {
    specificationVersion: "v3" as const,
    languageModel,
    embeddingModel: none("embeddingModel"),
    imageModel: none("imageModel"),
    service: openService,
    local: (options: LocalOptions & ClientOptions = {}) => createProvider(() => ServiceClient.local(options), false),
    close,
    [Symbol.asyncDispose]: close,
  });
}

/** Caches the promise of `make`; a failure is not cached, so the next call tries again. */
function remembered<T>(make: () => Promise<T>): { get: () => Promise<T>; ifMade: () => Promise<T> | undefined } {
  let made: Promise<T> | undefined;
  const get = (): Promise<T> => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
  return { get, ifMade: () => made };
}

/**
 * The default provider: key and address from `TINKER_API_KEY` and `TINKER_BASE_URL`; {@link TinkletProvider.local} for a server inside
 * this process.
 */
export const tinklet: TinkletProvider = /* @__PURE__ */ createTinklet();

/**
 * A language model over an existing sampling client, for example the one that `trainer.saveWeightsAndGetSamplingClient()` returns
 * between two training steps.
 *
 * @param modelId - the model's name in results. @defaultValue the id of its sampling session
 *
 * @example
 * ```ts
 * const sampler = await trainer.saveWeightsAndGetSamplingClient();
 * const { text } = await generateText({ model: samplerModel(sampler), prompt: "What is 2 + 3?", maxOutputTokens: 20 });
 * ```
 */
export function samplerModel(sampler: SamplingClient, modelId: string = sampler.samplingSessionId): LanguageModelV3 {
  const { get } = remembered(() => openSampler(sampler));
  return createLanguageModel({ modelId, open: get });
}
