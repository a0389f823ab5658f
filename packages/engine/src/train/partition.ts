/** Divides a sorted list into a few contiguous parts with the least work; used for attention rectangles and for sums of repeated rows. */

export interface PartitionOptions {
  /** Maximum number of parts. */
  readonly limit: number;
  /**
   * Work of the elements from `start` to `end` (exclusive) as one part. For each `end`, called with `start` descending from `end - 1`, so
   * that the caller can keep a running maximum.
   */
  readonly work: (start: number, end: number) => number;
}

/**
 * Ends of the parts of `count` elements, in order. Dynamic programming finds the optimum; an additional part must save 5 % to pay for its
 * overhead.
 */
export const partition = (count: number, { limit, work }: PartitionOptions): number[] => {
  // cost[k][i]: least work of the first i elements in k parts; cut[k][i]: start of the last of these parts.
  const cost: Float64Array[] = [new Float64Array(count + 1).fill(Number.POSITIVE_INFINITY)];
  const cut: Int32Array[] = [new Int32Array(0)];
  cost[0]![0] = 0;
  for (let k = 1; k <= limit; k++) {
    cost.push(new Float64Array(count + 1).fill(Number.POSITIVE_INFINITY));
    cut.push(new Int32Array(count + 1));
  }
  for (let end = 1; end <= count; end++) {
    for (let start = end - 1; start >= 0; start--) {
      const part = work(start, end);
      for (let k = 1; k <= limit; k++) {
        const total = cost[k - 1]![start]! + part;
        if (total <= cost[k]![end]! && total < Number.POSITIVE_INFINITY) {
          cost[k]![end] = total;
          cut[k]![end] = start;
        }
      }
    }
  }
  let best = 1;
  for (let k = 2; k <= limit; k++) if (cost[k]![count]! < 0.95 * cost[best]![count]!) best = k;
  const ends: number[] = [];
  for (let k = best, end = count; k > 0 && end > 0; k--) {
    ends.unshift(end);
    end = cut[k]![end]!;
  }
  return ends;
};
