/**
 * What a case works with: a client of its own, raw requests, models that are freed when the case ends, and measures of this
 * server that are taken once and shared. Everything ends with the case's deadline.
 */
import {
  type FetchLike,
  type LoraOptions,
  ModelInput,
  type SamplingClient,
  ServiceClient,
  type TrainingClient,
} from "tinklet";
import { fail } from "./checks.ts";
import { Http } from "./http.ts";
import { Measures } from "./measures.ts";

/** What the kit was told about the server. */
export interface Target {
  readonly baseUrl: string;
  readonly apiKey: string;
  /** A model that the server trains. */
  readonly baseModel: string;
  /** Tokens that a sequence may have, if the server says. */
  readonly contextLength: number | undefined;
  /** What raw requests carry in X-API-Key. */
  readonly credential: string;
  readonly fetch: FetchLike;
  /** Restarts the server; resolves when it answers again. */
  readonly restart: (() => Promise<void>) | undefined;
}

/** How models are made when a case says nothing: small, seeded, everything trained. */
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

  /** The case's own client. */
  get service(): ServiceClient {
    this.#service ??= this.newService();
    return this.#service;
  }

  /** Another client, with a session of its own. */
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

  /** A fresh model. Two models made alike are alike. */
  async trainer(options: Partial<LoraOptions> = {}, service: ServiceClient = this.service): Promise<TrainingClient> {
    const { baseModel } = this;
    const trainer = await service.createLoraTrainingClient({ baseModel, ...defaultLora, ...options });
    return this.owned(trainer);
  }

  /** Has a model freed when the case ends. */
  owned(trainer: TrainingClient): TrainingClient {
    this.#models.push(trainer.modelId);
    return trainer;
  }

  /** A sampler of the base model. */
  baseSampler(): Promise<SamplingClient> {
    return this.service.createSamplingClient({ baseModel: this.baseModel });
  }

  /** A session made by a raw request. */
  async session(): Promise<string> {
    const answer = await this.http.ok("POST", "create_session", {
      tags: ["conformance"],
      user_metadata: {},
      sdk_version: "0.25.0",
      type: "create_session",
    });
    return String(answer.json?.session_id ?? fail("create_session", "a session_id", answer.json));
  }

  /** A model made by raw requests, so that the case numbers what it sends by itself. The next `seq_id` is 1. */
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

  /** A sampling session over the base model, made by raw requests. */
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

  /** A name that no earlier run of the kit used. */
  uniqueName(stem: string): string {
    return `${stem}-${Date.now().toString(36)}-${Math.floor(Math.random() * 1e9).toString(36)}`;
  }

  /** Frees what the case made. Never fails. */
  async close(target: Target = this.target): Promise<void> {
    // A signal of its own: the case's may already be over. Submitted, not waited for: a model with a gap never gets there.
    const http = new Http({ ...target, signal: AbortSignal.timeout(5_000) });
    const free = (modelId: string) => http.post("unload_model", { model_id: modelId, type: "unload_model" });
    await Promise.allSettled(this.#models.map(free));
    await Promise.allSettled(this.#services.map((service) => service.close()));
  }
}

export const prompt = (tokens: readonly number[]): ModelInput => ModelInput.fromInts(tokens);
