/**
 * Who may have how much of the memory budget. Weights come first, then what programs hold of them; activations, caches and adapters each
 * have a fixed share of the rest, so that none depends on what the others do at the moment: the same call always gets the same answer.
 */
import { totalmem } from "node:os";
import type { ModelConfig } from "@tinklet/models/config";
import { MemoryError } from "./errors.ts";
import { nativeHint, wasmBytes } from "./runtime/ort.ts";
import { KvCache } from "./sample/cache.ts";
import type { Packing } from "./sample/extender.ts";
import type { RuntimeName } from "./types.ts";

/** Share of the machine's memory that an engine takes by default. */
const defaultShare = 0.8;

/** The budget of an engine that is not given one. A container's limit counts where it is below the machine's memory. */
export function defaultMemoryBudget(machine = totalmem(), container = process.constrainedMemory()): number {
  const limit = container !== undefined && container > 0 ? Math.min(machine, container) : machine;
  return Math.floor(limit * defaultShare);
}

/**
 * Weights up to these sizes are also kept in the layout that products are fastest with: packing costs a few seconds per gigabyte when a
 * program is first used, and memory. Decoding gains a third to a half. Prompts of 60 tokens gain a sixth and longer ones less; only models
 * so small that keeping a prompt's keys is felt beside computing them have that for prompts, too.
 */
const packLimitBytes = { decoding: 6e8, all: 6.4e7 };
/**
 * What programs hold besides the shared weights, in multiples of them, measured with 400 MB: a packed copy takes one and a half (and
 * three and a quarter while it is made). There are two to decode with, for the base model and for adapters, and for prompts as many with
 * scores and without. On WebAssembly every program has a copy: one to train with, one for prompts, a packed one to decode with, and what
 * compiling the last of them takes for a moment.
 */
const packedCopies: Readonly<Record<Packing, number>> = { none: 0, decoding: 3, all: 9 };
const wasmPrograms = 5;
/** Beside all packed copies so much must be free: what packing takes for a moment must fit the activations, which rest meanwhile. */
const packFree = 3.5;
/** How what is left is divided. Activations are those of one run, caches those of all sequences that decode. */
const shares = { activations: 0.5, caches: 0.25, adapters: 0.25 };

export interface MemoryPlan {
  readonly packing: Packing;
  readonly activationBytes: number;
  readonly cacheBytes: number;
  readonly adapterBytes: number;
}

/**
 * Divides the budget.
 * @throws MemoryError when weights and programs leave less than a tenth of their size to do anything with.
 */
export function planMemory(
  source: string,
  { weightsBytes, budget, runtime }: { weightsBytes: number; budget: number; runtime: RuntimeName },
): MemoryPlan {
  const isWasm = runtime === "wasm";
  const fits = (bytes: number, limit: number): boolean => bytes * 1.1 <= limit;
  const weights = `${source} needs ${Math.ceil(weightsBytes / 1e6)} MB for its weights in float32`;
  if (isWasm && !fits(wasmPrograms * weightsBytes, wasmBytes)) {
    const largest = Math.floor(wasmBytes / wasmPrograms / 1.1 / 1e6);
    throw new MemoryError(`${weights}, and WebAssembly's 4 GiB have room for at most ${largest} MB`, {
      neededBytes: weightsBytes,
      budgetBytes: largest * 1e6,
      hint: nativeHint,
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

/** As much as is worth it and fits. WebAssembly has room for programs set aside already, for those that decode. */
const packingFor = ({
  weightsBytes,
  free,
  runtime,
}: {
  readonly weightsBytes: number;
  readonly free: number;
  readonly runtime: RuntimeName;
}): Packing => {
  if (runtime === "interpreter") return "none";
  const isSmall = (packing: "decoding" | "all"): boolean => weightsBytes <= packLimitBytes[packing];
  if (runtime === "wasm") return isSmall("decoding") ? "decoding" : "none";
  const fits = (packing: Packing): boolean => free >= (packedCopies[packing] + packFree) * weightsBytes;
  return (["all", "decoding"] as const).find((packing) => isSmall(packing) && fits(packing)) ?? "none";
};

/** Tokens that one request finds a cache for: two rows, because a single one is padded. */
export function longestCached(config: ModelConfig, cacheBytes: number): number {
  const fits = (length: number): boolean => KvCache.bytesFor(config, 2, length) <= cacheBytes;
  let length = config.contextLength;
  if (fits(length)) return length;
  length = Math.floor((length * cacheBytes) / KvCache.bytesFor(config, 2, length));
  while (length > 0 && !fits(length)) length--; // caches come in steps, so that the quotient may be a few tokens too many
  return length;
}
