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
