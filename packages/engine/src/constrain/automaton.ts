/**
 * All the ways in which a text may stand at some point, and where a byte leads from there. What is still to come is a stack of nodes; equal
 * stacks are one object, so that places that were met before are known again.
 */
import { GrammarTooLargeError } from "../errors.ts";
import { type GrammarBudget, grammarField, stepsPerByte } from "./budget.ts";
import type { AnyMachine, Machine, Node } from "./machine.ts";

/** Nodes that are to come, the next one first. */
export interface Stack {
  readonly id: number;
  readonly node: Node;
  readonly below: Stack | undefined;
  readonly cost: number;
}

/** A machine within its text, and what comes behind it. */
export interface Way {
  readonly machine: AnyMachine;
  readonly state: unknown;
  readonly rest: Stack | undefined;
  readonly cost: number;
  readonly key: string;
  /** Equal where the same tokens may stand. */
  readonly maskKey: string;
}

/** Where a text stands. */
export interface Point {
  readonly ways: readonly Way[];
  /** Whether the text may end here. */
  readonly isWhole: boolean;
  /** Tokens that are sure to be enough to end it. */
  readonly cost: number;
}

export interface Automaton {
  readonly start: Point;
  /** Undefined where the byte may not stand. */
  step(ways: readonly Way[], byte: number): Point | undefined;
}

/** Ways that are followed at once. With more, those that end soonest are: fewer texts can then be written, and all of them are still right. */
const mostWays = 64;

const asMachine = (machine: AnyMachine): Machine<unknown> => machine as unknown as Machine<unknown>;

export function createAutomaton(root: Node, budget: GrammarBudget): Automaton {
  const stacks = new Map<string, Stack>();
  const push = (node: Node, below: Stack | undefined): Stack => {
    const key = `${node.id}.${below?.id ?? ""}`;
    let stack = stacks.get(key);
    if (stack === undefined) {
      // Those that are forgotten are made again under other ids: nothing is confused, some masks are found anew.
      if (stacks.size >= mostStacks) {
        budget.release(stackBytes * stacks.size);
        stacks.clear();
      }
      budget.hold(stackBytes);
      stack = { id: nextStack++, node, below, cost: node.cost + (below?.cost ?? 0) };
      stacks.set(key, stack);
    }
    return stack;
  };
  let nextStack = 0;

  /** Gathers the ways of a point. */
  class Gathering {
    readonly #ways = new Map<string, Way>();
    readonly #opened = new Set<string>();
    #steps = 0;
    isWhole = false;

    #spend(steps: number): void {
      budget.spend(steps);
      this.#steps += steps;
      if (this.#steps <= stepsPerByte) return;
      throw new GrammarTooLargeError(
        grammarField,
        `finding what may follow one byte takes more than ${stepsPerByte} steps; use fewer options that begin alike`,
        { used: this.#steps, limit: stepsPerByte },
      );
    }

    add(machine: AnyMachine, state: unknown, rest: Stack | undefined): void {
      this.#spend(1);
      const key = `${machine.id}:${asMachine(machine).keyOf(state)}:${rest?.id ?? ""}`;
      if (this.#ways.has(key)) return;
      const cost = asMachine(machine).cost(state) + (rest?.cost ?? 0);
      if (cost === Number.POSITIVE_INFINITY) return;
      const shared = asMachine(machine).maskKeyOf?.(state);
      const maskKey = shared === undefined ? key : `${machine.id}:${shared}:${rest?.id ?? ""}`;
      this.#ways.set(key, { machine, state, rest, cost, key, maskKey });
    }

    go(rest: Stack | undefined): void {
      if (rest === undefined) this.isWhole = true;
      else this.open(rest.node, rest.below);
    }

    open(node: Node, rest: Stack | undefined): void {
      // A schema that begins with itself adds nothing.
      const key = `${node.id}.${rest?.id ?? ""}`;
      if (this.#opened.has(key)) return;
      this.#opened.add(key);
      this.#spend(1);
      const opening = node.open();
      if (opening.kind === "machine") this.add(opening.machine, opening.state, rest);
      else if (opening.kind === "choice") for (const each of opening.nodes) this.open(each, rest);
      else {
        let below = rest;
        for (let i = opening.nodes.length - 1; i > 0; i--) below = push(opening.nodes[i]!, below);
        const first = opening.nodes[0];
        if (first === undefined) this.go(rest);
        else this.open(first, below);
      }
    }

    point(): Point | undefined {
      let ways = [...this.#ways.values()];
      if (ways.length === 0 && !this.isWhole) return undefined;
      if (ways.length > mostWays) ways = ways.sort((a, b) => a.cost - b.cost).slice(0, mostWays);
      const cost = this.isWhole ? 0 : Math.min(...ways.map((way) => way.cost));
      return { ways, isWhole: this.isWhole, cost };
    }
  }

  const first = new Gathering();
  first.open(root, undefined);
  return {
    start: first.point() ?? { ways: [], isWhole: false, cost: Number.POSITIVE_INFINITY },
    step(ways, byte) {
      budget.spend(ways.length / 4);
      let next: Gathering | undefined;
      for (const { machine, state, rest } of ways) {
        const after = asMachine(machine).step(state, byte);
        if (after === undefined) continue;
        next ??= new Gathering();
        const ending = asMachine(machine).ending(after);
        if (ending !== undefined) {
          if (ending[0] === undefined) next.go(rest);
          else next.open(ending[0], rest);
        }
        if (!asMachine(machine).isOver(after)) next.add(machine, after, rest);
      }
      return next?.point();
    },
  };
}

/** Stacks that are kept. */
const mostStacks = 8192;
const stackBytes = 200;
