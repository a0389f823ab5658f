/**
 * Text of a sample while it is drawn, where the server shows its tokens (Tinklet's own does). Whatever goes wrong here only ends
 * the showing: the result comes by the usual way.
 */
import type { Tokenizer } from "../tokenizer/index.ts";
import type { Context } from "./context.ts";

/** Sent with a sample whose tokens one wants to see. */
export const streamHeaders = { "x-tinklet-stream": "tokens" };

/** The tokens of a request's only sample, as they are drawn. Ends at once on servers that do not show them. */
export async function* tokensOf(requestId: string, context: Context, signal: AbortSignal): AsyncGenerator<number> {
  for (let after = 0; ; ) {
    const response = await context.ask(`samples/${encodeURIComponent(requestId)}/tokens?after=${after}`, { signal });
    if (!response.ok) return;
    const { tokens, done } = (await response.json()) as { tokens: [number, number][]; done: boolean };
    for (const [, token] of tokens) yield token;
    after += tokens.length;
    if (done) return;
  }
}

/** Turns tokens into text piece by piece: a character that is not whole yet, and blanks at the end, wait for what follows. */
export class TextPieces {
  readonly #tokenizer: Pick<Tokenizer, "decode" | "eosTokenIds">;
  readonly #trimmed: boolean;
  readonly #tokens: number[] = [];
  #ended = false;
  /** What was given out so far. */
  text = "";

  /** @param options.trimmed - blanks at both ends are no part of the text */
  constructor(tokenizer: Pick<Tokenizer, "decode" | "eosTokenIds">, options: { readonly trimmed: boolean }) {
    this.#tokenizer = tokenizer;
    this.#trimmed = options.trimmed;
  }

  /** What the token adds to the text; nothing from the end of the text on. */
  add(token: number): string {
    this.#ended ||= this.#tokenizer.eosTokenIds.includes(token);
    if (this.#ended) return "";
    this.#tokens.push(token);
    const whole = this.#tokenizer.decode(this.#tokens);
    const shown = (this.#trimmed ? whole.trim() : whole).replace(/\uFFFD+$/, "");
    if (!shown.startsWith(this.text)) return "";
    const piece = shown.slice(this.text.length);
    this.text = shown;
    return piece;
  }
}
