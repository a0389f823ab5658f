/** Lays out the inputs of a draw, row by row. */
import { f32, i32, type Value } from "../../runtime/runtime.ts";
import type { Choice } from "../choose-token.ts";
import { belowOne, blockOf, drawInputs, filterInputs, idsInput, mostCandidates, ranksInput } from "./draw-graph.ts";

export interface DrawRow {
  /** 1 / temperature. */
  readonly coldness: number;
  readonly greedy: boolean;
  readonly choice: Choice;
  /** In [0, 1); ignored for greedy rows. */
  readonly random: number;
}

/** Whether the parameters include a filter (top-k, top-p, min-p). */
export const isFiltered = ({ topK, topP, minP = 0 }: Choice): boolean => topK > 0 || topP < 1 || minP > 0;

const candidatesOf = (vocabSize: number): number => Math.min(vocabSize, mostCandidates);

/** Tables that every draw reads; the caller keeps them on the device. */
export const drawTables = (vocabSize: number): Record<string, Value> => {
  const candidates = candidatesOf(vocabSize);
  return {
    [idsInput]: f32(
      Float32Array.from({ length: vocabSize }, (_, id) => id),
      [vocabSize],
    ),
    [ranksInput]: f32(
      Float32Array.from({ length: candidates }, (_, rank) => rank + 1),
      [1, candidates],
    ),
  };
};

export const drawRows = (rows: readonly DrawRow[], vocabSize: number, filtered: boolean): Record<string, Value> => {
  const column = (of: (row: DrawRow, index: number) => number): Value =>
    f32(Float32Array.from(rows, of), [rows.length, 1]);
  const blocks = vocabSize / blockOf(vocabSize);
  const inputs: Record<string, Value> = {
    [drawInputs.coldness]: column(({ coldness }) => coldness),
    [drawInputs.greedy]: column(({ greedy }) => (greedy ? 1 : 0)),
    [drawInputs.random]: column(({ random }) => Math.min(random, belowOne)),
    "draw.firstBlock": column((_, index) => index * blocks),
  };
  if (!filtered) return inputs;
  const candidates = candidatesOf(vocabSize);
  const all = candidates === vocabSize;
  return {
    ...inputs,
    "draw.candidates": i32(Int32Array.of(candidates), [1]),
    "draw.ranks": f32(
      Float32Array.from({ length: candidates }, (_, i) => i + 1),
      [1, candidates],
    ),
    [filterInputs.filtered]: column(({ choice }) => (isFiltered(choice) ? 1 : 0)),
    [filterInputs.topK]: column(({ choice: { topK } }) => (topK > 0 ? Math.min(topK, candidates) : candidates)),
    // A top-k larger than the number of candidates is drawn on the host, like a larger nucleus.
    [filterInputs.topKOff]: column(({ choice: { topK } }) => ((topK > 0 && topK <= candidates) || all ? 0 : 1)),
    [filterInputs.topP]: column(({ choice: { topP } }) => (topP < 1 ? topP : 2)),
    [filterInputs.minP]: column(({ choice: { minP = 0 } }) => minP),
  };
};
