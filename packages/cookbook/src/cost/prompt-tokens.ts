/** How much of the prompts of a step the server had computed before. */
import type { Sampler } from "../clients.ts";

/** Number of prompt tokens. A prompt with several answers is counted once. */
export interface PromptTokens {
  readonly sent: number;
  /** Those that the server took from its cache, by its own account. */
  readonly cached: number;
}

/** A sampler that counts the prompts it is given; `prompts` is read when they are done. */
export function countingPrompts(sampler: Sampler): { readonly sampler: Sampler; readonly prompts: PromptTokens } {
  const prompts = { sent: 0, cached: 0 };
  const sample: Sampler["sample"] = async (prompt, options) => {
    const response = await sampler.sample(prompt, options);
    prompts.sent += prompt.length;
    prompts.cached += response.promptCacheHitTokens;
    return response;
  };
  return { sampler: { sample }, prompts };
}
