/**
 * Combines the results of one batch's chunks: concatenates outputs and reduces metrics by the suffix of their names (`loss:sum`,
 * `mfu:mean`). Results equal those of the Python SDK to the last bit, including NumPy's order of summation and CPython's hash of a tuple.
 * Where Python raises on a metric, a completed training step would be lost; here the metric is kept and `onProblem` is called.
 */
import { ForwardBackwardOutput } from "@tinklet/wire/client";

/** The result of a batch. */
export class CombinedOutput extends ForwardBackwardOutput {
  /**
   * The exact values of metrics that are 64-bit hashes (`:hash_unordered`, `:hash2`). In `metrics` they are rounded to the nearest double.
   */
  readonly hashes: Readonly<Record<string, bigint>>;

  constructor(
    parts: ConstructorParameters<typeof ForwardBackwardOutput>[0] & {
      readonly hashes: Readonly<Record<string, bigint>>;
    },
  ) {
    super(parts);
    this.hashes = parts.hashes;
  }
}

interface Reduced {
  readonly values: readonly number[];
  /** Number of outputs per chunk. */
  readonly weights: readonly number[];
  readonly report: (problem: string) => void;
}

/** Result of a reduction; a `bigint` is a hash. */
type Reduction = (parts: Reduced) => number | bigint;

// "hash_unordered" is the hash of SDK 0.25, "hash2" replaced it; a server may send either.
const reductions: Readonly<Record<string, Reduction>> = {
  mean: weightedMean,
  slack: (parts) => largest(parts.values) - weightedMean(parts),
  sum: ({ values }) => pairwiseSum(values),
  min: ({ values }) => values.reduce((a, b) => Math.min(a, b)),
  max: ({ values }) => largest(values),
  hash_unordered: (parts) => hashed(parts, hashUnordered),
  hash2: (parts) =>
    hashed(parts, (all) =>
      BigInt.asUintN(
        64,
        all.reduce((a, b) => a + BigInt(Math.trunc(b)), 0n),
      ),
    ),
};

/**
 * Combines the results of a batch's chunks, in order. Also for passes whose gradients were accumulated by the caller.
 *
 * Keeps metrics that every chunk has; drops unknown reductions, as Python does. Python raises in three cases that are handled here: a
 * name without exactly one colon (the part after the last colon is used; without a known reduction there, values are kept separately as
 * for `unique`), means over chunks without outputs (equal weights), and hashes of values that are not finite (NaN).
 *
 * @param options.onProblem - called with one sentence for each such metric.
 *
 * @example
 * ```ts
 * const passes = [trainer.forwardBackward(batch, "cross_entropy"), trainer.forwardBackward(batch, "cross_entropy")];
 * await trainer.optimStep({ learningRate: 1e-4 });
 * console.log(combineOutputs(await Promise.all(passes)).metrics["loss:sum"]);
 * ```
 */
export function combineOutputs(
  outputs: readonly ForwardBackwardOutput[],
  options: { readonly onProblem?: (problem: string) => void } = {},
): CombinedOutput {
  const report = options.onProblem ?? (() => {});
  const [first] = outputs;
  if (first === undefined) return new CombinedOutput({ lossFnOutputType: "", lossFnOutputs: [], hashes: {} });
  const weights = outputs.map((output) => output.lossFnOutputs.length);
  const metrics: [string, number][] = [];
  const hashes: [string, bigint][] = [];
  for (const key of Object.keys(first.metrics)) {
    const name = reductionOf(key, report);
    if (name === undefined) continue;
    if (!outputs.every((output) => Object.hasOwn(output.metrics, key))) continue;
    const values = outputs.map((output) => output.metrics[key] as number);
    if (name === "unique") {
      for (const [i, value] of values.entries()) metrics.push([i === 0 ? key : `${key}_${i}`, value]);
      continue;
    }
    const reduced = reductions[name]!({ values, weights, report: (problem) => report(`Metric "${key}" ${problem}`) });
    metrics.push([key, Number(reduced)]);
    if (typeof reduced === "bigint") hashes.push([key, reduced]);
  }
  return new CombinedOutput({
    lossFnOutputType: first.lossFnOutputType,
    lossFnOutputs: outputs.flatMap((output) => output.lossFnOutputs),
    metrics: Object.fromEntries(metrics),
    hashes: Object.fromEntries(hashes),
  });
}

/** The reduction of a metric, by its name; `undefined` if the metric is dropped. */
function reductionOf(key: string, report: (problem: string) => void): string | undefined {
  const parts = key.split(":");
  const last = parts.at(-1) as string;
  const known = last === "unique" || Object.hasOwn(reductions, last);
  if (parts.length === 2) return known ? last : undefined;
  const used = parts.length > 2 && known ? last : "unique";
  report(
    `Metric "${key}" is not named <name>:<reduction>; ${used === "unique" ? "its values are kept separately" : `it is reduced as a ${used}`}.`,
  );
  return used;
}

function weightedMean({ values, weights, report }: Reduced): number {
  const total = pairwiseSum(weights);
  if (total !== 0) return pairwiseSum(values.map((value, i) => value * (weights[i] as number))) / total;
  report("came from chunks without outputs; all chunks have equal weight.");
  return pairwiseSum(values) / values.length;
}

/** `Math.max` propagates NaN, as NumPy does. */
const largest = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b));

/**
 * NumPy's pairwise sum: up to 8 values sequentially, up to 128 in eight accumulators, more by halves. Floating-point sums depend on the
 * order, so equal bits need the same order.
 */
export function pairwiseSum(values: readonly number[], start = 0, end = values.length): number {
  const count = end - start;
  const at = (i: number) => values[start + i] as number;
  if (count < 8) {
    let sum = 0;
    for (let i = 0; i < count; i++) sum += at(i);
    return sum;
  }
  if (count > 128) {
    const half = Math.floor(count / 2);
    const middle = start + half - (half % 8);
    return pairwiseSum(values, start, middle) + pairwiseSum(values, middle, end);
  }
  const lane = [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)] as [...Lanes];
  const whole = count - (count % 8);
  for (let i = 8; i < whole; i += 8) for (let j = 0; j < 8; j++) lane[j as 0] += at(i + j);
  let sum = lane[0] + lane[1] + (lane[2] + lane[3]) + (lane[4] + lane[5] + (lane[6] + lane[7]));
  for (let i = whole; i < count; i++) sum += at(i);
  return sum;
}
type Lanes = [number, number, number, number, number, number, number, number];

function hashed({ values, report }: Reduced, hash: (values: readonly number[]) => bigint): number | bigint {
  if (values.every(Number.isFinite)) return hash(values);
  report("is a hash of values that are not finite; it is NaN.");
  return Number.NaN;
}

const prime1 = 11400714785074694791n;
const prime2 = 14029467366897019727n;
const prime5 = 2870177450012600261n;
const hashModulus = 2n ** 61n - 1n;
const u64 = (value: bigint) => BigInt.asUintN(64, value);

/**
 * CPython's `hash(tuple(sorted(int(x) for x in values)))`: the 64-bit xxHash-like mix of the elements' hashes.
 *
 * @throws RangeError when a value is not finite.
 */
export function hashUnordered(values: readonly number[]): bigint {
  const sorted = values.map((value) => BigInt(Math.trunc(value))).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  let mixed = prime5;
  for (const value of sorted) {
    const summed = u64(mixed + u64(hashInt(value)) * prime2);
    mixed = u64(u64((summed << 31n) | (summed >> 33n)) * prime1);
  }
  const result = BigInt.asIntN(64, mixed + (BigInt(sorted.length) ^ (prime5 ^ 3527539n)));
  return result === -1n ? 1546275796n : result; // -1 is CPython's mark of an error
}

/** `hash(int)`: the value modulo 2^61 - 1 with its sign kept; -1 becomes -2. */
function hashInt(value: bigint): bigint {
  const hash = value % hashModulus; // BigInt's remainder keeps the sign of the dividend
  return hash === -1n ? -2n : hash;
}
