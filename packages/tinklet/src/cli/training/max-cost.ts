/** `--max-cost` and `--prices`: the price of a model, the cost limit of a run, and how to resume after the limit. */
import type { CostLimit, ModelPrice } from "@tinklet/cookbook";
import type { OptionSpec } from "../command.ts";
import { type Input, UsageError } from "../parse.ts";

/** The options. @param before - the condition for the help text, such as "the run costs more" */
export const maxCostOptions = (before: string): Readonly<Record<string, OptionSpec>> => ({
  "max-cost": { type: "string", value: "DOLLARS", about: `stop with a checkpoint before ${before}` },
  prices: { type: "string", value: "FILE", about: "price table (JSON) that overrides the built-in one" },
});

/** Price and limit of a run. */
export interface Cost {
  /** The model's price, if known. */
  readonly price: ModelPrice | undefined;
  /** The limit of `--max-cost`, if given. */
  readonly limit: CostLimit | undefined;
}

/** @throws {@link UsageError} for a limit when the price is unknown */
export async function costOf(input: Input, model: string): Promise<Cost> {
  const { priceOf, readPrices } = await import("@tinklet/cookbook");
  const table = input.text("prices");
  const price = priceOf(model, table === undefined ? undefined : await readPrices(table));
  const maxCost = input.number("max-cost", 0);
  if (maxCost === undefined) return { price, limit: undefined };
  if (price === undefined) throw new UsageError(`--max-cost needs a price for ${model}: give one with --prices`);
  return { price, limit: { price, maxCost } };
}

/** How to resume a stopped run; after a cost limit the same command would stop again. */
export const onward = (stopped: string) =>
  `${stopped === "interrupted" ? "The same command" : "The same command with a larger --max-cost"} resumes the run.`;
