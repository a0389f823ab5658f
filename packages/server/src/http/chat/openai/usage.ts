/** What a request used, as OpenAI's API tells it. */
import type { Totals } from "../generate.ts";

export const usageOf = ({ promptTokens, cachedTokens, completionTokens }: Totals): object => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: Math.min(cachedTokens, promptTokens) },
});

/** One event of a stream. */
export const dataEvent = (body: object): string => `data: ${JSON.stringify(body)}\n\n`;
export const doneEvent = "data: [DONE]\n\n";
/** A comment: clients skip it. */
export const keepAlive = (): string => ": keep-alive\n\n";
