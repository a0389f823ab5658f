/**
 * Reads a JSON number that a double holds: at most 15 digits before the point, 15 behind it, and an exponent of two. Within bounds, the state
 * is the text so far, and a digit may stand where some number within the bounds goes on with it; such numbers have no exponent.
 */
import type { Machine } from "./machine.ts";

export interface NumberBounds {
  readonly isInteger: boolean;
  /** Smallest and largest value; infinite where there is none. */
  readonly least: number;
  readonly most: number;
  /** Whether the bounds themselves are out. */
  readonly above: boolean;
  readonly below: boolean;
}

const longestWhole = 15;
const longestFraction = 15;
const longestExponent = 2;
const nothing = [undefined] as const;
const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;

const minus = 0x2d;
const point = 0x2e;
const zero = 0x30;

/** Phases of a number without bounds; a state is digits in the phase times 16, plus the phase. */
const phase = {
  start: 0,
  sign: 1,
  zero: 2,
  whole: 3,
  point: 4,
  fraction: 5,
  e: 6,
  exponentSign: 7,
  exponent: 8,
} as const;
const isWhole = (at: number): boolean =>
  at === phase.zero || at === phase.whole || at === phase.fraction || at === phase.exponent;

/** The start of either machine is its first state. */
export const freeNumberStart = 0;
export const boundedNumberStart = "";

export function freeNumberMachine(id: number, isInteger: boolean): Machine<number> {
  const state = (at: number, digits = 0): number => digits * 16 + at;
  const digit = (at: number, digits: number, most: number): number | undefined =>
    digits < most ? state(at, digits + 1) : undefined;
  const step = (given: number, byte: number): number | undefined => {
    const at = given % 16;
    const digits = (given - at) / 16;
    if (isDigit(byte)) {
      if (at === phase.start || at === phase.sign) return byte === zero ? state(phase.zero) : state(phase.whole, 1);
      if (at === phase.whole) return digit(phase.whole, digits, longestWhole);
      if (at === phase.point || at === phase.fraction) return digit(phase.fraction, digits, longestFraction);
      return at >= phase.e ? digit(phase.exponent, digits, longestExponent) : undefined;
    }
    if (byte === minus && at === phase.start) return state(phase.sign);
    if (isInteger) return undefined;
    if (byte === point && (at === phase.zero || at === phase.whole)) return state(phase.point);
    if ((byte === 0x65 || byte === 0x45) && isWhole(at) && at !== phase.exponent) return state(phase.e);
    return (byte === 0x2b || byte === minus) && at === phase.e ? state(phase.exponentSign) : undefined;
  };
  return {
    id,
    step,
    ending: (given) => (isWhole(given % 16) ? nothing : undefined),
    isOver: (given) => {
      const at = given % 16;
      return (
        given === state(phase.exponent, longestExponent) ||
        (isInteger && (at === phase.zero || given === state(phase.whole, longestWhole)))
      );
    },
    cost: (given) => (isWhole(given % 16) ? 0 : 1),
    keyOf: (given) => given,
  };
}

const wholeNumber = /^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?$/;
const beginning = /^-?(?:|0|[1-9]\d{0,14})$|^-?(?:0|[1-9]\d{0,14})\.\d{0,15}$/;

export function boundedNumberMachine(id: number, bounds: NumberBounds): Machine<string> {
  const { isInteger, least, most, above, below } = bounds;
  const isIn = (text: string): boolean => {
    if (!wholeNumber.test(text)) return false;
    const value = Number(text);
    return (above ? value > least : value >= least) && (below ? value < most : value <= most);
  };
  const isBeginning = (text: string): boolean => beginning.test(text) && !(isInteger && text.includes("."));
  /** Characters to the nearest number within the bounds, by text. */
  const known = new Map<string, number>();
  const costOf = (text: string): number => {
    let cost = known.get(text);
    if (cost === undefined) {
      cost = search(text);
      if (known.size >= mostKnown) known.clear();
      known.set(text, cost);
    }
    return cost;
  };
  const search = (text: string): number => {
    let texts = [text];
    for (let length = 0; texts.length > 0; length++) {
      if (texts.some(isIn)) return length;
      texts = texts.flatMap((each) =>
        [..."-.0123456789"].map((next) => each + next).filter((next) => isBeginning(next) && reaches(next, bounds)),
      );
    }
    return Number.POSITIVE_INFINITY;
  };
  return {
    id,
    step: (text, byte) => {
      const next = text + String.fromCharCode(byte);
      return isBeginning(next) && costOf(next) < Number.POSITIVE_INFINITY ? next : undefined;
    },
    ending: (text) => (isIn(text) ? nothing : undefined),
    isOver: () => false,
    cost: costOf,
    keyOf: (text) => text,
  };
}

/** Texts whose cost is remembered. */
const mostKnown = 10_000;

/** Whether numbers that begin so may lie within the bounds. */
function reaches(text: string, { least, most }: NumberBounds): boolean {
  const isNegative = text.startsWith("-");
  const digits = isNegative ? text.slice(1) : text;
  if (digits === "") return least <= 0;
  // Of positive numbers, with the sides exchanged for negative ones.
  const [from, to] = isNegative ? [-most, -least] : [least, most];
  const [whole, fraction] = digits.split(".") as [string, string | undefined];
  const meets = (low: number, high: number): boolean => low <= to && high >= from;
  if (fraction !== undefined) {
    const low = Number(`${whole}.${fraction || "0"}`);
    return meets(low, low + 10 ** -fraction.length);
  }
  for (let more = 0; whole.length + more <= longestWhole; more++) {
    const unit = 10 ** more;
    if (meets(Number(whole) * unit, (Number(whole) + 1) * unit)) return true;
    if (whole === "0") return false;
  }
  return false;
}
