import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ggufFields } from "../../../../test/fixtures/models/gguf-fields.ts";
import { tinyGguf } from "../../../../test/fixtures/models/tiny-models.ts";
import { ModelError, WeightsError } from "../errors.ts";
import { openGguf } from "./gguf-model.ts";
import { ggufName, halfRotationRow, huggingFaceName } from "./gguf-names.ts";

const folder = mkdtempSync(join(tmpdir(), "gguf-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const valid = readFileSync(tinyGguf);

/** Opens a modified copy and returns the error. */
function refusal(bytes: Uint8Array): ModelError {
  const path = join(folder, "changed.gguf");
  writeFileSync(path, bytes);
  try {
    openGguf(path).weights.close();
  } catch (error) {
    expect(error).toBeInstanceOf(ModelError);
    return error as ModelError;
  }
  throw new Error("the file was accepted");
}

function changed(change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(valid);
  change(copy);
  return copy;
}

describe("a file written by the gguf package from PyPI", () => {
  const expected = JSON.parse(readFileSync(tinyGguf.replace(/gguf$/, "json"), "utf8")) as Record<
    string,
    { dtype: string; shape: number[]; sha256: string }
  >;

  test("every tensor has the reference's bits, Hugging Face's name and its order of q and k rows", () => {
    const { weights } = openGguf(tinyGguf);
    expect([...weights.tensors.keys()].sort()).toEqual(Object.keys(expected).sort());
    for (const [name, { dtype, shape, sha256 }] of Object.entries(expected)) {
      expect(weights.tensors.get(name)).toMatchObject({ dtype, shape });
      const values = weights.readFloat32(name);
      expect([name, createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex")]).toEqual([name, sha256]);
    }
    weights.close();
  });

  test("the configuration has Hugging Face's keys", () => {
    const { config, weights } = openGguf(tinyGguf);
    expect(config).toEqual({
      architectures: ["LlamaForCausalLM"],
      model_type: "llama",
      hidden_act: "silu",
      hidden_size: 256,
      intermediate_size: 32,
      num_hidden_layers: 1,
      num_attention_heads: 2,
      num_key_value_heads: 1,
      head_dim: 32,
      rms_norm_eps: 1e-5,
      rope_theta: 10_000,
      max_position_embeddings: 128,
      vocab_size: 272,
      tie_word_embeddings: true,
      bos_token_id: 1,
      eos_token_id: 2,
      pad_token_id: null,
      attention_bias: false,
      mlp_bias: false,
    });
    weights.close();
  });
});

describe("malicious headers", () => {
  const { fields } = ggufFields(valid);
  const all = (kind: string) => fields.filter((field) => field.kind === kind);
  const first = (kind: string) => all(kind)[0] as (typeof fields)[number];

  test.each([
    ["magic", (copy: Buffer) => copy.write("GGML", 0, "latin1"), "bad_header"],
    ["version", (copy: Buffer) => copy.writeUInt32LE(1, 4), "bad_header"],
    ["byte order", (copy: Buffer) => copy.writeUInt32BE(3, 4), "bad_header"],
    ["tensor count", (copy: Buffer) => copy.writeBigUInt64LE(2n ** 62n, first("tensor count").at), "bad_header"],
    ["no tensors", (copy: Buffer) => copy.writeBigUInt64LE(0n, first("tensor count").at), "missing_tensor"],
    ["pair count", (copy: Buffer) => copy.writeBigUInt64LE(2n ** 40n, first("pair count").at), "bad_header"],
    ["key length", (copy: Buffer) => copy.writeBigUInt64LE(2n ** 63n, first("key length").at), "bad_header"],
    ["text length", (copy: Buffer) => copy.writeBigUInt64LE(2n ** 32n, first("string length").at), "bad_header"],
    ["array count", (copy: Buffer) => copy.writeBigUInt64LE(2n ** 53n, first("array count").at), "bad_header"],
    ["array of arrays", (copy: Buffer) => copy.writeUInt32LE(9, first("array type").at), "bad_header"],
    ["value type", (copy: Buffer) => copy.writeUInt32LE(99, first("value type").at), "bad_header"],
    ["rank 0", (copy: Buffer) => copy.writeUInt32LE(0, first("rank").at), "bad_shape"],
    ["rank 5", (copy: Buffer) => copy.writeUInt32LE(5, first("rank").at), "bad_shape"],
    ["a huge dimension", (copy: Buffer) => copy.writeBigUInt64LE(2n ** 50n, first("dimension").at), "bad_shape"],
    ["half a block", (copy: Buffer) => copy.writeBigUInt64LE(255n, first("dimension").at), "bad_shape"],
    ["tensor type", (copy: Buffer) => copy.writeUInt32LE(16, first("tensor type").at), "unsupported_dtype"],
    ["tensor offset", (copy: Buffer) => copy.writeBigUInt64LE(32n, first("tensor offset").at), "bad_offsets"],
  ])("%s", (_, change, code) => {
    expect(refusal(changed(change))).toMatchObject({ code, file: join(folder, "changed.gguf") });
  });

  test("overlapping tensors are rejected with the tensor's name", () => {
    const second = all("tensor offset")[1] as (typeof fields)[number];
    const error = refusal(changed((copy) => copy.writeBigUInt64LE(0n, second.at)));
    expect(error).toMatchObject({ code: "bad_offsets", tensor: "output_norm.weight" });
  });

  test("a duplicate name and an unknown name", () => {
    const at = valid.indexOf("blk.0.ffn_norm.weight");
    const twice = changed((copy) => copy.write("blk.0.attn_norm.weigh", at, "latin1"));
    expect(refusal(twice)).toMatchObject({ code: "unknown_tensor", tensor: "blk.0.attn_norm.weigh" });
    const up = valid.indexOf("blk.0.attn_k.weight");
    const again = changed((copy) => copy.write("blk.0.attn_q.weight", up, "latin1"));
    expect(refusal(again)).toMatchObject({ code: "duplicate_tensor", tensor: "blk.0.attn_q.weight" });
  });

  test("a block format for a one-dimensional tensor", () => {
    const norm = valid.indexOf("blk.0.attn_norm.weight");
    const type = all("tensor type").find(({ at }) => at > norm) as (typeof fields)[number];
    const error = refusal(changed((copy) => copy.writeUInt32LE(8, type.at))); // Q8_0
    expect(error).toMatchObject({ code: "unsupported_dtype", tensor: "blk.0.attn_norm.weight" });
    expect(error.message).toMatch(/Q8_0/);
  });

  test("a truncated file and trailing bytes", () => {
    const cut = refusal(valid.subarray(0, valid.length - 40));
    expect(cut).toBeInstanceOf(WeightsError);
    expect(cut).toMatchObject({ code: "truncated", tensor: "blk.0.ffn_down.weight" });
    expect(refusal(Buffer.concat([valid, new Uint8Array(64)]))).toMatchObject({ code: "bad_offsets" });
  });

  test("metadata that contradict each other", () => {
    const value = (key: string) => valid.indexOf(key) + key.length + 4;
    const rejectSize = (key: string, size: number) => refusal(changed((copy) => copy.writeUInt32LE(size, value(key))));
    expect(rejectSize("llama.rope.dimension_count", 16)).toMatchObject({ field: "llama.rope.dimension_count" });
    expect(rejectSize("llama.attention.head_count", 0)).toMatchObject({ field: "llama.attention.head_count" });
    const other = changed((copy) => copy.write("gemma", valid.indexOf("llama", 24), "latin1"));
    expect(refusal(other)).toMatchObject({ field: "general.architecture" });
  });
});

test("names", () => {
  expect(huggingFaceName("blk.12.attn_output.weight")).toBe("model.layers.12.self_attn.o_proj.weight");
  expect(huggingFaceName("blk.3.attn_q.bias")).toBe("model.layers.3.self_attn.q_proj.bias");
  expect(huggingFaceName("output.weight")).toBe("lm_head.weight");
  for (const name of [
    "blk.01.attn_q.weight",
    "attn_q.weight",
    "blk.0.output.weight",
    "blk.0.constructor.weight",
    "x",
  ]) {
    expect(huggingFaceName(name)).toBeUndefined();
  }
  for (const name of ["blk.12.attn_output.weight", "blk.3.attn_q.bias", "output.weight", "token_embd.weight"]) {
    expect(ggufName(huggingFaceName(name) as string)).toBe(name);
  }
  for (const name of ["model.layers.0.self_attn.constructor.weight", "model.layers.0.weight", "lm_head", "x.weight"]) {
    expect(ggufName(name)).toBeUndefined();
  }
});

test("halfRotationRow reverses the converter's interleaving", () => {
  // A head of 6 rows, stored as 0a 0b 1a 1b 2a 2b: even rows are the first half.
  expect(Array.from({ length: 6 }, (_, row) => halfRotationRow(row, 6))).toEqual([0, 3, 1, 4, 2, 5]);
  expect(halfRotationRow(6 + 3, 6)).toBe(6 + 4);
});
