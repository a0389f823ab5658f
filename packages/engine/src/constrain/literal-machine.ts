/** Reads one of several fixed texts, followed by a node for each: values of an enum, brackets, commas. */
import type { GrammarBudget } from "./budget.ts";
import type { Machine, Node } from "./machine.ts";
import { Trie } from "./trie.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** A fixed text, and the node after it. */
export interface Literal {
  readonly text: string;
  readonly next?: Node;
}

const encoder = new TextEncoder();
/** Bytes of a machine without its trie. */
const machineBytes = 2000;
/** Moves within a trie that take as long as one step. */
export const movesPerStep = 32;

/** A machine for these texts, and its start; a state is a node of their trie. Of equal texts the first is used. */
export function literalMachine(
  id: number,
  { vocabulary, budget }: { readonly vocabulary: Vocabulary; readonly budget: GrammarBudget },
  literals: readonly Literal[],
): { readonly machine: Machine<number>; readonly start: number } {
  const texts = literals.map(({ text }) => encoder.encode(text));
  const length = texts.reduce((sum, { length: bytes }) => sum + bytes, 0);
  budget.spend(1 + length);
  const trie = new Trie(length + 1);
  /** By trie node, as a one-element list; undefined if no text ends there. */
  const endings = new Map<number, readonly [next: Node | undefined]>();
  texts.forEach((bytes, i) => {
    const end = trie.add(bytes, i);
    if (!endings.has(end)) endings.set(end, [literals[i]!.next]);
  });
  const costs = new Float64Array(trie.size);
  budget.hold(machineBytes + trie.bytes + costs.byteLength + 100 * endings.size);
  let moves = 0;
  /** The fewest tokens from a node to an end, including the node after it; computed from the node's descendants. */
  const costAt = (start: number): number => {
    const ending = endings.get(start);
    let least = ending === undefined ? Number.POSITIVE_INFINITY : (ending[0]?.cost ?? 0);
    const walk = (node: number, inVocabulary: number): void => {
      for (let child = trie.firstChild(node); child !== 0; child = trie.nextSibling(child)) {
        moves++;
        const token = vocabulary.tree.childAt(inVocabulary, trie.byteOf(child));
        if (token === 0) continue;
        if (vocabulary.tree.isToken(token)) least = Math.min(least, 1 + costs[child]!);
        walk(child, token);
      }
    };
    walk(start, 0);
    return least;
  };
  for (let node = trie.size - 1; node >= 0; node--) {
    costs[node] = costAt(node);
    if (moves < movesPerStep * 1000) continue;
    budget.spend(moves / movesPerStep);
    moves = 0;
  }
  budget.spend(moves / movesPerStep);
  return {
    start: 0,
    machine: {
      id,
      step: (node, byte) => trie.childAt(node, byte) || undefined,
      ending: (node) => endings.get(node),
      isOver: (node) => trie.firstChild(node) === 0,
      cost: (node) => costs[node]!,
      keyOf: (node) => node,
    },
  };
}

/** The fewest tokens for each suffix of a text, by start byte; the last is 0. */
export function suffixTokens(bytes: Uint8Array, { tree }: Vocabulary, budget: GrammarBudget): Float64Array {
  const costs = new Float64Array(bytes.length + 1).fill(Number.POSITIVE_INFINITY);
  costs[bytes.length] = 0;
  let moves = bytes.length;
  for (let i = bytes.length - 1; i >= 0; i--) {
    let node = 0;
    for (let end = i; end < bytes.length; end++) {
      node = tree.childAt(node, bytes[end]!);
      if (node === 0) break;
      moves++;
      if (tree.isToken(node)) costs[i] = Math.min(costs[i]!, 1 + costs[end + 1]!);
    }
  }
  budget.spend(moves / movesPerStep);
  return costs;
}

/** The fewest tokens for a text. */
export const tokensOf = (text: string, vocabulary: Vocabulary, budget: GrammarBudget): number =>
  suffixTokens(encoder.encode(text), vocabulary, budget)[0]!;
