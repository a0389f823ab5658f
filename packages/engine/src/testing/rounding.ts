/**
 * Measures float32's rounding error by Monte Carlo arithmetic. The float64 interpreter runs a graph several times and adds to every result
 * of an operation a random error as large as float32 allows, for any order of summation and any instruction set. The spread of the final
 * results includes the conditioning of every operation on the way; {@link Tolerance} derives from it the one bound by which float32 results
 * are judged.
 */
import type { Adapter } from "../adapter/adapter.ts";
import { createInterpreter } from "../runtime/interpreter.ts";
import { type Floats, kernels } from "../runtime/kernels.ts";
import type { Runtime, Value } from "../runtime/runtime.ts";

/** Unit roundoff of float32: half the distance from 1 to the next number. */
export const unitRoundoff = 2 ** -24;
/** Error of exp, log and the logistic function in the libraries in use, in unit roundoffs. */
const functionError = 4;

type Noise = () => number;
type Bound = (inputs: readonly Value[], outputs: readonly Value[], noise: Noise) => void;

const floats = (value: Value | undefined): Floats => value!.data as Floats;

/** Uniform in [-1, 1): the error of one rounding, in units of the maximum. */
function createNoise(seed: number): Noise {
  let state = Math.imul(seed, 0x9e3779b1) | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state / 2147483648;
  };
}

/** A relative error of this many roundoffs. */
const relative =
  (roundoffs: number): Bound =>
  (_, [y], noise) => {
    const out = floats(y);
    for (let i = 0; i < out.length; i++) out[i]! *= 1 + roundoffs * unitRoundoff * noise();
  };

/** Euclidean norm of each run along the summed axis of a matrix (or of a stack of matrices). */
function lengths({ data, dims }: Value, summedIsLast: boolean): Float64Array {
  const [rows, columns] = dims.slice(-2) as [number, number];
  const kept = summedIsLast ? rows : columns;
  const matrices = data.length / (rows * columns);
  const sums = new Float64Array(matrices * kept);
  for (let i = 0; i < data.length; i++) {
    const row = Math.floor(i / columns);
    const run = summedIsLast ? row : Math.floor(row / rows) * columns + (i % columns);
    sums[run]! += (data[i] as number) ** 2;
  }
  return sums.map(Math.sqrt);
}

/**
 * The error of a sum of n products. By Cauchy–Schwarz no partial sum, in any order, exceeds ‖a‖‖b‖, so each of the n additions errs by at
 * most u‖a‖‖b‖; n independent errors add up to √n times that.
 */
const product =
  (transA: boolean, transB: boolean, alpha: number): Bound =>
  ([a, b], [y], noise) => {
    const inner = a!.dims.at(transA ? -2 : -1)!;
    if (inner === 0 || y!.data.length === 0) return;
    const [left, right] = [lengths(a!, !transA), lengths(b!, transB)];
    const [rows, columns] = y!.dims.slice(-2) as [number, number];
    const out = floats(y);
    const scale = Math.abs(alpha) * Math.sqrt(inner) * unitRoundoff;
    for (let i = 0; i < out.length; i++) {
      const row = Math.floor(i / columns);
      const matrix = Math.floor(row / rows);
      const at = a!.dims.length > 2 ? row : row % rows;
      const other = (b!.dims.length > 2 ? matrix * columns : 0) + (i % columns);
      out[i]! += scale * left[at]! * right[other]! * noise();
    }
  };

/** The same for a sum: no partial sum exceeds the sum of the absolute values. */
const sum: Bound = ([a, axes], [y], noise) => {
  const out = floats(y);
  const summands = a!.data.length / out.length;
  const absolute = { ...a!, data: floats(a).map(Math.abs) };
  const totals = floats(kernels["ReduceSum"]!([absolute, axes!], {}, Float64Array)[0]);
  for (let i = 0; i < out.length; i++) out[i]! += Math.sqrt(summands) * totals[i]! * unitRoundoff * noise();
};

/** exp(x − max) / Σ: the rounding of the difference becomes a relative error of the same size; then exp, the sum and the quotient. */
const softmax: Bound = ([x], [y], noise) => {
  const [input, out] = [floats(x), floats(y)];
  const width = y!.dims.at(-1)!;
  for (let start = 0; start < out.length; start += width) {
    let largest = Number.NEGATIVE_INFINITY;
    for (let i = start; i < start + width; i++) largest = Math.max(largest, input[i]!);
    const common = Math.sqrt(width) * noise();
    for (let i = start; i < start + width; i++) {
      if (out[i] === 0) continue; // exp underflows in float64, and in float32 already for larger values
      out[i]! *= 1 + unitRoundoff * (common + (functionError + 1 + largest - input[i]!) * noise());
    }
  }
};

/** The mean of the squares (all of one sign), its inverse root, and two products. The error of the root is common to the whole row. */
const rmsNorm: Bound = (_, [y, inverse], noise) => {
  const out = floats(y);
  const width = y!.dims.at(-1)!;
  for (let row = 0; row * width < out.length; row++) {
    const common = unitRoundoff * (Math.sqrt(width) / 2 + 2) * noise();
    for (let i = row * width; i < (row + 1) * width; i++) out[i]! *= 1 + common + 2 * unitRoundoff * noise();
    if (inverse) floats(inverse)[row]! *= 1 + common;
  }
};

/** Sums of two products of a pair whose norm is preserved. */
const rotary: Bound = (_, [y], noise) => {
  const out = floats(y);
  const half = y!.dims.at(-1)! / 2;
  for (let start = 0; start < out.length; start += 2 * half) {
    for (let i = start; i < start + half; i++) {
      const length = Math.hypot(out[i]!, out[i + half]!);
      out[i]! += 2 * unitRoundoff * length * noise();
      out[i + half]! += 2 * unitRoundoff * length * noise();
    }
  }
};

/** Absolute errors of a function with values in [0, 1], times the other factor of the product. */
const logistic =
  (factor: (x: number) => number): Bound =>
  ([x], [y], noise) => {
    const [input, out] = [floats(x), floats(y)];
    for (let i = 0; i < out.length; i++) out[i]! += functionError * unitRoundoff * factor(input[i]!) * noise();
  };

/** Operations that only copy or select values are exact and have no entry. */
const bounds: Readonly<Record<string, Bound>> = {
  Add: relative(1),
  Sub: relative(1),
  Mul: relative(1),
  Div: relative(1),
  ScatterND: relative(1),
  Exp: relative(functionError),
  Log: (_, [y], noise) => {
    const out = floats(y);
    for (let i = 0; i < out.length; i++)
      out[i]! += functionError * unitRoundoff * Math.max(1, Math.abs(out[i]!)) * noise();
  },
  Sigmoid: logistic(() => 1),
  QuickGelu: logistic(Math.abs),
  ReduceSum: sum,
  Softmax: softmax,
  SimplifiedLayerNormalization: rmsNorm,
  RotaryEmbedding: rotary,
};

/** The float64 interpreter with a float32-sized random error after every operation, from the seed. */
export function createRoundingRuntime(seed: number): Runtime {
  const noise = createNoise(seed);
  return createInterpreter({
    float64: true,
    afterNode: ({ type, attributes }, inputs, outputs) => {
      if (type !== "MatMul" && type !== "FusedMatMul") return bounds[type]?.(inputs, outputs, noise);
      const alpha = (attributes["alpha"] as { float: number } | undefined)?.float ?? 1;
      product(attributes["transA"] === 1, attributes["transB"] === 1, alpha)(inputs, outputs, noise);
    },
  });
}

/** Named groups of values. All values of a group are of one kind, with errors of one kind. */
export type Groups = Readonly<Record<string, ArrayLike<number>>>;

/** A result must lie within this many standard deviations of errors that are each as large as float32 allows. */
const deviations = 3;

/**
 * |x − x₆₄| ≤ 3 max(σᵢ, σ̄) + 2u|x₆₄|, where x₆₄ is the float64 value, σᵢ the standard deviation of the value over the runs of Monte Carlo
 * arithmetic, and σ̄ that of its whole group, because in a few runs a single value may vary too little by chance. The last term is the
 * rounding of x₆₄ and x when stored.
 */
export class Tolerance {
  readonly #exact: Groups;
  readonly #allowed = new Map<string, Float64Array>();

  constructor(exact: Groups, runs: readonly Groups[]) {
    this.#exact = exact;
    for (const [name, values] of Object.entries(exact)) {
      const variances = Float64Array.from(values, (value, i) => {
        let total = 0;
        for (const run of runs) total += (run[name]![i]! - value) ** 2;
        return total / runs.length;
      });
      const common = variances.reduce((total, variance) => total + variance, 0) / variances.length;
      const allowed = variances.map(
        (variance, i) => deviations * Math.sqrt(Math.max(variance, common)) + 2 * unitRoundoff * Math.abs(values[i]!),
      );
      this.#allowed.set(name, allowed);
    }
  }

  /** The error bound of each value of a group. */
  allowed(name: string): Float64Array {
    return this.#allowed.get(name)!;
  }

  /** The largest error as a fraction of its bound, and its location; above 1 the result is wrong. */
  worst(result: Groups): { readonly share: number; readonly where: string } {
    let worst = { share: 0, where: "nowhere" };
    for (const [name, exact] of Object.entries(this.#exact)) {
      const [values, allowed] = [result[name], this.#allowed.get(name)!];
      if (values?.length !== exact.length) return { share: Number.POSITIVE_INFINITY, where: `${name}: another size` };
      for (let i = 0; i < exact.length; i++) {
        const error = Math.abs(values[i]! - exact[i]!);
        const share = error === 0 ? 0 : error / allowed[i]!;
        if (share <= worst.share) continue;
        worst = { share, where: `${name}[${i}]: ${values[i]} instead of ${exact[i]} ± ${allowed[i]}` };
      }
    }
    return worst;
  }
}

/** The results of a test's computation with an adapter on a runtime. */
export type Compute = (runtime: Runtime, adapter: Adapter) => Promise<Groups>;

/** The tolerance of a computation, from its exact value and from several runs with float32-sized errors. */
export async function toleranceOf(compute: Compute, adapter: () => Adapter, runs: number): Promise<Tolerance> {
  const spread: Groups[] = [];
  for (let run = 1; run <= runs; run++) spread.push(await compute(createRoundingRuntime(run), inFloat64(adapter())));
  return new Tolerance(await compute(createInterpreter({ float64: true }), inFloat64(adapter())), spread);
}

/** The same, with all training state in float64, for runtimes that compute in float64. */
export function inFloat64(adapter: Adapter): Adapter {
  const arrays = {
    values: Float64Array.from(adapter.values),
    m: new Float64Array(adapter.values.length),
    v: new Float64Array(adapter.values.length),
  };
  return { ...adapter, ...(arrays as unknown as Pick<Adapter, "values" | "m" | "v">) };
}
