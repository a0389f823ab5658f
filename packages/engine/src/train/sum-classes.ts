/**
 * Sums of gathered rows, with different numbers of rows per result. Results with similar numbers form a class, whose sums are one reduction
 * over a padded table of row indices. Unlike in a scatter with addition, the order of additions does not depend on threads.
 */
import { partition } from "./partition.ts";

export interface SumClass {
  /** Indices of the results. */
  readonly members: readonly number[];
  /** Maximum number of rows of a result in the class. */
  readonly times: number;
}

/** Divides results into at most `limit` classes with the least padding. `counts` has the number of rows of each result. */
export const sumClasses = (counts: readonly number[], limit: number): SumClass[] => {
  const byCount = new Map<number, number[]>();
  counts.forEach((count, result) => {
    const alike = byCount.get(count);
    if (alike) alike.push(result);
    else byCount.set(count, [result]);
  });
  const distinct = [...byCount.keys()].sort((a, b) => a - b);
  let results = 0;
  const ends = partition(distinct.length, {
    limit,
    work: (start, end) => {
      results = (start === end - 1 ? 0 : results) + byCount.get(distinct[start]!)!.length;
      return results * distinct[end - 1]!;
    },
  });
  return ends.map((end, index) => ({
    members: distinct.slice(ends[index - 1] ?? 0, end).flatMap((count) => byCount.get(count)!),
    times: distinct[end - 1]!,
  }));
};
