/** Masks of all grammars of an engine, within a budget; the least recently used are evicted. */

/** The allowed tokens of a state. */
export interface Mask {
  readonly ids: Int32Array;
  /** For each of them, the cost of ending after it, in tokens. */
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

  /** Key prefix of a grammar. */
  scope(): string {
    return `${++this.#scopes} `;
  }

  get(key: string): Mask | undefined {
    const mask = this.#masks.get(key);
    if (mask === undefined) return undefined;
    this.#masks.delete(key);
    this.#masks.set(key, mask); // moves it to the end: most recently used
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
