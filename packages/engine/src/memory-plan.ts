/**
 * Divides the memory budget: weights first, then what programs hold besides them; the rest is divided into fixed shares for activations,
 * caches and adapters. Shares do not depend on current use, so that the same call always succeeds or always fails.
 */
import { type ModelConfig, weightShapes } from "@tinklet/models/config";
import { MemoryError } from "./errors.ts";
import { nativeHint, wasmBytes } from "./runtime/ort-runtime.ts";
import type { Packing } from "./sample/extender.ts";
import { KvCache } from "./sample/kv-cache.ts";
import type { Precision, RuntimeName } from "./types.ts";

/**
 * Weights up to these sizes are also kept packed (in the layout of the fastest products). Packing costs memory and a few seconds per
 * gigabyte at a program's first use. Decoding becomes 33 to 50 % faster, prompts of 60 tokens 17 %, longer prompts less; packed weights for
 * prompts pay off only for very small models.
 */
const packLimitBytes = { decoding: 6e8, all: 6.4e7 };
/**
 * Memory of programs besides the shared weights, in multiples of the weights' size, measured with 400 MB. A packed copy takes 1.5 (3.25
 * while it is made); there are two for decoding (base model and adapters) and, for prompts, two with and two without scores. On WebAssembly
 * each program has its own copy: one for training, one for prompts, a packed one for decoding, and the peak of compiling the last.
 */
const packedCopies: Readonly<Record<Packing, number>> = { none: 0, decoding: 3, all: 9 };
const wasmPrograms = 5;
/**
 * Memory that must be free besides all packed copies: the peak while packing must fit the share of activations, which are not in use then.
 */
const packFree = 3.5;
/** Division of the rest. Activations are those of one run, caches those of all decoding sequences. */
const shares = { activations: 0.5, caches: 0.25, adapters: 0.25 };

export interface MemoryPlan {
  readonly packing: Packing;
  readonly activationBytes: number;
  readonly cacheBytes: number;
  readonly adapterBytes: number;
}

/** Memory of the frozen weights. With bfloat16 the head also needs its matrix in float32 while it computes. */
export function weightsBytesOf(config: ModelConfig, precision: Precision = "float32"): number {
  const isHalf = precision === "bfloat16";
  let bytes = isHalf ? 4 * config.vocabSize * config.hiddenSize : 0;
  for (const shape of weightShapes(config).values()) {
    bytes += shape.reduce((count, dim) => count * dim, isHalf && shape.length === 2 ? 2 : 4);
  }
  return bytes;
}

export interface PlanInputs {
  readonly weightsBytes: number;
  readonly budget: number;
  readonly runtime: RuntimeName | "device";
  /** The fix for a model that is too large for WebAssembly. @defaultValue the native runtime */
  readonly wasmHint?: string | undefined;
}

/**
 * Divides the budget.
 * @throws MemoryError if weights and programs leave less than a tenth of their size.
 */
export function planMemory(
  source: string,
  { weightsBytes, budget, runtime, wasmHint = nativeHint }: PlanInputs,
): MemoryPlan {
  const isWasm = runtime === "wasm";
  const fits = (bytes: number, limit: number): boolean => bytes * 1.1 <= limit;
  const weights = `${source} needs ${Math.ceil(weightsBytes / 1e6)} MB for its weights`;
  if (isWasm && !fits(wasmPrograms * weightsBytes, wasmBytes)) {
    const largest = Math.floor(wasmBytes / wasmPrograms / 1.1 / 1e6);
    throw new MemoryError(`${weights}, and WebAssembly's 4 GiB have room for at most ${largest} MB`, {
      neededBytes: weightsBytes,
      budgetBytes: largest * 1e6,
      hint: wasmHint,
    });
  }
  const fixed = isWasm ? (1 + wasmPrograms) * weightsBytes : weightsBytes;
  if (!fits(fixed, budget)) {
    const programs = isWasm ? `, and WebAssembly ${wasmPrograms} times as much for its programs` : "";
    throw new MemoryError(`${weights}${programs}`, {
      neededBytes: fixed,
      budgetBytes: budget,
      hint: `the memory budget is ${Math.floor(budget / 1e6)} MB`,
    });
  }
  const free = budget - fixed;
  const packing = packingFor({ weightsBytes, free, runtime });
  const rest = isWasm
    ? Math.min(free, wasmBytes - wasmPrograms * weightsBytes)
    : free - packedCopies[packing] * weightsBytes;
  return {
    packing,
    activationBytes: Math.floor(rest * shares.activations),
    cacheBytes: Math.floor(rest * shares.caches),
    adapterBytes: Math.floor(rest * shares.adapters),
  };
}

/** The weights to pack: as many as pay off and fit. On WebAssembly the share of programs already includes the packed copy for decoding. */
const packingFor = ({
  weightsBytes,
  free,
  runtime,
}: {
  readonly weightsBytes: number;
  readonly free: number;
  readonly runtime: RuntimeName | "device";
}): Packing => {
  if (runtime === "interpreter" || runtime === "device") return "none";
  const isSmall = (packing: "decoding" | "all"): boolean => weightsBytes <= packLimitBytes[packing];
  if (runtime === "wasm") return isSmall("decoding") ? "decoding" : "none";
  const fits = (packing: Packing): boolean => free >= (packedCopies[packing] + packFree) * weightsBytes;
  return (["all", "decoding"] as const).find((packing) => isSmall(packing) && fits(packing)) ?? "none";
};

/** Tokens for which one request finds a cache. Counts two rows, because a single row is padded to two. */
export function longestCached(config: ModelConfig, cacheBytes: number): number {
  const fits = (length: number): boolean => KvCache.bytesFor(config, 2, length) <= cacheBytes;
  let length = config.contextLength;
  if (fits(length)) return length;
  length = Math.floor((length * cacheBytes) / KvCache.bytesFor(config, 2, length));
  while (length > 0 && !fits(length)) length--; // caches grow in steps, so the quotient may be a few tokens too high
  return length;
}
