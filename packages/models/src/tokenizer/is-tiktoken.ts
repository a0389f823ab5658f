/** Recognises models whose tokenizer is a `tiktoken.model`. */

/** Value of `tokenizer_class` in the `tokenizer_config.json` of Kimi models. */
export const tiktokenClass = "TikTokenTokenizer";

/** Whether a `tokenizer_config.json` names that class. */
export function isTiktoken(settings: string | undefined): boolean {
  try {
    return (JSON.parse(settings ?? "{}") as { tokenizer_class?: unknown } | null)?.tokenizer_class === tiktokenClass;
  } catch {
    return false; // reported when the tokenizer is built
  }
}
