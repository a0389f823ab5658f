/** The `usage` of OpenAI's responses, and the framing of their events. */
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
/** A comment, which clients ignore. */
export const keepAlive = (): string => ": keep-alive\n\n";
