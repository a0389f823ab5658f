/**
 * Computes which tokens are allowed next. A mask is computed by walking the vocabulary's trie together with the automaton, in slices, and
 * is cached by state. Within strings, where almost every token is allowed, only tokens with a quotation mark are walked.
 */
import { EngineError } from "../errors.ts";
import { type Automaton, createAutomaton, type Point, type Way } from "./automaton.ts";
import { type Account, decodeSteps, type GrammarBudget, type Slice } from "./budget.ts";
import type { AnyMachine, Node } from "./machine.ts";
import type { Mask, MaskCache } from "./masks.ts";
import type { StringMachine } from "./string-machine.ts";
import type { Trie } from "./trie.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** A compiled format. */
export interface Grammar {
  /** Number of tokens that is sufficient for a whole text; Infinity if no text conforms. */
  readonly cost: number;
  /** Bytes that it keeps, without masks. */
  readonly bytes: number;
  /** The account for the texts of one request. */
  account(): Account;
  /** Follows one text. @param endIds - tokens that end a complete text */
  follow(endIds: Iterable<number>, account: Account): Follower;
}

/** The state of one text. */
export interface Follower {
  /**
   * Computes the mask, as far as the slice allows. Returns whether it is complete.
   *
   * @throws GrammarTooLargeError if the request has no steps left
   */
  prepare(slice: Slice): boolean;
  /** The allowed tokens from which the text can end within `room` tokens, this one included. Call {@link prepare} first. */
  allowed(room: number): Int32Array;
  /** Advances by an allowed token. @throws GrammarTooLargeError */
  push(token: number): void;
  /** Whether the text is complete. */
  readonly isWhole: boolean;
  /** Whether it is complete and no token can follow. */
  readonly isOver: boolean;
  /** Steps used by the request. */
  readonly steps: number;
}

/** Shared by all grammars of an engine. */
export interface GrammarTools {
  readonly vocabulary: Vocabulary;
  readonly masks: MaskCache;
}

/** Tokens within a string that are examined in the time of one step. */
const innerPerStep = 32;

const isString = (machine: AnyMachine): machine is AnyMachine & StringMachine => "eachInner" in machine;

export function createGrammar({ vocabulary, masks }: GrammarTools, root: Node, budget: GrammarBudget): Grammar {
  const automaton = createAutomaton(root, budget);
  const scope = masks.scope();
  const { once, perToken } = decodeSteps(vocabulary.size);

  const follow = (endIds: Iterable<number>, account: Account): Follower => {
    const ends = [...new Set(endIds)];
    const textual = new Set(ends.filter((id) => vocabulary.bytesOf.has(id)));
    let point = automaton.start;
    let mask: Mask | undefined;
    let search: MaskSearch | undefined;
    let slice: Slice = { left: 0 };
    return {
      prepare(given) {
        if (mask !== undefined) return true;
        slice = given;
        if (slice.left <= 0) return false;
        const key = scope + point.ways.map((way) => way.maskKey).join(" ");
        mask = masks.get(key);
        if (mask === undefined) {
          budget.charge(account, slice);
          search ??= new MaskSearch(vocabulary, { automaton, budget }, point);
          mask = search.advance();
          if (mask === undefined) return false;
          masks.set(key, mask);
        }
        search = undefined;
        return true;
      },
      allowed(room) {
        if (mask === undefined) throw new EngineError("internal", "the mask was not prepared");
        const { ids, costs, mostCost } = mask;
        const isRoomy = mostCost < room && textual.size === 0;
        const fitting = isRoomy ? ids : ids.filter((id, i) => costs[i]! < room && !textual.has(id));
        const all = point.isWhole ? Int32Array.from([...fitting, ...ends]) : fitting;
        if (all.length === 0) throw new EngineError("internal", "no token fits the format that was asked for");
        return all;
      },
      push(token) {
        budget.charge(account, slice);
        let next: Point | undefined = point;
        for (const byte of vocabulary.bytesOf.get(token) ?? []) next = next && automaton.step(next.ways, byte);
        if (next === undefined) throw new EngineError("internal", `token ${token} does not fit the format`);
        point = next;
        mask = undefined;
        account.limit += perToken;
      },
      get isWhole() {
        return point.isWhole;
      },
      get isOver() {
        return point.isWhole && point.ways.length === 0;
      },
      get steps() {
        return account.steps;
      },
    };
  };
  return {
    cost: automaton.start.cost,
    get bytes() {
      return budget.bytes;
    },
    account: () => ({ steps: 0, limit: once, purpose: "finding the tokens that may come next" }),
    follow,
  };
}

/** The next node of the vocabulary's trie to examine among its siblings, and the automaton state before it. */
interface Branch {
  next: number;
  readonly from: readonly Way[];
}

/** Computation of a mask: a depth-first walk that can be interrupted at each node. */
class MaskSearch {
  readonly #automaton: Automaton;
  readonly #budget: GrammarBudget;
  /** Costs by token; −1 if the token is not allowed. */
  readonly #costs: Int32Array;
  #count = 0;
  /** Strings whose inner tokens are not added yet. */
  readonly #strings: Way[] = [];
  /** Tries that are not walked yet, each with its start state. */
  readonly #walks: { readonly tree: Trie; readonly branches: Branch[] }[] = [];

  constructor(
    vocabulary: Vocabulary,
    { automaton, budget }: { readonly automaton: Automaton; readonly budget: GrammarBudget },
    { ways }: Point,
  ) {
    this.#automaton = automaton;
    this.#budget = budget;
    budget.spend(vocabulary.size / innerPerStep);
    this.#costs = new Int32Array(vocabulary.size).fill(-1);
    const others: Way[] = [];
    for (const way of ways) {
      const { machine } = way;
      (isString(machine) && machine.isInBody(way.state as number) ? this.#strings : others).push(way);
    }
    for (const [tree, from] of [
      [vocabulary.quoted, [...this.#strings]],
      [vocabulary.tree, others],
    ] as const) {
      if (from.length > 0) this.#walks.push({ tree, branches: [{ next: tree.firstChild(0), from }] });
    }
  }

  /** Continues until the slice is used up. Returns the mask when it is complete. */
  advance(): Mask | undefined {
    while (!this.#budget.isSliceOver) {
      const way = this.#strings.pop();
      if (way === undefined) break;
      this.#takeInner(way);
    }
    for (let walk = this.#walks.at(-1); walk !== undefined; walk = this.#walks.at(-1)) {
      const { tree, branches } = walk;
      while (branches.length > 0) {
        if (this.#budget.isSliceOver) return undefined;
        this.#walk(tree, branches);
      }
      this.#walks.pop();
    }
    return this.#strings.length > 0 ? undefined : this.#finish();
  }

  #takeInner({ machine, state, rest }: Way): void {
    if (!isString(machine)) return;
    this.#budget.spend(machine.innerTokens / innerPerStep);
    const below = rest?.cost ?? 0;
    machine.eachInner(state as number, (id, cost) => this.#take(id, cost + below));
  }

  #take(id: number, cost: number): void {
    if (cost === Number.POSITIVE_INFINITY) return;
    const known = this.#costs[id]!;
    if (known < 0) this.#count++;
    if (known < 0 || cost < known) this.#costs[id] = cost;
  }

  /** Examines one node: its children are next, then its sibling. */
  #walk(tree: Trie, branches: Branch[]): void {
    const branch = branches.at(-1)!;
    const node = branch.next;
    if (node === 0) {
      branches.pop();
      return;
    }
    branch.next = tree.nextSibling(node);
    const point = this.#automaton.step(branch.from, tree.byteOf(node));
    if (point === undefined) return;
    tree.eachToken(node, (id) => this.#take(id, point.cost));
    branches.push({ next: tree.firstChild(node), from: point.ways });
  }

  #finish(): Mask {
    const mask = { ids: new Int32Array(this.#count), costs: new Int32Array(this.#count), mostCost: 0 };
    for (let id = 0, i = 0; i < this.#count; id++) {
      const cost = this.#costs[id]!;
      if (cost < 0) continue;
      mask.ids[i] = id;
      mask.costs[i++] = cost;
      mask.mostCost = Math.max(mask.mostCost, cost);
    }
    return mask;
  }
}
