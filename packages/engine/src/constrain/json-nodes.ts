/**
 * JSON values as nodes. Objects write their properties in the schema's order; arrays count their items; both are expanded one step at a
 * time. A space is allowed after each comma and colon, and no other white space: unlimited white space would let a sample never end.
 */
import type { GrammarBudget } from "./budget.ts";
import { type Literal, literalMachine, tokensOf as tokensOfText } from "./literal-machine.ts";
import { machineNode, type Node } from "./machine.ts";
import { objectNode, type Property } from "./names-machine.ts";
import {
  boundedNumberMachine,
  boundedNumberStart,
  freeNumberMachine,
  freeNumberStart,
  type NumberBounds,
} from "./number-machine.ts";
import { patternNode } from "./pattern/pattern-machine.ts";
import { type StringBounds, stringMachine, stringStart } from "./string-machine.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** A node whose cost is computed after all nodes exist, because values may be recursive. */
export interface ValueNode extends Node {
  cost: number;
  /** Nodes whose costs are part of its own. */
  parts(): readonly Node[];
  /** Computes the cost again from the costs of its parts. */
  measure(): number;
}

export interface ArrayShape {
  /** Items with individual schemas. */
  readonly first: readonly Node[];
  /** The items after them; undefined if none are allowed. */
  readonly rest: Node | undefined;
  readonly minItems: number;
  /** Infinity: no limit. */
  readonly maxItems: number;
}

export interface JsonNodes {
  /** One of these texts. */
  texts(texts: readonly string[]): Node;
  string(bounds: StringBounds): Node;
  /** A string with a match of a pattern. @throws PatternProblem */
  pattern(pattern: string, bounds: StringBounds): Node;
  number(bounds: NumberBounds): Node;
  choice(nodes: readonly Node[]): ValueNode;
  array(shape: ArrayShape): ValueNode;
  /** Declared properties, in this order. */
  object(properties: readonly Property[]): ValueNode;
  /** Any names, with values of one schema. */
  map(value: Node, maxProperties: number): ValueNode;
  /** A node that is resolved later. */
  later(find: () => Node): ValueNode;
  /** Computes the costs of all nodes. */
  settle(): void;
}

const spaces = (texts: readonly string[]): string[] => texts.flatMap((text) => [text, `${text} `]);
const comma = spaces([","]);

/** Bytes of a node including its parts. */
const nodeBytes = 500;
/** Maximum number of cached nodes per list; evicted nodes are created again. */
const mostMade = 256;

export function createJsonNodes(vocabulary: Vocabulary, budget: GrammarBudget): JsonNodes {
  let ids = 0;
  const nextId = (): number => ++ids;
  const values: ValueNode[] = [];
  const remember = <N extends ValueNode>(node: N): N => {
    budget.spend(1);
    budget.hold(nodeBytes);
    values.push(node);
    return node;
  };
  const oneOf = (literals: readonly Literal[]): Node => {
    const { machine, start } = literalMachine(nextId(), { vocabulary, budget }, literals);
    return machineNode(nextId(), machine, start);
  };
  const string = (bounds: StringBounds): Node => {
    budget.hold(nodeBytes);
    return machineNode(nextId(), stringMachine(nextId(), vocabulary.strings, bounds), stringStart);
  };
  const tokensOf = (text: string): number => tokensOfText(text, vocabulary, budget);

  /** Nodes by number, created when needed: a list has one for each of its items. */
  const made = (make: (index: number) => Node): ((index: number) => Node) => {
    const known = new Map<number, { readonly node: Node; readonly bytes: number }>();
    return (index) => {
      let entry = known.get(index);
      if (entry === undefined) {
        if (known.size >= mostMade) {
          for (const { bytes } of known.values()) budget.release(bytes);
          known.clear();
        }
        const before = budget.bytes;
        budget.hold(nodeBytes);
        entry = { node: make(index), bytes: budget.bytes - before };
        known.set(index, entry);
      }
      return entry.node;
    };
  };

  const array = ({ first, rest, minItems, maxItems }: ArrayShape): ValueNode => {
    const most = rest === undefined ? Math.min(maxItems, first.length) : maxItems;
    // After the individual items and the minimum length, items are counted only if there is a maximum.
    const counted = most === Number.POSITIVE_INFINITY ? Math.max(first.length, minItems) : most;
    const itemAt = (index: number): Node => first[index] ?? rest!;
    const tokensOpen = tokensOf("[");
    const close = tokensOf("]");
    const separator = tokensOf(",");
    /** The node that represents all required items from `first.length` on. */
    const others = minItems > first.length ? itemAt(first.length) : undefined;
    /** Costs of the required items among the first, as suffix sums; created when all others are known. */
    let sums: Float64Array | undefined;
    const sumFrom = (count: number): number => {
      if (sums === undefined) {
        const length = Math.min(minItems, first.length);
        sums = new Float64Array(length + 1);
        budget.spend(length);
        for (let i = length - 1; i >= 0; i--) sums[i] = sums[i + 1]! + itemAt(i).cost;
      }
      return sums[Math.min(count, sums.length - 1)]!;
    };
    const costFrom = (count: number): number => {
      const more = Math.max(0, minItems - Math.max(count, first.length));
      const cost = sumFrom(count) + (others === undefined || more === 0 ? 0 : more * others.cost);
      return cost + Math.max(0, minItems - count) * separator + close;
    };
    const opening: Node[] = [];
    /** The node after the item with this number. */
    const tail = made((count) => {
      const literals: Literal[] = count >= minItems ? [{ text: "]" }] : [];
      if (count < most) {
        const next = lazy(
          () => itemAt(count).cost + costFrom(Math.min(count + 1, counted)),
          () => [itemAt(count), tail(Math.min(count + 1, counted))],
        );
        for (const text of comma) literals.push({ text, next });
      }
      return oneOf(literals);
    });
    const node: ValueNode = {
      id: nextId(),
      cost: Number.POSITIVE_INFINITY,
      parts: () => [...first.slice(0, minItems), ...(others === undefined ? [] : [others])],
      measure: () => {
        sums = undefined;
        if (minItems > most) return Number.POSITIVE_INFINITY;
        return tokensOpen + (minItems === 0 ? close : costFrom(0) - separator);
      },
      open: () => {
        if (opening.length === 0) {
          const literals: Literal[] = minItems === 0 ? [{ text: "[]" }] : [];
          if (most > 0) {
            const next = lazy(
              () => itemAt(0).cost + costFrom(Math.min(1, counted)),
              () => [itemAt(0), tail(Math.min(1, counted))],
            );
            literals.push({ text: "[", next });
          }
          opening.push(oneOf(literals));
        }
        return { kind: "sequence", nodes: opening };
      },
    };
    return remember(node);
  };

  /** A node whose contents are created when it is opened. */
  const lazy = (cost: () => number, nodes: () => readonly Node[]): Node => ({
    id: nextId(),
    cost: cost(),
    open: () => ({ kind: "sequence", nodes: nodes() }),
  });

  const object = (properties: readonly Property[]): ValueNode => {
    const required = properties.filter(({ isRequired }) => isRequired);
    const names = required.reduce(
      (sum, { name }, i) => sum + tokensOf(`${i === 0 ? "{" : ","}${JSON.stringify(name)}:`),
      tokensOf(required.length === 0 ? "{}" : "}"),
    );
    budget.hold(properties.length * 100);
    const opening: Node[] = [];
    return remember({
      id: nextId(),
      cost: Number.POSITIVE_INFINITY,
      parts: () => required.map(({ value }) => value),
      measure: () => required.reduce((sum, { value }) => sum + value.cost, names),
      open: () => {
        if (opening.length === 0) opening.push(objectNode(properties, { vocabulary, budget, nextId }));
        return { kind: "sequence", nodes: opening };
      },
    });
  };

  const map = (value: Node, maxProperties: number): ValueNode => {
    const counted = maxProperties === Number.POSITIVE_INFINITY ? 1 : maxProperties;
    const close = tokensOf("}");
    const name = string({ minLength: 0, maxLength: Number.POSITIVE_INFINITY });
    const colon = oneOf(spaces([":"]).map((text) => ({ text })));
    const entry = (count: number): Node =>
      lazy(
        () => name.cost + colon.cost + value.cost + close,
        () => [name, colon, value, tail(Math.min(count + 1, counted))],
      );
    const isOpen = (count: number): boolean =>
      maxProperties === Number.POSITIVE_INFINITY ? true : count < maxProperties;
    const tail = made((count) =>
      oneOf([{ text: "}" }, ...(isOpen(count) ? comma.map((text) => ({ text, next: entry(count) })) : [])]),
    );
    const head = made(() => oneOf([{ text: "{}" }, ...(isOpen(0) ? [{ text: "{", next: entry(0) }] : [])]));
    const cost = tokensOf("{}");
    return remember({
      id: nextId(),
      cost,
      parts: () => [],
      measure: () => cost,
      open: () => ({ kind: "sequence", nodes: [head(0)] }),
    });
  };

  /** Numbers with equal bounds share one machine. */
  const numbers = new Map<string, Node>();
  const number = (bounds: NumberBounds): Node => {
    const { isInteger, least, most, above, below } = bounds;
    const key = [isInteger, least, most, above, below].join();
    let node = numbers.get(key);
    if (node === undefined) {
      budget.hold(nodeBytes);
      const isFree = least === Number.NEGATIVE_INFINITY && most === Number.POSITIVE_INFINITY;
      node = isFree
        ? machineNode(nextId(), freeNumberMachine(nextId(), isInteger), freeNumberStart)
        : machineNode(nextId(), boundedNumberMachine(nextId(), bounds, budget), boundedNumberStart);
      numbers.set(key, node);
    }
    return node;
  };

  /** Strings with equal patterns and lengths share one machine. */
  const patterns = new Map<string, Node>();

  return {
    texts: (texts) => oneOf(texts.map((text) => ({ text }))),
    string,
    pattern(pattern, bounds) {
      const key = [bounds.minLength, bounds.maxLength, pattern].join();
      let node = patterns.get(key);
      if (node === undefined) {
        budget.hold(nodeBytes + 2 * key.length);
        node = patternNode(pattern, { ...bounds, nextId, vocabulary, budget });
        patterns.set(key, node);
      }
      return node;
    },
    number,
    choice: (nodes) =>
      remember({
        id: nextId(),
        cost: Number.POSITIVE_INFINITY,
        parts: () => nodes,
        measure: () => nodes.reduce((least, { cost }) => Math.min(least, cost), Number.POSITIVE_INFINITY),
        open: () => ({ kind: "choice", nodes: nodes.filter(({ cost }) => cost < Number.POSITIVE_INFINITY) }),
      }),
    array,
    object,
    map,
    later(find) {
      let found: Node | undefined;
      const node = (): Node => (found ??= find());
      return remember({
        id: nextId(),
        cost: Number.POSITIVE_INFINITY,
        parts: () => [node()],
        measure: () => node().cost,
        open: () => ({ kind: "sequence", nodes: [node()] }),
      });
    },
    /** Computes the cost of each node once, and again when the cost of a part decreases. */
    settle() {
      const users = new Map<Node, ValueNode[]>();
      const steps = new Map<ValueNode, number>();
      for (const node of values) {
        const parts = node.parts();
        steps.set(node, 1 + parts.length / 8);
        budget.spend(1 + parts.length / 8);
        for (const part of parts) {
          const list = users.get(part);
          if (list === undefined) users.set(part, [node]);
          else list.push(node);
        }
      }
      const line = new Set(values);
      for (const node of line) {
        line.delete(node);
        budget.spend(steps.get(node)!);
        const cost = node.measure();
        if (cost >= node.cost) continue;
        node.cost = cost;
        for (const user of users.get(node) ?? []) line.add(user);
      }
      values.length = 0;
    },
  };
}
