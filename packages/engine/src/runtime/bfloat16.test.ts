/** Rounding to bfloat16 compared with a definition by exact arithmetic. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { roundToBfloat16 } from "./bfloat16.ts";

const special = [0, -0, 1, -1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 2 ** -133, 3.4e38, Number.POSITIVE_INFINITY, Number.NaN];

it("keeps values that have 8 significant bits, zeros with their sign, infinities and NaN", () => {
  for (const value of [0, -0, 1, -1, 0.5, 1 + 2 ** -7, -(2 ** 100), Number.POSITIVE_INFINITY, Number.NaN]) {
    expect(Object.is(roundToBfloat16([value])[0], value), String(value)).toBe(true);
  }
});

it("rounds to the nearest, ties to even", () => {
  expect(roundToBfloat16([1 + 2 ** -8, 1 + 3 * 2 ** -8, -(1 + 2 ** -8)])).toEqual(Float32Array.of(1, 1 + 2 ** -6, -1));
  fc.assert(
    fc.property(fc.oneof(fc.float({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(...special)), (value) => {
      const given = Math.fround(value);
      if (!Number.isFinite(given) || Math.abs(given) < 2 ** -126 || Math.abs(given) > 3.3e38) return;
      const unit = 2 ** (Math.floor(Math.log2(Math.abs(given))) - 7); // distance of neighbours, or half of it just below a power of 2
      const [rounded] = roundToBfloat16([given]);
      expect(Math.abs(rounded! - given)).toBeLessThanOrEqual(unit / 2);
      expect(Number.isInteger(rounded! / unit)).toBe(true);
    }),
  );
});
