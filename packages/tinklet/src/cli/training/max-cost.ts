/** `--max-cost` and `--prices`: what a model costs, the most that a run may, and how one that stopped there goes on. */
import type { CostLimit, ModelPrice } from "@tinklet/cookbook";
import type { OptionSpec } from "../command.ts";
import { type Input, UsageError } from "../parse.ts";

/** The options. @param before - what the run stops before, for the help */
export const maxCostOptions = (before: string): Readonly<Record<string, OptionSpec>> => ({
  "max-cost": { type: "string", value: "DOLLARS", about: `stop with a checkpoint before ${before}` },
  prices: { type: "string", value: "FILE", about: "your own price table (JSON) over the built-in one" },
});

/** What was asked for. */
export interface Cost {
  /** Of the model, where one is known. */
  readonly price: ModelPrice | undefined;
  /** The sum that `--max-cost` allows, where it was given. */
  readonly limit: CostLimit | undefined;
}

/** @throws {@link UsageError} for a limit where no price is known. */
export async function costOf(input: Input, model: string): Promise<Cost> {
  const { priceOf, readPrices } = await import("@tinklet/cookbook");
  const table = input.text("prices");
  const price = priceOf(model, table === undefined ? undefined : await readPrices(table));
  const maxCost = input.number("max-cost", 0);
  if (maxCost === undefined) return { price, limit: undefined };
  if (price === undefined) throw new UsageError(`--max-cost needs a price for ${model}: give one with --prices`);
  return { price, limit: { price, maxCost } };
}

/** How a run that stopped goes on: the same command would stop at the same sum again. */
export const onward = (stopped: string) =>
  `${stopped === "interrupted" ? "The same command" : "A larger --max-cost"} goes on from there.`;
