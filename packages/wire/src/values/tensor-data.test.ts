import { describe, expect, it } from "vitest";
import { refusal } from "../../../sdk/src/testing/refusal.ts";
import { TensorData, type TensorLike } from "./tensor-data.ts";

describe("TensorData", () => {
  it("M-104: dtypes are exactly int64 and float32", () => {
    expect(TensorData.from([1], { dtype: "int64" }).dtype).toBe("int64");
    expect(TensorData.from([1], { dtype: "float32" }).dtype).toBe("float32");
    const error = refusal(() => TensorData.from([1], { dtype: "float64" as never }));
    expect(error.field).toBe("tensor.dtype");
    expect(error.problem).toBe('must be "int64" or "float32", not "float64"');
  });

  it("M-301: floats of any width become float32, integers of any width or sign int64", () => {
    expect(TensorData.from(Float64Array.of(0.1)).data).toEqual([Math.fround(0.1)]);
    expect(TensorData.from(Float32Array.of(0.5, Number.NaN)).values).toEqual(Float32Array.of(0.5, Number.NaN));
    const ints = [Int8Array.of(-1, 2), Int16Array.of(-1, 2), Int32Array.of(-1, 2), BigInt64Array.of(-1n, 2n)] as const;
    for (const array of ints) {
      const tensor = TensorData.from(array);
      expect(tensor.dtype).toBe("int64");
      expect(tensor.values).toEqual(BigInt64Array.of(-1n, 2n));
      expect(tensor.shape).toEqual([2]);
    }
    for (const array of [
      Uint8Array.of(7),
      Uint8ClampedArray.of(7),
      Uint16Array.of(7),
      Uint32Array.of(7),
      BigUint64Array.of(7n),
    ]) {
      expect(TensorData.from(array).values).toEqual(BigInt64Array.of(7n));
    }
    expect(TensorData.from(Uint32Array.of(4294967295)).data).toEqual([4294967295]);
    expect(TensorData.from(BigUint64Array.of(2n ** 63n - 1n)).values).toEqual(BigInt64Array.of(2n ** 63n - 1n));
    const error = refusal(() => TensorData.from(BigUint64Array.of(1n, 2n ** 63n), { field: "weights" }));
    expect(error.message).toBe("weights[1]: 9223372036854775808 does not fit into int64");
  });

  it("M-301: tensors of other libraries, f16 and bf16 included", () => {
    expect(TensorData.from({ data: Float32Array.of(1, 2), dims: [2, 1], type: "float32" }).shape).toEqual([2, 1]);
    expect(TensorData.from({ data: Int32Array.of(1, 2), shape: [1, 2], dtype: "int32" })).toMatchObject({
      dtype: "int64",
      shape: [1, 2],
    });
    expect(TensorData.from({ data: [1, 2], shape: [2], dtype: "float32" }).values).toEqual(Float32Array.of(1, 2));
    expect(TensorData.from({ data: [1, 2], shape: [2], dtype: "int32" }).values).toEqual(BigInt64Array.of(1n, 2n));
    // 1.0, -2, the largest f16, the smallest f16, infinity, NaN
    const half = TensorData.from({
      data: Uint16Array.of(0x3c00, 0xc000, 0x7bff, 1, 0x7c00, 0x7e00),
      dims: [6],
      type: "float16",
    });
    expect(half.data).toEqual([1, -2, 65504, 2 ** -24, Infinity, Number.NaN]);
    const brain = TensorData.from({ data: Uint16Array.of(0x3f80, 0xc000, 0x7f80), shape: [3], dtype: "bfloat16" });
    expect(brain.data).toEqual([1, -2, Infinity]);
    expect(TensorData.from({ data: Float32Array.of(1.5), shape: [1], dtype: "float16" }).data).toEqual([1.5]);
    expect(refusal(() => TensorData.from({ data: Uint8Array.of(1), shape: [1], dtype: "bool" })).field).toBe(
      "tensor.dtype",
    );
    expect(refusal(() => TensorData.from({ data: Uint8Array.of(1), dtype: "complex64" })).problem).toContain(
      '"complex64"',
    );
    expect(refusal(() => TensorData.from({ data: "abc" as never })).field).toBe("tensor.data");
    expect(refusal(() => TensorData.from({ data: Float32Array.of(1.5), dtype: "int64" })).problem).toContain(
      "contains floats",
    );
    expect(TensorData.from(Int32Array.of(2), { dtype: "float32" }).values).toEqual(Float32Array.of(2));
  });

  it("M-301: what is not a number is refused by name and position", () => {
    const bad: [unknown, string][] = [
      [["a"], "x[0]"],
      [[1, undefined], "x[1]"],
      [[{}], "x[0]"],
      [[1, [2]], "x[1]"],
      ["text", "x"],
      [{}, "x"],
      [null, "x"],
      [undefined, "x"],
      [new DataView(new ArrayBuffer(1)), "x"],
      [() => 1, "x"],
    ];
    for (const [value, field] of bad) {
      expect(refusal(() => TensorData.from(value as TensorLike, { dtype: "float32", field: "x" })).field).toBe(field);
    }
    expect(refusal(() => TensorData.from([1, 2.5], { dtype: "int64", field: "x" })).message).toBe(
      "x[1]: must be an integer (beyond 2^53 a bigint), not 2.5",
    );
    expect(refusal(() => TensorData.from([null], { dtype: "int64", field: "x" })).field).toBe("x[0]");
    expect(refusal(() => TensorData.from([Number.NaN], { dtype: "int64" })).problem).toContain("NaN");
    expect(refusal(() => TensorData.from([2n ** 63n], { dtype: "int64" })).problem).toContain("fits into int64");
    expect(refusal(() => TensorData.from([1, 2])).hint).toContain('dtype: "int64"');
  });

  it("M-302: a scalar has an empty shape, which is no shape on the wire", () => {
    const scalar = TensorData.from(3, { dtype: "float32" });
    expect(scalar.shape).toEqual([]);
    expect(scalar.toList()).toBe(3);
    expect(TensorData.from(7n, { dtype: "int64" }).toList()).toBe(7);
  });

  it("M-303: a shape must hold just as many elements as there are", () => {
    expect(TensorData.from(Float32Array.of(1, 2, 3, 4, 5, 6), { shape: [2, 3] }).toList()).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    const error = refusal(() => TensorData.from(Float32Array.of(1, 2, 3), { shape: [2, 2], field: "w" }));
    expect(error.message).toBe("w.shape: [2, 2] has 4 elements, but there are 3 values");
    expect(refusal(() => TensorData.from(Float32Array.of(1), { shape: [-1] })).field).toBe("tensor.shape[0]");
    expect(refusal(() => TensorData.from(Float32Array.of(1), { shape: [0.5, 2] })).field).toBe("tensor.shape[0]");
    expect(TensorData.from(new Float32Array(0), { shape: [0, 3] }).shape).toEqual([0, 3]);
  });

  it("nested lists give their shape; ragged ones are refused", () => {
    expect(TensorData.from([[[1], [2]]], { dtype: "int64" })).toMatchObject({ shape: [1, 2, 1] });
    expect(TensorData.from([], { dtype: "int64" }).shape).toEqual([0]);
    expect(TensorData.from([[], []], { dtype: "float32" }).shape).toEqual([2, 0]);
    expect(TensorData.from([[true, null]], { dtype: "float32" }).data).toEqual([1, Number.NaN]);
    expect(refusal(() => TensorData.from([[1, 2], [3]], { dtype: "int64", field: "t" })).message).toBe(
      "t[1]: has 1 elements, but row 0 has 2: all rows must have the same length",
    );
    expect(refusal(() => TensorData.from([[1], 2], { dtype: "int64", field: "t" })).field).toBe("t[1]");
    expect(
      refusal(() =>
        TensorData.from(
          [
            [[1], [2]],
            [[1], [2, 3]],
          ],
          { dtype: "int64", field: "t" },
        ),
      ).field,
    ).toBe("t[1][1]");
    let deep: unknown = 1;
    for (let i = 0; i < 40; i++) deep = [deep];
    expect(refusal(() => TensorData.from(deep as TensorLike, { dtype: "int64" })).problem).toContain("32 levels");
  });

  it("M-304: sparse tensors convert to dense and back", () => {
    const sparse = TensorData.fromSparse({
      values: Float32Array.of(5, 6, 7),
      crowIndices: [0, 1, 1, 3],
      colIndices: [1, 0, 3],
      shape: [3, 4],
    });
    expect(sparse.isSparse).toBe(true);
    expect(sparse.toList()).toEqual([
      [0, 5, 0, 0],
      [0, 0, 0, 0],
      [6, 0, 0, 7],
    ]);
    expect(sparse.byteLength).toBe(3 * 4 + 8 * (4 + 3));
    const dense = TensorData.from(sparse.toList() as number[][], { dtype: "float32" });
    expect(dense.byteLength).toBe(48);
    expect(dense.toSparse()).toEqual(sparse);
    expect(sparse.toSparse()).toBe(sparse);
    expect(dense.toDense()).toBe(dense);
    const full = TensorData.from(
      [
        [1, 2],
        [3, 4],
      ],
      { dtype: "int64" },
    );
    expect(full.toSparse()).toBe(full);
    // 4 + 1 + 2·n < 16 holds up to n = 5: Python's rule for when sparse is smaller
    const with_ = (n: number) =>
      TensorData.from(
        Float32Array.from({ length: 16 }, (_, i) => (i < n ? 1 : 0)),
        { shape: [4, 4] },
      ).toSparse().isSparse;
    expect(with_(5)).toBe(true);
    expect(with_(6)).toBe(false);
    const ints = TensorData.fromSparse({
      values: [9],
      dtype: "int64",
      crowIndices: [0, 0, 1],
      colIndices: [1],
      shape: [2, 2],
    });
    expect(ints.toList()).toEqual([
      [0, 0],
      [0, 9],
    ]);
    expect(TensorData.from(Float32Array.of(1)).toSparse().isSparse).toBe(false);
  });

  it("M-304: sparse parts that do not fit together are refused", () => {
    const parts = { values: Float32Array.of(1, 2), crowIndices: [0, 1, 2], colIndices: [0, 1], shape: [2, 2] };
    const bad: [Partial<typeof parts>, string][] = [
      [{ shape: [4] }, "tensor.shape"],
      [{ crowIndices: [0, 2] }, "tensor.sparseCrowIndices"],
      [{ crowIndices: [1, 1, 2] }, "tensor.sparseCrowIndices"],
      [{ crowIndices: [0, 1, 1] }, "tensor.sparseCrowIndices"],
      [{ crowIndices: [0, 3, 2] }, "tensor.sparseCrowIndices"],
      [{ colIndices: [0] }, "tensor.sparseColIndices"],
      [{ colIndices: [0, 2] }, "tensor.sparseColIndices[1]"],
      [{ colIndices: [-1, 0] }, "tensor.sparseColIndices[0]"],
    ];
    for (const [change, field] of bad) {
      expect(refusal(() => TensorData.fromSparse({ ...parts, ...change })).field).toBe(field);
    }
    const half = {
      dtype: "float32",
      values: Float32Array.of(1),
      shape: [1, 1],
      sparseCrowIndices: BigInt64Array.of(0n, 1n),
    } as const;
    expect(refusal(() => TensorData.ofParts(half)).field).toBe("tensor.sparseColIndices");
  });

  it("M-306: int64 beyond 2^53 is neither rounded nor refused", () => {
    const values = [2n ** 53n + 1n, -(2n ** 63n), 2n ** 63n - 1n, 5n];
    expect(TensorData.from(BigInt64Array.from(values)).data).toEqual([2n ** 53n + 1n, -(2n ** 63n), 2n ** 63n - 1n, 5]);
    expect(TensorData.from(values, { dtype: "int64" }).values).toEqual(BigInt64Array.from(values));
    expect(TensorData.from([-1, -4294967297, 4294967296, Number.MAX_SAFE_INTEGER], { dtype: "int64" }).values).toEqual(
      BigInt64Array.of(-1n, -4294967297n, 4294967296n, 2n ** 53n - 1n),
    );
  });

  it("keeps the caller's memory where it already fits, and passes tensors through", () => {
    const memory = Float32Array.of(1, 2);
    const tensor = TensorData.from(memory);
    expect(tensor.values).toBe(memory);
    expect(TensorData.from(tensor)).toBe(tensor);
    expect(JSON.parse(JSON.stringify(tensor))).toEqual({ dtype: "float32", shape: [2], data: [1, 2] });
  });
});
