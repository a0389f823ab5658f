/** Rows of the head in slots: index arithmetic at the sizes where a new slot begins. */
import { expect, it } from "vitest";
import { divideRows, type HeadRow, placeSlots, widthOf } from "./head-rows.ts";
import { noSlope } from "./losses.ts";

/** Rows with these numbers of targets. */
const rowsOf = (widths: readonly number[]): HeadRow[] =>
  widths.map((width, row) => ({
    row,
    targets: new Array<number>(width).fill(0),
    terms: new Array<typeof noSlope>(width).fill(noSlope),
    weighted: false,
    offset: -1,
  }));

it.each([0, 1, 7, 8, 9, 31, 32, 33, 64, 65, 1000])(
  "%s rows: each in one slot, as full as they may be, at a place of its own",
  (count) => {
    const [slots, size] = [4, 8];
    const widths = Array.from({ length: count }, (_, i) => 1 + ((i * 7) % 5));
    const divided = divideRows(rowsOf(widths), { slots, size });
    expect(divided).toHaveLength(slots);
    expect(
      divided
        .flat()
        .map(({ row }) => row)
        .sort((a, b) => a - b),
    ).toEqual(widths.map((_, row) => row));
    const most = Math.max(size, Math.ceil(count / slots));
    expect(divided.map(({ length }) => length)).toEqual(
      divided.map((_, slot) => Math.max(0, Math.min(most, count - slot * most))),
    );
    // The head's output: each slot's rows, padded to the widest of them.
    const end = placeSlots(divided, 5);
    expect(end).toBe(5 + divided.reduce((sum, slot) => sum + slot.length * widthOf(slot), 0));
    const cells = divided.flat().flatMap(({ offset, targets }) => targets.map((_, k) => offset + k));
    expect(new Set(cells).size).toBe(cells.length);
    expect(Math.min(...cells, 5)).toBe(5);
    expect(Math.max(...cells, 0)).toBeLessThan(Math.max(end, 1));
  },
);
