/**
 * What crosses the boundary of the engine: the vocabulary of its public API. Plain data only (numbers, strings, typed arrays),
 * because every value here also crosses a thread boundary by structured clone. Names follow the Python SDK, re-cased.
 * Keys inside `lossFnInputs`, `lossFnConfig` and `metrics` are data and stay snake_case.
 */

/** Losses with the official semantics (token sums); their formulas are in `losses.ts`. */
export type LossFnName = "cross_entropy" | "importance_sampling" | "ppo" | "cispo" | "dro" | "gspo";

/** A dense or CSR tensor as it arrives from the wire: integers for `target_tokens`, floats for everything else. */
export interface TensorInput {
  /** Row-major values; for CSR only the stored ones. */
  readonly data: Float32Array | Float64Array | Int32Array | BigInt64Array | readonly number[];
  /** Dense shape. Absent means one-dimensional. */
  readonly shape?: readonly number[];
  /** CSR row pointers (`rows + 1` values); present together with `sparseColIndices`. */
  readonly sparseCrowIndices?: readonly number[] | BigInt64Array | Int32Array;
  readonly sparseColIndices?: readonly number[] | BigInt64Array | Int32Array;
}

/** One training example: position i of every loss input belongs to the prediction made after `tokens[i]`. */
export interface TrainingDatum {
  readonly tokens: Int32Array | readonly number[];
  /** `target_tokens` (required), `weights`, `logprobs`, `advantages`, `clip_low_threshold`, `clip_high_threshold`, `sequence_ratio_mask`. */
  readonly lossFnInputs: Readonly<Record<string, TensorInput>>;
}

/** A dense float32 result tensor. */
export interface TensorOutput {
  readonly data: Float32Array;
  readonly shape: readonly number[];
}

/** Options common to `forward` and `forwardBackward`. */
export interface LossRequest {
  readonly data: readonly TrainingDatum[];
  readonly lossFn: LossFnName;
  /** `clip_low_threshold`, `clip_high_threshold` (ppo, cispo, gspo) or `beta` (dro). */
  readonly lossFnConfig?: Readonly<Record<string, number>>;
}

export interface LossResult {
  /** One map per datum, in order: `logprobs` and `elementwise_loss`, each with the shape of `target_tokens`. */
  readonly lossFnOutputs: readonly Readonly<Record<"logprobs" | "elementwise_loss", TensorOutput>>[];
  /** Keys are `name:reduction`, for example `loss:sum`. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** How a LoRA adapter is made. */
export interface LoraOptions {
  /** Inner dimension, at least 1; bounded by the memory budget. */
  readonly rank: number;
  /**
   * Numerator of the scaling `alpha / rank`.
   * @defaultValue 32
   */
  readonly alpha?: number;
  /** Seed of the initial A matrices (B starts at zero), an integer. Drawn at random and reported when absent. */
  readonly seed?: number;
  /** Adapt q, k, v and o projections. @defaultValue true */
  readonly trainAttn?: boolean;
  /** Adapt gate, up and down projections. @defaultValue true */
  readonly trainMlp?: boolean;
  /** Adapt the unembedding (`lm_head`). @defaultValue true */
  readonly trainUnembed?: boolean;
}

/** Names a live adapter. Opaque; unique within one engine. */
export type AdapterId = string;
/** Names an immutable copy of an adapter's weights. Opaque; unique within one engine. */
export type SnapshotId = string;

export interface AdapterInfo {
  readonly adapterId: AdapterId;
  readonly lora: Required<LoraOptions>;
  /** Number of trained values. */
  readonly parameters: number;
  /** Optimizer steps taken so far. */
  readonly step: number;
}

/** Parameters of one AdamW step; the defaults are the official ones. */
export interface AdamParams {
  /** @defaultValue 1e-4 */
  readonly learningRate?: number;
  /** @defaultValue 0.9 */
  readonly beta1?: number;
  /** @defaultValue 0.95 */
  readonly beta2?: number;
  /** @defaultValue 1e-12 */
  readonly eps?: number;
  /** Decoupled: the weights shrink by `learningRate * weightDecay`. @defaultValue 0 */
  readonly weightDecay?: number;
  /** Global gradient norm above which gradients are scaled down; 0 means no clipping. @defaultValue 0 */
  readonly gradClipNorm?: number;
}

export interface OptimStepResult {
  /** `unclipped_grad_l2:mean` always; further keys of the same form. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly step: number;
}

/** The whole state of an adapter, enough to go on training bit for bit. */
export interface AdapterState {
  readonly lora: Required<LoraOptions>;
  readonly step: number;
  /** PEFT tensor names (`base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight` …) to values. */
  readonly weights: Readonly<Record<string, TensorOutput>>;
  /** First and second moments under the same names; absent when exported without the optimizer. */
  readonly optimizer?: {
    readonly m: Readonly<Record<string, Float32Array>>;
    readonly v: Readonly<Record<string, Float32Array>>;
  };
  /**
   * Set by `readPeft`: the state may name fewer modules than `lora` does. Those get a fresh A and a zero B when it is imported: they
   * add nothing until they are trained. A state without this must be complete.
   */
  readonly peft?: {
    /** Shapes of the base's own tensors that lie beside the adapter; they are compared with the base and not read. */
    readonly baseShapes: Readonly<Record<string, readonly number[]>>;
  };
}

export interface SamplingParams {
  /** Maximum number of tokens to sample. Absent: the rest of the context. */
  readonly maxTokens?: number;
  /** Sample i of n uses `seed + i`. Absent: drawn once and reported in the result. */
  readonly seed?: number;
  /** Texts, or token ids, at which to stop besides the model's own end; what stopped is kept in `tokens`. An empty list: at nothing, not even that. */
  readonly stop?: string | readonly string[] | readonly number[];
  /** Sampling temperature; 0 is greedy decoding. @defaultValue 1 */
  readonly temperature?: number;
  /** Top-k sampling; -1 (or 0) disables it. @defaultValue -1 */
  readonly topK?: number;
  /** Nucleus sampling: probability mass to keep; 1 disables it. @defaultValue 1 */
  readonly topP?: number;
  /** Leaves out tokens less likely than this share of the likeliest one's probability, behind top-k and top-p; 0 disables it. @defaultValue 0 */
  readonly minP?: number;
  /** Taken from the logits of tokens that the sample has already. @defaultValue 0 */
  readonly presencePenalty?: number;
  /** Taken from the logits of a token once for each time that the sample has it already. @defaultValue 0 */
  readonly frequencyPenalty?: number;
  /** Added to the logits of these tokens. Log-probs in results are the model's own, without it. @defaultValue none */
  readonly logitBias?: readonly (readonly [token: number, bias: number])[];
  /** A format that the sample has: only tokens that keep to it are drawn, and it is whole before `maxTokens` run out. @defaultValue none */
  readonly constraint?: Constraint;
}

/**
 * A format of samples. A JSON schema is taken in its common part; a keyword outside of it is refused by name. Log-probs in results stay
 * the model's own, over the whole vocabulary.
 */
export type Constraint = { readonly type: "json_object" } | { readonly type: "json_schema"; readonly schema: unknown };

export interface SampleRequest {
  readonly prompt: Int32Array | readonly number[];
  /** An adapter as it is now, an immutable snapshot, or absent for the base model. */
  readonly adapter?: AdapterId | SnapshotId;
  /** @defaultValue 1 */
  readonly numSamples?: number;
  readonly params?: SamplingParams;
  /** Log-probs of the prompt's own tokens. */
  readonly promptLogprobs?: boolean;
  /** The k most likely tokens at each prompt position; 0 is off. @defaultValue 0 */
  readonly topkPromptLogprobs?: number;
  /**
   * Score only the last n tokens of the prompt, in `promptLogprobs` and `topkPromptLogprobs`; at the others, which may then come from what is
   * kept of earlier prompts, the values are those of the first token. @defaultValue all
   */
  readonly promptLogprobsLastN?: number;
  /** The k most likely tokens at each sampled position; 0 is off. @defaultValue 0 */
  readonly topkSampleLogprobs?: number;
  /** Log-probs of these tokens at these positions of the prompt. */
  readonly targetPromptLogprobs?: PromptTargets;
  /** Draws k tokens, with replacement and at the request's temperature, at each prompt position after the first; 0 is off. @defaultValue 0 */
  readonly promptAltTokensK?: number;
  /**
   * Prompts that begin alike are computed once within a scope and never across two: whoever must not learn what another has asked needs
   * one of their own (how long an answer takes tells what was known). Any text.
   * @defaultValue ""
   */
  readonly scope?: string;
}

/** Tokens to score within a prompt: cell i is `tokens[i]` at position `positions[i]`, from 1 to the prompt's length − 1. */
export interface PromptTargets {
  readonly positions: Int32Array;
  readonly tokens: Int32Array;
}

/** Row-major `[positions, k]`. */
export interface TokenTable {
  readonly k: number;
  readonly tokenIds: Int32Array;
  readonly logprobs: Float32Array;
}

export interface SampledSequence {
  readonly stopReason: "stop" | "length";
  readonly tokens: Int32Array;
  /** Of the untempered, unfiltered distribution. */
  readonly logprobs: Float32Array;
  /** The most likely tokens of each sampled position, in falling probability. */
  readonly topkLogprobs?: TokenTable;
}

export interface SampleResult {
  readonly sequences: readonly SampledSequence[];
  /** The seed of the first sample, given or drawn. */
  readonly seed: number;
  /** One value per prompt token; NaN at the first and at those that are not scored. */
  readonly promptLogprobs?: Float32Array;
  /** Row-major `[prompt length, k]`; the first row, rows that are not scored, and empty cells are (0, -99999). */
  readonly topkPromptLogprobs?: TokenTable;
  /** One value for each cell of `targetPromptLogprobs`, of the untempered distribution. */
  readonly targetPromptLogprobs?: Float32Array;
  /** `[prompt length − 1, k]`: row i holds what was drawn for position i + 1; log-probs are of the untempered distribution. */
  readonly promptAltTokens?: TokenTable;
  /** Tokens at the beginning of the prompt that were known from earlier requests. The only value here that may differ when a request runs again. */
  readonly promptCacheHitTokens: number;
}

/** One sampled token, as soon as it exists. */
export interface TokenEvent {
  /** Which of the request's samples. */
  readonly index: number;
  readonly token: number;
  readonly logprob: number;
  /** As in the result: a sample that is stopped has none. */
  readonly promptCacheHitTokens: number;
  /** The most likely tokens here, in falling probability; with `topkSampleLogprobs`. */
  readonly top?: readonly (readonly [token: number, logprob: number])[];
  /** Set on the last token of the sample. */
  readonly stopReason?: "stop" | "length";
}

export interface SampleOptions {
  /** Stops the work itself between two tokens; the promise rejects with `signal.reason`. */
  readonly signal?: AbortSignal;
  /** Not called any more once the promise has settled. If it throws, the sample is stopped and rejects with what was thrown. */
  readonly onToken?: (event: TokenEvent) => void;
}

export type RuntimeName = "native" | "wasm" | "interpreter";

export interface EngineOptions {
  /** `auto` takes the native runtime if it is installed and else wasm, with a notice. @defaultValue "auto" */
  readonly runtime?: "auto" | RuntimeName;
  /** Threads of the runtime. @defaultValue the number of cores */
  readonly threads?: number;
  /**
   * Upper bound of weights, adapters, activations and caches together.
   * @defaultValue 80 % of the memory of the machine, or of the container where that has less
   */
  readonly memoryBudgetBytes?: number;
  /**
   * Longest sequence (prompt and completion) accepted, at most the model's own. A longer one than the budget has a cache for is not
   * refused here: requests then say with `maxTokens` how much of it they want.
   * @defaultValue the model's own, or as much of it as one request finds a cache for, with a notice
   */
  readonly contextLength?: number;
  /** Sequences decoded at once; a few more where a request comes whose scope has none among them. @defaultValue 32 */
  readonly maxBatch?: number;
  /** Run on the calling thread: for tests and scripts, since it blocks the event loop. @defaultValue false */
  readonly inThread?: boolean;
  /** Folder for downloaded models. */
  readonly cacheDir?: string;
  readonly offline?: boolean;
  /** Stops opening, above all a download: the promise rejects with `signal.reason`. An open engine is ended by `close`. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { file: string; receivedBytes: number; totalBytes?: number }) => void;
  /** Called with notices for the user, for example that the slower runtime is in use. */
  readonly onNotice?: (message: string) => void;
}

/** Description of an opened model. */
export interface ModelInfo {
  readonly origin: string;
  readonly architecture: "llama" | "mistral" | "qwen2" | "qwen3";
  readonly runtime: RuntimeName;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly hiddenSize: number;
  readonly layers: number;
  readonly parameters: number;
  readonly tiedEmbeddings: boolean;
  readonly eosTokenIds: readonly number[];
  /** The parsed `config.json`. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** Usage statistics; all sizes in bytes. */
export interface EngineStats {
  readonly weightsBytes: number;
  readonly adaptersBytes: number;
  /** Keys and values of the sequences that decode. */
  readonly cacheBytes: number;
  /** Keys and values of prompts that are kept for those that begin alike. */
  readonly prefixCacheBytes: number;
  /** Compiled formats that are kept for requests to come, and what was found for them. */
  readonly grammarBytes: number;
  readonly residentBytes: number;
  readonly activeSequences: number;
  readonly waitingSequences: number;
}

/** The model's tokenizer, run on the engine's thread. */
export interface EngineTokenizer {
  encode(text: string, options?: { addSpecialTokens?: boolean }): Promise<number[]>;
  decode(ids: Int32Array | readonly number[], options?: { skipSpecialTokens?: boolean }): Promise<string>;
  applyChatTemplate(
    messages: readonly { role: string; content: string }[],
    options?: { addGenerationPrompt?: boolean },
  ): Promise<number[]>;
}

/**
 * One base model with any number of LoRA adapters over it.
 *
 * Calls may be issued without waiting: training calls run strictly in call order, sampling is batched continuously between
 * them. A sample of a live adapter uses its weights as they are when the sample starts. Every method rejects with an
 * `ModelError`; a failed call leaves the adapter as it was.
 */
export interface Engine {
  readonly info: ModelInfo;
  readonly tokenizer: EngineTokenizer;

  createAdapter(options: LoraOptions): Promise<AdapterInfo>;
  adapterInfo(adapterId: AdapterId): Promise<AdapterInfo>;
  deleteAdapter(adapterId: AdapterId): Promise<void>;

  /** The loss without gradients. `adapter` may be an adapter, a snapshot, or null for the base model. */
  forward(adapter: AdapterId | SnapshotId | null, request: LossRequest): Promise<LossResult>;
  /** Adds the gradients of the loss to those already accumulated for the adapter. */
  forwardBackward(adapterId: AdapterId, request: LossRequest): Promise<LossResult>;
  /** Takes one AdamW step with the accumulated gradients and clears them. */
  optimStep(adapterId: AdapterId, params?: AdamParams): Promise<OptimStepResult>;

  /** An immutable copy of the adapter's weights: training on never changes what it samples. */
  snapshot(adapterId: AdapterId): Promise<SnapshotId>;
  /**
   * Loads weights (not an optimizer) as a snapshot, for sampling from a saved adapter. A large state is copied a few megabytes at a time,
   * so do not change its arrays before the promise is settled; the same holds for `importState` and `loadState`.
   */
  importSnapshot(state: AdapterState): Promise<SnapshotId>;
  deleteSnapshot(snapshotId: SnapshotId): Promise<void>;

  exportState(adapter: AdapterId | SnapshotId, options?: { optimizer?: boolean }): Promise<AdapterState>;
  /** A new adapter from an exported state. Without `optimizer` in the state, moments and step start at zero. */
  importState(state: AdapterState): Promise<AdapterInfo>;
  /** Replaces the weights (and the optimizer) of a live adapter; accumulated gradients are cleared. */
  loadState(adapterId: AdapterId, state: AdapterState): Promise<AdapterInfo>;

  /** Writes `adapter_config.json` and `adapter_model.safetensors` as PEFT reads them, and the base's tokenizer. */
  savePeft(adapter: AdapterId | SnapshotId, folder: string): Promise<void>;
  /** Reads a PEFT folder; pass the result to `importState` or `importSnapshot`. */
  readPeft(folder: string): Promise<AdapterState>;
  /** Writes the base with the adapter merged into it as full safetensors with a `config.json` and the tokenizer. */
  saveMerged(adapter: AdapterId | SnapshotId, folder: string): Promise<void>;

  sample(request: SampleRequest, options?: SampleOptions): Promise<SampleResult>;

  stats(): Promise<EngineStats>;
  /** Stops the worker and frees all memory; pending calls reject, a running one at its next step. Idempotent. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
