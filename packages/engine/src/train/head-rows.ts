/**
 * The rows of the vocabulary projection: one for each packed row, with a column for every target that some datum has there. Data that
 * agree on a target share its column, and where a prefix is shared their slopes are added in it. Also what the head's slots are given
 * and how what they return is put back.
 */
import type { AdapterWeights } from "../adapter/adapter.ts";
import { f32, i32, type Value } from "../runtime/runtime.ts";
import type { LossFnName } from "../types.ts";
import type { CheckedDatum } from "./data.ts";
import { losses, noSlope, type SlopeTerms, slopeTerms } from "./losses.ts";

/** One row of the projection. */
export interface HeadRow {
  /** In the packed axis. */
  readonly row: number;
  readonly targets: number[];
  readonly terms: SlopeTerms[];
  /** Whether any column has a slope. */
  weighted: boolean;
  /** Of the first column, in what the head returns. */
  offset: number;
  /** Fills a slot that would be empty; its results are not read. */
  readonly isPadding?: true;
}

/** A datum of a run: which packed row each position has, and where its log-probs go. */
export interface RunMember {
  readonly datum: CheckedDatum;
  readonly rows: Int32Array;
  readonly logprobs: Float32Array;
}

/** Rows of a run, and for each target of each member its row (index into `rows`) and column. */
export interface HeadRows {
  readonly rows: readonly HeadRow[];
  readonly places: readonly { readonly row: Int32Array; readonly column: Int32Array }[];
}

const hasSlope = ({ ratio, clipped, constant, gap }: SlopeTerms): boolean =>
  ratio !== 0 || clipped !== 0 || constant !== 0 || gap !== 0;

/** Slopes are linear in four of their terms; those that agree in the others can be added. */
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

/** The column for a target: one of the first `known` that it can share, or a new one. */
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

/** @param options.train without it nothing has a slope. */
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
      // A datum's own targets each have a column, equal or not.
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

/** Rows in slots: `size` in each, or evenly when there are too many. Wide rows come first, so that few others are padded to them. */
export const divideRows = (rows: readonly HeadRow[], { slots, size }: { slots: number; size: number }): HeadRow[][] => {
  const sorted = rows.toSorted((a, b) => b.targets.length - a.targets.length);
  const most = Math.max(size, Math.ceil(rows.length / slots));
  return Array.from({ length: slots }, (_, slot) => sorted.slice(slot * most, (slot + 1) * most));
};

/** Slots that a program on a device can have: a program for every number would be compiled too often. */
const slotCounts = [1, 2, 4, 8] as const;

/**
 * Slots none of which is empty, as many as `slotCounts` has next, and at least `least`: providers of devices fail on empty tensors.
 */
export const fillSlots = (slots: readonly HeadRow[][], least: number): HeadRow[][] => {
  const filled = slots.filter((slot) => slot.length > 0);
  const wanted = Math.max(least, filled.length);
  if (wanted === 0) return [];
  const padding: HeadRow = { row: 0, targets: [0], terms: [noSlope], weighted: false, offset: 0, isPadding: true };
  const count = slotCounts.find((each) => each >= wanted) ?? wanted;
  return Array.from({ length: count }, (_, index) => filled[index] ?? [{ ...padding }]);
};

/** Columns of a slot, as many as its widest row has. */
export const widthOf = (slot: readonly HeadRow[]): number =>
  slot.reduce((most, { targets }) => Math.max(most, targets.length), 1);

/** Numbers the columns of the slots as the head returns them, from `offset` on; returns the number behind the last. */
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

/** Rows and targets of slots, and with `terms` their slope terms `[terms, rows, width]`; columns that a row does not have get none. */
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

/** Gives every datum its log-probs. */
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

/** The sparse part of the gradient of the unembedding's B: slope · z at the row of each target, of weighted rows in the head's order. */
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
