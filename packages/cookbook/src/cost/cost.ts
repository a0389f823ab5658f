/**
 * Tokens and prices: what a data set comes to, and what so many tokens cost on the hosted service. Keeping a run within a sum is
 * `budget.ts`.
 */
import { readFile } from "node:fs/promises";
import { checkOptions } from "@tinklet/wire/options";
import { DataError } from "../data/data-error.ts";
import type { Rendered } from "../data/render.ts";
import { type PriceTable, prices } from "./prices.ts";

export { type ModelPrice, type PriceTable, priceOf, priceSource, prices, trainingCost } from "./prices.ts";

/** Figures of a data set before training. */
export interface DataSummary {
  readonly examples: number;
  /** Tokens that the model reads, after truncation. */
  readonly tokens: number;
  /** Tokens that carry weight in the loss, after truncation. */
  readonly lossTokens: number;
  readonly longest: number;
  readonly mean: number;
  /** Examples longer than the context: they lose their end. */
  readonly truncated: number;
  /** Examples without any weighted token left: they are dropped. */
  readonly dropped: number;
}

/** Counts what training would read. */
export function summarize(
  rendered: readonly Rendered[],
  options: { readonly maxLength?: number | undefined } = {},
): DataSummary {
  checkOptions("summarize", options, { maxLength: true });
  const { maxLength = Number.POSITIVE_INFINITY } = options;
  let [tokens, lossTokens, longest, truncated, dropped] = [0, 0, 0, 0, 0];
  for (const example of rendered) {
    const length = Math.min(example.tokens.length, maxLength);
    const weighted = example.weights.slice(1, length).reduce((sum, weight) => sum + (weight === 0 ? 0 : 1), 0);
    longest = Math.max(longest, example.tokens.length);
    if (example.tokens.length > maxLength) truncated += 1;
    if (weighted === 0) dropped += 1;
    else {
      tokens += length - 1; // the last token is only a target
      lossTokens += weighted;
    }
  }
  const kept = rendered.length - dropped;
  return {
    examples: rendered.length,
    tokens,
    lossTokens,
    longest,
    mean: kept === 0 ? 0 : tokens / kept,
    truncated,
    dropped,
  };
}

/**
 * Reads a price table and lays it over the built-in one.
 *
 * @throws {@link DataError} when the file is not a table of prices.
 */
export async function readPrices(file: string): Promise<PriceTable> {
  let table: unknown;
  try {
    table = JSON.parse(await readFile(file, "utf8"));
  } catch (cause) {
    throw new DataError({ file }, cause instanceof Error ? cause.message : String(cause), { cause, hint: priceShape });
  }
  if (typeof table !== "object" || table === null)
    throw new DataError({ file }, "is not an object", { hint: priceShape });
  for (const [model, price] of Object.entries(table as Record<string, Record<string, unknown> | null>)) {
    for (const key of ["prefill", "sample", "train"]) {
      if (typeof price?.[key] !== "number")
        throw new DataError({ file }, `${model}.${key} must be a number`, { hint: priceShape });
    }
    if (typeof price?.["asOf"] !== "string")
      throw new DataError({ file }, `${model}.asOf must be a day`, { hint: priceShape });
  }
  return { ...prices, ...(table as PriceTable) };
}

const priceShape = `A price table is {"model": {"prefill": 0.1, "sample": 0.3, "train": 0.3, "asOf": "2026-01-31"}}, in dollars per million tokens.`;
