/**
 * Reads the parts of an object between its values: braces, commas, and declared names in the schema's order. All names are in one trie,
 * shared by all states: the names that are still allowed are a range of property numbers, and every trie node has the sorted numbers of the
 * names below it. The memory of an object is therefore proportional to the length of its names.
 */
import type { GrammarBudget } from "./budget.ts";
import { movesPerStep, suffixTokens, tokensOf } from "./literal-machine.ts";
import { type Machine, machineNode, type Node } from "./machine.ts";
import { Trie } from "./trie.ts";
import type { Vocabulary } from "./vocabulary.ts";

export interface Property {
  readonly name: string;
  readonly value: Node;
  readonly isRequired: boolean;
}

export interface NamesOptions {
  readonly vocabulary: Vocabulary;
  readonly budget: GrammarBudget;
  readonly nextId: () => number;
}

const openBrace = 0x7b;
const closeBrace = 0x7d;
const comma = 0x2c;
const space = 0x20;
const nothing = [undefined] as const;
const encoder = new TextEncoder();

/** Bytes of one property, without its name. */
const propertyBytes = 600;

/** Positions outside of names, numbered after the nodes of the trie. */
const place = {
  /** Before the opening brace, and after it. */
  head: 0,
  open: 1,
  /** After a value. */
  tail: 2,
  comma: 3,
  /** After the space that follows a name's colon. */
  spaced: 4,
  closed: 5,
} as const;
const places = 6;

/**
 * The node of an object. The costs of its values must be final; an optional property that no value fits is left out.
 *
 * A state is a position plus the number of the first property that is still allowed times the number of positions. (In `spaced`, it is the
 * number of the property whose value follows.)
 */
export function objectNode(all: readonly Property[], { vocabulary, budget, nextId }: NamesOptions): Node {
  const properties = all.filter(({ value, isRequired }) => isRequired || value.cost < Number.POSITIVE_INFINITY);
  const count = properties.length;
  const texts = properties.map(({ name }) => encoder.encode(`,${JSON.stringify(name)}:`));
  const length = texts.reduce((sum, bytes) => sum + bytes.length, 0);
  budget.spend(2 * length + 4 * count);
  /** Tokens of the suffixes of each name by start byte, including the comma before it and the colon. */
  const tokens = texts.map((bytes) => suffixTokens(bytes, vocabulary, budget));

  const trie = new Trie(length + 1);
  const ends = texts.map((bytes, i) => trie.add(bytes.subarray(1), i));
  // For each node, the numbers of the names below it; all lists are concatenated.
  const starts = new Int32Array(trie.size + 1);
  const depths = new Int32Array(trie.size);
  const eachNode = (bytes: Uint8Array, visit: (node: number, depth: number) => void): void => {
    for (let i = 1, node = 0; i <= bytes.length; i++) {
      visit(node, i - 1);
      if (i < bytes.length) node = trie.childAt(node, bytes[i]!);
    }
  };
  for (const bytes of texts) {
    eachNode(bytes, (node, depth) => {
      starts[node + 1]!++;
      depths[node] = depth;
    });
  }
  for (let node = 0; node < trie.size; node++) starts[node + 1]! += starts[node]!;
  const names = new Int32Array(starts[trie.size]!);
  const filled = starts.slice();
  texts.forEach((bytes, i) => {
    eachNode(bytes, (node) => {
      names[filled[node]!++] = i;
    });
  });
  budget.hold(trie.bytes + 8 * (3 * trie.size + length) + 4 * length + propertyBytes * count);
  budget.spend(length / movesPerStep);

  /** Index of the next required property at or after each index; −1 after the last one. */
  const required = new Int32Array(count + 1).fill(-1);
  /**
   * Cost of each property after its colon, including everything that must follow; and of the object from each index on, without its comma.
   */
  const afterName = new Float64Array(count);
  const rest = new Float64Array(count + 1).fill(1); // the closing brace
  for (let i = count - 1; i >= 0; i--) {
    const { value, isRequired } = properties[i]!;
    required[i] = isRequired ? i : required[i + 1]!;
    afterName[i] = value.cost + rest[i + 1]!;
    rest[i] = isRequired ? tokens[i]![0]! + afterName[i]! : rest[i + 1]!;
  }
  const last = (from: number): number => (required[from]! < 0 ? count - 1 : required[from]!);
  /** Index of the first property, from `from` on, whose name starts with the prefix of this trie node; `count` if no name does. */
  const firstBelow = (node: number, from: number): number => {
    let [low, high] = [starts[node]!, starts[node + 1]!];
    const end = high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (names[middle]! < from) low = middle + 1;
      else high = middle;
    }
    return low === end ? count : names[low]!;
  };
  /**
   * The name that costs refer to: the next required one if it is below the node, otherwise the first allowed one. The choice stays the same
   * further down in the trie.
   */
  const aim = (node: number, from: number): number => {
    const wanted = required[from]!;
    return wanted >= 0 && firstBelow(node, wanted) === wanted ? wanted : firstBelow(node, from);
  };

  const { size } = trie;
  const stride = size + places;
  const at = (outside: number, from: number): number => from * stride + size + outside;
  const within = (node: number, from: number, byte: number): number | undefined => {
    const child = trie.childAt(node, byte);
    return child !== 0 && firstBelow(child, from) <= last(from) ? from * stride + child : undefined;
  };
  const head =
    required[0]! < 0
      ? tokensOf("{}", vocabulary, budget)
      : tokensOf(`{${JSON.stringify(properties[required[0]!]!.name)}:`, vocabulary, budget) + afterName[required[0]!]!;
  const costAt = (outside: number, from: number): number => {
    switch (outside) {
      case place.head:
        return head;
      case place.open:
        return required[from]! < 0 ? 1 : tokens[required[from]!]![1]! + afterName[required[from]!]!;
      case place.tail:
        return rest[from]!;
      case place.comma: {
        const name = aim(0, from);
        return tokens[name]![1]! + afterName[name]!;
      }
      case place.spaced:
        return afterName[from]!;
      default:
        return 0;
    }
  };
  const endings: (readonly [Node])[] = [];
  /** The node after the colon of a property. */
  const endingOf = (index: number): readonly [Node] => {
    endings[index] ??= [
      {
        id: nextId(),
        cost: afterName[index]!,
        open: () => ({ kind: "sequence", nodes: [properties[index]!.value, tail(index + 1)] }),
      },
    ];
    return endings[index]!;
  };
  const endOf = new Map(ends.map((node, i) => [node, i]));
  const machine: Machine<number> = {
    id: nextId(),
    step(state, byte) {
      const from = Math.floor(state / stride);
      const node = state % stride;
      if (node < size) {
        const index = endOf.get(node);
        if (index === undefined) return within(node, from, byte);
        return byte === space ? at(place.spaced, index) : undefined;
      }
      switch (node - size) {
        case place.head:
          return byte === openBrace ? at(place.open, 0) : undefined;
        case place.open:
          if (byte === closeBrace) return required[0]! < 0 ? at(place.closed, 0) : undefined;
          return within(0, from, byte);
        case place.tail:
          if (byte === closeBrace) return required[from]! < 0 ? at(place.closed, 0) : undefined;
          return byte === comma && from < count ? at(place.comma, from) : undefined;
        case place.comma:
          // The root of the trie represents the state after the comma and its space.
          return byte === space ? from * stride : within(0, from, byte);
        default:
          return undefined;
      }
    },
    ending(state) {
      const node = state % stride;
      if (node === size + place.closed) return nothing;
      if (node === size + place.spaced) return endingOf(Math.floor(state / stride));
      const index = endOf.get(node);
      return index === undefined ? undefined : endingOf(index);
    },
    isOver: (state) => state % stride === size + place.closed || state % stride === size + place.spaced,
    cost(state) {
      const from = Math.floor(state / stride);
      const node = state % stride;
      if (node >= size) return costAt(node - size, from);
      const name = aim(node, from);
      return tokens[name]![1 + depths[node]!]! + afterName[name]!;
    },
    keyOf: (state) => state,
  };
  const tails: Node[] = [];
  const tail = (from: number): Node => {
    tails[from] ??= machineNode(nextId(), machine, at(place.tail, from));
    return tails[from]!;
  };
  return machineNode(nextId(), machine, at(place.head, 0));
}
