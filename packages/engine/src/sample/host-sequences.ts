/** Sequences whose KV cache is in host arrays, extended by the programs of any runtime. */
import type { LoadedModel } from "../model/load.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { decodeRows, Extender, type Packing } from "./extender.ts";
import { type HostBlock, type KvBlock, recut, takeBlocks } from "./kv-block.ts";
import { KvCache } from "./kv-cache.ts";
import { type PrefillRunner, prefill, scoredLogits } from "./prefill.ts";
import { startsOf } from "./prefill-inputs.ts";
import { blockTokens } from "./prefix-cache.ts";
import type { RowLimits } from "./run-rows.ts";
import type { Sequences } from "./sequences.ts";

export interface HostSequencesOptions {
  readonly packing: Packing;
  /** Called with the bytes that sequences are about to allocate, so that other caches can free memory. */
  readonly beforeResize: (bytes: number) => void;
}

/** Casts blocks: those of a sampler are always made by its own sequences, so here they are host arrays. */
const onHost = (blocks: readonly KvBlock[]): readonly HostBlock[] => blocks as readonly HostBlock[];

const scoredRows = ({ fewest, most }: RowLimits, vocabSize: number): number =>
  Math.min(most, Math.max(fewest, Math.floor(scoredLogits / vocabSize)));

const prefillRunner = (model: LoadedModel, extender: Extender): PrefillRunner => {
  const { config } = model;
  const { vocabSize } = config;
  const { rowLimits } = extender;
  return {
    most: { plain: rowLimits.most, scored: scoredRows(rowLimits, vocabSize) },
    prefill: async (run) => {
      const pieces = run.pieces.map((piece) => ({ ...piece, past: onHost(piece.past) }));
      const starts = startsOf(pieces);
      const result = await extender.prefill({ ...run, pieces });
      return {
        take: (piece) => {
          const { tokens } = pieces[piece]!;
          return takeBlocks(config, { ...result, start: starts[piece]!, length: tokens.length }, blockTokens);
        },
        distribution: (row) => {
          const own = (values: Float32Array): Float32Array => values.slice(row * vocabSize, (row + 1) * vocabSize);
          const { logits, probabilities, logSumExp } = result;
          return { logits: own(logits), probabilities: own(probabilities), logSumExp: logSumExp[row]! };
        },
        ...(result.scored ? { scored: result.scored } : {}),
      };
    },
    recut: (blocks) => recut(config, onHost(blocks), blockTokens),
  };
};

export const createHostSequences = (
  model: LoadedModel,
  runtime: Runtime,
  { packing, beforeResize }: HostSequencesOptions,
): Sequences => {
  const { config } = model;
  const { vocabSize } = config;
  const extender = new Extender(model, runtime, { packing });
  const cache = new KvCache(config, beforeResize);
  const runner = prefillRunner(model, extender);
  return {
    mostPromptTokens: extender.rowLimits.most,
    draws: false,
    isBounded: false,
    get bytes() {
      return cache.bytes;
    },
    bytesFor: (sequences, length) => KvCache.bytesFor(config, decodeRows(sequences), length),
    adopt: (blocks) => void cache.adopt(onHost(blocks)),
    remove: (row) => cache.remove(row),
    clear: () => cache.clear(),
    prefill: (jobs) => prefill(runner, jobs),
    decode: async (sequences) => {
      const rows = decodeRows(sequences.length);
      cache.prepare(1, rows);
      const result = await extender.decode({
        past: cache.past(rows),
        tokens: Int32Array.from(sequences, ({ token }) => token),
        adapters: sequences.map(({ adapter }) => adapter),
        coldness: Float32Array.from(sequences, ({ coldness }) => coldness),
      });
      cache.append(1, result.fresh, (row) => sequences[row]!.isHeld);
      const part = (values: Float32Array, row: number): Float32Array =>
        values.subarray(row * vocabSize, (row + 1) * vocabSize);
      return sequences.map((_, row) => ({
        distribution: {
          logits: part(result.logits, row),
          probabilities: part(result.probabilities, row),
          logSumExp: result.logSumExp[row]!,
        },
      }));
    },
    forgetAdapters: () => extender.forgetAdapters(),
    dispose: () => extender.dispose(),
  };
};
