/** What the hosted service charges, with the day on which each row was read. Prices change: callers may give their own. */

/** US dollars per million tokens. */
export interface ModelPrice {
  readonly prefill: number;
  readonly sample: number;
  readonly train: number;
  /** The day on which the price was read, `YYYY-MM-DD`. */
  readonly asOf: string;
}

/** Prices by the service's model names. */
export type PriceTable = Readonly<Record<string, ModelPrice>>;

/** Web page with the service's current prices. */
export const priceSource = "https://tinker-docs.thinkingmachines.ai/tinker/models/";

export const prices: PriceTable = {
  "Qwen/Qwen3-8B": { prefill: 0.195, sample: 0.6, train: 0.44, asOf: "2026-10-07" },
  "thinkingmachines/Inkling": { prefill: 1.87, sample: 4.68, train: 5.61, asOf: "2026-10-07" },
};

/**
 * The price of a model, by its name without variant (`:peft:…` has prices of its own, which count only if they are listed).
 */
export function priceOf(modelName: string, table: PriceTable = prices): ModelPrice | undefined {
  return Object.hasOwn(table, modelName) ? table[modelName] : undefined;
}

/** US dollars for so many tokens of training, evaluation (a forward pass costs a prefill) and sampling. */
export function trainingCost(
  price: ModelPrice,
  tokens: { readonly train: number; readonly evaluate?: number; readonly sample?: number },
): number {
  const { train, evaluate = 0, sample = 0 } = tokens;
  return (train * price.train + evaluate * price.prefill + sample * price.sample) / 1e6;
}
