/** The visible part of a text while it is streamed. */

/** A text that is streamed in parts. If it is trimmed, trailing whitespace is shown only when more text follows. */
export class ShownText {
  readonly #trimmed: boolean;
  #whole = "";
  /** The text returned so far. */
  text = "";

  /** @param options.trimmed - whether whitespace at both ends is removed */
  constructor(options: { readonly trimmed: boolean }) {
    this.#trimmed = options.trimmed;
  }

  /** Adds a part. @returns the newly visible text */
  add(piece: string): string {
    this.#whole += piece;
    const shown = this.#trimmed ? this.#whole.trim() : this.#whole;
    const added = shown.slice(this.text.length);
    this.text = shown;
    return added;
  }
}
