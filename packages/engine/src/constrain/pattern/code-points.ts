/**
 * Sets of Unicode characters as sorted ranges. Surrogates are in no set: they are not characters, and JSON strings are written as UTF-8.
 */
import type { GrammarBudget } from "../budget.ts";

/** First and last code point of each range, in order: `[0x30, 0x39, 0x61, 0x7a]`. */
export type CodePoints = readonly number[];

const last = 0x10ffff;
const surrogates = [0xd800, 0xdfff] as const;

/** The union of ranges in any order. */
export function unionOf(ranges: readonly (readonly [from: number, to: number])[]): CodePoints {
  const cut = ranges.flatMap(([from, to]): (readonly [number, number])[] => [
    [from, Math.min(to, surrogates[0] - 1)],
    [Math.max(from, surrogates[1] + 1), to],
  ]);
  const sorted = cut.filter(([from, to]) => from <= to).sort((a, b) => a[0] - b[0]);
  const union: number[] = [];
  for (const [from, to] of sorted) {
    const end = union.length - 1;
    if (end >= 0 && from <= union[end]! + 1) union[end] = Math.max(union[end]!, to);
    else union.push(from, to);
  }
  return union;
}

/** Its ranges as pairs. */
export function rangesOf(set: CodePoints): readonly (readonly [from: number, to: number])[] {
  return Array.from({ length: set.length / 2 }, (_, i) => [set[2 * i]!, set[2 * i + 1]!] as const);
}

/** All characters that are not in the set. */
export function complementOf(set: CodePoints): CodePoints {
  const rest: [number, number][] = [];
  let from = 0;
  for (const [start, end] of rangesOf(set)) {
    rest.push([from, start - 1]);
    from = end + 1;
  }
  rest.push([from, last]);
  return unionOf(rest);
}

export const anyCharacter: CodePoints = complementOf([]);
export const digits: CodePoints = [0x30, 0x39];
export const wordCharacters: CodePoints = [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a];
/** White space and line ends of ECMAScript. */
export const spaces: CodePoints = [
  0x9, 0xd, 0x20, 0x20, 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f,
  0x3000, 0x3000, 0xfeff, 0xfeff,
];
/** Every character except line ends. */
export const dot: CodePoints = complementOf([0xa, 0xa, 0xd, 0xd, 0x2028, 0x2029]);

const planeSize = 0x10000;
const planes = Array.from({ length: 17 }, (_, i) => i);
/** Planes with characters of several kinds, without surrogates. */
const mixed = [0, 1, 2, 3, 14];
const assigned = mixed.flatMap((plane): (readonly [from: number, to: number])[] =>
  plane === 0
    ? [
        [0, surrogates[0] - 1],
        [surrogates[1] + 1, planeSize - 1],
      ]
    : [[plane * planeSize, (plane + 1) * planeSize - 1]],
);
/** The other planes are unassigned or private; only their last two code points differ from the rest. */
const uniform = planes
  .filter((plane) => !mixed.includes(plane))
  .flatMap((plane): (readonly [from: number, to: number])[] => {
    const from = plane * planeSize;
    return [
      [from, from + 0xfffd],
      [from + 0xfffe, from + 0xffff],
    ];
  });

/** The characters from one code point to another of the same plane. */
function textOf(from: number, to: number): string {
  const units = new Uint16Array((to - from + 1) * (from < planeSize ? 1 : 2));
  if (from < planeSize) for (let i = 0; i < units.length; i++) units[i] = from + i;
  else {
    for (let i = 0; i < units.length; i += 2) {
      const offset = from + i / 2 - planeSize;
      units[i] = 0xd800 + (offset >> 10);
      units[i + 1] = 0xdc00 + (offset & 0x3ff);
    }
  }
  // UTF-16 of this runtime is little-endian, like everything that the engine runs on.
  return new TextDecoder("utf-16le", { ignoreBOM: true }).decode(units);
}

/** Steps of finding the characters of one property, about 10 ms. They are charged in any case, so that it does not matter which are kept. */
const propertySteps = 32_768;
/** Properties whose characters are kept; Unicode has some hundreds. */
const keptProperties = 64;
const properties = new Map<string, CodePoints>();

/**
 * The characters of a Unicode property, for example `L` or `Script=Greek`, as this runtime's own regular expressions define it.
 *
 * @returns undefined if there is no such property
 */
export function propertyOf(name: string, budget: GrammarBudget): CodePoints | undefined {
  if (!/^[A-Za-z0-9_]{1,60}(?:=[A-Za-z0-9_]{1,60})?$/.test(name)) return undefined;
  budget.spend(propertySteps);
  const known = properties.get(name);
  if (known !== undefined) return known;
  let expression: RegExp;
  try {
    expression = new RegExp(`\\p{${name}}+`, "gu");
  } catch {
    return undefined;
  }
  const ranges: [number, number][] = [];
  for (const [from, to] of assigned) {
    // The characters are consecutive and of equal length in UTF-16, so that each match is one range.
    const units = from < planeSize ? 1 : 2;
    for (const { index, 0: match } of textOf(from, to).matchAll(expression)) {
      const start = from + index / units;
      ranges.push([start, start + match.length / units - 1]);
    }
  }
  const isIn = new RegExp(`^\\p{${name}}$`, "u");
  for (const [from, to] of uniform) if (isIn.test(String.fromCodePoint(from))) ranges.push([from, to]);
  const set = unionOf(ranges);
  if (properties.size >= keptProperties) properties.clear();
  properties.set(name, set);
  return set;
}
