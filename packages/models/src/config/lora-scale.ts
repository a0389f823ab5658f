/** The scaling of LoRA adapters. */

/** The factor on an adapter's product B·A. */
export const loraScale = ({ rank, alpha }: { readonly rank: number; readonly alpha: number }): number => alpha / rank;
