/**
 * The ONNX operations in use, one plain function each from inputs and attributes to outputs, as loops over explicit indices. Integers and
 * bools are Int32Array, floats the interpreter's array type.
 */
import { EngineError } from "../errors.ts";
import type { Attribute } from "../graph/graph.ts";
import { dtypeCodes } from "../onnx/model.ts";
import { roundToBfloat16 } from "./bfloat16.ts";
import type { Value } from "./runtime.ts";

export type Floats = Float32Array | Float64Array;
export type Arrays = typeof Float32Array | typeof Float64Array;
export type Kernel = (inputs: Value[], attributes: Readonly<Record<string, Attribute>>, arrays: Arrays) => Value[];

const count = (dims: readonly number[]): number => dims.reduce((total, dim) => total * dim, 1);
const floats = (value: Value): Floats => value.data as Floats;
/** Always one array type: V8 optimizes a loop for one type only. */
const doubles = ({ data }: Value): Float64Array =>
  data instanceof Float64Array ? data : new Float64Array(data as Float32Array);
const ints = (value: Value): Int32Array => value.data as Int32Array;

function number(attributes: Readonly<Record<string, Attribute>>, name: string, fallback: number): number {
  const value = attributes[name];
  if (value === undefined) return fallback;
  return typeof value === "number" ? value : (value as { float: number }).float;
}

type Shaped = Pick<Value, "dims">;

/** Row-major strides; 0 along axes of size 1, so that reading broadcasts. */
function strides(dims: readonly number[], rank: number): number[] {
  const result = new Array<number>(rank).fill(0);
  let step = 1;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    result[rank - dims.length + axis] = dims[axis] === 1 ? 0 : step;
    step *= dims[axis]!;
  }
  return result;
}

function broadcastDims(values: readonly Shaped[]): number[] {
  const rank = Math.max(...values.map((value) => value.dims.length));
  return Array.from({ length: rank }, (_, axis) => {
    let size = 1;
    for (const { dims } of values) {
      const dim = dims[dims.length - rank + axis] ?? 1;
      if (dim !== 1 && size !== 1 && dim !== size)
        throw new EngineError("shape_mismatch", `cannot broadcast ${dim} to ${size}`);
      if (dim !== 1) size = dim;
    }
    return size;
  });
}

/**
 * Calls `visit` for each run along the last axis of a broadcast shape, with its start in the result and in each input, the step between its
 * elements in each input, and its length.
 */
function walk(
  dims: readonly number[],
  inputs: readonly Shaped[],
  visit: (run: { out: number; offsets: readonly number[]; steps: readonly number[]; width: number }) => void,
): void {
  const width = dims.at(-1) ?? 1;
  const outer = dims.slice(0, -1);
  const runs = count(outer);
  if (width === 0) return;
  const every = inputs.map((input) => strides(input.dims, Math.max(1, dims.length)));
  const steps = every.map((each) => each.at(-1)!);
  const position = new Array<number>(outer.length).fill(0);
  const offsets = new Array<number>(inputs.length).fill(0);
  for (let run = 0; run < runs; run++) {
    visit({ out: run * width, offsets, steps, width });
    for (let axis = outer.length - 1; axis >= 0; axis--) {
      const next = position[axis]! + 1;
      const wraps = next === outer[axis];
      for (let k = 0; k < inputs.length; k++) offsets[k]! += every[k]![axis]! * (wraps ? -position[axis]! : 1);
      position[axis] = wraps ? 0 : next;
      if (!wraps) break;
    }
  }
}

const binary =
  (compute: (a: number, b: number) => number, bools = false): Kernel =>
  (inputs, _attributes, arrays) => {
    const dims = broadcastDims(inputs);
    const data = bools ? new Int32Array(count(dims)) : new arrays(count(dims));
    const [a, b] = [floats(inputs[0]!), floats(inputs[1]!)];
    walk(dims, inputs, ({ out, offsets: [atA, atB], steps: [stepA, stepB], width }) => {
      for (let i = 0; i < width; i++) data[out + i] = compute(a[atA! + i * stepA!]!, b[atB! + i * stepB!]!);
    });
    return [{ data, dims }];
  };

const unary =
  (compute: (a: number, attributes: Readonly<Record<string, Attribute>>) => number): Kernel =>
  ([a], attributes, arrays) => {
    const data = arrays.from(floats(a!));
    for (let i = 0; i < data.length; i++) data[i] = compute(data[i]!, attributes);
    return [{ data, dims: a!.dims }];
  };

const logistic = (x: number): number => 1 / (1 + Math.exp(-x));

/** A matrix within an array: its start, and the steps between rows and between columns. */
interface Matrix {
  readonly values: Float64Array;
  readonly start: number;
  readonly row: number;
  readonly column: number;
}

/** Writes alpha · a · b to `out` from index `at`. */
function multiply(
  a: Matrix,
  b: Matrix,
  { rows, inner, columns, alpha, out, at }: ProductSizes & { alpha: number; out: Floats; at: number },
): void {
  const [x, y] = [a.values, b.values];
  const [stepA, stepB, columnB] = [a.column, b.row, b.column];
  for (let i = 0; i < rows; i++) {
    const [startA, line] = [a.start + i * a.row, at + i * columns];
    let j = 0;
    // Four columns at a time take less than half the time of one by one; each is summed in the same order.
    for (; j + 4 <= columns; j += 4) {
      let s0 = 0;
      let s1 = 0;
      let s2 = 0;
      let s3 = 0;
      let atA = startA;
      let atB = b.start + j * columnB;
      for (let k = 0; k < inner; k++) {
        const value = x[atA]!;
        s0 += value * y[atB]!;
        s1 += value * y[atB + columnB]!;
        s2 += value * y[atB + 2 * columnB]!;
        s3 += value * y[atB + 3 * columnB]!;
        atA += stepA;
        atB += stepB;
      }
      out[line + j] = alpha * s0;
      out[line + j + 1] = alpha * s1;
      out[line + j + 2] = alpha * s2;
      out[line + j + 3] = alpha * s3;
    }
    for (; j < columns; j++) {
      let sum = 0;
      const startB = b.start + j * columnB;
      for (let k = 0; k < inner; k++) sum += x[startA + k * stepA]! * y[startB + k * stepB]!;
      out[line + j] = alpha * sum;
    }
  }
}

interface ProductSizes {
  readonly rows: number;
  readonly inner: number;
  readonly columns: number;
}

const matmul: Kernel = ([a, b], attributes, arrays) => {
  const transA = number(attributes, "transA", 0) === 1;
  const transB = number(attributes, "transB", 0) === 1;
  const alpha = number(attributes, "alpha", 1);
  const [rowsA, columnsA] = a!.dims.slice(-2) as [number, number];
  const [rowsB, columnsB] = b!.dims.slice(-2) as [number, number];
  const [rows, inner] = transA ? [columnsA, rowsA] : [rowsA, columnsA];
  const columns = transB ? rowsB : columnsB;
  if (inner !== (transB ? columnsB : rowsB))
    throw new EngineError("shape_mismatch", `matmul of ${a!.dims} and ${b!.dims}`);
  // Treats matrices as elements of the leading axes, with one more axis in the end.
  const matrices = [a!, b!].map((value): Shaped => ({ dims: [...value.dims.slice(0, -2), 1] }));
  const leading = broadcastDims(matrices);
  const data = new arrays(count(leading) * rows * columns);
  const [x, y] = [doubles(a!), doubles(b!)];
  const [rowA, columnA] = transA ? [1, columnsA] : [columnsA, 1];
  const [rowB, columnB] = transB ? [1, columnsB] : [columnsB, 1];
  let at = 0;
  walk(leading, matrices, ({ offsets: [matrixA, matrixB] }) => {
    const left = { values: x, start: matrixA! * rowsA * columnsA, row: rowA, column: columnA };
    const right = { values: y, start: matrixB! * rowsB * columnsB, row: rowB, column: columnB };
    multiply(left, right, { rows, inner, columns, alpha, out: data, at });
    at += rows * columns;
  });
  return [{ data, dims: [...leading.slice(0, -1), rows, columns] }];
};

/** Applies `compute` to each run along the last axis; it writes its results to `out`. */
function rows(
  value: Value,
  arrays: Arrays,
  compute: (row: Floats, out: Floats) => void,
): { data: Floats; dims: readonly number[] } {
  const width = value.dims.at(-1)!;
  const data = new arrays(value.data.length);
  const source = floats(value);
  for (let start = 0; start < data.length; start += width) {
    compute(source.subarray(start, start + width), data.subarray(start, start + width));
  }
  return { data, dims: value.dims };
}

const reduce =
  (initial: number, combine: (total: number, value: number) => number): Kernel =>
  ([a, axes], _attributes, arrays) => {
    const summed = new Set(ints(axes!));
    const dims = a!.dims.map((dim, axis) => (summed.has(axis) ? 1 : dim));
    const data = new arrays(count(dims)).fill(initial);
    const source = floats(a!);
    walk(a!.dims, [a!, { data, dims }], ({ offsets: [from, to], steps: [step, stepTo], width }) => {
      for (let i = 0; i < width; i++) {
        const at = to! + i * stepTo!;
        data[at] = combine(data[at]!, source[from! + i * step!]!);
      }
    });
    return [{ data, dims }];
  };

const rotary: Kernel = ([x, positions, cos, sin], _attributes, arrays) => {
  const [batch, heads, time, width] = x!.dims as [number, number, number, number];
  const half = width / 2;
  const data = new arrays(x!.data.length);
  const [source, c, s] = [floats(x!), floats(cos!), floats(sin!)];
  for (let b = 0; b < batch; b++) {
    for (let h = 0; h < heads; h++) {
      for (let t = 0; t < time; t++) {
        const start = ((b * heads + h) * time + t) * width;
        const angle = ints(positions!)[b * time + t]! * half;
        for (let i = 0; i < half; i++) {
          const [left, right] = [source[start + i]!, source[start + half + i]!];
          data[start + i] = left * c[angle + i]! - right * s[angle + i]!;
          data[start + half + i] = right * c[angle + i]! + left * s[angle + i]!;
        }
      }
    }
  }
  return [{ data, dims: x!.dims }];
};

export const kernels: Readonly<Record<string, Kernel>> = {
  Add: binary((a, b) => a + b),
  Sub: binary((a, b) => a - b),
  Mul: binary((a, b) => a * b),
  Div: binary((a, b) => a / b),
  Min: binary(Math.min),
  Max: binary(Math.max),
  Greater: binary((a, b) => (a > b ? 1 : 0), true),
  Exp: unary(Math.exp),
  Log: unary(Math.log),
  Neg: unary((x) => -x),
  Sqrt: unary(Math.sqrt),
  Sigmoid: unary(logistic),
  QuickGelu: unary((x, attributes) => x * logistic(number(attributes, "alpha", 1.702) * x)),
  MatMul: matmul,
  FusedMatMul: matmul,
  Gemm: matmul, // of matrices, without the third operand
  RotaryEmbedding: rotary,
  Identity: ([a]) => [a!],

  Where: ([condition, a, b], _attributes, arrays) => {
    const dims = broadcastDims([condition!, a!, b!]);
    const data = new arrays(count(dims));
    const [when, then, otherwise] = [ints(condition!), floats(a!), floats(b!)];
    walk(dims, [condition!, a!, b!], ({ out, offsets: [c, x, y], steps: [stepC, stepX, stepY], width }) => {
      for (let i = 0; i < width; i++) {
        data[out + i] = when[c! + i * stepC!] ? then[x! + i * stepX!]! : otherwise[y! + i * stepY!]!;
      }
    });
    return [{ data, dims }];
  },

  Reshape: ([a, shape]) => {
    const dims = Array.from(ints(shape!), (dim, axis) => (dim === 0 ? a!.dims[axis]! : dim));
    const known = dims.reduce((total, dim) => (dim === -1 ? total : total * dim), 1);
    // As in onnxruntime: with a size of 0, the inferred size is ambiguous.
    if (known === 0 && dims.includes(-1)) {
      throw new EngineError("shape_mismatch", `cannot reshape [${a!.dims}] to [${ints(shape!)}]`);
    }
    return [{ data: a!.data, dims: dims.map((dim) => (dim === -1 ? a!.data.length / known : dim)) }];
  },

  Flatten: ([a], { axis }) => {
    const rows = count(a!.dims.slice(0, axis as number));
    return [{ data: a!.data, dims: [rows, count(a!.dims.slice(axis as number))] }];
  },

  Transpose: ([a], attributes, arrays) => {
    const permutation = attributes["perm"] as readonly number[];
    const source = strides(a!.dims, a!.dims.length);
    const dims = permutation.map((axis) => a!.dims[axis]!);
    const data = new arrays(a!.data.length);
    const position = new Array<number>(dims.length).fill(0);
    for (let out = 0; out < data.length; out++) {
      let offset = 0;
      for (let axis = 0; axis < dims.length; axis++) offset += position[axis]! * source[permutation[axis]!]!;
      data[out] = floats(a!)[offset]!;
      for (let axis = dims.length - 1; axis >= 0; axis--) {
        position[axis]!++;
        if (position[axis]! < dims[axis]!) break;
        position[axis] = 0;
      }
    }
    return [{ data, dims }];
  },

  Concat: (parts, attributes, arrays) => {
    const axis = number(attributes, "axis", 0);
    const dims = parts[0]!.dims.map((dim, i) =>
      i === axis ? parts.reduce((sum, part) => sum + part.dims[axis]!, 0) : dim,
    );
    const data = new arrays(count(dims));
    const outer = count(dims.slice(0, axis));
    let offset = 0;
    for (let block = 0; block < outer; block++) {
      for (const part of parts) {
        const run = count(part.dims.slice(axis));
        data.set(floats(part).subarray(block * run, (block + 1) * run), offset);
        offset += run;
      }
    }
    return [{ data, dims }];
  },

  Slice: ([a, starts, ends, axes], _attributes, arrays) => {
    const [axis, from, to] = [ints(axes!)[0]!, ints(starts!)[0]!, ints(ends!)[0]!];
    const dims = a!.dims.map((dim, i) => (i === axis ? to - from : dim));
    const data = new arrays(count(dims));
    const inner = count(a!.dims.slice(axis + 1));
    const size = a!.dims[axis]! * inner;
    const run = (to - from) * inner;
    for (let block = 0; block * run < data.length; block++) {
      const start = block * size + from * inner;
      data.set(floats(a!).subarray(start, start + run), block * run);
    }
    return [{ data, dims }];
  },

  Split: ([a, lengths], attributes, arrays) => {
    const axis = number(attributes, "axis", 0);
    let from = 0;
    return Array.from(ints(lengths!), (size) => {
      const bounds = [from, from + size, axis].map((x): Value => ({ data: Int32Array.of(x), dims: [1] }));
      from += size;
      return kernels["Slice"]!([a!, ...bounds], {}, arrays)[0]!;
    });
  },

  TopK: ([a, k], _attributes, arrays) => {
    const [height, width] = a!.dims as [number, number];
    const best = ints(k!)[0]!;
    const values = new arrays(height * best);
    const indices = new Int32Array(height * best);
    for (let row = 0; row < height; row++) {
      const line = floats(a!).subarray(row * width, (row + 1) * width);
      const order = Array.from(line.keys()).sort((x, y) => line[y]! - line[x]! || x - y);
      for (let i = 0; i < best; i++) {
        indices[row * best + i] = order[i]!;
        values[row * best + i] = line[order[i]!]!;
      }
    }
    return [values, indices].map((data) => ({ data, dims: [height, best] }));
  },

  Pad: ([a, pads], _attributes, arrays) => {
    const rank = a!.dims.length;
    const dims = a!.dims.map((dim, axis) => dim + ints(pads!)[axis]! + ints(pads!)[axis + rank]!);
    const data = new arrays(count(dims));
    const step = strides(dims, rank);
    const position = new Array<number>(rank).fill(0);
    for (let i = 0; i < a!.data.length; i++) {
      let offset = 0;
      for (let axis = 0; axis < rank; axis++) offset += (position[axis]! + ints(pads!)[axis]!) * step[axis]!;
      data[offset] = floats(a!)[i]!;
      for (let axis = rank - 1; axis >= 0; axis--) {
        position[axis]!++;
        if (position[axis]! < a!.dims[axis]!) break;
        position[axis] = 0;
      }
    }
    return [{ data, dims }];
  },

  Gather: ([table, indices], _attributes, arrays) => {
    const width = count(table!.dims.slice(1));
    const data = new arrays(indices!.data.length * width);
    ints(indices!).forEach((row, i) => {
      if (row < 0 || row >= table!.dims[0]!) throw new EngineError("bad_index", `row ${row} of ${table!.dims[0]}`);
      data.set(floats(table!).subarray(row * width, (row + 1) * width), i * width);
    });
    return [{ data, dims: [...indices!.dims, ...table!.dims.slice(1)] }];
  },

  GatherElements: ([a, indices], _attributes, arrays) => {
    const [width, picks] = [a!.dims[1]!, indices!.dims[1]!];
    const data = new arrays(indices!.data.length);
    for (let i = 0; i < data.length; i++) data[i] = floats(a!)[Math.floor(i / picks) * width + ints(indices!)[i]!]!;
    return [{ data, dims: indices!.dims }];
  },

  ConstantOfShape: ([shape], _attributes, arrays) => {
    const dims = Array.from(ints(shape!));
    return [{ data: new arrays(count(dims)), dims }];
  },
  /** Integer types share one representation here, and so do float types, but a conversion to bfloat16 rounds. */
  Cast: ([a], { to }, arrays) => [
    to === dtypeCodes.bfloat16 ? { data: arrays.from(roundToBfloat16(floats(a!))), dims: a!.dims } : a!,
  ],
  Squeeze: ([a, axes]) => [{ data: a!.data, dims: a!.dims.toSpliced(ints(axes!)[0]!, 1) }],
  Unsqueeze: ([a, axes]) => [{ data: a!.data, dims: a!.dims.toSpliced(ints(axes!)[0]!, 0, 1) }],

  ScatterND: ([base, indices, updates], attributes, arrays) => {
    const data = arrays.from(floats(base!));
    const width = count(base!.dims.slice(1));
    const keep = attributes["reduction"] === "add" ? 1 : 0;
    ints(indices!).forEach((row, i) => {
      for (let k = 0; k < width; k++) {
        const at = row * width + k;
        data[at] = keep * data[at]! + floats(updates!)[i * width + k]!;
      }
    });
    return [{ data, dims: base!.dims }];
  },

  CumSum: ([a], _attributes, arrays) => [
    rows(a!, arrays, (row, out) => {
      let total = 0;
      for (let i = 0; i < row.length; i++) out[i] = total += row[i]!;
    }),
  ],

  ArgMax: ([a]) => {
    const [height, width] = a!.dims as [number, number];
    const data = new Int32Array(height);
    for (let row = 0; row < height; row++) {
      for (let i = 1; i < width; i++) {
        if (floats(a!)[row * width + i]! > floats(a!)[row * width + data[row]!]!) data[row] = i;
      }
    }
    return [{ data, dims: [height, 1] }];
  },

  ReduceSum: reduce(0, (total, value) => total + value),
  ReduceMax: reduce(Number.NEGATIVE_INFINITY, Math.max),
  Shape: ([a]) => [{ data: Int32Array.from(a!.dims), dims: [a!.dims.length] }],
  Expand: ([a, shape], _attributes, arrays) => {
    const dims = Array.from(ints(shape!));
    const data = new arrays(count(dims));
    const source = floats(a!);
    walk(dims, [a!], ({ out, offsets: [from], steps: [step], width }) => {
      for (let i = 0; i < width; i++) data[out + i] = source[from! + i * step!]!;
    });
    return [{ data, dims }];
  },

  Softmax: ([a], _attributes, arrays) => [
    rows(a!, arrays, (row, out) => {
      let largest = Number.NEGATIVE_INFINITY;
      for (let i = 0; i < row.length; i++) largest = Math.max(largest, row[i]!);
      let sum = 0;
      for (let i = 0; i < row.length; i++) sum += out[i] = Math.exp(row[i]! - largest);
      for (let i = 0; i < row.length; i++) out[i]! /= sum;
    }),
  ],

  SimplifiedLayerNormalization: ([x, weight], attributes, arrays) => {
    const inverses: number[] = [];
    const y = rows(x!, arrays, (row, out) => {
      let squares = 0;
      for (let i = 0; i < row.length; i++) squares += row[i]! * row[i]!;
      const inverse = 1 / Math.sqrt(squares / row.length + number(attributes, "epsilon", 0));
      inverses.push(inverse);
      for (let i = 0; i < row.length; i++) out[i] = row[i]! * inverse * floats(weight!)[i]!;
    });
    return [y, { data: arrays.from(inverses), dims: [...x!.dims.slice(0, -1), 1] }];
  },
};
