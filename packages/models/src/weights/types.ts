/**
 * What the rest of the engine sees of model files: named tensors that can be read as float32, a configuration in Hugging Face's
 * keys, and a tokenizer. Which format lies on the disk (safetensors, shards, GGUF) is not visible beyond this file.
 */

import type { Tokenizer } from "../tokenizer/types.ts";

/** How a tensor is stored: plain floats, or blocks of quantised values with their scales (GGUF). */
export type StoredDtype =
  | "F32"
  | "F16"
  | "BF16"
  | "Q8_0"
  | "Q4_0"
  | "Q4_1"
  | "Q5_0"
  | "Q5_1"
  | "Q4_K"
  | "Q5_K"
  | "Q6_K";

/** Where one tensor lies. Every number here was checked against the file before this object was made. */
export interface TensorInfo {
  /** Hugging Face's name, also for GGUF. */
  readonly name: string;
  readonly dtype: StoredDtype;
  /** Row-major, slowest dimension first (GGUF's order reversed). */
  readonly shape: readonly number[];
  readonly file: string;
  /** Absolute byte offset in `file`. */
  readonly offset: number;
  readonly byteLength: number;
}

/** A float32 tensor in memory. */
export interface NamedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

/** The tensors of one model, read on demand. Reading is synchronous: it belongs in the thread that owns the weights. */
export interface WeightSource {
  /** Tensors under their Hugging Face names (`model.layers.0.self_attn.q_proj.weight` …), also for GGUF. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /**
   * Reads one tensor, widened to float32, into `out` if given (its length must be the tensor's). At most a few MiB are held
   * besides the result. The q and k rows of a llama GGUF come back in Hugging Face's order, for half-rotation RoPE.
   * @throws WeightsError naming the tensor: not there, unreadable, or holding a NaN or an infinity.
   */
  readFloat32(name: string, out?: Float32Array): Float32Array;
  /** Closes the files. Idempotent; reading afterwards is an error. */
  close(): void;
}

/** A model that was found, checked against its own configuration, and is ready to be read. */
export interface OpenedModel {
  /** The parsed `config.json`, or the same keys rebuilt from GGUF metadata. */
  readonly config: Record<string, unknown>;
  readonly weights: WeightSource;
  /** What it was opened from, for messages. */
  readonly origin: string;
  /** Where it lies: its folder, or its GGUF file. */
  readonly path: string;
  /** @throws TokenizerError when the model has none, or one that cannot be honoured. */
  loadTokenizer(): Promise<Tokenizer>;
  /** Closes the weights. Idempotent. */
  close(): void;
}

/** How far one download is. */
export interface DownloadProgress {
  readonly file: string;
  readonly receivedBytes: number;
  readonly totalBytes?: number;
}

/** Options of {@link openModel}; all but `signal` matter only for a Hub id. */
export interface OpenModelOptions {
  /** Cache folder, laid out as Hugging Face's. @defaultValue `HF_HUB_CACHE`, or `HF_HOME/hub`, or `~/.cache/huggingface/hub` */
  readonly cacheDir?: string | undefined;
  /** Use the cache only. @defaultValue true when `HF_HUB_OFFLINE` is set */
  readonly offline?: boolean | undefined;
  readonly onProgress?: (progress: DownloadProgress) => void;
  /** Stops a download; the promise rejects with `signal.reason`, and the part received is kept for the next time. */
  readonly signal?: AbortSignal | undefined;
}
