import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TensorData } from "../values/tensor-data.ts";
import { concat, constant, gradient, leaf, ShapeError, stack, UnusedLeafError, type Var, where } from "./index.ts";
import { checkGradient, finiteDifference } from "./testing/finite-difference.ts";

interface Domain {
  readonly min: number;
  readonly max: number;
  /** Places that inputs keep away from, because the slope jumps there. */
  readonly kinks?: readonly number[];
}
const anywhere: Domain = { min: -3, max: 3 };
const positive: Domain = { min: 0.2, max: 4 };

const shapes = fc.oneof(
  fc.tuple(fc.integer({ min: 1, max: 6 })),
  fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 })),
);
const numbers = (count: number, { min, max, kinks = [] }: Domain) =>
  fc.array(
    fc
      .double({ min, max, noNaN: true })
      .map((value) => kinks.reduce((x, kink) => (Math.abs(x - kink) < 0.01 ? kink + 0.02 : x), value)),
    { minLength: count, maxLength: count },
  );
const size = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
const inputs = (domain: Domain, others = 0) =>
  shapes.chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      values: fc.tuple(...Array.from({ length: 1 + others }, () => numbers(size(shape), domain))),
      seed: fc.integer(),
    }),
  );

/** A fixed pattern of output weights, so that every entry of the Jacobian has its own share in the scalar. */
const weighted = (out: Var) =>
  out
    .mul(
      constant(
        out.data.map((_, i) => Math.cos(1 + 1.7 * i)),
        out.shape,
      ),
    )
    .sum();

const functions: Record<string, { fn: (x: Var) => Var; domain?: Domain }> = {
  neg: { fn: (x) => x.neg() },
  abs: { fn: (x) => x.abs(), domain: { ...anywhere, kinks: [0] } },
  exp: { fn: (x) => x.exp() },
  expm1: { fn: (x) => x.expm1() },
  log: { fn: (x) => x.log(), domain: positive },
  log1p: { fn: (x) => x.log1p(), domain: positive },
  sqrt: { fn: (x) => x.sqrt(), domain: positive },
  sigmoid: { fn: (x) => x.sigmoid() },
  softplus: { fn: (x) => x.softplus() },
  logSigmoid: { fn: (x) => x.logSigmoid() },
  tanh: { fn: (x) => x.tanh() },
  sin: { fn: (x) => x.sin() },
  cos: { fn: (x) => x.cos() },
  cumsum: { fn: (x) => x.cumsum(0) },
  "cumsum by the last axis": { fn: (x) => x.exp().cumsum(-1) },
  pick: { fn: (x) => x.pick([0, x.size - 1, 0, 0], [2, 2]) },
  "pow by element": { fn: (x) => x.pow(x.mul(0.5)), domain: positive },
  "pow 3": { fn: (x) => x.pow(3) },
  "pow -0.5": { fn: (x) => x.pow(-0.5), domain: positive },
  "pow 0": { fn: (x) => x.pow(0).add(x) },
  clamp: { fn: (x) => x.clamp({ min: -1, max: 1 }), domain: { ...anywhere, kinks: [-1, 1] } },
  "clamp above": { fn: (x) => x.clamp({ max: 0.5 }), domain: { ...anywhere, kinks: [0.5] } },
  "add number": { fn: (x) => x.add(2) },
  "sub number": { fn: (x) => x.sub(2) },
  "mul number": { fn: (x) => x.mul(-2.5) },
  "div number": { fn: (x) => x.div(4) },
  "max number": { fn: (x) => x.max(0.3), domain: { ...anywhere, kinks: [0.3] } },
  "min number": { fn: (x) => x.min(0.3), domain: { ...anywhere, kinks: [0.3] } },
  "with itself": { fn: (x) => x.mul(x).add(x.div(x.exp())) },
  sum: { fn: (x) => x.sum() },
  mean: { fn: (x) => x.mean() },
  "sum by axis": { fn: (x) => x.sum(0) },
  "mean by the last axis": { fn: (x) => x.mean(-1) },
  logSumExp: { fn: (x) => x.logSumExp() },
  "logSumExp by the last axis": { fn: (x) => x.logSumExp(-1) },
  "softmax by stretching": { fn: (x) => x.sub(x.logSumExp()).exp() },
  maskedSum: {
    fn: (x) =>
      x.exp().maskedSum(
        constant(
          x.data.map((_, i) => i % 2),
          x.shape,
        ),
      ),
  },
  maskedMean: {
    fn: (x) =>
      x.exp().maskedMean(
        constant(
          x.data.map((_, i) => (i + 1) % 2),
          x.shape,
        ),
      ),
  },
  where: {
    fn: (x) =>
      where(
        constant(
          x.data.map((_, i) => i % 2),
          x.shape,
        ),
        x.exp(),
        x.mul(3),
      ),
  },
  dot: { fn: (x) => x.dot(x.sigmoid()) },
  reshape: { fn: (x) => x.reshape([x.size, 1]).exp() },
  slice: { fn: (x) => x.slice(0, -1).sum().add(x.slice(-1).exp().sum()) },
  at: { fn: (x) => x.at(0).mul(x.at(-1)) },
  "gather from a vector": {
    fn: (x) =>
      x
        .reshape([x.size])
        .gather([0, x.size - 1, 0])
        .exp(),
  },
  "gather from a matrix": { fn: (x) => x.reshape([x.size, 1]).gather(new Array(x.size).fill(0)).exp() },
  concat: { fn: (x) => concat([x, x.exp(), x.slice(0, 1)]) },
  "concat of scalars": { fn: (x) => concat([x.sum(), 2, x.mean()]).exp() },
  "stack of scalars": { fn: (x) => stack([x.sum(), x.mean(), 1]).sigmoid() },
  stack: { fn: (x) => stack([x, x.exp()]) },
};

describe("M-604 every operation against finite differences", () => {
  test.each(Object.entries(functions))("%s", (_, { fn, domain = anywhere }) => {
    fc.assert(
      fc.property(inputs(domain), ({ shape, values: [values] }) => {
        checkGradient((x) => weighted(fn(x)), values!, shape);
      }),
      { numRuns: 40 },
    );
  });

  const pairs: Record<string, (a: Var, b: Var) => Var> = {
    add: (a, b) => a.add(b),
    sub: (a, b) => a.sub(b),
    mul: (a, b) => a.mul(b),
    div: (a, b) => a.div(b.exp()),
    max: (a, b) => a.max(b.add(0.0123)),
    min: (a, b) => a.min(b.add(0.0123)),
    dot: (a, b) => a.dot(b),
    "scalar stretched on the left": (a, b) => a.sum().mul(b),
    "scalar stretched on the right": (a, b) => a.div(b.sum().exp()),
    "row stretched": (a, b) => a.reshape([a.size, 1]).mul(b.reshape([1, b.size])),
  };
  test.each(Object.entries(pairs))("%s, by both sides", (_, fn) => {
    fc.assert(
      fc.property(inputs({ min: -1, max: 1 }, 1), ({ shape, values: [left, right] }) => {
        // away from ties, where the slope of max and min jumps
        fc.pre(left!.every((value, i) => Math.abs(value - right![i]! - 0.0123) > 1e-3));
        checkGradient((x) => weighted(fn(x, constant(right!, shape))), left!, shape);
        checkGradient((x) => weighted(fn(constant(left!, shape), x)), right!, shape);
      }),
      { numRuns: 40 },
    );
  });

  test("random chains of smooth operations", () => {
    const steps: ((x: Var) => Var)[] = [
      (x) => x.sigmoid(),
      (x) => x.mul(x.sigmoid()),
      (x) => x.softplus(),
      (x) => x.sub(x.mean()),
      (x) => x.neg().sigmoid().exp(),
      (x) => x.div(x.mul(x).sum().add(1)),
      (x) => concat([x, x.sum()]).slice(1),
      (x) =>
        where(
          x.data.map((_, i) => i % 3),
          x,
          x.sigmoid(),
        ),
    ];
    const chain = fc.array(fc.nat(steps.length - 1), { minLength: 1, maxLength: 7 });
    fc.assert(
      fc.property(numbers(4, anywhere), chain, (values, picks) => {
        checkGradient((x) => weighted(picks.reduce((y, pick) => steps[pick]!(y), x)), values, [4], 1e-5);
      }),
      { numRuns: 100 },
    );
  });
});

describe("values", () => {
  test("far out, nothing overflows", () => {
    const x = leaf([-800, 0, 800]);
    expect([...x.sigmoid().data]).toEqual([0, 0.5, 1]);
    expect([...x.softplus().data]).toEqual([0, Math.log(2), 800]);
    expect([...x.logSigmoid().data]).toEqual([-800, -Math.log(2), -0]);
    expect(x.logSumExp().item()).toBe(800);
    const grads = gradient(x.logSigmoid().sum().add(x.softplus().sum()).add(x.logSumExp()), [x])[0]!;
    expect(grads.every(Number.isFinite)).toBe(true);
  });
  test("logSumExp of nothing possible is -Infinity, not NaN", () => {
    expect(constant([-Infinity, -Infinity]).logSumExp().item()).toBe(-Infinity);
  });
  test("masked elements count nothing even where they are not finite", () => {
    const x = leaf([1, -Infinity, Number.NaN]);
    const total = x.maskedSum([1, 0, 0]);
    expect(total.item()).toBe(1);
    expect([...gradient(total, [x])[0]!]).toEqual([1, 0, 0]);
    expect(x.maskedMean([1, 0, 0]).item()).toBe(1);
  });
  test("matrices: sums by axis, rows, columns", () => {
    const x = constant([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    expect([...x.sum(0).data]).toEqual([5, 7, 9]);
    expect([...x.sum(1).data]).toEqual([6, 15]);
    expect([...x.at(-1).data]).toEqual([4, 5, 6]);
    expect([...x.gather([2, 0]).data]).toEqual([3, 4]);
    expect([...x.sub([1, 2, 3]).data]).toEqual([0, 0, 0, 3, 3, 3]);
    expect(stack([x.at(0), x.at(1)]).shape).toEqual([2, 3]);
    expect(concat([x, x]).shape).toEqual([4, 3]);
  });
  test("constants may be tensors, typed arrays and rows", () => {
    expect([...leaf([1, 2]).add(TensorData.from(Float32Array.of(3, 4))).data]).toEqual([4, 6]);
    expect([...leaf([1, 2]).add(TensorData.from(Int32Array.of(3, 4))).data]).toEqual([4, 6]);
    const sparse = TensorData.from([[0, 0, 5, 0, 0, 0]], { dtype: "float32" }).toSparse();
    expect([...constant(sparse).data]).toEqual([0, 0, 5, 0, 0, 0]);
    expect(constant([[1], [2]]).shape).toEqual([2, 1]);
  });
  test("a leaf keeps its own copy", () => {
    const values = Float64Array.of(1, 2);
    const x = leaf(values);
    values[0] = 9;
    expect(x.data[0]).toBe(1);
  });
});

describe("slopes at kinks are PyTorch's", () => {
  const slope = (fn: (x: Var) => Var, at: number) => {
    const x = leaf([at]);
    return gradient(fn(x).sum(), [x])[0]![0];
  };
  test.each([
    ["abs at 0", (x: Var) => x.abs(), 0, 0],
    ["a tie of max", (x: Var) => x.max(1), 1, 0.5],
    ["a tie of min", (x: Var) => x.min(1), 1, 0.5],
    ["clamp on its bound", (x: Var) => x.clamp({ max: 1 }), 1, 1],
    ["pow 0 at 0", (x: Var) => x.pow(0), 0, 0],
    ["pow 1 at 0", (x: Var) => x.pow(1), 0, 1],
  ])("%s", (_, fn, at, expected) => expect(slope(fn, at)).toBe(expected));
});

describe("gradient", () => {
  test("does not pass stopGradient", () => {
    const x = leaf([2, 3]);
    expect([...gradient(x.mul(x.stopGradient()).sum(), [x])[0]!]).toEqual([2, 3]);
  });
  test("can be taken again, and by values on the way", () => {
    const x = leaf([2, 3]);
    const y = x.mul(x);
    const loss = y.sum();
    for (let i = 0; i < 2; i++) {
      expect(gradient(loss, [x, y]).map((grad) => [...grad])).toEqual([
        [4, 6],
        [1, 1],
      ]);
    }
  });
  test("of the leaf itself is 1", () =>
    expect([...gradient(leaf(3), []).concat(gradient(...selfLoss()))[0]!]).toEqual([1]));
  test("M-604 names an unused leaf", () => {
    const [used, unused] = [leaf([1]), leaf([2])];
    const attempt = () => gradient(used.sum(), [used, unused]);
    expect(attempt).toThrow(UnusedLeafError);
    expect(attempt).toThrow(/leaf 1 of 2/);
    expect(gradient(used.sum(), [used, unused], { unused: "zero" }).map((grad) => [...grad])).toEqual([[1], [0]]);
    expect(() => gradient(unused.stopGradient().sum(), [unused])).toThrow(UnusedLeafError);
  });
  test("a long chain does not exhaust the stack", () => {
    const x = leaf(1);
    let y: Var = x;
    for (let i = 0; i < 50_000; i++) y = y.add(1);
    expect([...gradient(y, [x])[0]!]).toEqual([1]);
  });
  test("the checker notices a wrong slope", () => {
    const wrong = (x: Var) => x.exp().add(x.stopGradient().mul(0.1)).sum();
    expect(() => checkGradient(wrong, [0.5], [1])).toThrow();
    expect(finiteDifference((x) => x.mul(x).sum(), [3], [1])[0]).toBeCloseTo(6, 6);
  });
});

function selfLoss(): [Var, Var[]] {
  const x = leaf(3);
  return [x, [x]];
}

describe("errors name the operation", () => {
  const [vector, matrix] = [leaf([1, 2, 3]), leaf([[1, 2]])];
  test.each<[string, () => unknown]>([
    ["add", () => vector.add([1, 2])],
    ["mul", () => vector.mul(matrix)],
    ["dot", () => vector.dot(2)],
    ["sum", () => vector.sum(1)],
    ["mean", () => vector.mean(-2)],
    ["logSumExp", () => vector.logSumExp(3)],
    ["reshape", () => vector.reshape([2])],
    ["slice", () => leaf(1).slice(0)],
    ["at", () => vector.at(3)],
    ["gather", () => vector.gather([3])],
    ["gather", () => vector.gather([0.5])],
    ["gather", () => matrix.gather([0, 1])],
    ["gather", () => leaf(1).gather([0])],
    ["where", () => where([1, 0], vector, 0)],
    ["concat", () => concat([vector, matrix])],
    ["concat", () => concat([])],
    ["stack", () => stack([vector, 1])],
    ["stack", () => stack([])],
    ["constant", () => constant([[1, 2], [3]])],
    ["constant", () => constant([1, "2" as unknown as number])],
    ["item", () => vector.item()],
    ["gradient", () => gradient(vector, [vector])],
    ["maskedMean", () => vector.maskedMean([1, 0])],
  ])("%s", (operation, attempt) => {
    expect(attempt).toThrow(ShapeError);
    try {
      attempt();
    } catch (error) {
      expect((error as ShapeError).operation).toBe(operation);
      expect((error as ShapeError).message).toMatch(new RegExp(`^${operation}: `));
    }
  });
});
