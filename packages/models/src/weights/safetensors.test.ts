import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { headerOf, type RawTensor, safetensorsBytes } from "../../../../test/fixtures/models/tiny-models.ts";
import { WeightsError } from "../errors.ts";
import { openSafetensors } from "./open-safetensors.ts";
import { writeSafetensors } from "./write-safetensors.ts";

const folder = mkdtempSync(join(tmpdir(), "safetensors-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, "model.safetensors");

/** The error from opening and reading a file with this header and data. */
function refusal(header: string | Uint8Array, data: readonly Uint8Array[] = [], length?: bigint): WeightsError {
  writeFileSync(path, safetensorsBytes(header, data, length));
  try {
    const source = openSafetensors(path);
    try {
      for (const name of source.tensors.keys()) source.readFloat32(name);
    } finally {
      source.close();
    }
  } catch (error) {
    expect(error).toBeInstanceOf(WeightsError);
    return error as WeightsError;
  }
  throw new Error("the file was accepted");
}

const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
const a: RawTensor = { name: "a", dtype: "F32", shape: [2, 3], bytes: floats(1, 2, 3, 4, 5, 6) };
const b: RawTensor = { name: "b", dtype: "F32", shape: [2], bytes: floats(7, 8) };
const data = [a.bytes, b.bytes];
const entry = (dtype: unknown, shape: unknown, offsets: unknown) => ({ dtype, shape, data_offsets: offsets });

describe("reading", () => {
  test("F32, F16 and BF16 are widened exactly", () => {
    const tensors: RawTensor[] = [
      { name: "half", dtype: "F16", shape: [4], bytes: Uint8Array.from([0, 0x3c, 1, 0, 0xff, 0x7b, 0, 0xc0]) },
      { name: "brain", dtype: "BF16", shape: [2], bytes: Uint8Array.from([0x80, 0x3f, 0x40, 0xc0]) },
      a,
    ];
    const parts = tensors.map(({ bytes }) => bytes);
    writeFileSync(path, safetensorsBytes(JSON.stringify(headerOf(tensors)), parts));
    const source = openSafetensors(path);
    expect([...source.readFloat32("half")]).toEqual([1, 2 ** -24, 65504, -2]);
    expect([...source.readFloat32("brain")]).toEqual([1, -3]);
    const out = new Float32Array(6);
    expect(source.readFloat32("a", out)).toBe(out);
    expect([...out]).toEqual([1, 2, 3, 4, 5, 6]);
    expect(() => source.readFloat32("a", new Float32Array(5))).toThrow(/out must have the 6 values of tensor a, got 5/);
    expect(() => source.readFloat32("c")).toThrow(/no tensor c/);
    source.close();
    source.close();
    expect(() => source.readFloat32("a")).toThrow(/closed/);
  });

  test("a valid but unsupported dtype is rejected only when the tensor is read", () => {
    const ids: RawTensor = { name: "ids", dtype: "I64", shape: [1], bytes: new Uint8Array(8) };
    writeFileSync(path, safetensorsBytes(JSON.stringify(headerOf([ids, b])), [ids.bytes, b.bytes]));
    const source = openSafetensors(path);
    expect([...source.readFloat32("b")]).toEqual([7, 8]);
    expect(source.tensors.has("ids")).toBe(false);
    expect(() => source.readFloat32("ids")).toThrow(/ids is stored as I64/);
    source.close();
  });

  test("offsets beyond 2^32, in a sparse file", () => {
    const far = 6 * 2 ** 30;
    const header = JSON.stringify({
      far: entry("F32", [2], [far, far + 8]),
      hole: entry("F16", [3, 2 ** 30], [0, far]),
    });
    const prefix = safetensorsBytes(header, []);
    writeFileSync(path, prefix);
    truncateSync(path, prefix.length + far); // sparse: uses no disk space
    appendFileSync(path, b.bytes);
    const source = openSafetensors(path);
    expect([...source.readFloat32("far")]).toEqual([7, 8]);
    source.close();
  });

  test("a file truncated after opening is an error with the tensor's name", () => {
    writeFileSync(path, safetensorsBytes(JSON.stringify(headerOf([a, b])), data));
    const source = openSafetensors(path);
    writeFileSync(path, readFileSync(path).subarray(0, -4));
    expect(() => source.readFloat32("b")).toThrow(
      expect.objectContaining({ code: "truncated", tensor: "b", file: path }),
    );
    source.close();
  });
});

describe("refusing", () => {
  const withEntries = (entries: Record<string, unknown>) => JSON.stringify({ ...headerOf([a, b]), ...entries });

  test.each([
    ["not JSON", "{", "bad_header"],
    ["not an object", "[1]", "bad_header"],
    ["not UTF-8", Uint8Array.of(0x7b, 0xff, 0x7d), "bad_header"],
    ["metadata that are not strings", '{"__metadata__":{"a":1}}', "bad_header"],
    ["bytes without a tensor", "{}", "bad_offsets"],
  ])("%s", (_, header, code) => {
    expect(refusal(header, data)).toMatchObject({ code, file: path });
  });

  test.each([
    [0n, "bad_header"],
    [100_000_001n, "bad_header"],
    [2n ** 63n, "bad_header"],
    [5000n, "truncated"],
  ])("a header length of %s bytes", (length, code) => {
    expect(refusal(JSON.stringify(headerOf([a, b])), data, length)).toMatchObject({ code, file: path });
  });

  test.each([
    ["an unknown dtype", { a: entry("F7", [2, 3], [0, 24]) }, "unsupported_dtype", "a"],
    [
      "a quantised dtype, which safetensors does not have",
      { a: entry("Q4_0", [32], [0, 24]) },
      "unsupported_dtype",
      "a",
    ],
    ["a dtype name from Object.prototype", { a: entry("constructor", [2, 3], [0, 24]) }, "unsupported_dtype", "a"],
    ["a negative dimension", { a: entry("F32", [-2, -3], [0, 24]) }, "bad_shape", "a"],
    ["a fractional dimension", { a: entry("F32", [1.5, 4], [0, 24]) }, "bad_shape", "a"],
    ["a product beyond 2^53", { a: entry("F32", [2 ** 40, 2 ** 40], [0, 24]) }, "bad_shape", "a"],
    ["a shape that does not match the bytes", { a: entry("F32", [2, 4], [0, 24]) }, "bad_shape", "a"],
    ["no shape", { a: entry("F32", undefined, [0, 24]) }, "bad_shape", "a"],
    ["offsets beyond the file", { b: entry("F32", [2], [1024, 1032]) }, "bad_offsets", "b"],
    ["reversed offsets", { b: entry("F32", [2], [32, 24]) }, "bad_offsets", "b"],
    ["negative offsets", { b: entry("F32", [2], [-8, 0]) }, "bad_offsets", "b"],
    ["three offsets", { b: entry("F32", [2], [24, 32, 40]) }, "bad_offsets", "b"],
    ["overlap", { b: entry("F32", [2], [20, 28]) }, "bad_offsets", "b"],
    ["a gap", { b: entry("F32", [1], [28, 32]) }, "bad_offsets", "b"],
    ["an entry that is not an object", { b: 7 }, "bad_header", "b"],
  ])("%s", (_, entries, code, tensor) => {
    expect(refusal(withEntries(entries), data)).toMatchObject({ code, tensor, file: path });
  });

  test("a duplicate name", () => {
    const text = JSON.stringify(headerOf([a, b]));
    const error = refusal(`${text.slice(0, -1)},"b":${JSON.stringify(entry("F32", [2], [24, 32]))}}`, data);
    expect(error.message).toContain('"b" appears twice');
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    "%s is an error with its index",
    (value) => {
      const bad: RawTensor = { ...b, bytes: floats(1, value) };
      const error = refusal(JSON.stringify(headerOf([a, bad])), [a.bytes, bad.bytes]);
      expect(error).toMatchObject({ code: "non_finite", tensor: "b" });
      expect(error.message).toContain("index 1");
    },
  );

  test.each([
    ["F16", 0x7c00, 0xfc00, 0x7e01, 0x7bff],
    ["BF16", 0x7f80, 0xff80, 0x7fc1, 0x7f7f],
  ])(
    "%s: infinities and NaN at even and odd indices are rejected, other values are not",
    (dtype, infinity, minus, nan, largest) => {
      for (const length of [4, 5]) {
        const words = (at: number, bits: number) => {
          const list = new Uint16Array(length).fill(largest | 0x8000);
          list[at] = bits;
          const bytes = new Uint8Array(list.buffer);
          return { name: "h", dtype, shape: [length], bytes };
        };
        for (let at = 0; at < length; at++) {
          for (const bits of [infinity, minus, nan]) {
            const tensor = words(at, bits);
            const error = refusal(JSON.stringify(headerOf([tensor])), [tensor.bytes]);
            expect(error).toMatchObject({ code: "non_finite", tensor: "h" });
            expect(error.message).toContain(`index ${at}`);
          }
        }
        const finite = words(0, largest);
        writeFileSync(path, safetensorsBytes(JSON.stringify(headerOf([finite])), [finite.bytes]));
        const source = openSafetensors(path);
        expect(source.readFloat32("h").every(Number.isFinite)).toBe(true);
        source.close();
      }
    },
  );

  test("missing files, empty files, and folders", () => {
    expect(() => openSafetensors(join(folder, "none"))).toThrow(WeightsError);
    expect(() => openSafetensors(folder)).toThrow(WeightsError);
    writeFileSync(path, "");
    expect(() => openSafetensors(path)).toThrow(expect.objectContaining({ code: "truncated" }));
  });
});

describe("writing", () => {
  const finite = fc.float({ noNaN: true, noDefaultInfinity: true });

  test("round trip, exact for float32", async () => {
    const tensors = fc.uniqueArray(
      fc.record({ name: fc.string({ minLength: 1 }), values: fc.array(finite, { maxLength: 20 }) }),
      { selector: ({ name }) => name, maxLength: 8 },
    );
    await fc.assert(
      fc.asyncProperty(tensors, async (list) => {
        fc.pre(list.every(({ name }) => name !== "__metadata__"));
        const file = join(folder, "written.safetensors");
        const written = list.map(({ name, values }) => {
          return { name, dtype: "F32" as const, shape: [values.length], data: Float32Array.from(values) };
        });
        await writeSafetensors(file, written, { format: "pt" });
        const source = openSafetensors(file);
        expect(source.metadata).toEqual({ format: "pt" });
        expect([...source.tensors.keys()].sort()).toEqual(list.map(({ name }) => name).sort());
        for (const { name, data: values } of written) expect(source.readFloat32(name)).toEqual(values);
        source.close();
      }),
      { numRuns: 30 },
    );
  });

  test("bfloat16 rounds to nearest, ties to even", async () => {
    const file = join(folder, "rounded.safetensors");
    const bits = Uint32Array.of(0x3f800000, 0x3f807fff, 0x3f808000, 0x3f808001, 0x3f818000, 0xbf818000, 0x00000001);
    await writeSafetensors(file, [
      { name: "x", dtype: "BF16", shape: [bits.length], data: new Float32Array(bits.buffer) },
    ]);
    const source = openSafetensors(file);
    const back = new Uint32Array(source.readFloat32("x").buffer);
    expect([...back].map((value) => value >>> 16)).toEqual([0x3f80, 0x3f80, 0x3f80, 0x3f81, 0x3f82, 0xbf82, 0]);
    source.close();
  });

  test("values can be computed lazily, one tensor at a time", async () => {
    const file = join(folder, "lazy.safetensors");
    let alive = 0;
    const tensor = (value: number) => ({
      name: `t${value}`,
      dtype: "F32" as const,
      shape: [2],
      data: () => Float32Array.of(value, ++alive),
    });
    await writeSafetensors(file, [tensor(5), tensor(6)]);
    const source = openSafetensors(file);
    expect([...source.readFloat32("t5"), ...source.readFloat32("t6")]).toEqual([5, 1, 6, 2]);
    source.close();
  });

  test("a failure keeps the old file and leaves no other file", async () => {
    const home = mkdtempSync(join(folder, "atomic-"));
    const file = join(home, "x.safetensors");
    const one = { name: "x", dtype: "F32" as const, shape: [1], data: Float32Array.of(1) };
    await writeSafetensors(file, [one]);
    const before = readFileSync(file);
    await expect(writeSafetensors(file, [one, one])).rejects.toMatchObject({ tensor: "x" });
    await expect(writeSafetensors(file, [{ ...one, shape: [2] }])).rejects.toMatchObject({ tensor: "x" });
    const failing = { ...one, name: "y", data: () => Float32Array.of(1, 2) };
    await expect(writeSafetensors(file, [one, failing])).rejects.toMatchObject({ tensor: "y" });
    await expect(writeSafetensors(join(home, "no", "x.safetensors"), [one])).rejects.toThrow();
    expect(readFileSync(file)).toEqual(before);
    expect(readdirSync(home)).toEqual(["x.safetensors"]);
  });
});
