/**
 * Rows of the vocabulary projection: one per packed row, with a column for every target at that position. Data with an equal target share
 * its column, and the slopes of shared prefixes are added there. Also lays out the inputs of the head's slots and reads their results.
 */
import type { AdapterWeights } from "../adapter/adapter.ts";
import { f32, i32, type Value } from "../runtime/runtime.ts";
import type { LossFnName } from "../types.ts";
import type { CheckedDatum } from "./data.ts";
import { losses, noSlope, type SlopeTerms, slopeTerms } from "./losses.ts";

/** One row of the projection. */
export interface HeadRow {
  /** Index on the packed axis. */
  readonly row: number;
  readonly targets: number[];
  readonly terms: SlopeTerms[];
  /** Whether any column has a slope. */
  weighted: boolean;
  /** Index of the first column in the head's output. */
  offset: number;
  /** Fills a slot that would be empty; its results are not read. */
  readonly isPadding?: true;
}

/** A datum of a run: the packed row of each position, and the destination of its log-probs. */
export interface RunMember {
  readonly datum: CheckedDatum;
  readonly rows: Int32Array;
  readonly logprobs: Float32Array;
}

/** Rows of a run; for each target of each member, its row (index into `rows`) and column. */
export interface HeadRows {
  readonly rows: readonly HeadRow[];
  readonly places: readonly { readonly row: Int32Array; readonly column: Int32Array }[];
}

const hasSlope = ({ ratio, clipped, constant, gap }: SlopeTerms): boolean =>
  ratio !== 0 || clipped !== 0 || constant !== 0 || gap !== 0;

/** Slopes are linear in four of their terms; slopes that agree in the other terms can be added. */
const canAdd = (a: SlopeTerms, b: SlopeTerms): boolean =>
  a.samplingLogprob === b.samplingLogprob &&
  a.windowLow === b.windowLow &&
  a.windowHigh === b.windowHigh &&
  a.clipLow === b.clipLow &&
  a.clipHigh === b.clipHigh;

const added = (a: SlopeTerms, b: SlopeTerms): SlopeTerms => ({
  ...a,
  ratio: a.ratio + b.ratio,
  clipped: a.clipped + b.clipped,
  constant: a.constant + b.constant,
  gap: a.gap + b.gap,
});

/** The column for a target: an equal one among the first `known`, or a new one. */
const columnFor = (
  { targets, terms }: HeadRow,
  known: number,
  entry: { target: number; slope: SlopeTerms },
): number => {
  const { target, slope } = entry;
  const weighted = hasSlope(slope);
  for (let column = 0; column < known; column++) {
    if (targets[column] !== target) continue;
    const own = terms[column]!;
    if (!weighted) return column;
    if (!hasSlope(own)) terms[column] = slope;
    else if (canAdd(own, slope)) terms[column] = added(own, slope);
    else continue;
    return column;
  }
  targets.push(target);
  terms.push(slope);
  return targets.length - 1;
};

/** @param options.train - if false, no column has a slope */
export const collectHeadRows = (
  members: readonly RunMember[],
  { lossFn, train }: { lossFn: LossFnName; train: boolean },
): HeadRows => {
  const rows: HeadRow[] = [];
  const known = new Map<number, number>();
  const { slopeTerms } = losses[lossFn];
  const places = members.map(({ datum, rows: packed }) => {
    const { width, targets } = datum;
    const place = { row: new Int32Array(targets.length), column: new Int32Array(targets.length) };
    for (let position = 0; position < packed.length; position++) {
      const at = packed[position]!;
      let index = known.get(at);
      if (index === undefined) {
        index = rows.length;
        known.set(at, index);
        rows.push({ row: at, targets: [], terms: [], weighted: false, offset: 0 });
      }
      const row = rows[index]!;
      // Equal targets of one datum have separate columns.
      const shared = row.targets.length;
      for (let k = 0; k < width; k++) {
        const i = position * width + k;
        const slope = train ? slopeTerms(datum.position(i)) : noSlope;
        place.row[i] = index;
        place.column[i] = columnFor(row, shared, { target: targets[i]!, slope });
      }
    }
    return place;
  });
  for (const row of rows) row.weighted = row.terms.some(hasSlope);
  return { rows, places };
};

/**
 * Divides rows into slots of `size`, or evenly if there are too many. The widest rows come first, so that few rows are padded to their
 * width.
 */
export const divideRows = (rows: readonly HeadRow[], { slots, size }: { slots: number; size: number }): HeadRow[][] => {
  const sorted = rows.toSorted((a, b) => b.targets.length - a.targets.length);
  const most = Math.max(size, Math.ceil(rows.length / slots));
  return Array.from({ length: slots }, (_, slot) => sorted.slice(slot * most, (slot + 1) * most));
};

/** Numbers of slots of a program on a device: with every number, programs would be compiled too often. */
const slotCounts = [1, 2, 4, 8] as const;

/** Divides rows into non-empty slots: the next number in `slotCounts`, at least `least`. Device providers fail on empty tensors. */
export const fillSlots = (slots: readonly HeadRow[][], least: number): HeadRow[][] => {
  const filled = slots.filter((slot) => slot.length > 0);
  const wanted = Math.max(least, filled.length);
  if (wanted === 0) return [];
  const padding: HeadRow = { row: 0, targets: [0], terms: [noSlope], weighted: false, offset: 0, isPadding: true };
  const count = slotCounts.find((each) => each >= wanted) ?? wanted;
  return Array.from({ length: count }, (_, index) => filled[index] ?? [{ ...padding }]);
};

/** Columns of a slot: the width of its widest row. */
export const widthOf = (slot: readonly HeadRow[]): number =>
  slot.reduce((most, { targets }) => Math.max(most, targets.length), 1);

/** Numbers the columns of the slots in the order of the head's output, starting at `offset`; returns the next number. */
export const placeSlots = (slots: readonly (readonly HeadRow[])[], offset: number): number => {
  let at = offset;
  for (const slot of slots) {
    const width = widthOf(slot);
    for (const row of slot) {
      row.offset = at;
      at += width;
    }
  }
  return at;
};

/** Rows and targets of slots and, with `terms`, their slope terms `[terms, rows, width]`, which are zero for padding columns. */
export const slotInputs = (
  name: string,
  slots: readonly (readonly HeadRow[])[],
  { terms = false } = {},
): Record<string, Value> => {
  const inputs: Record<string, Value> = {};
  slots.forEach((slot, index) => {
    const width = widthOf(slot);
    const plane = slot.length * width;
    const targets = new Int32Array(plane);
    const table = new Float32Array(terms ? slopeTerms.length * plane : 0);
    slot.forEach((row, line) => {
      targets.set(row.targets, line * width);
      if (!terms) return;
      row.terms.forEach((slope, k) => {
        slopeTerms.forEach((term, t) => {
          table[t * plane + line * width + k] = slope[term];
        });
      });
    });
    const rows = Int32Array.from(slot, ({ row }) => row);
    inputs[`${name}${index}.rows`] = i32(rows, [slot.length]);
    inputs[`${name}${index}.targets`] = i32(targets, [slot.length, width]);
    if (terms) inputs[`${name}${index}.terms`] = f32(table, [slopeTerms.length, slot.length, width]);
  });
  return inputs;
};

/** Copies log-probs to each datum. */
export const spreadLogprobs = (
  members: readonly RunMember[],
  { rows, places }: HeadRows,
  scored: Float32Array,
): void => {
  members.forEach(({ logprobs }, index) => {
    const { row, column } = places[index]!;
    for (let i = 0; i < logprobs.length; i++) logprobs[i] = scored[rows[row[i]!]!.offset + column[i]!]!;
  });
};

/** The sparse part of the gradient of the unembedding's B: slope · z at the row of each target, for weighted rows in the head's order. */
export const addSparseUnembedding = (
  gradient: Float32Array,
  { layout }: AdapterWeights,
  { rows, slopes, inner }: { rows: readonly HeadRow[]; slopes: Float32Array; inner: Float32Array },
): void => {
  const { offsetB } = layout.modules.at(-1)!;
  const { rank } = layout;
  rows.forEach(({ targets, offset }, line) => {
    for (const [k, target] of targets.entries()) {
      const slope = slopes[offset + k]!;
      const at = offsetB + target * rank;
      for (let i = 0; i < rank; i++) gradient[at + i]! += slope * inner[line * rank + i]!;
    }
  });
};
