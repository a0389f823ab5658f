/**
 * Reads a JSON string: whole UTF-8 characters and escapes between quotation marks, within the length limits. A state is 16 times the number
 * of characters so far (as far as it matters), plus a phase.
 */
import type { Machine } from "./machine.ts";

/** Phase: the position within a character. */
export const stringPhase = {
  body: 0,
  /** After a backslash. */
  escape: 1,
  /** After `\u`; a first digit d must be followed by 0 to 7, because surrogates are not characters. */
  hex4: 2,
  hex3AfterD: 3,
  hex3: 4,
  hex2: 5,
  hex1: 6,
  /** Continuation bytes to come, and first bytes that restrict the range of the second byte. */
  more1: 7,
  more2: 8,
  more3: 9,
  afterE0: 10,
  afterEd: 11,
  afterF0: 12,
  afterF4: 13,
  closed: 14,
  start: 15,
} as const;

const phases = 16;
const phaseOf = (state: number): number => state % phases;
const countOf = (state: number): number => Math.floor(state / phases);

const escapes = new Set([...'"\\/bfnrt'].map((character) => character.charCodeAt(0)));
const isHex = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);

/** The phase after the first byte of a character; undefined if the byte is not a valid first byte. */
function leadPhase(byte: number): number | undefined {
  if (byte < 0x20) return undefined;
  if (byte < 0x80) return stringPhase.body;
  if (byte < 0xc2) return undefined;
  if (byte < 0xe0) return stringPhase.more1;
  if (byte === 0xe0) return stringPhase.afterE0;
  if (byte === 0xed) return stringPhase.afterEd;
  if (byte < 0xf0) return stringPhase.more2;
  if (byte === 0xf0) return stringPhase.afterF0;
  if (byte < 0xf4) return stringPhase.more3;
  return byte === 0xf4 ? stringPhase.afterF4 : undefined;
}

/** Valid ranges of the next byte, and the phase after it. */
const follow: Readonly<Record<number, readonly [least: number, most: number, next: number]>> = {
  [stringPhase.more1]: [0x80, 0xbf, stringPhase.body],
  [stringPhase.more2]: [0x80, 0xbf, stringPhase.more1],
  [stringPhase.more3]: [0x80, 0xbf, stringPhase.more2],
  [stringPhase.afterE0]: [0xa0, 0xbf, stringPhase.more1],
  [stringPhase.afterEd]: [0x80, 0x9f, stringPhase.more1],
  [stringPhase.afterF0]: [0x90, 0xbf, stringPhase.more2],
  [stringPhase.afterF4]: [0x80, 0x8f, stringPhase.more2],
};

/** The phase after a byte within a character; `body` when the character is complete. */
function nextPhase(phase: number, byte: number): number | undefined {
  const range = follow[phase];
  if (range !== undefined) return byte >= range[0] && byte <= range[1] ? range[2] : undefined;
  switch (phase) {
    case stringPhase.escape:
      if (byte === 0x75) return stringPhase.hex4;
      return escapes.has(byte) ? stringPhase.body : undefined;
    case stringPhase.hex4:
      if (!isHex(byte)) return undefined;
      return byte === 0x44 || byte === 0x64 ? stringPhase.hex3AfterD : stringPhase.hex3;
    case stringPhase.hex3AfterD:
      return byte >= 0x30 && byte <= 0x37 ? stringPhase.hex2 : undefined;
    case stringPhase.hex3:
    case stringPhase.hex2:
    case stringPhase.hex1:
      return isHex(byte) ? (phase === stringPhase.hex1 ? stringPhase.body : phase + 1) : undefined;
    default:
      return byte === 0x5c ? stringPhase.escape : leadPhase(byte);
  }
}

/** Tokens to complete a character from each phase, one byte at a time, if the vocabulary has single-byte tokens. */
function phaseCosts(single: ReadonlySet<number>): readonly number[] {
  const costs = new Array<number>(phases).fill(0);
  costs[stringPhase.escape] = 1;
  costs[stringPhase.hex4] = 4;
  costs[stringPhase.hex3AfterD] = 3;
  costs[stringPhase.hex3] = 3;
  costs[stringPhase.hex2] = 2;
  costs[stringPhase.hex1] = 1;
  for (const phase of [7, 8, 9, 10, 11, 12, 13]) {
    const [least, most, next] = follow[phase]!;
    let has = false;
    for (let byte = least; byte <= most; byte++) has ||= single.has(byte);
    costs[phase] = has ? 1 + costs[next]! : Number.POSITIVE_INFINITY;
  }
  return costs;
}

/** Shared by all strings of a vocabulary: the tokens that are allowed at a character boundary and leave the string open, by index. */
export interface StringTables {
  readonly phaseCosts: readonly number[];
  readonly count: number;
  readonly ids: Int32Array;
  /** Number of characters that each token completes. */
  readonly characters: Uint8Array;
  /** Phase in which each token ends. */
  readonly phases: Uint8Array;
  /** Maximum bytes of a token. */
  readonly longest: number;
}

/** Builds the tables, token by token. @param size - maximum number of tokens */
export function createStringTables(size: number): {
  readonly add: (id: number, bytes: Uint8Array) => void;
  readonly finish: (single: ReadonlySet<number>) => StringTables;
} {
  const ids = new Int32Array(size);
  const characters = new Uint8Array(size);
  const phases = new Uint8Array(size);
  let longest = 0;
  let count = 0;
  return {
    add(id, bytes) {
      longest = Math.max(longest, bytes.length);
      if (bytes.includes(0x22)) return;
      let phase: number | undefined = stringPhase.body;
      let whole = 0;
      for (const byte of bytes) {
        phase = nextPhase(phase, byte);
        if (phase === undefined) return;
        if (phase === stringPhase.body) whole++;
      }
      ids[count] = id;
      characters[count] = whole;
      phases[count++] = phase;
    },
    finish: (single) => ({ phaseCosts: phaseCosts(single), count, ids, characters, phases, longest }),
  };
}

export interface StringBounds {
  readonly minLength: number;
  /** Infinity: no limit. */
  readonly maxLength: number;
}

export interface StringMachine extends Machine<number> {
  /** Whether the state is at a character boundary, where {@link eachInner} applies. */
  isInBody(state: number): boolean;
  /** Calls `visit` with every token that is allowed here and leaves the string open, and with the cost after it. */
  eachInner(state: number, take: (id: number, cost: number) => void): void;
  /** Number of tokens that it examines. */
  readonly innerTokens: number;
}

export const stringStart = stringPhase.start;

export function stringMachine(id: number, tables: StringTables, { minLength, maxLength }: StringBounds): StringMachine {
  // Without a maximum length, characters above the minimum need no counting.
  const counted = maxLength === Number.POSITIVE_INFINITY ? minLength : maxLength;
  const at = (count: number, phase: number): number => Math.min(count, counted) * phases + phase;
  const nothing = [undefined] as const;
  return {
    id,
    step(state, byte) {
      const phase = phaseOf(state);
      const count = countOf(state);
      if (phase === stringPhase.closed) return undefined;
      if (phase === stringPhase.start) return byte === 0x22 ? at(0, stringPhase.body) : undefined;
      if (phase === stringPhase.body) {
        if (byte === 0x22) return count >= minLength ? at(count, stringPhase.closed) : undefined;
        if (count >= maxLength) return undefined;
      }
      const next = nextPhase(phase, byte);
      if (next === undefined) return undefined;
      return at(next === stringPhase.body ? count + 1 : count, next);
    },
    ending: (state) => (phaseOf(state) === stringPhase.closed ? nothing : undefined),
    isOver: (state) => phaseOf(state) === stringPhase.closed,
    cost(state) {
      const phase = phaseOf(state);
      if (phase === stringPhase.closed) return 0;
      if (phase === stringPhase.start) return 2 + minLength;
      const within = phase === stringPhase.body ? 0 : 1;
      return tables.phaseCosts[phase]! + Math.max(0, minLength - countOf(state) - within) + 1;
    },
    keyOf: (state) => state,
    // If every token fits, the number of characters does not matter.
    maskKeyOf: (state) => {
      const count = countOf(state);
      return count >= minLength && maxLength - count > tables.longest ? `any${phaseOf(state)}` : state;
    },
    isInBody: (state) => phaseOf(state) === stringPhase.body,
    innerTokens: tables.count,
    eachInner(state, take) {
      const { phaseCosts: ends, count: tokens, ids, characters, phases: ending } = tables;
      const before = countOf(state);
      for (let i = 0; i < tokens; i++) {
        const phase = ending[i]!;
        const after = before + characters[i]!;
        const all = after + (phase === stringPhase.body ? 0 : 1);
        if (all <= maxLength) take(ids[i]!, ends[phase]! + Math.max(0, minLength - all) + 1);
      }
    },
  };
}
