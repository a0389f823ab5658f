/**
 * Text of tokens that come one by one. A token may be half a character, and what a token means may depend on the one before it, so
 * that each is decoded together with the last few. Linear in the number of tokens.
 */

/** The part of a tokenizer that is needed to show text while it is sampled. */
export interface TextDecoderLike {
  decode(tokens: number[]): string;
}

export class StreamedText {
  readonly #tokenizer: TextDecoderLike;
  readonly #tokens: number[] = [];
  /** Tokens from here on are decoded again, as context. */
  #from = 0;
  /** Tokens up to here have been given out. */
  #shown = 0;

  constructor(tokenizer: TextDecoderLike) {
    this.#tokenizer = tokenizer;
  }

  /** What the token adds to the text; nothing while a character is not whole. */
  add(token: number): string {
    this.#tokens.push(token);
    const { before, now } = this.#decode();
    if (now.length <= before.length || now.endsWith("\uFFFD")) return "";
    this.#from = this.#shown;
    this.#shown = this.#tokens.length;
    return now.slice(before.length);
  }

  /** What was held back: half a character that nothing followed. */
  end(): string {
    const { before, now } = this.#decode();
    this.#shown = this.#tokens.length;
    return now.slice(before.length);
  }

  #decode(): { before: string; now: string } {
    return {
      before: this.#tokenizer.decode(this.#tokens.slice(this.#from, this.#shown)),
      now: this.#tokenizer.decode(this.#tokens.slice(this.#from)),
    };
  }
}
