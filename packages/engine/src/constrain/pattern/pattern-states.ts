/**
 * The states of a parsed pattern, as a graph without back-tracking (Thompson's construction), the groups of characters that it tells apart,
 * and the fewest bytes to its end. Memory and time are linear in the pattern with its repetitions written out, and counted by the budget.
 */
import type { GrammarBudget } from "../budget.ts";
import { type CodePoints, rangesOf } from "./code-points.ts";
import { type Expression, PatternProblem } from "./parse-pattern.ts";

/** Limits on one pattern with its repetitions written out. */
export const mostStates = 4096;
const mostClasses = 512;

/** No end can be reached. */
export const never = 0xffffffff;

/** A state: reads a character of a set, or passes to others without reading. */
type State =
  | { readonly kind: "read"; readonly set: number; readonly next: number }
  | { readonly kind: "pass"; readonly nexts: number[] }
  /** `^` and `$`: pass at the start and at the end of the text only. */
  | { readonly kind: "start" | "end"; readonly next: number }
  | { readonly kind: "final" };

/** Characters that no set tells apart. */
export interface CharacterClasses {
  readonly count: number;
  classOf(point: number): number;
  /** The classes of a range of code points. */
  within(from: number, to: number): Int32Array;
  /** Whether a set contains a class. */
  holds(set: number, characterClass: number): boolean;
}

export interface PatternStates {
  readonly first: number;
  readonly states: readonly State[];
  readonly classes: CharacterClasses;
  /** Number of layers: texts are counted up to `layers - 1` characters. */
  readonly layers: number;
  /** The fewest bytes from a state to an end, after this number of characters; {@link never} if no end can be reached. */
  bytesToEnd(layer: number, state: number): number;
  /** A number that is equal for layers in which all states have the same distances, here and for the next `span` characters; or −1. */
  sharedLayer(layer: number, span: number): number;
}

/** Lengths in characters. */
export interface LengthBounds {
  readonly minLength: number;
  readonly maxLength: number;
}

/** Bytes of a state, and of an entry of a map. */
const stateBytes = 80;

/**
 * @param bytesOf - the fewest bytes that write a character of a range; {@link never} if it cannot be written
 * @throws PatternProblem, GrammarTooLargeError
 */
export function patternStates(
  expression: Expression,
  bounds: LengthBounds,
  { budget, bytesOf }: { readonly budget: GrammarBudget; readonly bytesOf: (from: number, to: number) => number },
): PatternStates {
  const states: State[] = [];
  const sets: CodePoints[] = [];
  const setIds = new Map<CodePoints, number>();
  const setKeys = new Map<string, number>();
  const add = (state: State): number => {
    if (states.length >= mostStates) {
      const problem = `has more than ${mostStates} states with its repetitions written out; use smaller counts, or "maxLength"`;
      throw new PatternProblem(problem, true);
    }
    budget.spend(2);
    budget.hold(stateBytes);
    return states.push(state) - 1;
  };
  const setOf = (set: CodePoints): number => {
    let id = setIds.get(set);
    if (id === undefined) {
      budget.spend(1 + set.length / 8);
      const key = set.join();
      id = setKeys.get(key) ?? sets.push(set) - 1;
      setKeys.set(key, id);
      setIds.set(set, id);
    }
    return id;
  };
  /** Adds the states of an expression before a state; returns its first one. */
  const before = (of: Expression, next: number): number => {
    budget.spend(1);
    switch (of.kind) {
      case "set":
        return add({ kind: "read", set: setOf(of.set), next });
      case "start":
      case "end":
        return add({ kind: of.kind, next });
      case "sequence":
        return of.parts.reduceRight((after, part) => before(part, after), next);
      case "choice":
        return add({ kind: "pass", nexts: of.parts.map((part) => before(part, next)) });
      default: {
        let first = next;
        if (of.max === Number.POSITIVE_INFINITY) {
          const nexts = [next];
          first = add({ kind: "pass", nexts });
          nexts.unshift(before(of.of, first));
        } else {
          for (let i = of.min; i < of.max; i++) first = add({ kind: "pass", nexts: [before(of.of, first), next] });
        }
        for (let i = 0; i < of.min; i++) first = before(of.of, first);
        return first;
      }
    }
  };
  const first = before(expression, add({ kind: "final" }));
  const classes = characterClasses(sets, budget);
  const distances = measure({ states, sets, bounds, budget, bytesOf });
  return { first, states, classes, ...distances };
}

/** Divides all characters into classes by refinement: each set splits the classes that it contains in part. */
function characterClasses(sets: readonly CodePoints[], budget: GrammarBudget): CharacterClasses {
  const cuts = new Set([0]);
  for (const set of sets) {
    budget.spend(set.length / 8);
    for (const [from, to] of rangesOf(set)) {
      cuts.add(from);
      cuts.add(to + 1);
    }
  }
  const starts = Int32Array.from(cuts).sort();
  budget.hold(starts.byteLength * 2);
  const indexOf = (point: number): number => {
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle]! <= point) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const classAt = new Int32Array(starts.length);
  let count = 1;
  for (const set of sets) {
    const split = new Map<number, number>();
    for (const [from, to] of rangesOf(set)) {
      for (let i = indexOf(from); i < starts.length && starts[i]! <= to; i++) {
        const old = classAt[i]!;
        if (!split.has(old)) split.set(old, count++);
        classAt[i] = split.get(old)!;
      }
      budget.spend(1);
    }
    budget.spend(starts.length / 16);
  }
  // Renumbers, since a class that a set contains completely got a new number.
  const numbers = new Map<number, number>();
  for (const [i, old] of classAt.entries()) {
    if (!numbers.has(old)) numbers.set(old, numbers.size);
    classAt[i] = numbers.get(old)!;
  }
  count = numbers.size;
  if (count > mostClasses) {
    throw new PatternProblem(`distinguishes more than ${mostClasses} groups of characters; use wider classes`, true);
  }
  budget.hold(sets.length * count);
  const members = sets.map((set) => {
    const bits = new Uint8Array(count);
    for (const [from, to] of rangesOf(set)) {
      for (let i = indexOf(from); i < starts.length && starts[i]! <= to; i++) bits[classAt[i]!] = 1;
    }
    budget.spend(starts.length / 16);
    return bits;
  });
  return {
    count,
    classOf: (point) => classAt[indexOf(point)]!,
    within(from, to) {
      const found = new Set<number>();
      for (let i = indexOf(from); i < starts.length && starts[i]! <= to; i++) found.add(classAt[i]!);
      return Int32Array.from(found);
    },
    holds: (set, characterClass) => members[set]![characterClass] === 1,
  };
}

interface Measured {
  readonly states: readonly State[];
  readonly sets: readonly CodePoints[];
  readonly bounds: LengthBounds;
  readonly budget: GrammarBudget;
  readonly bytesOf: (from: number, to: number) => number;
}

type Distances = Pick<PatternStates, "layers" | "bytesToEnd" | "sharedLayer">;

/**
 * The distances, from the last layer to the first. With a maximum length, no character follows in the last layer; without one, characters
 * beyond the minimum length stay in it.
 */
function measure({ states, sets, bounds, budget, bytesOf }: Measured): Distances {
  const { minLength, maxLength } = bounds;
  const isLimited = maxLength !== Number.POSITIVE_INFINITY;
  const layers = 1 + (isLimited ? maxLength : minLength);
  budget.hold(layers * (states.length * Uint32Array.BYTES_PER_ELEMENT + 16));
  const weights = sets.map((set) => {
    budget.spend(set.length / 8);
    return rangesOf(set).reduce((least, [from, to]) => Math.min(least, bytesOf(from, to)), never);
  });
  /** States that pass to a state without reading; `$` passes only to the end. */
  const passing: number[][] = states.map(() => []);
  states.forEach((state, id) => {
    if (state.kind === "pass") for (const next of state.nexts) passing[next]!.push(id);
  });
  const endsAt = endings(states);
  const reading: (readonly [id: number, weight: number, next: number])[] = [];
  states.forEach((state, id) => {
    if (state.kind === "read") reading.push([id, weights[state.set]!, state.next]);
  });
  const rows: Uint32Array[] = new Array<Uint32Array>(layers);
  const runs = new Int32Array(layers);
  const names = new Int32Array(layers);
  for (let layer = layers - 1; layer >= 0; layer--) {
    budget.spend(1 + states.length / 8);
    const row = new Uint32Array(states.length).fill(never);
    const isLast = layer === layers - 1;
    const line = new Levels(row, passing);
    if (layer >= minLength) for (const id of endsAt) line.reach(id, 0);
    if (isLast && !isLimited) line.settle(reading, budget);
    else if (!isLast) {
      const next = rows[layer + 1]!;
      for (const [id, weight, to] of reading)
        if (next[to]! !== never && weight !== never) line.reach(id, weight + next[to]!);
      line.settle([], budget);
    } else line.settle([], budget);
    rows[layer] = row;
    const isSame = !isLast && row.every((value, id) => value === rows[layer + 1]![id]);
    if (isSame) rows[layer] = rows[layer + 1]!;
    names[layer] = isSame ? names[layer + 1]! : layer;
    if (isLast) runs[layer] = isLimited ? 0 : 1 << 30;
    else runs[layer] = isSame ? Math.min(1 << 30, runs[layer + 1]! + 1) : 0;
  }
  return {
    layers,
    bytesToEnd: (layer, state) => rows[layer]![state]!,
    sharedLayer: (layer, span) => (runs[layer]! > span ? names[layer]! : -1),
  };
}

/** The states from which a text may end: the final one, and those before it that only pass `$`. */
function endings(states: readonly State[]): readonly number[] {
  const passing: number[][] = states.map(() => []);
  states.forEach((state, id) => {
    if (state.kind === "pass") for (const next of state.nexts) passing[next]!.push(id);
    if (state.kind === "end") passing[state.next]!.push(id);
  });
  const found = new Set(states.flatMap(({ kind }, id) => (kind === "final" ? [id] : [])));
  for (const id of found) for (const from of passing[id]!) found.add(from);
  return [...found];
}

/** Distances in ascending order (Dijkstra's algorithm with one list per distance). */
class Levels {
  readonly #row: Uint32Array;
  readonly #passing: readonly (readonly number[])[];
  readonly #levels = new Map<number, number[]>();
  #largest = 0;

  constructor(row: Uint32Array, passing: readonly (readonly number[])[]) {
    this.#row = row;
    this.#passing = passing;
  }

  reach(id: number, distance: number): void {
    if (distance >= this.#row[id]!) return;
    this.#row[id] = distance;
    this.#largest = Math.max(this.#largest, distance);
    const level = this.#levels.get(distance);
    if (level === undefined) this.#levels.set(distance, [id]);
    else level.push(id);
  }

  /** @param reading - states that read a character and stay in the layer */
  settle(reading: readonly (readonly [id: number, weight: number, next: number])[], budget: GrammarBudget): void {
    const readers = new Map<number, (readonly [id: number, weight: number])[]>();
    for (const [id, weight, next] of reading) {
      const list = readers.get(next);
      if (weight === never) continue;
      if (list === undefined) readers.set(next, [[id, weight]]);
      else list.push([id, weight]);
    }
    const settle = (distance: number): void => {
      const level = this.#levels.get(distance) ?? [];
      for (const id of level) {
        if (this.#row[id] !== distance) continue;
        budget.spend(0.25);
        for (const from of this.#passing[id]!) this.reach(from, distance);
        for (const [from, weight] of readers.get(id) ?? []) this.reach(from, distance + weight);
      }
    };
    if (reading.length === 0) {
      // Distances come from the next layer, so that there are few of them, far apart.
      for (const distance of [...this.#levels.keys()].sort((a, b) => a - b)) settle(distance);
    } else for (let distance = 0; distance <= this.#largest; distance++) settle(distance);
  }
}
