/**
 * Limits on the tokens of a prompt run. The bits of a token's keys and values must not depend on the other tokens of the run, that is, on
 * the number of rows of a product. The runtime's products are independent of it with one exception: it splits long sums depending on the
 * number of columns per thread. A product with fewer rows than columns is divided among threads by columns, others by rows; a product too
 * small for all threads is divided among fewer. Within these limits every product is divided equally.
 */
import { linearSizes, type ModelConfig } from "@tinklet/models/config";
import { sharedInputs } from "../model/transformer.ts";
import { enoughColumns, joinedForPrompts } from "./fused.ts";

export interface RowLimits {
  readonly fewest: number;
  readonly most: number;
  /** Minimum rows of the vocabulary projection, because the other rows may be scored in another run. */
  readonly fewestOfHead: number;
}

/** Sums of up to this many terms are never split. */
export const uncutTerms = 128;
/** Multiplications per thread above which all threads take part, with a margin. */
const workPerThread = 2 ** 18;
/** More tokens make a run no faster, because attention computes all scores of a run, masked ones included. */
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
  /** The minimum rows with which these products use all threads. */
  const fewestOf = (products: typeof linears): number => {
    const rows = products.map(({ inSize, outSize }) => Math.ceil((workPerThread * (threads - 1)) / (inSize * outSize)));
    return Math.min(most, Math.max(2, ...rows)); // the runtime computes products of a single row differently
  };
  return { fewest: fewestOf(linears), most, fewestOfHead: fewestOf(head) };
};

/** Minimum number of queries in attention: with fewer queries than a head has columns, sums over many keys would be split differently. */
export const fewestQueries = ({ heads, kvHeads, headDim }: ModelConfig): number =>
  Math.ceil((headDim * kvHeads) / heads);

/** Keys are padded to whole vectors, because softmax sums the remainder one by one, in another order. */
export const keyStep = 64;
