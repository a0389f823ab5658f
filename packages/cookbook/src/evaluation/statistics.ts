/** Figures of a sample: the mean with its error, an interval, and the chance of one success in k tries. */

/** The mean of a sample with its uncertainty. */
export interface Estimate {
  readonly mean: number;
  readonly standardError: number;
  /** Ends of the 95 % confidence interval. */
  readonly low: number;
  readonly high: number;
}

const z = 1.959964; // two-sided 95 % of the normal distribution

/** For scores that are all 0 or 1 the interval is Wilson's, which is never empty; else it is that of the normal distribution. */
export function estimate(scores: readonly number[]): Estimate {
  const count = scores.length;
  if (count === 0) return { mean: Number.NaN, standardError: Number.NaN, low: Number.NaN, high: Number.NaN };
  const mean = scores.reduce((sum, score) => sum + score, 0) / count;
  const variance = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / Math.max(count - 1, 1);
  const standardError = Math.sqrt(variance / count);
  if (!scores.every((score) => score === 0 || score === 1))
    return { mean, standardError, low: mean - z * standardError, high: mean + z * standardError };
  const scale = 1 + z ** 2 / count;
  const centre = (mean + z ** 2 / (2 * count)) / scale;
  const half = (z * Math.sqrt((mean * (1 - mean)) / count + z ** 2 / (4 * count ** 2))) / scale;
  return { mean, standardError, low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}

/**
 * The chance that at least one of `k` answers is right, estimated without bias from `count` answers of which `right` are.
 *
 * @example
 * ```ts
 * passAtK({ count: 4, right: 1, k: 2 }); // 0.5
 * ```
 */
export function passAtK({
  count,
  right,
  k,
}: {
  readonly count: number;
  readonly right: number;
  readonly k: number;
}): number {
  if (count - right < k) return 1;
  let missed = 1;
  for (let i = count - right + 1; i <= count; i++) missed *= 1 - k / i;
  return 1 - missed;
}
