/** Numbers within bounds: exactly the valid ones, in a number of steps that does not depend on the bounds. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../random.ts";
import { GrammarBudget } from "./budget.ts";
import type { Machine } from "./machine.ts";
import { boundedNumberMachine, boundedNumberStart, type NumberBounds } from "./number-machine.ts";

const infinite = Number.POSITIVE_INFINITY;
const everything: NumberBounds = { isInteger: false, least: -infinite, most: infinite, above: false, below: false };
const make = (bounds: Partial<NumberBounds>) => {
  const budget = new GrammarBudget({ left: infinite });
  return { budget, machine: boundedNumberMachine(1, { ...everything, ...bounds }, budget) };
};
const follow = (machine: Machine<number>, text: string): number | undefined => {
  let state: number | undefined = boundedNumberStart;
  for (const character of text) state = state === undefined ? state : machine.step(state, character.charCodeAt(0));
  return state;
};
const isNumber = (text: string): boolean => /^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?$/.test(text);
const isIn = (text: string, { isInteger, least, most, above, below }: NumberBounds): boolean => {
  const value = Number(text);
  if (!isNumber(text) || Object.is(value, -0) || (isInteger && text.includes("."))) return false;
  return (above ? value > least : value >= least) && (below ? value < most : value <= most);
};

describe("numbers within bounds", () => {
  const bounds: readonly Partial<NumberBounds>[] = [
    { isInteger: true, least: 0, most: 120 },
    { isInteger: true, least: 7, most: 1102 },
    { isInteger: true, least: -105, most: -99 },
    { isInteger: true, least: -12, most: 9, above: true, below: true },
    { isInteger: true, least: 0.1, most: 2.9 },
    { least: 0.25, most: 0.5, above: true },
    { least: -1.05, most: 0.1, above: true, below: true },
    { least: 9.99, most: 10.01 },
    { least: -0, most: 0 },
    { least: 99 },
    { most: -3 },
    { isInteger: true, least: 5, most: 4 },
    { isInteger: true, least: 0.1, most: 0.9 },
  ];

  it.each(bounds)("are all that are short, and no others: %j", (some) => {
    const { machine } = make(some);
    const all = { ...everything, ...some };
    const wrong: string[] = [];
    const walk = (text: string, state: number): void => {
      const isWhole = machine.ending(state) !== undefined;
      if (isWhole !== isIn(text, all)) wrong.push(text);
      if (text.length === 6) return;
      for (const character of "-.0123456789") {
        const next = machine.step(state, character.charCodeAt(0));
        if (next !== undefined) walk(text + character, next);
        else if (isIn(text + character, all)) wrong.push(text + character);
      }
    };
    walk("", boundedNumberStart);
    expect(wrong).toEqual([]);
  });

  it("of any size are distinguished to the last digit, as doubles are compared", () => {
    const random = createRandom(1);
    const digit = (): string => String(Math.floor(random() * 10));
    const near = (text: string): string => {
      const at = Math.floor(random() * (text.length + 1));
      return text.slice(0, at) + (random() < 0.2 ? "." : digit()) + text.slice(at + Math.floor(random() * 2));
    };
    const wrong: unknown[] = [];
    for (let round = 0; round < 300; round++) {
      const [a, b] = [0, 1].map(() => (random() - 0.5) * 10 ** Math.floor(random() * 20 - 4)) as [number, number];
      const all: NumberBounds = {
        isInteger: random() < 0.3,
        least: Math.min(a, b),
        most: Math.max(a, b),
        above: random() < 0.5,
        below: random() < 0.5,
      };
      const { machine } = make(all);
      for (let i = 0; i < 40; i++) {
        const text = near(near((random() < 0.5 ? a : b).toFixed(Math.floor(random() * 16))));
        const state = follow(machine, text);
        const accepted = state !== undefined && machine.ending(state) !== undefined;
        // Of decimals that a double does not tell from a bound, those on its outer side are left out.
        const isExpected = isIn(text, all);
        if (accepted && !isExpected) wrong.push([all, text, "is in"]);
        if (!accepted && isExpected && !isAtBound(text, all)) wrong.push([all, text, "is out"]);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("end after as many bytes as their cost says, with a digit at a time", () => {
    for (const some of [...bounds, { least: 1e14, above: true }, { isInteger: true, least: 123_456_789 }]) {
      const { machine } = make(some);
      let state: number = boundedNumberStart;
      let cost = machine.cost(state);
      if (cost === infinite) continue;
      for (; cost > 0; cost--) {
        const next = [..."-.0123456789"].map((each) => machine.step(state, each.charCodeAt(0)));
        const cheaper = next.find((each) => each !== undefined && machine.cost(each) < cost);
        expect([some, cost, cheaper]).not.toContain(undefined);
        state = cheaper!;
      }
      expect(machine.ending(state)).toBeDefined();
    }
  });

  it("do not exist if a bound is outside the range that can be written", () => {
    for (const some of [{ least: 1e300 }, { most: -1e21 }, { least: Number.MAX_VALUE, above: true }]) {
      expect(make(some).machine.cost(boundedNumberStart)).toBe(infinite);
    }
    expect(make({ most: 1e300 }).machine.cost(boundedNumberStart)).toBe(1);
  });

  it("take a few steps, however far away the bounds are", () => {
    for (const least of [1e5, 1e6, 1e7, 1e14, -1e14, 0.1, 1e-15, 5e-324]) {
      for (const isInteger of [true, false]) {
        const { budget, machine } = make({ isInteger, least, most: 10 ** 15 });
        for (const first of "-0123456789") for (const second of ".0123456789") follow(machine, first + second);
        expect(budget.steps).toBeLessThan(4000);
        expect(budget.bytes).toBeLessThan(250_000);
      }
    }
  });
});

/** Whether a number is a bound, or a double next to one. */
function isAtBound(text: string, { least, most }: NumberBounds): boolean {
  const step = (bound: number): number => Math.abs(bound) * 2 ** -52 + Number.MIN_VALUE;
  return [least, most].some((bound) => Math.abs(Number(text) - bound) <= step(bound));
}
