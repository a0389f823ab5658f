/**
 * A tree of byte strings in flat arrays: a large vocabulary has half a million nodes, and objects for them would take seconds and a hundred
 * megabytes. Node 0 is the root, and as a child it means that there is none.
 */

export class Trie {
  #byte = new Uint8Array(1024);
  #child = new Int32Array(1024);
  #sibling = new Int32Array(1024);
  /** The last token that ends at a node, plus one. */
  #token = new Int32Array(1024);
  /** Another token with the same bytes, plus one. */
  readonly #sameAs = new Map<number, number>();
  /** Children of the root by byte: most searches begin there. */
  readonly #first = new Int32Array(256);
  #size = 1;

  add(bytes: Uint8Array, token: number): void {
    let node = 0;
    for (const byte of bytes) node = this.childAt(node, byte) || this.#grow(node, byte);
    if (this.#token[node] !== 0) this.#sameAs.set(token, this.#token[node]!);
    this.#token[node] = token + 1;
  }

  #grow(parent: number, byte: number): number {
    if (this.#size === this.#byte.length) {
      const twice = <A extends Uint8Array | Int32Array>(old: A, made: A): A => {
        made.set(old);
        return made;
      };
      const length = this.#size * 2;
      this.#byte = twice(this.#byte, new Uint8Array(length));
      this.#child = twice(this.#child, new Int32Array(length));
      this.#sibling = twice(this.#sibling, new Int32Array(length));
      this.#token = twice(this.#token, new Int32Array(length));
    }
    const node = this.#size++;
    this.#byte[node] = byte;
    this.#sibling[node] = this.#child[parent]!;
    this.#child[parent] = node;
    if (parent === 0) this.#first[byte] = node;
    return node;
  }

  /** The child for a byte, or 0. */
  childAt(node: number, byte: number): number {
    if (node === 0) return this.#first[byte]!;
    let child = this.#child[node]!;
    while (child !== 0 && this.#byte[child] !== byte) child = this.#sibling[child]!;
    return child;
  }

  /** A node's first child, or 0. */
  firstChild(node: number): number {
    return this.#child[node]!;
  }

  /** The next child of the same parent, or 0. */
  nextSibling(node: number): number {
    return this.#sibling[node]!;
  }

  byteOf(node: number): number {
    return this.#byte[node]!;
  }

  /** Whether a token ends here. */
  isToken(node: number): boolean {
    return this.#token[node] !== 0;
  }

  /** Calls with every token that ends here: vocabularies may write the same bytes in two ways. */
  eachToken(node: number, take: (token: number) => void): void {
    for (let token = this.#token[node]!; token !== 0; token = this.#sameAs.get(token - 1) ?? 0) take(token - 1);
  }
}
