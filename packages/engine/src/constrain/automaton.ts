/**
 * The possible parse states of a text, and their transitions by byte. The remaining part of the text is a stack of nodes. Equal stacks are
 * one object, so that equal states are recognised.
 */
import { GrammarTooLargeError } from "../errors.ts";
import { type GrammarBudget, grammarField, stepsPerByte } from "./budget.ts";
import type { AnyMachine, Machine, Node } from "./machine.ts";

/** The nodes still to parse, the next one first. */
export interface Stack {
  readonly id: number;
  readonly node: Node;
  readonly below: Stack | undefined;
  readonly cost: number;
}

/** The state of a machine, and the stack after it. */
export interface Way {
  readonly machine: AnyMachine;
  readonly state: unknown;
  readonly rest: Stack | undefined;
  readonly cost: number;
  readonly key: string;
  /** Equal for states that allow the same tokens. */
  readonly maskKey: string;
}

/** The state of a text: all its possible parses. */
export interface Point {
  readonly ways: readonly Way[];
  /** Whether the text may end here. */
  readonly isWhole: boolean;
  /** Number of tokens that is sufficient to end it. */
  readonly cost: number;
}

export interface Automaton {
  readonly start: Point;
  /** Undefined if the byte is not allowed. */
  step(ways: readonly Way[], byte: number): Point | undefined;
}

/**
 * Maximum number of parses that are followed at once. If there are more, those that end soonest are kept: fewer texts can be written, and
 * all of them conform.
 */
const mostWays = 64;

const asMachine = (machine: AnyMachine): Machine<unknown> => machine as unknown as Machine<unknown>;

export function createAutomaton(root: Node, budget: GrammarBudget): Automaton {
  const stacks = new Map<string, Stack>();
  const push = (node: Node, below: Stack | undefined): Stack => {
    const key = `${node.id}.${below?.id ?? ""}`;
    let stack = stacks.get(key);
    if (stack === undefined) {
      // Evicted stacks get other ids when they are created again: this causes no confusion, but some masks are computed again.
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

  /** Collects the parses of a state. */
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
      // A left-recursive schema adds no parse.
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

/** Number of stacks that are kept. */
const mostStacks = 8192;
const stackBytes = 200;
