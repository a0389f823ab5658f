/** Reads one of several fixed texts, with what follows each: values of an enum, names of properties, brackets and commas. */
import type { Machine, Node } from "./machine.ts";
import type { Trie } from "./trie.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** A fixed text, and what must follow it. */
export interface Literal {
  readonly text: string;
  readonly next?: Node;
}

interface Place {
  readonly index: number;
  readonly children: Map<number, Place>;
  /** Set where a text ends. */
  ending?: readonly [next: Node | undefined];
  cost: number;
}

const encoder = new TextEncoder();

/** A machine for these texts, and its start. Of equal texts the first counts. */
export function literalMachine(
  id: number,
  vocabulary: Vocabulary,
  literals: readonly Literal[],
): { readonly machine: Machine<Place>; readonly start: Place } {
  const places: Place[] = [];
  const place = (): Place => {
    const made: Place = { index: places.length, children: new Map(), cost: Number.POSITIVE_INFINITY };
    places.push(made);
    return made;
  };
  const start = place();
  for (const { text, next } of literals) {
    let at = start;
    for (const byte of encoder.encode(text)) {
      let child = at.children.get(byte);
      if (child === undefined) {
        child = place();
        at.children.set(byte, child);
      }
      at = child;
    }
    at.ending ??= [next];
  }
  // Children were made after their parents: from the last one, what follows is known.
  for (const at of places.reverse()) at.cost = costOf(at, vocabulary.tree);
  return {
    start,
    machine: {
      id,
      step: (at, byte) => at.children.get(byte),
      ending: (at) => at.ending,
      isOver: (at) => at.children.size === 0,
      cost: (at) => at.cost,
      keyOf: (at) => at.index,
    },
  };
}

function costOf(at: Place, tree: Trie): number {
  let least = at.ending === undefined ? Number.POSITIVE_INFINITY : (at.ending[0]?.cost ?? 0);
  const walk = (place: Place, node: number): void => {
    for (const [byte, next] of place.children) {
      const child = tree.childAt(node, byte);
      if (child === 0) continue;
      if (tree.isToken(child)) least = Math.min(least, 1 + next.cost);
      walk(next, child);
    }
  };
  walk(at, 0);
  return least;
}

/** The fewest tokens that write a text. */
export function tokensOf(text: string, { tree }: Vocabulary): number {
  const bytes = encoder.encode(text);
  const costs = new Float64Array(bytes.length + 1).fill(Number.POSITIVE_INFINITY);
  costs[bytes.length] = 0;
  for (let i = bytes.length - 1; i >= 0; i--) {
    let node = 0;
    for (let end = i; end < bytes.length; end++) {
      node = tree.childAt(node, bytes[end]!);
      if (node === 0) break;
      if (tree.isToken(node)) costs[i] = Math.min(costs[i]!, 1 + costs[end + 1]!);
    }
  }
  return costs[0]!;
}
