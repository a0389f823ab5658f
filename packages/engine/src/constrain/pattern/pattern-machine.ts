/**
 * Reads a JSON string whose characters match a pattern, byte by byte: characters as UTF-8, and escapes. The states of the pattern that are
 * possible after some characters are one place; places are created when they are reached, and counted by the grammar's budget.
 */
import type { GrammarBudget } from "../budget.ts";
import { type Machine, machineNode, type Node } from "../machine.ts";
import type { Vocabulary } from "../vocabulary.ts";
import { asRepeatedSet, type Expression, parsePattern, searched } from "./parse-pattern.ts";
import { type LengthBounds, never, patternStates } from "./pattern-states.ts";

/** Position within a string or a character; the low digit of a state. */
const phase = {
  body: 0,
  /** After a backslash. */
  escape: 1,
  /** After `\u` and 0 to 3 digits. */
  hex0: 2,
  hex1: 3,
  hex2: 4,
  hex3: 5,
  /** UTF-8, by length of the character and bytes to come. */
  utf2: 6,
  utf3: 7,
  utf3Last: 8,
  utf4: 9,
  utf4Middle: 10,
  utf4Last: 11,
  start: 12,
  closed: 13,
} as const;

/** A phase within UTF-8: bytes to come, the next phase, and the least code point of the character's length. */
const utf8: Readonly<Record<number, readonly [more: number, next: number, least: number]>> = {
  [phase.utf2]: [1, phase.body, 0x80],
  [phase.utf3]: [2, phase.utf3Last, 0x800],
  [phase.utf3Last]: [1, phase.body, 0x800],
  [phase.utf4]: [3, phase.utf4Middle, 0x10000],
  [phase.utf4Middle]: [2, phase.utf4Last, 0x10000],
  [phase.utf4Last]: [1, phase.body, 0x10000],
};

const backslash = 0x5c;
const quote = 0x22;
const lastPoint = 0x10ffff;
/** Characters with a short escape, by the byte after the backslash. */
const escapes: Readonly<Record<number, number>> = {
  34: 0x22,
  92: 0x5c,
  47: 0x2f,
  98: 0x8,
  102: 0xc,
  110: 0xa,
  114: 0xd,
  116: 0x9,
};
const shortEscapes = Object.values(escapes);

const hexValue = (byte: number): number => {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
};

/** The states of the pattern that are possible at a character boundary. */
interface Place {
  /** Number of characters so far, as far as they are counted. */
  readonly layer: number;
  /** States that read a character, in order. */
  readonly readers: Int32Array;
  /** Whether the text may end here. */
  readonly isWhole: boolean;
  /** The fewest bytes to the end, without the quotation mark. */
  readonly cost: number;
  /** Equal for places with the same states. */
  readonly readersId: number;
  /** The place after a character, by class; −1: not allowed, undefined: not created yet. */
  readonly next: Map<number, number>;
  /** By class: the fewest bytes to the end after one of its characters, {@link never} if it is not allowed. Computed when needed. */
  costs?: Uint32Array;
}

/** A state is (place × 2²¹ + value) × 16 + phase; the value is the part of the code point that has been read. */
const values = 2 ** 21;
const phases = 16;

const placeBytes = 400;
/** Ranges whose classes are kept. */
const mostRanges = 1024;

export interface PatternOptions extends LengthBounds {
  readonly nextId: () => number;
  readonly vocabulary: Vocabulary;
  readonly budget: GrammarBudget;
}

/**
 * A JSON string that contains a match of the pattern (a search, as JSON Schema defines it; `^…$` matches the whole string).
 *
 * @throws PatternProblem, GrammarTooLargeError
 */
export function patternNode(pattern: string, options: PatternOptions): Node {
  const parsed = parsePattern(pattern, options.budget);
  // Counts of a single set become limits of the length: these share masks, states of a repetition do not.
  const repeated = asRepeatedSet(parsed);
  const { nextId } = options;
  if (repeated === undefined) return machineNode(nextId(), ...patternMachine(searched(parsed), options));
  const { set, min, max } = repeated;
  const infinite = Number.POSITIVE_INFINITY;
  const every: Expression = {
    kind: "sequence",
    parts: [{ kind: "repeat", of: { kind: "set", set }, min: 0, max: infinite }, { kind: "end" }],
  };
  const bounds = {
    minLength: Math.max(min, options.minLength),
    maxLength: Math.min(max, options.maxLength),
  };
  return machineNode(nextId(), ...patternMachine(every, { ...options, ...bounds }));
}

function patternMachine(
  expression: Expression,
  { nextId, vocabulary, budget, minLength, maxLength }: PatternOptions,
): [Machine<number>, number] {
  const nothing = [undefined] as const;
  const id = nextId();
  const allBytes = Array.from({ length: 0xf5 - 0x80 }, (_, i) => 0x80 + i).every(
    (byte) => byte === 0xc0 || byte === 0xc1 || vocabulary.single.has(byte),
  );
  const empty: [Machine<number>, number] = [
    {
      id,
      step: () => undefined,
      ending: () => undefined,
      isOver: () => false,
      cost: () => Number.POSITIVE_INFINITY,
      keyOf: (state) => state,
    },
    0,
  ];
  if (minLength > maxLength) return empty;
  const rawBytes = (point: number): number => (point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4);
  /** The fewest bytes that write a character of a range. Bytes beyond ASCII count only if each is a token. */
  const bytesOf = (from: number, to: number): number => {
    for (const [first, end] of [
      [0x20, 0x21],
      [0x23, 0x5b],
      [0x5d, 0x7e],
    ] as const) {
      if (from <= end && to >= first) return 1;
    }
    if (from <= 0x7f && to >= 0x7f && vocabulary.single.has(0x7f)) return 1;
    if (shortEscapes.some((point) => point >= from && point <= to)) return 2;
    if (allBytes && to >= 0x80) return rawBytes(Math.max(from, 0x80));
    return from <= 0xffff ? 6 : never;
  };
  const automaton = patternStates(expression, { minLength, maxLength }, { budget, bytesOf });
  const { classes, states, layers, bytesToEnd } = automaton;
  const hasEnd = states.some(({ kind }) => kind === "end");

  const places: Place[] = [];
  const known = new Map<string, number>();
  const readerIds = new Map<string, number>();
  const seen = new Int32Array(states.length);
  let visits = 0;
  budget.hold(seen.byteLength);

  /** The states that are reachable without a character; `$` passes only where the text ends. */
  const closure = (from: Iterable<number>, at: { readonly isStart: boolean; readonly isEnd: boolean }) => {
    const visit = ++visits;
    const line: number[] = [];
    const readers: number[] = [];
    let isFinal = false;
    const reach = (state: number): void => {
      if (seen[state] === visit) return;
      seen[state] = visit;
      line.push(state);
    };
    for (const state of from) reach(state);
    for (let i = 0; i < line.length; i++) {
      const state = states[line[i]!]!;
      if (state.kind === "read") readers.push(line[i]!);
      else if (state.kind === "final") isFinal = true;
      else if (state.kind === "pass") for (const next of state.nexts) reach(next);
      else if (state.kind === "start" ? at.isStart : at.isEnd) reach(state.next);
    }
    budget.spend(line.length / 16);
    return { readers, isFinal };
  };

  /** The place after some characters, or −1 if no end can be reached from there. */
  const placeOf = (from: readonly number[], layer: number, isStart: boolean): number => {
    const found = closure(from, { isStart, isEnd: false });
    const isFinal = found.isFinal || (hasEnd && closure(from, { isStart, isEnd: true }).isFinal);
    const isWhole = isFinal && layer >= minLength;
    let cost = isWhole ? 0 : never;
    const alive: number[] = [];
    for (const state of found.readers) {
      const distance = bytesToEnd(layer, state);
      if (distance === never) continue;
      alive.push(state);
      cost = Math.min(cost, distance);
    }
    if (cost === never) return -1;
    const readers = Int32Array.from(alive).sort();
    budget.spend(1 + readers.length / 4);
    const readersKey = `${isWhole ? "!" : ""}${readers.join()}`;
    const key = `${layer}:${readersKey}`;
    let index = known.get(key);
    if (index === undefined) {
      budget.hold(placeBytes + readers.byteLength + 4 * key.length);
      index = places.length;
      if (!readerIds.has(readersKey)) readerIds.set(readersKey, readerIds.size);
      places.push({ layer, readers, isWhole, cost, readersId: readerIds.get(readersKey)!, next: new Map() });
      known.set(key, index);
    }
    return index;
  };

  const placeAfter = (index: number, characterClass: number): number => {
    const place = places[index]!;
    let next = place.next.get(characterClass);
    if (next === undefined) {
      const targets: number[] = [];
      for (const id of place.readers) {
        const state = states[id]!;
        if (state.kind === "read" && classes.holds(state.set, characterClass)) targets.push(state.next);
      }
      budget.spend(1 + place.readers.length / 16);
      budget.hold(40);
      next = targets.length === 0 ? -1 : placeOf(targets, Math.min(place.layer + 1, layers - 1), false);
      place.next.set(characterClass, next);
    }
    return next;
  };

  /** By class, the fewest bytes to the end after one of its characters. */
  const costsAfter = (place: Place): Uint32Array => {
    if (place.costs !== undefined) return place.costs;
    budget.hold(classes.count * Uint32Array.BYTES_PER_ELEMENT);
    budget.spend(1 + (place.readers.length * classes.count) / 64);
    const costs = new Uint32Array(classes.count).fill(never);
    const layer = Math.min(place.layer + 1, layers - 1);
    for (const id of place.readers) {
      const state = states[id]!;
      if (state.kind !== "read") continue;
      const cost = bytesToEnd(layer, state.next);
      for (let each = 0; each < classes.count; each++) {
        if (cost < costs[each]! && classes.holds(state.set, each)) costs[each] = cost;
      }
    }
    place.costs = costs;
    return costs;
  };

  const rangeClasses = new Map<number, Int32Array>();
  let rangeBytes = 0;
  const classesWithin = (from: number, to: number): Int32Array => {
    const key = from * values + to;
    let found = rangeClasses.get(key);
    if (found === undefined) {
      if (rangeClasses.size >= mostRanges) {
        rangeClasses.clear();
        budget.release(rangeBytes);
        rangeBytes = 0;
      }
      found = classes.within(from, to);
      budget.spend(1 + found.length / 8);
      const bytes = 100 + found.byteLength;
      budget.hold(bytes);
      rangeBytes += bytes;
      rangeClasses.set(key, found);
    }
    return found;
  };
  /** The fewest bytes to the end after a character of a range. */
  const costWithin = (place: Place, from: number, to: number): number => {
    if (from > to) return Number.POSITIVE_INFINITY;
    const costs = costsAfter(place);
    let least: number = never;
    for (const each of classesWithin(from, to)) least = Math.min(least, costs[each]!);
    return least === never ? Number.POSITIVE_INFINITY : least;
  };

  const stateOf = (place: number, at: number, value = 0): number => (place * values + value) * phases + at;
  const body = (index: number, point: number): number | undefined => {
    if (point >= 0xd800 && point <= 0xdfff) return undefined;
    const next = placeAfter(index, classes.classOf(point));
    return next < 0 ? undefined : stateOf(next, phase.body);
  };
  const split = (state: number): { at: number; value: number; index: number } => {
    const at = state % phases;
    const rest = (state - at) / phases;
    const value = rest % values;
    return { at, value, index: (rest - value) / values };
  };
  const closed = stateOf(0, phase.closed);
  const start = placeOf([automaton.first], 0, true);
  if (start < 0) return empty;

  /** Bytes to the end, with the quotation mark. */
  const cost = (state: number): number => {
    const { at, value, index } = split(state);
    const place = places[index]!;
    switch (at) {
      case phase.closed:
        return 0;
      case phase.start:
        return 2 + place.cost;
      case phase.body:
        return 1 + place.cost;
      case phase.escape: {
        const hex = 5 + costWithin(place, 0, 0xffff);
        return 1 + shortEscapes.reduce((least, point) => Math.min(least, 1 + costWithin(place, point, point)), hex);
      }
      case phase.hex0:
      case phase.hex1:
      case phase.hex2:
      case phase.hex3: {
        const digits = phase.hex3 - at + 1;
        const from = value * 16 ** digits;
        return digits + 1 + costWithin(place, from, from + 16 ** digits - 1);
      }
      default: {
        const [more, , least] = utf8[at]!;
        const from = value * 64 ** more;
        const to = Math.min(from + 64 ** more - 1, lastPoint);
        return allBytes ? more + 1 + costWithin(place, Math.max(from, least), to) : Number.POSITIVE_INFINITY;
      }
    }
  };
  /** A state from which an end can be reached. */
  const alive = (state: number): number | undefined => (cost(state) === Number.POSITIVE_INFINITY ? undefined : state);

  const step = (state: number, byte: number): number | undefined => {
    const { at, value, index } = split(state);
    switch (at) {
      case phase.closed:
        return undefined;
      case phase.start:
        return byte === quote ? stateOf(index, phase.body) : undefined;
      case phase.body:
        if (byte === quote) return places[index]!.isWhole ? closed : undefined;
        if (byte === backslash) return alive(stateOf(index, phase.escape));
        if (byte < 0x20) return undefined;
        if (byte < 0x80) return body(index, byte);
        if (byte < 0xc2 || byte > 0xf4) return undefined;
        if (byte < 0xe0) return alive(stateOf(index, phase.utf2, byte - 0xc0));
        if (byte < 0xf0) return alive(stateOf(index, phase.utf3, byte - 0xe0));
        return alive(stateOf(index, phase.utf4, byte - 0xf0));
      case phase.escape:
        if (byte === 0x75) return alive(stateOf(index, phase.hex0));
        return escapes[byte] === undefined ? undefined : body(index, escapes[byte]);
      case phase.hex0:
      case phase.hex1:
      case phase.hex2:
      case phase.hex3: {
        const digit = hexValue(byte);
        if (digit < 0) return undefined;
        const point = value * 16 + digit;
        return at === phase.hex3 ? body(index, point) : alive(stateOf(index, at + 1, point));
      }
      default: {
        const [more, next, least] = utf8[at]!;
        if (byte < 0x80 || byte > 0xbf) return undefined;
        const point = value * 64 + (byte - 0x80);
        if (more > 1) return alive(stateOf(index, next, point));
        return point < least || point > lastPoint ? undefined : body(index, point);
      }
    }
  };
  const { longest } = vocabulary.strings;
  const machine: Machine<number> = {
    id,
    step,
    ending: (state) => (state === closed ? nothing : undefined),
    isOver: (state) => state === closed,
    cost,
    keyOf: (state) => state,
    // Where the limits of the length are further away than a token reaches, the number of characters does not matter.
    maskKeyOf: (state) => {
      const { at, value, index } = split(state);
      const { layer, readersId } = places[index]!;
      const shared = layers === 1 ? -1 : automaton.sharedLayer(layer, longest);
      return shared < 0 ? state : `${readersId}.${shared}.${value}.${at}`;
    },
  };
  return [machine, stateOf(start, phase.start)];
}
