/** Adapters with non-zero B matrices for tests, so that every path of a pass and of its gradient has an effect. */
import type { ModelConfig } from "@tinklet/models/config";
import { type Adapter, createAdapter } from "../adapter/adapter.ts";
import { createRandom } from "../random.ts";
import type { LoraOptions } from "../types.ts";

/** @param noise - maximum change of a value. @defaultValue rank 3, seed 5, all modules; noise 0.05 */
export const noisyAdapter = (
  config: ModelConfig,
  { noise = 0.05, ...options }: Partial<LoraOptions> & { readonly noise?: number } = {},
): Adapter => {
  const lora = { rank: 3, alpha: 32, seed: 5, trainAttn: true, trainMlp: true, trainUnembed: true, ...options };
  const adapter = createAdapter(config, lora);
  const random = createRandom(lora.seed, "noise");
  for (let i = 0; i < adapter.values.length; i++) adapter.values[i]! += (random() - 0.5) * 2 * noise;
  return adapter;
};
