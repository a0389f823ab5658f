/**
 * Reads a JSON number that fits a double: at most 15 digits before the decimal point, 15 after it, and an exponent of two digits. A number
 * with bounds has no exponent and is compared digit by digit with the digits of its bounds, without a search.
 */
import type { GrammarBudget } from "./budget.ts";
import type { Machine } from "./machine.ts";

export interface NumberBounds {
  readonly isInteger: boolean;
  /** Smallest and largest value; infinite if there is no bound. */
  readonly least: number;
  readonly most: number;
  /** Whether the bounds are exclusive. */
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

/** Phases of a number without bounds; a state is 16 times the digits in the phase, plus the phase. */
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

/** Both machines start in their first state. */
export const freeNumberStart = 0;
export const boundedNumberStart = 0;

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

// ---- within bounds

/** 1, in units of the last digit after the decimal point. */
const unit = 10n ** BigInt(longestFraction);

const ceilTo = (value: bigint, step: bigint): bigint => {
  const rest = value % step;
  return rest === 0n ? value : value - rest + (value > 0n ? step : 0n);
};
const floorTo = (value: bigint, step: bigint): bigint => -ceilTo(-value, step);

/**
 * A bound in units of the last digit, rounded inwards. The bound is read as the shortest decimal that is this double: every decimal on its
 * inner side is then also a double on its inner side, since rounding is monotonic.
 */
function inUnits(value: number, round: typeof ceilTo): bigint {
  const [, sign, whole = "", fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(
    String(value),
  )!;
  const digits = BigInt(`${sign}${whole}${fraction}`);
  const shift = longestFraction + Number(exponent) - fraction.length;
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const step = 10n ** BigInt(-shift);
  return round(digits, step) / step;
}

const double = new Float64Array(1);
const bits = new BigInt64Array(double.buffer);

/** The next larger double. */
function nextUp(value: number): number {
  if (value === 0) return Number.MIN_VALUE;
  double[0] = value;
  bits[0]! += value > 0 ? 1n : -1n;
  return double[0];
}

/** Remaining digits of the smallest and largest number; `""` if there is no bound: all 0 or all 9. */
interface Digits {
  /** Number of digits before the decimal point, and the maximum after it. */
  readonly whole: number;
  readonly fraction: number;
  readonly low: string;
  readonly high: string;
}

const digitsOf = (counts: Pick<Digits, "whole" | "fraction">, low: string, high: string): Digits => ({
  ...counts,
  low: /^0*$/.test(low) ? "" : low,
  high: /^9*$/.test(high) ? "" : high,
});

/** The remaining range after a digit; undefined if it is empty or no digit is left. */
function after({ whole, fraction, low, high }: Digits, digit: string): Digits | undefined {
  if (whole + fraction === 0) return undefined;
  if ((low !== "" && digit < low[0]!) || (high !== "" && digit > high[0]!)) return undefined;
  return digitsOf(
    whole > 0 ? { whole: whole - 1, fraction } : { whole, fraction: fraction - 1 },
    low[0] === digit ? low.slice(1) : "",
    high[0] === digit ? high.slice(1) : "",
  );
}

/** The fewest digits after the decimal point, at least `least`, with which some number is in the range. */
function fractionDigits({ whole, fraction, low, high }: Digits, least: number): number {
  if (low === "") return least;
  for (let digits = least; digits < fraction; digits++) {
    const length = whole + digits;
    // The smallest number with this many digits is the low bound or the next larger one.
    if (/^0*$/.test(low.slice(length))) return digits;
    if (low.slice(0, length) < (high === "" ? "9".repeat(length) : high.slice(0, length))) return digits;
  }
  return fraction;
}

/** A position within a number. */
interface Place {
  readonly phase: "start" | "whole" | "point" | "fraction";
  /** Before the decimal point, one range per possible number of digits, fewest first; after it, one range. */
  readonly ranges: readonly Digits[];
  readonly isWhole: boolean;
  /** Number of bytes that is sufficient to complete it. */
  readonly cost: number;
  /** The next position for each symbol; −1: not allowed, undefined: not computed yet. */
  readonly next: (number | undefined)[];
}

const symbols = "0123456789.-";
/** Bytes of a position with its key, and the steps of creating it; below, the steps of computing the ranges. */
const placeBytes = 2000;
const placeSteps = 32;
const rangesSteps = 128;

/** Ranges by number of digits before the decimal point, for non-negative numbers from `low` to `high`. */
function rangesOf(low: bigint, high: bigint, isInteger: boolean): readonly Digits[] {
  const ranges: Digits[] = [];
  for (let whole = 1; whole <= longestWhole; whole++) {
    const first = whole === 1 ? 0n : 10n ** BigInt(whole - 1) * unit;
    const last = 10n ** BigInt(whole) * unit - 1n;
    const [from, to] = [low > first ? low : first, high < last ? high : last];
    if (from > to) continue;
    const text = (value: bigint): string => {
      const padded = value.toString().padStart(whole + longestFraction, "0");
      return isInteger ? padded.slice(0, whole) : padded;
    };
    ranges.push(digitsOf({ whole, fraction: isInteger ? 0 : longestFraction }, text(from), text(to)));
  }
  return ranges;
}

/** Ranges of numbers without a sign, and of the digits after one. */
function signedRanges({ isInteger, least, most, above, below }: NumberBounds): {
  readonly positive: readonly Digits[];
  readonly negative: readonly Digits[];
} {
  const step = isInteger ? unit : 1n;
  // The largest double is far outside the range that can be written.
  const finite = (value: number): number => Math.max(-Number.MAX_VALUE, Math.min(value, Number.MAX_VALUE));
  const from = ceilTo(inUnits(finite(above ? nextUp(least) : least), ceilTo), step);
  const to = floorTo(inUnits(finite(below ? -nextUp(-most) : most), floorTo), step);
  // −0 is not written.
  const negated = { from: to < 0n ? -to : step, to: -from };
  return {
    positive: to < 0n ? [] : rangesOf(from > 0n ? from : 0n, to, isInteger),
    negative: rangesOf(negated.from, negated.to, isInteger),
  };
}

export function boundedNumberMachine(id: number, bounds: NumberBounds, budget: GrammarBudget): Machine<number> {
  budget.spend(rangesSteps);
  const { positive, negative } = signedRanges(bounds);
  const places: Place[] = [];
  const known = new Map<string, number>();
  const placeOf = (at: Place["phase"], ranges: readonly Digits[]): number => {
    const key = `${at} ${ranges.map(({ whole, fraction, low, high }) => `${whole}.${fraction}:${low}:${high}`).join(" ")}`;
    let index = known.get(key);
    if (index === undefined) {
      budget.spend(placeSteps);
      budget.hold(placeBytes);
      index = places.length;
      places.push({ phase: at, ranges, isWhole: isWholeAt(at, ranges), cost: costAt(at, ranges), next: [] });
      known.set(key, index);
    }
    return index;
  };
  const isWholeAt = (at: Place["phase"], [first]: readonly Digits[]): boolean =>
    (at === "whole" || at === "fraction") && first?.whole === 0 && first.low === "";
  const costAt = (at: Place["phase"], ranges: readonly Digits[]): number => {
    if (at === "fraction" || at === "point") return fractionDigits(ranges[0]!, at === "point" ? 1 : 0);
    let cost = Number.POSITIVE_INFINITY;
    for (const range of ranges) {
      if (range.whole >= cost) break;
      const fraction = fractionDigits(range, 0);
      cost = Math.min(cost, range.whole + (fraction === 0 ? 0 : 1 + fraction));
    }
    if (at === "start" && negative.length > 0) cost = Math.min(cost, 1 + costAt("whole", negative));
    return cost;
  };
  /** The next position for a symbol, or −1. */
  const follow = ({ phase: at, ranges }: Place, symbol: string): number => {
    if (symbol === "-") return at === "start" && negative.length > 0 ? placeOf("whole", negative) : -1;
    if (symbol === ".") {
      const [first] = ranges;
      return at === "whole" && first?.whole === 0 && first.fraction > 0 ? placeOf("point", [first]) : -1;
    }
    const isFraction = at === "point" || at === "fraction";
    const next: Digits[] = [];
    for (const range of ranges) {
      if (!isFraction && range.whole === 0) continue;
      const rest = after(range, symbol);
      if (rest !== undefined) next.push(rest);
    }
    return next.length === 0 ? -1 : placeOf(isFraction ? "fraction" : "whole", next);
  };
  placeOf("start", positive);
  const nextOf = (place: Place, symbol: number): number => (place.next[symbol] ??= follow(place, symbols[symbol]!));
  return {
    id,
    step: (index, byte) => {
      const symbol = isDigit(byte) ? byte - zero : byte === point ? 10 : byte === minus ? 11 : -1;
      if (symbol < 0) return undefined;
      const next = nextOf(places[index]!, symbol);
      return next < 0 ? undefined : next;
    },
    ending: (index) => (places[index]!.isWhole ? nothing : undefined),
    // Either no digit is left, or the digits before the decimal point are complete and none may follow.
    isOver: (index) => places[index]!.ranges.every(({ whole, fraction }) => whole + fraction === 0),
    cost: (index) => places[index]!.cost,
    keyOf: (index) => index,
  };
}
