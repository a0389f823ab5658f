import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { codecs, countValues, storedBytes } from "./codecs.ts";
import type { StoredDtype } from "./types.ts";

/** Random blocks and their values decoded by the `gguf` package from PyPI; recorded by test/interop/weights/record.mjs. */
const recorded = JSON.parse(
  readFileSync(new URL("../../../../test/fixtures/weights/blocks.json", import.meta.url), "utf8"),
) as Record<Exclude<StoredDtype, "F32">, { bytes: string; values: string }>;

const aligned = (text: string) => new Uint8Array(Buffer.from(text, "base64")); // a copy, so that it is aligned

describe("stored formats", () => {
  test.each(Object.entries(recorded))("%s decodes to the same bits as the reference", (dtype, { bytes, values }) => {
    const codec = codecs[dtype as StoredDtype];
    const stored = aligned(bytes);
    const expected = new Uint32Array(aligned(values).buffer);
    const blocks = stored.length / codec.blockBytes;
    expect(blocks * codec.blockValues).toBe(expected.length);
    const out = new Float32Array(expected.length + 3); // decode must not write outside its range
    codec.decode(stored, blocks, out, 2);
    expect(new Uint32Array(out.buffer).subarray(2, -1)).toEqual(expected);
    expect([out[0], out[1], out.at(-1)]).toEqual([0, 0, 0]);
  });

  test("every supported format except float32 has a recording", () => {
    expect(Object.keys(codecs).sort()).toEqual(["F32", ...Object.keys(recorded)].sort());
  });
});

test("counts and sizes that are not exact integers are rejected", () => {
  expect(countValues([3, 4, 0])).toBe(0);
  expect(countValues([])).toBe(1);
  for (const shape of [[-1], [1.5], [2 ** 53], [2 ** 30, 2 ** 30], ["3"], [null], [Number.NaN]]) {
    expect(countValues(shape)).toBeUndefined();
  }
  expect(storedBytes("Q4_K", 512)).toBe(288);
  expect(storedBytes("Q4_K", 100)).toBeUndefined();
  expect(storedBytes("F32", 2 ** 52)).toBeUndefined();
});
