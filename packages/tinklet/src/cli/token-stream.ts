/** Text of a sample while it is drawn. */
import type { Tokenizer } from "../tokenizer/index.ts";

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
