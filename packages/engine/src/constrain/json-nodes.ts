/**
 * JSON values as nodes. Objects write their properties in the order of the schema, arrays count their items, and both open one step at a time.
 * Between the parts there may be a space behind each comma and colon, and nothing else: white space without end is no answer.
 */
import { tokensOf as countTokens, type Literal, literalMachine } from "./literal-machine.ts";
import { machineNode, type Node } from "./machine.ts";
import {
  boundedNumberMachine,
  boundedNumberStart,
  freeNumberMachine,
  freeNumberStart,
  type NumberBounds,
} from "./number-machine.ts";
import { type StringBounds, type StringTables, stringMachine, stringStart, stringTables } from "./string-machine.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** A node whose cost is found in rounds, because values may contain values of their own kind. */
export interface ValueNode extends Node {
  cost: number;
  /** Finds the cost anew from those of its parts. */
  measure(): number;
}

export interface PropertyNode {
  readonly name: string;
  readonly value: Node;
  readonly isRequired: boolean;
}

export interface ArrayShape {
  /** Items with a place of their own. */
  readonly first: readonly Node[];
  /** The items behind them; undefined where there may be none. */
  readonly rest: Node | undefined;
  readonly minItems: number;
  /** Infinity: any. */
  readonly maxItems: number;
}

export interface JsonNodes {
  /** One of these texts. */
  texts(texts: readonly string[]): Node;
  string(bounds: StringBounds): Node;
  number(bounds: NumberBounds): Node;
  choice(nodes: readonly Node[]): ValueNode;
  array(shape: ArrayShape): ValueNode;
  /** Declared properties, in this order. */
  object(properties: readonly PropertyNode[]): ValueNode;
  /** Any names, all with values of one kind. */
  map(value: Node, maxProperties: number): ValueNode;
  /** Another node, which is known later. */
  later(find: () => Node): ValueNode;
  /** Settles the costs of all nodes. */
  settle(): void;
}

const spaces = (texts: readonly string[]): string[] => texts.flatMap((text) => [text, `${text} `]);
const comma = spaces([","]);

/** Tables of a vocabulary are made once. */
const tablesOf = new WeakMap<Vocabulary, StringTables>();

export function createJsonNodes(vocabulary: Vocabulary): JsonNodes {
  const tables = tablesOf.get(vocabulary) ?? stringTables(vocabulary);
  tablesOf.set(vocabulary, tables);
  let ids = 0;
  const nextId = (): number => ++ids;
  const values: ValueNode[] = [];
  const remember = <N extends ValueNode>(node: N): N => {
    values.push(node);
    return node;
  };
  const oneOf = (literals: readonly Literal[]): Node => {
    const { machine, start } = literalMachine(nextId(), vocabulary, literals);
    return machineNode(nextId(), machine, start);
  };
  const string = (bounds: StringBounds): Node =>
    machineNode(nextId(), stringMachine(nextId(), tables, bounds), stringStart);
  const tokensOf = (text: string): number => countTokens(text, vocabulary);

  /** Nodes by number, made when they are needed. */
  const made = (make: (index: number) => Node): ((index: number) => Node) => {
    const known = new Map<number, Node>();
    return (index) => {
      let node = known.get(index);
      if (node === undefined) {
        node = make(index);
        known.set(index, node);
      }
      return node;
    };
  };

  const array = ({ first, rest, minItems, maxItems }: ArrayShape): ValueNode => {
    const most = rest === undefined ? Math.min(maxItems, first.length) : maxItems;
    // Behind the last place of its own and the least number, only a bound from above needs counting.
    const counted = most === Number.POSITIVE_INFINITY ? Math.max(first.length, minItems) : most;
    const itemAt = (index: number): Node => first[index] ?? rest!;
    const tokensOpen = tokensOf("[");
    const close = tokensOf("]");
    const separator = tokensOf(",");
    const costFrom = (count: number): number => {
      let cost = 0;
      for (let i = count; i < Math.min(minItems, first.length); i++) cost += itemAt(i).cost;
      const others = Math.max(0, minItems - Math.max(count, first.length));
      if (others > 0) cost += others * itemAt(first.length).cost;
      return cost + Math.max(0, minItems - count) * separator + close;
    };
    const opening: Node[] = [];
    /** What follows the item with this number. */
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
      measure: () =>
        minItems > most ? Number.POSITIVE_INFINITY : tokensOpen + (minItems === 0 ? close : costFrom(0) - separator),
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

  /** A node that is opened later than it is counted. */
  const lazy = (cost: () => number, nodes: () => readonly Node[]): Node => ({
    id: nextId(),
    cost: cost(),
    open: () => ({ kind: "sequence", nodes: nodes() }),
  });

  const object = (properties: readonly PropertyNode[]): ValueNode => {
    const close = tokensOf("}");
    const empty = tokensOf("{}");
    const names = properties.map(({ name }) => JSON.stringify(name));
    const nameCosts = names.map((name, i) => (properties[i]!.isRequired ? tokensOf(`,${name}:`) : 0));
    const firstCosts = names.map((name, i) => (properties[i]!.isRequired ? tokensOf(`{${name}:`) : 0));
    /** Costs from each property on, behind another one; made when all others are known. */
    let sums: number[] | undefined;
    const costFrom = (index: number): number => {
      if (sums === undefined) {
        sums = new Array<number>(properties.length + 1).fill(close);
        for (let i = properties.length - 1; i >= 0; i--) {
          const own = properties[i]!.isRequired ? nameCosts[i]! + properties[i]!.value.cost : 0;
          sums[i] = sums[i + 1]! + own;
        }
      }
      return sums[index]!;
    };
    /** What may stand from this property on: it and those behind it, up to the next that is required; or the end. */
    const options = (from: number, before: readonly string[], end: string): Node => {
      const literals: Literal[] = [];
      let i = from;
      for (; i < properties.length; i++) {
        const { value, isRequired } = properties[i]!;
        const behind = i + 1;
        if (value.cost < Number.POSITIVE_INFINITY) {
          const next = lazy(
            () => value.cost + costFrom(behind),
            () => [value, tail(behind)],
          );
          for (const text of spaces(before.map((each) => `${each}${names[i]}:`))) literals.push({ text, next });
        }
        if (isRequired) break;
      }
      if (i === properties.length) literals.push({ text: end });
      return oneOf(literals);
    };
    const tail = made((from) => options(from, comma, "}"));
    const head = made(() => options(0, ["{"], "{}"));
    return remember({
      id: nextId(),
      cost: Number.POSITIVE_INFINITY,
      measure: () => {
        sums = undefined;
        const first = properties.findIndex(({ isRequired }) => isRequired);
        if (first < 0) return empty;
        return firstCosts[first]! + properties[first]!.value.cost + costFrom(first + 1);
      },
      open: () => ({ kind: "sequence", nodes: [head(0)] }),
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
    return remember({ id: nextId(), cost, measure: () => cost, open: () => ({ kind: "sequence", nodes: [head(0)] }) });
  };

  return {
    texts: (texts) => oneOf(texts.map((text) => ({ text }))),
    string,
    number(bounds) {
      const isFree = bounds.least === Number.NEGATIVE_INFINITY && bounds.most === Number.POSITIVE_INFINITY;
      if (isFree) return machineNode(nextId(), freeNumberMachine(nextId(), bounds.isInteger), freeNumberStart);
      return machineNode(nextId(), boundedNumberMachine(nextId(), bounds), boundedNumberStart);
    },
    choice: (nodes) =>
      remember({
        id: nextId(),
        cost: Number.POSITIVE_INFINITY,
        measure: () => Math.min(Number.POSITIVE_INFINITY, ...nodes.map(({ cost }) => cost)),
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
        measure: () => node().cost,
        open: () => ({ kind: "sequence", nodes: [node()] }),
      });
    },
    settle() {
      for (let changed = true; changed; ) {
        changed = false;
        for (const node of values) {
          const cost = node.measure();
          changed ||= cost !== node.cost;
          node.cost = cost;
        }
      }
    },
  };
}
