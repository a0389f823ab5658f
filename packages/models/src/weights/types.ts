/**
 * The format-independent view of a model: named tensors readable as float32, a configuration with Hugging Face's keys, and a tokenizer.
 * The file format (safetensors, shards, GGUF) is hidden from callers.
 */

import type { Tokenizer } from "../tokenizer/types.ts";

/** Stored dtype of a tensor: plain floats, or blocks of quantised values with scales (GGUF). */
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

/** Location of one tensor. All numbers were validated against the file. */
export interface TensorInfo {
  /** Hugging Face's name, also for GGUF files. */
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

/** The tensors of one model, read on demand. Reads are synchronous; call them in the thread that owns the weights. */
export interface WeightSource {
  /** Tensors by Hugging Face's names (`model.layers.0.self_attn.q_proj.weight` …), also for GGUF files. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /**
   * Reads one tensor as float32, into `out` if given (its length must match). Uses at most a few MiB besides the result. The q and k rows
   * of a llama GGUF file are returned in Hugging Face's order (half-rotation RoPE).
   * @throws WeightsError naming the tensor if it is missing, unreadable, or contains a NaN or an infinity.
   */
  readFloat32(name: string, out?: Float32Array): Float32Array;
  /** Closes the files. Idempotent; later reads throw. */
  close(): void;
}

/** An open model whose weights match its configuration. */
export interface OpenedModel {
  /** The parsed `config.json`, or the same keys rebuilt from GGUF metadata. */
  readonly config: Record<string, unknown>;
  readonly weights: WeightSource;
  /** The source passed to `openModel`, shown in error messages. */
  readonly origin: string;
  /** Its folder, or its GGUF file. */
  readonly path: string;
  /** @throws TokenizerError if the model has no tokenizer or one that is not supported. */
  loadTokenizer(): Promise<Tokenizer>;
  /** Closes the weights. Idempotent. */
  close(): void;
}

/** Progress of one download. */
export interface DownloadProgress {
  readonly file: string;
  readonly receivedBytes: number;
  readonly totalBytes?: number;
}

/** Options of {@link openModel}; all except `signal` apply only to Hub ids. */
export interface OpenModelOptions {
  /** Cache folder in Hugging Face's layout. @defaultValue `HF_HUB_CACHE`, or `HF_HOME/hub`, or `~/.cache/huggingface/hub` */
  readonly cacheDir?: string | undefined;
  /** Use only the cache. @defaultValue true if `HF_HUB_OFFLINE` is set */
  readonly offline?: boolean | undefined;
  readonly onProgress?: (progress: DownloadProgress) => void;
  /** Aborts a download: the promise rejects with `signal.reason`, and the partial file is kept for the next attempt. */
  readonly signal?: AbortSignal | undefined;
}
