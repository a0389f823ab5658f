/** Cutting a sorted list into a few neighbouring parts with the least work: behind attention's rectangles and the sums of repeated rows. */

export interface PartitionOptions {
  /** Most parts. */
  readonly limit: number;
  /**
   * Work of the elements `start` up to `end` (exclusive) as one part. For one `end`, asked for falling `start`s from `end - 1` on, so
   * that a caller may keep a running maximum.
   */
  readonly work: (start: number, end: number) => number;
}

/**
 * Where the parts of `count` elements end, in order. A small dynamic program finds the optimum; a further part must save 5 % to be worth
 * its overhead.
 */
export const partition = (count: number, { limit, work }: PartitionOptions): number[] => {
  // cost[k][i]: the least work for the first i elements in k parts; cut[k][i] where the last of them starts.
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
