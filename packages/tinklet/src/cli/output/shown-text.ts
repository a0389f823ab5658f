/** What a person sees of a text while it grows. */

/** A text that grows piece by piece; where it is trimmed, blanks wait for what follows them. */
export class ShownText {
  readonly #trimmed: boolean;
  #whole = "";
  /** What was given out so far. */
  text = "";

  /** @param options.trimmed - blanks at both ends are no part of the text */
  constructor(options: { readonly trimmed: boolean }) {
    this.#trimmed = options.trimmed;
  }

  /** What the piece adds to the text that is shown. */
  add(piece: string): string {
    this.#whole += piece;
    const shown = this.#trimmed ? this.#whole.trim() : this.#whole;
    const added = shown.slice(this.text.length);
    this.text = shown;
    return added;
  }
}
