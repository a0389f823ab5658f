/** Exported models, read back with this package's readers. The engine's tests check that they compute the same outputs. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { families, randomModel } from "../../../../test/fixtures/models/random-model.ts";
import { bundledModel } from "../config/bundled-model.ts";
import { readConfig } from "../config/read-config.ts";
import { weightShapes } from "../config/tensor-shapes.ts";
import { loadTokenizer } from "../load-tokenizer.ts";
import { bundledModelFolder } from "../source.ts";
import { codecs } from "../weights/codecs.ts";
import { encodedChunks } from "../weights/encode.ts";
import { readGgufMetadata } from "../weights/gguf.ts";
import { openModel } from "../weights/open-model.ts";
import { exportModel } from "./export-model.ts";

const root = mkdtempSync(join(tmpdir(), "export-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const makeModel = (name: string, family: Record<string, unknown>) =>
  randomModel(join(root, name.replaceAll(" ", "-")), family);

/** The values after a round trip through a storage format. */
function stored(dtype: "F32" | "F16" | "Q8_0", values: Float32Array): Float32Array {
  const out = new Float32Array(values.length);
  let at = 0;
  for (const bytes of encodedChunks(dtype, values)) {
    const blocks = bytes.byteLength / codecs[dtype].blockBytes;
    codecs[dtype].decode(bytes, blocks, out, at);
    at += blocks * codecs[dtype].blockValues;
  }
  return out;
}

describe.each(Object.entries(families))("%s", (name, family) => {
  test.each([
    ["gguf", "f16"],
    ["gguf", "q8_0"],
    ["gguf", "f32"],
    ["merged", "base"],
    ["merged", "f16"],
  ] as const)("%s as %s contains the merged weights and the configuration", async (format, dtype) => {
    const { folder, adapter, config, merged } = await makeModel(name, family);
    const out = join(root, `${name}-${dtype}-${format}${format === "gguf" ? ".gguf" : ""}`);
    const seen: number[] = [];
    const onProgress = ({ done, total }: { done: number; total: number }) => seen.push(done / total);
    const result = await exportModel(folder, out, { format, dtype, adapter, onProgress });
    expect(result).toMatchObject({ path: out, dtype });
    expect(seen.at(-1)).toBe(1);
    expect(seen.length).toBeGreaterThan(10);

    const opened = await openModel(out);
    const again = readConfig(opened.config);
    const { architecture, ropeScaling, ...rest } = config;
    // The unembedding was trained and the embedding was not, so they are untied; EOS ids come from the tokenizer.
    expect({ ...again, eosTokenIds: [] }).toMatchObject({ ...rest, tiedEmbeddings: false, eosTokenIds: [] });
    expect(again.ropeScaling).toEqual(ropeScaling);
    expect(again.architecture).toBe(format === "gguf" && architecture === "mistral" ? "llama" : architecture);
    for (const [tensor, shape] of weightShapes(again)) {
      const expected = merged(tensor);
      const kind =
        shape.length === 1 && format === "gguf" ? "F32" : dtype === "q8_0" ? "Q8_0" : dtype === "f16" ? "F16" : "F32";
      const [got, exact] = [opened.weights.readFloat32(tensor), stored(kind, expected)];
      // The export sums the product in another order, so a value may round to the neighbouring step of the format.
      const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const step = kind === "F32" ? 2 ** -22 * largest : kind === "F16" ? 2 ** -10 * largest : (1.01 * largest) / 127;
      const off = got.reduce((most, value, at) => Math.max(most, Math.abs(value - exact[at]!)), 0);
      expect([tensor, off <= step]).toEqual([tensor, true]);
    }
    opened.close();
    const [before, after] = [await loadTokenizer(folder), await loadTokenizer(out)];
    const text = "hello world, it's 2024!\n\n  déjà vu 你好";
    expect(after.encode(text)).toEqual(before.encode(text));
    expect(after.eosTokenIds).toEqual(before.eosTokenIds);
    expect(after.bosTokenId).toBe(before.bosTokenId);
    const messages = [{ role: "user", content: "hello" }];
    expect(after.applyChatTemplate(messages)).toEqual(before.applyChatTemplate(messages));
  });
});

test("q8_0 blocks equal GGML's: scale = largest magnitude / 127 as f16, ties round away from zero", () => {
  const numbers = [-127, 0.5, -0.5, 1.5, 2.5, -2.5, 126.4, 0.49, -0.49, 63.5];
  const values = Float32Array.from({ length: 96 }, (_, i) => (i < 32 ? (numbers[i] ?? 0) : i < 64 ? 0 : 0.1 + i / 1e3));
  const [bytes] = [...encodedChunks("Q8_0", values)].map((chunk) => Buffer.from(chunk));
  const whole = Array.from({ length: 10 }, (_, i) => bytes!.readInt8(2 + i));
  expect(whole).toEqual([-127, 1, -1, 2, 3, -3, 126, 0, 0, 64]); // the scale is 1
  expect([...bytes!.subarray(34, 68)]).toEqual(new Array(34).fill(0));
  const decoded = stored("Q8_0", values);
  const scale = stored("F16", Float32Array.of(Math.fround(values[95]! / 127)))[0]!;
  for (let i = 0; i < 32; i++) {
    const q = bytes!.readInt8(68 + 2 + i);
    expect(Math.abs(q - values[64 + i]! / (values[95]! / 127))).toBeLessThanOrEqual(0.5 + 2 ** -15);
    expect(decoded[64 + i]).toBe(Math.fround(scale * q));
  }
});

test("f16 preserves every half-precision number and rounds others to nearest, ties to even", () => {
  const all = new Float32Array(0x10000);
  codecs.F16.decode(new Uint8Array(Uint16Array.from({ length: 0x10000 }, (_, i) => i).buffer), 0x10000, all, 0);
  const finite = all.filter(Number.isFinite);
  expect(stored("F16", finite)).toEqual(finite);
  for (const [value, expected] of [
    [1 + 2 ** -11, 1], // a tie, to even
    [1 + 3 * 2 ** -11, 1 + 2 ** -9],
    [1 + 2 ** -11 + 2 ** -23, 1 + 2 ** -10],
    [2 ** -25, 0], // a tie below the smallest subnormal
    [3 * 2 ** -25, 2 ** -23],
    [-(2 ** -14) + 2 ** -26, -(2 ** -14)],
    [65519, 65504],
  ] as const) {
    expect([value, stored("F16", Float32Array.of(value))[0]]).toEqual([value, expected]);
  }
});

test("a value out of f16 range is rejected with the tensor's name, and no file remains", async () => {
  const { folder, adapter } = await makeModel("large", families.qwen3);
  const file = join(folder, "model.safetensors");
  const bytes = readFileSync(file);
  bytes.writeFloatLE(1e6, bytes.length - 4);
  writeFileSync(file, bytes);
  const before = readdirSync(root);
  await expect(exportModel(folder, join(root, "large.gguf"), { format: "gguf", adapter })).rejects.toMatchObject({
    code: "out_of_range",
    message: expect.stringMatching(/tensor .*weight: it contains .*bf16 or f32/) as string,
  });
  expect(readdirSync(root)).toEqual(before);
});

describe("rejected exports", () => {
  const options = { format: "gguf" } as const;

  test("fail before anything is written", async () => {
    const { folder, adapter } = await makeModel("misfit", families.qwen2);
    const other = await makeModel("misfit other", { ...families.qwen2, hidden_size: 64 });
    const out = join(root, "never.gguf");
    const before = readdirSync(root);
    const expectRejection = (changes: Record<string, unknown>, code: string, pattern: RegExp) =>
      expect(exportModel(folder, out, { ...options, ...changes })).rejects.toMatchObject({
        code,
        message: expect.stringMatching(pattern) as string,
      });
    await expectRejection({ format: "onnx" }, "bad_option", /format must be one of merged, gguf, got "onnx"/);
    await expectRejection(
      { dtype: "q4_0" },
      "bad_option",
      /dtype of gguf must be one of f16, q8_0, bf16, f32, got "q4_0"/,
    );
    await expectRejection({ format: "merged", dtype: "q8_0" }, "bad_option", /dtype of merged must be one of base/);
    await expectRejection(
      { adapter: other.adapter },
      "shape_mismatch",
      /lora_A.weight of the adapter has shape \[2, 64\] instead of \[2, 32\]/,
    );
    await expectRejection({ adapter: folder }, "no_adapter", /has no adapter_config.json/);
    await expect(exportModel(folder, adapter, { format: "merged" })).rejects.toMatchObject({ code: "already_there" });
    await expect(exportModel(join(root, "nowhere"), out, options)).rejects.toMatchObject({ code: "not_found" });
    expect(readdirSync(root)).toEqual(before);
  });

  test.each([
    ["attention_bias", { ...families.qwen3, attention_bias: true }],
    ["head_dim", { ...families.qwen2, head_dim: 16 }],
    ["rope_scaling", { ...families.qwen3, rope_scaling: families.llama.rope_scaling }],
  ])("%s, which llama.cpp does not support for the family", async (field, family) => {
    const { folder } = await makeModel(`without ${field}`, family);
    await expect(exportModel(folder, join(root, "never.gguf"), options)).rejects.toMatchObject({ field });
  });

  test("an abort leaves no file and rejects with its reason", async () => {
    const { folder, adapter } = await makeModel("aborted", families.llama);
    for (const format of ["gguf", "merged"] as const) {
      const controller = new AbortController();
      const before = readdirSync(root);
      let calls = 0;
      const onProgress = () => {
        if (++calls === 5) controller.abort("enough");
      };
      const out = join(root, "aborted-out");
      const exporting = exportModel(folder, out, { format, adapter, onProgress, signal: controller.signal });
      await expect(exporting).rejects.toBe("enough");
      expect(readdirSync(root)).toEqual(before);
    }
  });
});

test("the bundled model: the result and the file note that llama.cpp has no matching pre-tokenizer", async () => {
  const out = join(root, "base.gguf");
  const { notes, bytes } = await exportModel(bundledModel, out, { format: "gguf" });
  expect(bytes).toBeGreaterThan(10_000_000);
  expect(notes).toEqual([
    expect.stringMatching(
      /^llama.cpp has no pre-tokenizer equal to this model's; the closest, \w+, gives the same tokens for \d+ of 16/,
    ),
  ]);
  const metadata = readGgufMetadata(out);
  expect(metadata.get("tinklet.tokenizer.notes")).toBe(notes[0]);
  expect(metadata.get("tokenizer.chat_template")).toContain("<|im_start|>");
  expect(metadata.get("general.architecture")).toBe("qwen3");
  const [original, again] = [await loadTokenizer(bundledModelFolder()), await loadTokenizer(out)];
  for (const text of ["What's 12 + 34?\n\nIt's...", "Él dijo: «¡hola!»", "a\r\n b"]) {
    expect(again.encode(text)).toEqual(original.encode(text));
  }
  expect(again.eosTokenIds).toEqual(original.eosTokenIds);
  expect(existsSync(out)).toBe(true);
});
