/**
 * The resources of one case: a separate client, raw requests, models that are unloaded when the case ends, and calibration values of the
 * server that all cases share. All requests are aborted at the case's deadline.
 */
import {
  type FetchLike,
  type LoraOptions,
  ModelInput,
  type SamplingClient,
  ServiceClient,
  type TrainingClient,
} from "@tinklet/sdk";
import { fail } from "./checks.ts";
import { Http } from "./http.ts";
import { Measures } from "./measures.ts";

/** The server under test. */
export interface Target {
  readonly baseUrl: string;
  readonly apiKey: string;
  /** The base model to train. */
  readonly baseModel: string;
  /** Maximum tokens of a sequence, if the server reports it. */
  readonly contextLength: number | undefined;
  /** Value of the X-API-Key header of raw requests. */
  readonly credential: string;
  readonly fetch: FetchLike;
  /** Restarts the server; resolves once it responds. */
  readonly restart: (() => Promise<void>) | undefined;
}

/** Default LoRA options of models: small rank, fixed seed, all modules trained. */
const defaultLora = { rank: 8, seed: 7 } as const;

export class Context {
  readonly target: Target;
  readonly http: Http;
  readonly signal: AbortSignal;
  readonly measures: Measures;
  readonly #services: ServiceClient[] = [];
  readonly #models: string[] = [];
  #service: ServiceClient | undefined;

  constructor(target: Target, signal: AbortSignal, measures?: Measures) {
    this.target = target;
    this.signal = signal;
    this.http = new Http({ ...target, signal });
    this.measures = measures ?? new Measures();
  }

  get baseModel(): string {
    return this.target.baseModel;
  }

  /** The client of this case. */
  get service(): ServiceClient {
    this.#service ??= this.newService();
    return this.#service;
  }

  /** Another client, with a separate session. */
  newService(): ServiceClient {
    const { baseUrl, apiKey, fetch } = this.target;
    const service = new ServiceClient({
      baseUrl,
      apiKey,
      fetch,
      maxRetries: 2,
      timeoutMs: 30_000,
      telemetry: false,
      logLevel: "off",
      tags: ["conformance"],
    });
    this.#services.push(service);
    return service;
  }

  /** Creates a new model. Models with the same options have the same initial weights. */
  async trainer(options: Partial<LoraOptions> = {}, service: ServiceClient = this.service): Promise<TrainingClient> {
    const { baseModel } = this;
    const trainer = await service.createLoraTrainingClient({ baseModel, ...defaultLora, ...options });
    return this.owned(trainer);
  }

  /** Registers a model to be unloaded when the case ends. */
  owned(trainer: TrainingClient): TrainingClient {
    this.#models.push(trainer.modelId);
    return trainer;
  }

  /** A sampler of the base model. */
  baseSampler(): Promise<SamplingClient> {
    return this.service.createSamplingClient({ baseModel: this.baseModel });
  }

  /** Creates a session with a raw request. */
  async session(): Promise<string> {
    const answer = await this.http.ok("POST", "create_session", {
      tags: ["conformance"],
      user_metadata: {},
      sdk_version: "0.25.0",
      type: "create_session",
    });
    return String(answer.json?.session_id ?? fail("create_session", "a session_id", answer.json));
  }

  /** Creates a model with raw requests, so that the case controls its `seq_id`s. The next `seq_id` is 1. */
  async rawModel(options: { sessionId?: string; modelSeqId?: number; lora?: object } = {}): Promise<string> {
    const { sessionId, modelSeqId = 0, lora = {} } = options;
    const answer = await this.http.call("create_model", {
      session_id: sessionId ?? (await this.session()),
      model_seq_id: modelSeqId,
      base_model: this.baseModel,
      lora_config: { ...defaultLora, train_attn: true, train_mlp: true, train_unembed: true, ...lora },
      type: "create_model",
    });
    const modelId = String(answer.json?.model_id ?? fail("the result of create_model", "a model_id", answer.json));
    this.#models.push(modelId);
    return modelId;
  }

  /** Creates a sampling session of the base model with raw requests. */
  async rawSampler(options: { sessionId?: string; seqId?: number } = {}): Promise<string> {
    const answer = await this.http.ok("POST", "create_sampling_session", {
      session_id: options.sessionId ?? (await this.session()),
      sampling_session_seq_id: options.seqId ?? 0,
      base_model: this.baseModel,
      type: "create_sampling_session",
    });
    const id = answer.json?.sampling_session_id;
    return String(id ?? fail("create_sampling_session", "a sampling_session_id", answer.json));
  }

  /** A name that is unique across runs of the kit. */
  uniqueName(stem: string): string {
    return `${stem}-${Date.now().toString(36)}-${Math.floor(Math.random() * 1e9).toString(36)}`;
  }

  /** Unloads the models of the case. Never rejects. */
  async close(target: Target = this.target): Promise<void> {
    // A separate signal, because the case's may already be aborted. The result is not awaited: unload never runs on a model with a seq_id gap.
    const http = new Http({ ...target, signal: AbortSignal.timeout(5_000) });
    const free = (modelId: string) => http.post("unload_model", { model_id: modelId, type: "unload_model" });
    await Promise.allSettled(this.#models.map(free));
    await Promise.allSettled(this.#services.map((service) => service.close()));
  }
}

export const prompt = (tokens: readonly number[]): ModelInput => ModelInput.fromInts(tokens);
