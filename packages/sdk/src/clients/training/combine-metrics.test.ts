import { readFileSync } from "node:fs";
import { ForwardBackwardOutput, TensorData } from "@tinklet/wire";
import { describe, expect, test } from "vitest";
import { combineOutputs, hashUnordered, pairwiseSum } from "./combine-metrics.ts";

type Tagged = number | { readonly $float: string } | { readonly $int: string };
interface Recorded {
  readonly id: string;
  readonly input: readonly (readonly [number, Readonly<Record<string, Tagged>>])[];
  readonly output?: { loss_fn_output_type: string; metrics: Record<string, Tagged>; outputs: number };
  readonly error?: { type: string };
}

const plain = (value: Tagged): number | bigint =>
  typeof value === "number" ? value : "$int" in value ? BigInt(value.$int) : Number(value.$float);

const chunks = (input: Recorded["input"]) =>
  input.map(
    ([count, metrics], i) =>
      new ForwardBackwardOutput({
        lossFnOutputType: `T${i}`,
        lossFnOutputs: Array.from({ length: count }, () => ({})),
        metrics: Object.fromEntries(Object.entries(metrics).map(([key, value]) => [key, Number(plain(value))])),
      }),
  );

// 0.25 knows hash_unordered, 0.36 hash2 in its place; each drops the other's. We know both, so each recording is
// asked only about the hash of its own time.
const foreignHash: Record<string, string> = { "0.25.0": "hash2 ", "0.36.0": "hash_unordered " };

describe.each(["0.25.0", "0.36.0"])("against recordings of tinker %s", (version) => {
  const file = new URL(`../../../../../test/fixtures/tinker-${version}/derived.json`, import.meta.url);
  const cases = (JSON.parse(readFileSync(file, "utf8")).metrics as Recorded[]).filter(
    (item) => !item.id.startsWith(foreignHash[version]!),
  );
  const answered = cases.filter((item) => item.output !== undefined);
  const crashed = cases.filter((item) => item.error !== undefined);

  test("the recording has both kinds", () => {
    expect(answered.length).toBeGreaterThan(30);
    expect(crashed.length).toBeGreaterThan(4);
  });
  test.each(answered.map((item) => [item.id, item] as const))("M-602 %s", (_, { input, output }) => {
    const problems: string[] = [];
    const combined = combineOutputs(chunks(input), { onProblem: (problem) => problems.push(problem) });
    expect(combined.lossFnOutputType).toBe(output!.loss_fn_output_type);
    expect(combined.lossFnOutputs.length).toBe(output!.outputs);
    const exact = Object.entries(output!.metrics).map(([key, value]) => [key, plain(value)] as const);
    expect(combined.metrics).toStrictEqual(Object.fromEntries(exact.map(([key, value]) => [key, Number(value)])));
    for (const [key, value] of exact) {
      if (/:hash/.test(key)) expect(combined.hashes[key]).toBe(BigInt(value));
      else expect(combined.hashes).not.toHaveProperty([key]);
    }
    expect(problems).toEqual([]);
  });
  test.each(crashed.map((item) => [item.id, item] as const))("M-602 no crash, but word of it: %s", (_, { input }) => {
    const problems: string[] = [];
    const combined = combineOutputs(chunks(input), { onProblem: (problem) => problems.push(problem) });
    expect(problems).toHaveLength(1);
    expect(Object.keys(combined.metrics)).toEqual(Object.keys(input[0]![1]));
  });
});

describe("M-602 what Python raises on", () => {
  const output = (count: number, metrics: Record<string, number>) =>
    new ForwardBackwardOutput({
      lossFnOutputType: "T",
      lossFnOutputs: Array.from({ length: count }, () => ({})),
      metrics,
    });
  const metrics = (...outputs: ForwardBackwardOutput[]) => combineOutputs(outputs).metrics;

  test("a name without a colon keeps its values apart", () => {
    expect(metrics(output(1, { loss: 2 }), output(1, { loss: 3 }))).toEqual({ loss: 2, loss_1: 3 });
  });
  test("a name with two colons reduces by the last part, if that is known", () => {
    expect(metrics(output(1, { "a:b:sum": 2 }), output(1, { "a:b:sum": 3 }))).toEqual({ "a:b:sum": 5 });
    expect(metrics(output(1, { "a:b:c": 2 }))).toEqual({ "a:b:c": 2 });
  });
  test("a mean over chunks without outputs weighs them alike", () => {
    expect(metrics(output(0, { "a:mean": 1 }), output(0, { "a:mean": 2 }))).toEqual({ "a:mean": 1.5 });
    expect(metrics(output(0, { "a:slack": 1 }), output(0, { "a:slack": 2 }))).toEqual({ "a:slack": 0.5 });
  });
  test("a hash of NaN is NaN", () => {
    expect(metrics(output(1, { "a:hash_unordered": Number.NaN }))).toEqual({ "a:hash_unordered": Number.NaN });
  });
  test("names that objects already have are only names", () => {
    expect(metrics(output(1, { "a:constructor": 1, "toString:sum": 2 }))).toEqual({ "toString:sum": 2 });
  });
});

test("M-602 outputs keep their order and are not copied", () => {
  const tensors = [1, 2, 3].map((value) => ({ logprobs: TensorData.from(Float32Array.of(value)) }));
  const part = (...lossFnOutputs: typeof tensors) =>
    new ForwardBackwardOutput({ lossFnOutputType: "x", lossFnOutputs });
  const combined = combineOutputs([part(tensors[0]!), part(tensors[1]!, tensors[2]!)]);
  expect(combined.lossFnOutputs).toHaveLength(3);
  for (const [i, output] of combined.lossFnOutputs.entries()) expect(output).toBe(tensors[i]);
});

test("hashUnordered does not depend on the order", () => {
  expect(hashUnordered([3, -7, 123456789])).toBe(hashUnordered([123456789, 3, -7]));
});

test("pairwiseSum adds in NumPy's order beyond 128 values too", () => {
  // np.sum([1 / (i + 1) for i in range(1000)]) and the plain loop differ in the last bits.
  const values = Array.from({ length: 1000 }, (_, i) => 1 / (i + 1));
  expect(pairwiseSum(values)).toBe(7.485470860550345);
  expect(values.reduce((a, b) => a + b)).not.toBe(pairwiseSum(values));
});
