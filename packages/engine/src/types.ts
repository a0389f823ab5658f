/**
 * The types of the engine's public API. Plain data only (numbers, strings, typed arrays), because every value also crosses a thread
 * boundary by structured clone. Names follow the Python SDK, re-cased; keys inside `lossFnInputs`, `lossFnConfig` and `metrics` are data
 * and stay snake_case.
 */

/** Losses with the official semantics (token sums); their formulas are in `losses.ts`. */
export type LossFnName = "cross_entropy" | "importance_sampling" | "ppo" | "cispo" | "dro" | "gspo";

/** A dense or CSR tensor: integers for `target_tokens`, floats for all other inputs. */
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

/** Options of a LoRA adapter. */
export interface LoraOptions {
  /** Inner dimension, at least 1; bounded by the memory budget. */
  readonly rank: number;
  /**
   * Numerator of the scaling `alpha / rank`.
   * @defaultValue 32
   */
  readonly alpha?: number;
  /** Seed of the initial A matrices (B starts at zero), an integer. @defaultValue drawn at random and returned */
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

/** The complete state of an adapter, enough to resume training bit for bit. */
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
   * Set by `readPeft`: the state may contain fewer modules than `lora` enables. Missing modules get a new A and a zero B on import, which
   * do not change the output until they are trained. Without this flag a state must be complete.
   */
  readonly peft?: {
    /** Shapes of base tensors saved with the adapter; they are compared with the base model, their values are not read. */
    readonly baseShapes: Readonly<Record<string, readonly number[]>>;
  };
}

export interface SamplingParams {
  /** Maximum number of tokens to sample. @defaultValue the rest of the context */
  readonly maxTokens?: number;
  /** Sample i of n uses `seed + i`. @defaultValue drawn at random and returned */
  readonly seed?: number;
  /**
   * Strings or token ids that end a sample, besides the model's EOS tokens; the tokens that matched stay in `tokens`. An empty list
   * disables all of them, EOS included.
   */
  readonly stop?: string | readonly string[] | readonly number[];
  /** Sampling temperature; 0 is greedy decoding. @defaultValue 1 */
  readonly temperature?: number;
  /** Top-k sampling; -1 (or 0) disables it. @defaultValue -1 */
  readonly topK?: number;
  /** Nucleus sampling: probability mass to keep; 1 disables it. @defaultValue 1 */
  readonly topP?: number;
  /**
   * Excludes tokens whose probability is below this fraction of the most likely token's, after top-k and top-p; 0 disables it.
   * @defaultValue 0
   */
  readonly minP?: number;
  /** Subtracted from the logits of tokens that the sample already contains. @defaultValue 0 */
  readonly presencePenalty?: number;
  /** Subtracted from a token's logit once per occurrence in the sample. @defaultValue 0 */
  readonly frequencyPenalty?: number;
  /** Added to the logits of these tokens. Returned log-probs are the model's own, without the bias. @defaultValue none */
  readonly logitBias?: readonly (readonly [token: number, bias: number])[];
  /** Format of the sample: only tokens that conform are drawn, and the text is complete within `maxTokens`. @defaultValue none */
  readonly constraint?: Constraint;
}

/**
 * A response format. The common part of JSON Schema is supported; any other keyword is an InputError that names it. Returned log-probs are
 * the model's own, over the whole vocabulary.
 */
export type Constraint = { readonly type: "json_object" } | { readonly type: "json_schema"; readonly schema: unknown };

export interface SampleRequest {
  readonly prompt: Int32Array | readonly number[];
  /** A live adapter, an immutable snapshot, or absent for the base model. */
  readonly adapter?: AdapterId | SnapshotId;
  /** @defaultValue 1 */
  readonly numSamples?: number;
  readonly params?: SamplingParams;
  /** Return log-probs of the prompt's tokens. */
  readonly promptLogprobs?: boolean;
  /** The k most likely tokens at each prompt position; 0 is off. @defaultValue 0 */
  readonly topkPromptLogprobs?: number;
  /**
   * Score only the last n tokens of the prompt in `promptLogprobs` and `topkPromptLogprobs`; earlier positions have the values of the first
   * token and may come from the prefix cache. @defaultValue all
   */
  readonly promptLogprobsLastN?: number;
  /** The k most likely tokens at each sampled position; 0 is off. @defaultValue 0 */
  readonly topkSampleLogprobs?: number;
  /** Log-probs of these tokens at these positions of the prompt. */
  readonly targetPromptLogprobs?: PromptTargets;
  /**
   * Number of tokens to draw, with replacement and at the request's temperature, at each prompt position after the first; 0 is off.
   * @defaultValue 0
   */
  readonly promptAltTokensK?: number;
  /**
   * Prefixes are shared only between requests of the same scope. Use different scopes for users who must not learn each other's prompts: a
   * cached prefix shortens the response time. Any string.
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
  /** Log-probs under the untempered, unfiltered distribution. */
  readonly logprobs: Float32Array;
  /** The most likely tokens at each sampled position, most likely first. */
  readonly topkLogprobs?: TokenTable;
}

export interface SampleResult {
  readonly sequences: readonly SampledSequence[];
  /** Seed of the first sample, from the request or drawn. */
  readonly seed: number;
  /** One value per prompt token; NaN at the first and at positions that are not scored. */
  readonly promptLogprobs?: Float32Array;
  /** Row-major `[prompt length, k]`; the first row, rows that are not scored, and empty cells are (0, -99999). */
  readonly topkPromptLogprobs?: TokenTable;
  /** One value per cell of `targetPromptLogprobs`, under the untempered distribution. */
  readonly targetPromptLogprobs?: Float32Array;
  /** `[prompt length − 1, k]`: row i holds the draws for position i + 1; log-probs are under the untempered distribution. */
  readonly promptAltTokens?: TokenTable;
  /** Prompt tokens found in the prefix cache. The only value that may differ when a request runs again. */
  readonly promptCacheHitTokens: number;
}

/** One sampled token, delivered immediately. */
export interface TokenEvent {
  /** Index of the request's sample. */
  readonly index: number;
  readonly token: number;
  readonly logprob: number;
  /** As in the result; absent on the token that stopped the sample. */
  readonly promptCacheHitTokens: number;
  /** The most likely tokens at this position, most likely first; with `topkSampleLogprobs`. */
  readonly top?: readonly (readonly [token: number, logprob: number])[];
  /** Set on the last token of the sample. */
  readonly stopReason?: "stop" | "length";
}

export interface SampleOptions {
  /** Stops the work between two tokens; the promise rejects with `signal.reason`. */
  readonly signal?: AbortSignal;
  /** Not called after the promise has settled. If it throws, the sample stops and rejects with the thrown value. */
  readonly onToken?: (event: TokenEvent) => void;
}

export type RuntimeName = "native" | "wasm" | "interpreter";
/** Where an engine computes: `auto` is CUDA, else WebGPU on real hardware, else the CPU. */
export type DeviceChoice = "auto" | "cpu" | "cuda" | "webgpu";

/**
 * Arithmetic on a device. `float32`: exact products. `tf32`: products of float32 values on tensor cores, whose factors have a mantissa of 10
 * bits. `bfloat16`: the base model's matrices in bfloat16, which halves their memory; other products as in `tf32`. LoRA matrices, log-probs,
 * losses and AdamW are float32 in all of them.
 */
export type Precision = "float32" | "tf32" | "bfloat16";

export interface EngineOptions {
  /** `auto` selects the native runtime if it is installed, otherwise WebAssembly with a notice. @defaultValue "auto" */
  readonly runtime?: "auto" | RuntimeName;
  /**
   * `auto` falls back to the CPU with a notice; a device requested by name that cannot be used is a DeviceError. Devices need the native
   * runtime. See docs/gpu.md for what was tried. @defaultValue "cpu"
   */
  readonly device?: DeviceChoice;
  /** `tf32` and `bfloat16` need CUDA; a device or runtime without them is a DeviceError. @defaultValue "float32" */
  readonly precision?: Precision;
  /** Threads of the runtime. @defaultValue the number of cores */
  readonly threads?: number;
  /**
   * Upper bound of weights, adapters, activations and caches together.
   * @defaultValue 80 % of the memory of the machine, or of the container if its limit is lower; 90 % of the free memory of a device
   */
  readonly memoryBudgetBytes?: number;
  /**
   * Maximum length of a sequence (prompt and completion), at most the model's own. A value for which the budget has no cache is accepted;
   * requests must then limit their length with `maxTokens`.
   * @defaultValue the model's own, or the length for which one request has a cache, with a notice
   */
  readonly contextLength?: number;
  /** Sequences decoded at once. Up to 8 more start for requests whose scope has no sequence in a full batch. @defaultValue 32 */
  readonly maxBatch?: number;
  /** Run on the calling thread, which blocks its event loop: for tests and scripts. @defaultValue false */
  readonly inThread?: boolean;
  /** Folder for downloaded models. */
  readonly cacheDir?: string;
  readonly offline?: boolean;
  /** Aborts opening, including a download: the promise rejects with `signal.reason`. An open engine is ended by `close`. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { file: string; receivedBytes: number; totalBytes?: number }) => void;
  /** Called with notices for the user, for example that the slower runtime is in use. */
  readonly onNotice?: (message: string) => void;
}

/** The device that an engine computes on. */
export interface DeviceInfo {
  readonly kind: "cuda" | "webgpu" | "cpu";
  /** For example `NVIDIA H200`. */
  readonly name: string;
  /** Limit of the engine's memory on the device, in bytes. */
  readonly memoryBytes: number;
  readonly precision: Precision;
}

/** Description of an opened model. */
export interface ModelInfo {
  readonly origin: string;
  readonly architecture: "llama" | "mistral" | "qwen2" | "qwen3";
  readonly runtime: RuntimeName;
  /** Absent on the CPU. */
  readonly device?: DeviceInfo;
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

/** Memory usage, in bytes. */
export interface EngineStats {
  readonly weightsBytes: number;
  readonly adaptersBytes: number;
  /** Keys and values of the decoding sequences. */
  readonly cacheBytes: number;
  /** Keys and values of the prefix cache. */
  readonly prefixCacheBytes: number;
  /** Compiled grammars kept for later requests, with their masks. */
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
 * One base model with any number of LoRA adapters.
 *
 * Calls need not be awaited one by one: training calls run strictly in call order, and sampling is batched continuously between them. A
 * sample of a live adapter uses its weights at the time the sample starts. Methods reject with a `ModelError`; a failed call leaves the
 * adapter unchanged.
 */
export interface Engine {
  readonly info: ModelInfo;
  readonly tokenizer: EngineTokenizer;

  createAdapter(options: LoraOptions): Promise<AdapterInfo>;
  adapterInfo(adapterId: AdapterId): Promise<AdapterInfo>;
  deleteAdapter(adapterId: AdapterId): Promise<void>;

  /** Computes the loss without gradients. `adapter` is an adapter, a snapshot, or null for the base model. */
  forward(adapter: AdapterId | SnapshotId | null, request: LossRequest): Promise<LossResult>;
  /** Computes the loss and adds its gradients to the adapter's accumulated ones. */
  forwardBackward(adapterId: AdapterId, request: LossRequest): Promise<LossResult>;
  /** Takes one AdamW step with the accumulated gradients and clears them. */
  optimStep(adapterId: AdapterId, params?: AdamParams): Promise<OptimStepResult>;

  /** Returns an immutable copy of the adapter's weights, which later training does not change. */
  snapshot(adapterId: AdapterId): Promise<SnapshotId>;
  /**
   * Loads weights (without an optimizer) as a snapshot, for sampling from a saved adapter. A large state is copied in chunks, so do not
   * change its arrays before the promise has settled; the same holds for `importState` and `loadState`.
   */
  importSnapshot(state: AdapterState): Promise<SnapshotId>;
  deleteSnapshot(snapshotId: SnapshotId): Promise<void>;

  exportState(adapter: AdapterId | SnapshotId, options?: { optimizer?: boolean }): Promise<AdapterState>;
  /** Creates an adapter from an exported state. Without `optimizer` in the state, moments and step start at zero. */
  importState(state: AdapterState): Promise<AdapterInfo>;
  /** Replaces the weights (and the optimizer) of a live adapter and clears its accumulated gradients. */
  loadState(adapterId: AdapterId, state: AdapterState): Promise<AdapterInfo>;

  /** Writes `adapter_config.json` and `adapter_model.safetensors` in PEFT's format, and the base model's tokenizer. */
  savePeft(adapter: AdapterId | SnapshotId, folder: string): Promise<void>;
  /** Reads a PEFT folder; pass the result to `importState` or `importSnapshot`. */
  readPeft(folder: string): Promise<AdapterState>;
  /** Writes the base model with the adapter merged into it as safetensors, with `config.json` and the tokenizer. */
  saveMerged(adapter: AdapterId | SnapshotId, folder: string): Promise<void>;

  sample(request: SampleRequest, options?: SampleOptions): Promise<SampleResult>;

  stats(): Promise<EngineStats>;
  /** Stops the worker and frees all memory. Pending calls reject; a running one stops at its next step. Idempotent. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
