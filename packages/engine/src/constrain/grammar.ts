/**
 * Which tokens may come next. Masks are found by walking the tree of the vocabulary beside the automaton and are kept for places that are met
 * again; within strings, where nearly every token may stand, only those with a quotation mark are walked.
 */
import { EngineError, InputError } from "../errors.ts";
import { type Automaton, createAutomaton, type Point, type Way } from "./automaton.ts";
import type { AnyMachine, Node } from "./machine.ts";
import type { StringMachine } from "./string-machine.ts";
import type { Trie } from "./trie.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Tokens that may stand at a point. */
interface Mask {
  readonly ids: Int32Array;
  /** What ending costs behind each of them, in tokens. */
  readonly costs: Int32Array;
  readonly mostCost: number;
}

/** What texts of one format are. */
export interface Grammar {
  /** Tokens that are sure to be enough for a whole text; Infinity: there is none. */
  readonly cost: number;
  /** Follows one text. @param endIds - tokens that end it, where it is whole */
  follow(endIds: Iterable<number>): Follower;
}

/** One text while it is written. */
export interface Follower {
  /** The tokens that may come next so that `room` tokens, this one among them, are enough to end. */
  allowed(room: number): Int32Array;
  /** Takes a token that was allowed. */
  push(token: number): void;
  /** Whether the text is whole. */
  readonly isWhole: boolean;
  /** Whether it is whole and nothing can follow. */
  readonly isOver: boolean;
}

/** Entries of all masks that are kept. */
const mostKept = 2_000_000;

/**
 * What a grammar may cost, in steps for each token of the vocabulary: once, and for each token that is written. Schemas that are meant to be
 * answered take a hundredth of it; one with ever new ways at every token would hold up everybody's steps.
 */
const freeSteps = 100;
const stepsPerToken = 2;
/** Small vocabularies have as many bytes to try as large ones. */
const fewTokens = 4096;

const tooManyWays = (): InputError =>
  new InputError("params.constraint.schema", "has too many ways to go on at once; use fewer options that begin alike", {
    code: "unsupported_schema",
  });

const isString = (machine: AnyMachine): machine is AnyMachine & StringMachine => "eachInner" in machine;

export function createGrammar(vocabulary: Vocabulary, root: Node): Grammar {
  const automaton = createAutomaton(root);
  const masks = new Map<string, Mask>();
  let kept = 0;
  /** Steps of ways that finding masks took, and tokens that were written, of all texts together. */
  const work = { steps: 0, tokens: 0 };
  const maskOf = (point: Point): Mask => {
    const key = point.ways.map((way) => way.maskKey).join(" ");
    let mask = masks.get(key);
    if (mask === undefined) {
      mask = findMask(vocabulary, automaton, { point, work });
      if (work.steps > (vocabulary.size + fewTokens) * (freeSteps + stepsPerToken * work.tokens)) throw tooManyWays();
      if (kept + mask.ids.length > mostKept) {
        masks.clear();
        kept = 0;
      }
      kept += mask.ids.length;
      masks.set(key, mask);
    }
    return mask;
  };

  const follow = (endIds: Iterable<number>): Follower => {
    const ends = [...new Set(endIds)];
    const textual = new Set(ends.filter((id) => vocabulary.bytesOf.has(id)));
    let point = automaton.start;
    return {
      allowed(room) {
        const { ids, costs, mostCost } = maskOf(point);
        const isRoomy = mostCost < room && textual.size === 0;
        const fitting = isRoomy ? ids : ids.filter((id, i) => costs[i]! < room && !textual.has(id));
        const all = point.isWhole ? Int32Array.from([...fitting, ...ends]) : fitting;
        if (all.length === 0) throw new EngineError("internal", "no token fits the format that was asked for");
        return all;
      },
      push(token) {
        let next: Point | undefined = point;
        for (const byte of vocabulary.bytesOf.get(token) ?? []) next = next && automaton.step(next.ways, byte);
        if (next === undefined) throw new EngineError("internal", `token ${token} does not fit the format`);
        point = next;
        work.tokens++;
      },
      get isWhole() {
        return point.isWhole;
      },
      get isOver() {
        return point.isWhole && point.ways.length === 0;
      },
    };
  };
  return { cost: automaton.start.cost, follow };
}

function findMask(
  vocabulary: Vocabulary,
  automaton: Automaton,
  { point: { ways }, work }: { readonly point: Point; readonly work: { steps: number } },
): Mask {
  // Costs by token, −1 where it may not stand.
  const costs = new Int32Array(vocabulary.size).fill(-1);
  let count = 0;
  const take = (id: number, cost: number): void => {
    const known = costs[id]!;
    if (known < 0) count++;
    if (known < 0 || cost < known) costs[id] = cost;
  };
  const walk = (tree: Trie, node: number, from: readonly Way[]): void => {
    for (let child = tree.firstChild(node); child !== 0; child = tree.nextSibling(child)) {
      work.steps += from.length;
      const next = automaton.step(from, tree.byteOf(child));
      if (next === undefined) continue;
      const { cost } = next;
      if (cost < Number.POSITIVE_INFINITY) tree.eachToken(child, (id) => take(id, cost));
      walk(tree, child, next.ways);
    }
  };
  const within: Way[] = [];
  const others: Way[] = [];
  for (const way of ways) {
    const { machine } = way;
    const isWithin = isString(machine) && machine.isInBody(way.state as number);
    (isWithin ? within : others).push(way);
    if (!isWithin) continue;
    const below = way.rest?.cost ?? 0;
    machine.eachInner(way.state as number, (id, state) => {
      const cost = machine.cost(state) + below;
      if (cost < Number.POSITIVE_INFINITY) take(id, cost);
    });
  }
  if (within.length > 0) walk(vocabulary.quoted, 0, within);
  if (others.length > 0) walk(vocabulary.tree, 0, others);
  const mask = { ids: new Int32Array(count), costs: new Int32Array(count), mostCost: 0 };
  for (let id = 0, i = 0; i < count; id++) {
    const cost = costs[id]!;
    if (cost < 0) continue;
    mask.ids[i] = id;
    mask.costs[i++] = cost;
    mask.mostCost = Math.max(mask.mostCost, cost);
  }
  return mask;
}
