/**
 * How far float32 may lead from the truth, measured instead of guessed: Monte Carlo arithmetic. The float64 interpreter runs a graph
 * again and again, and to every value that an operation makes it adds a random error as large as float32 may make there, whatever the
 * order of its sums and the instructions of the machine. How widely the results spread is the condition of each of them, through every
 * operation and every step on the way, and {@link Tolerance} is the one formula that judges a float32 result by it.
 */
import type { Adapter } from "../adapter/adapter.ts";
import { createInterpreter } from "../runtime/interpreter.ts";
import { type Floats, kernels } from "../runtime/kernels.ts";
import type { Runtime, Value } from "../runtime/runtime.ts";

/** The unit roundoff of float32: half the distance from 1 to the next number. */
export const unitRoundoff = 2 ** -24;
/** Roundoffs within which exp, log and the logistic function come out of the libraries in use. */
const functionError = 4;

type Noise = () => number;
type Bound = (inputs: readonly Value[], outputs: readonly Value[], noise: Noise) => void;

const floats = (value: Value | undefined): Floats => value!.data as Floats;

/** Uniform in [-1, 1): the error of one rounding, in units of the largest. */
function createNoise(seed: number): Noise {
  let state = Math.imul(seed, 0x9e3779b1) | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state / 2147483648;
  };
}

/** Errors of so many roundoffs of each value itself. */
const relative =
  (roundoffs: number): Bound =>
  (_, [y], noise) => {
    const out = floats(y);
    for (let i = 0; i < out.length; i++) out[i]! *= 1 + roundoffs * unitRoundoff * noise();
  };

/** Euclidean length of each run of the summed axis of a matrix (of a stack of them). */
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
 * A sum of n products: by Cauchy and Schwarz no partial sum, in whatever order, exceeds ‖a‖‖b‖, so that each of the n additions errs by
 * at most u‖a‖‖b‖, and n independent errors by √n times that.
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

/** exp(x − max) / Σ: the rounding of the difference becomes a relative error of its size; then exp, the sum, the quotient. */
const softmax: Bound = ([x], [y], noise) => {
  const [input, out] = [floats(x), floats(y)];
  const width = y!.dims.at(-1)!;
  for (let start = 0; start < out.length; start += width) {
    let largest = Number.NEGATIVE_INFINITY;
    for (let i = start; i < start + width; i++) largest = Math.max(largest, input[i]!);
    const common = Math.sqrt(width) * noise();
    for (let i = start; i < start + width; i++) {
      if (out[i] === 0) continue; // exp has underflowed, in float32 long before
      out[i]! *= 1 + unitRoundoff * (common + (functionError + 1 + largest - input[i]!) * noise());
    }
  }
};

/** The mean of the squares (a sum of one sign), its inverse root, and two products. The first is one error for the whole row. */
const rmsNorm: Bound = (_, [y, inverse], noise) => {
  const out = floats(y);
  const width = y!.dims.at(-1)!;
  for (let row = 0; row * width < out.length; row++) {
    const common = unitRoundoff * (Math.sqrt(width) / 2 + 2) * noise();
    for (let i = row * width; i < (row + 1) * width; i++) out[i]! *= 1 + common + 2 * unitRoundoff * noise();
    if (inverse) floats(inverse)[row]! *= 1 + common;
  }
};

/** Sums of two products of a pair whose length stays what it was. */
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

/** Absolute errors of a function whose values lie within [0, 1], times the factor that is multiplied with it. */
const logistic =
  (factor: (x: number) => number): Bound =>
  ([x], [y], noise) => {
    const [input, out] = [floats(x), floats(y)];
    for (let i = 0; i < out.length; i++) out[i]! += functionError * unitRoundoff * factor(input[i]!) * noise();
  };

/** What only moves values about, or picks among them, is exact and has no entry. */
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

/** The float64 interpreter with an error of float32's size after every operation, drawn from the seed. */
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

/** Values in any number of named groups: of one kind, so that their errors are of one kind too. */
export type Groups = Readonly<Record<string, ArrayLike<number>>>;

/** Standard deviations within which a result must lie; they are those of errors that are each as large as float32 allows. */
const deviations = 3;

/**
 * |x − x₆₄| ≤ 3 max(σᵢ, σ̄) + 2u|x₆₄|, where x₆₄ is the value in float64, σᵢ the standard deviation of the value itself over the given
 * runs of Monte Carlo arithmetic, and σ̄ that of its whole group, because a few runs may by chance show too little of one value. The
 * last term is for the rounding of x₆₄ and x when they are stored.
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

  /** The allowed error of each value of a group. */
  allowed(name: string): Float64Array {
    return this.#allowed.get(name)!;
  }

  /** The largest error as a share of what is allowed, and where it is: above 1 the result is wrong. */
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

/** What a test computes from an adapter on a runtime. */
export type Compute = (runtime: Runtime, adapter: Adapter) => Promise<Groups>;

/** What is allowed of a computation: from its exact value, and so many runs of it with errors of float32's size. */
export async function toleranceOf(compute: Compute, adapter: () => Adapter, runs: number): Promise<Tolerance> {
  const spread: Groups[] = [];
  for (let run = 1; run <= runs; run++) spread.push(await compute(createRoundingRuntime(run), inFloat64(adapter())));
  return new Tolerance(await compute(createInterpreter({ float64: true }), inFloat64(adapter())), spread);
}

/** The same with everything that training keeps in float64, for runtimes that compute in it. */
export function inFloat64(adapter: Adapter): Adapter {
  const arrays = {
    values: Float64Array.from(adapter.values),
    m: new Float64Array(adapter.values.length),
    v: new Float64Array(adapter.values.length),
  };
  return { ...adapter, ...(arrays as unknown as Pick<Adapter, "values" | "m" | "v">) };
}
