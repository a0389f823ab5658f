/** Limits how many episodes run at the same time; groups start as a whole and in order. */

/** Places for episodes. */
export class EpisodeLimit {
  readonly #places: number;
  #taken = 0;
  readonly #waiting: { readonly size: number; readonly enter: () => void }[] = [];

  constructor(places: number) {
    this.#places = places;
  }

  /** Runs `work` when its group has its places. A group larger than the limit runs alone. */
  async run<T>(size: number, work: () => Promise<T>): Promise<T> {
    const needed = Math.min(size, this.#places);
    if (this.#waiting.length > 0 || this.#taken + needed > this.#places) {
      await new Promise<void>((enter) => this.#waiting.push({ size: needed, enter }));
    } else {
      this.#taken += needed;
    }
    try {
      return await work();
    } finally {
      this.#taken -= needed;
      this.#admit();
    }
  }

  #admit(): void {
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      if (this.#taken + first.size > this.#places) return;
      this.#waiting.shift();
      this.#taken += first.size;
      first.enter();
    }
  }
}
