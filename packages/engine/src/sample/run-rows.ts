/**
 * How many tokens a run over prompts may have. A token's keys and values must have the same bits in whatever company it is computed: they may
 * not depend on the number of rows of a product. The runtime's products work row by row, with one exception: long sums are cut into
 * pieces, and where depends on how many columns a thread has. A product with fewer rows than columns is divided among threads by columns,
 * others by rows; one that is too small for all threads among fewer of them. Within these limits every product is divided alike.
 */
import { linearSizes, type ModelConfig } from "@tinklet/models/config";
import { sharedInputs } from "../model/transformer.ts";
import { enoughColumns, joinedForPrompts } from "./fused.ts";

export interface RowLimits {
  readonly fewest: number;
  readonly most: number;
  /** Rows of the vocabulary projection at least: others may be scored in another run. */
  readonly fewestOfHead: number;
}

/** Sums of up to so many terms are never cut. */
export const uncutTerms = 128;
/** Multiplications for each thread from which on all threads take part, and some to spare. */
const workPerThread = 2 ** 18;
/** More make a run no faster: attention within it sees all of its keys, also those that are masked. */
const enough = enoughColumns - 1;

/** The products of a layer. */
const productSizes = (config: ModelConfig): { inSize: number; outSize: number }[] =>
  [sharedInputs.attention, ["o_proj"], sharedInputs.mlp, ["down_proj"]]
    .flatMap((names) => joinedForPrompts(names.map((name) => linearSizes(config, name))))
    .map((sizes) => ({ inSize: sizes[0]!.inSize, outSize: sizes.reduce((sum, { outSize }) => sum + outSize, 0) }));

export const rowLimits = (config: ModelConfig, threads: number): RowLimits => {
  const isCut = ({ inSize }: { readonly inSize: number }): boolean => threads > 1 && inSize > uncutTerms;
  const linears = productSizes(config).filter(isCut);
  const head = [{ inSize: config.hiddenSize, outSize: config.vocabSize }].filter(isCut);
  const most = Math.min(enough, ...[...linears, ...head].map(({ outSize }) => outSize - 1));
  /** With which these products keep all threads busy. */
  const fewestOf = (products: typeof linears): number => {
    const rows = products.map(({ inSize, outSize }) => Math.ceil((workPerThread * (threads - 1)) / (inSize * outSize)));
    return Math.min(most, Math.max(2, ...rows)); // a product of a single row takes another path altogether
  };
  return { fewest: fewestOf(linears), most, fewestOfHead: fewestOf(head) };
};

/** Queries that attention has at least: with fewer than a head has columns, sums over many keys would be cut elsewhere. */
export const fewestQueries = ({ heads, kvHeads, headDim }: ModelConfig): number =>
  Math.ceil((headDim * kvHeads) / heads);

/** Keys come in whole vectors, all of them: what a softmax has left over it adds up one by one, in another order. */
export const keyStep = 64;
