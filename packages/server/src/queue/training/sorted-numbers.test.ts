import fc from "fast-check";
import { expect, test } from "vitest";
import { SortedNumbers } from "./sorted-numbers.ts";

test("behaves as a sorted set for any sequence of additions and removals", () => {
  const step = fc.record({ number: fc.integer({ min: 0, max: 60 }), take: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const sorted = new SortedNumbers();
      const plain = new Set<number>();
      for (const { number, take } of steps) {
        if (take) sorted.delete(number);
        else if (!plain.has(number)) sorted.add(number);
        if (take) plain.delete(number);
        else plain.add(number);
        expect(sorted.size).toBe(plain.size);
        expect(sorted.lowest ?? Infinity).toBe(Math.min(...plain));
        expect(sorted.countBelow(number)).toBe([...plain].filter((other) => other < number).length);
      }
    }),
  );
});

test("stays correct when the lowest numbers are removed many times", () => {
  const sorted = new SortedNumbers();
  for (let number = 0; number < 5000; number++) {
    sorted.add(number);
    if (number >= 10) sorted.delete(number - 10);
  }
  expect([sorted.size, sorted.lowest, sorted.countBelow(4995)]).toEqual([10, 4990, 5]);
});
