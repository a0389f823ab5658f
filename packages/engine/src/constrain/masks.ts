/** Masks of all grammars of an engine, as many as their budget has room for; those that were used last are kept. */

/** Tokens that may stand at a point. */
export interface Mask {
  readonly ids: Int32Array;
  /** What ending costs after each of them, in tokens. */
  readonly costs: Int32Array;
  readonly mostCost: number;
}

export class MaskCache {
  readonly #limit: number;
  readonly #masks = new Map<string, Mask>();
  #bytes = 0;
  #scopes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The beginning of a grammar's keys. */
  scope(): string {
    return `${++this.#scopes} `;
  }

  get(key: string): Mask | undefined {
    const mask = this.#masks.get(key);
    if (mask === undefined) return undefined;
    this.#masks.delete(key);
    this.#masks.set(key, mask); // the last that was used is the last that goes
    return mask;
  }

  set(key: string, mask: Mask): void {
    if (this.#masks.has(key)) return;
    this.#masks.set(key, mask);
    this.#bytes += bytesOf(key, mask);
    for (const [oldest, least] of this.#masks) {
      if (this.#bytes <= this.#limit) break;
      this.#masks.delete(oldest);
      this.#bytes -= bytesOf(oldest, least);
    }
  }
}

const bytesOf = (key: string, { ids, costs }: Mask): number => ids.byteLength + costs.byteLength + 2 * key.length + 500;
