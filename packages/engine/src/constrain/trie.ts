/**
 * A trie of byte strings in flat arrays: a large vocabulary has half a million nodes, which as objects would take seconds and a hundred
 * megabytes. Node 0 is the root; as a child, 0 means none.
 */

export class Trie {
  #byte: Uint8Array;
  #child: Int32Array;
  #sibling: Int32Array;
  /** The last token that ends at a node, plus one. */
  #token: Int32Array;
  /** Another token with the same bytes, plus one. */
  #sameAs: Map<number, number> | undefined;
  /** Children of the root by byte, in large tries: most searches begin there. */
  readonly #first: Int32Array | undefined;
  #size = 1;

  /** @param nodes - expected number of nodes; the trie can grow beyond it */
  constructor(nodes = 1024) {
    if (nodes >= 1024) this.#first = new Int32Array(256);
    this.#byte = new Uint8Array(nodes);
    this.#child = new Int32Array(nodes);
    this.#sibling = new Int32Array(nodes);
    this.#token = new Int32Array(nodes);
  }

  /** Number of nodes, including the root. Children have larger numbers than their parents. */
  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#byte.length * 13 + (this.#first?.byteLength ?? 0);
  }

  /** Adds a byte string; returns its last node. */
  add(bytes: Uint8Array, token: number): number {
    let node = 0;
    for (const byte of bytes) node = this.childAt(node, byte) || this.#grow(node, byte);
    if (this.#token[node] !== 0) {
      this.#sameAs ??= new Map();
      this.#sameAs.set(token, this.#token[node]!);
    }
    this.#token[node] = token + 1;
    return node;
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
    if (parent === 0 && this.#first !== undefined) this.#first[byte] = node;
    return node;
  }

  /** The child for a byte, or 0. */
  childAt(node: number, byte: number): number {
    if (node === 0 && this.#first !== undefined) return this.#first[byte]!;
    let child = this.#child[node]!;
    while (child !== 0 && this.#byte[child] !== byte) child = this.#sibling[child]!;
    return child;
  }

  /** A node's first child, or 0. */
  firstChild(node: number): number {
    return this.#child[node]!;
  }

  /** The next sibling, or 0. */
  nextSibling(node: number): number {
    return this.#sibling[node]!;
  }

  byteOf(node: number): number {
    return this.#byte[node]!;
  }

  /** A token that ends here, or −1. */
  tokenAt(node: number): number {
    return this.#token[node]! - 1;
  }

  /** Whether a token ends here. */
  isToken(node: number): boolean {
    return this.#token[node] !== 0;
  }

  /** Calls `visit` with every token that ends here: vocabularies may have several tokens with the same bytes. */
  eachToken(node: number, take: (token: number) => void): void {
    for (let token = this.#token[node]!; token !== 0; token = this.#sameAs?.get(token - 1) ?? 0) take(token - 1);
  }
}
