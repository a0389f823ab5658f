/** Reading adapters, and rejecting adapter folders that exceed the bounds of the model. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readConfig } from "../config/read-config.ts";
import { ConfigError, WeightsError } from "../errors.ts";
import { renameAdapter } from "./adapter-names.ts";
import { readPeft, writePeft } from "./peft.ts";
import { type PeftAdapter, peftBounds } from "./peft-format.ts";

const config = readConfig({
  model_type: "llama",
  vocab_size: 100,
  hidden_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  intermediate_size: 128,
  tie_word_embeddings: true,
});
const base = { config, maxRank: 8 };
const root = await mkdtemp(join(tmpdir(), "tinklet-peft-"));
afterAll(() => rm(root, { recursive: true, force: true }));

const tensor = (shape: number[]) => ({ shape, data: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(0.5) });
const layer = "base_model.model.model.layers.1";
/** One adapted linear layer of each kind, a tied unembedding and the base tensor that PEFT saves with it. */
const whole: PeftAdapter["weights"] = {
  [`${layer}.self_attn.k_proj.lora_A.weight`]: tensor([2, 64]),
  [`${layer}.self_attn.k_proj.lora_B.weight`]: tensor([32, 2]),
  [`${layer}.mlp.down_proj.lora_A.weight`]: tensor([2, 128]),
  [`${layer}.mlp.down_proj.lora_B.weight`]: tensor([64, 2]),
  "base_model.model.lm_head.lora_A.weight": tensor([2, 64]),
  "base_model.model.lm_head.lora_B.weight": tensor([100, 2]),
  "base_model.model.model.embed_tokens.weight": tensor([100, 64]),
};
async function folderOf(weights: PeftAdapter["weights"], rank = 2): Promise<string> {
  const folder = await mkdtemp(join(root, "adapter-"));
  await writePeft(folder, { lora: { rank, alpha: 4 }, weights }, "base");
  return folder;
}

test("an adapter of the model is read completely", async () => {
  const { weights, lora, peft } = await readPeft(await folderOf(whole), base);
  expect(Object.keys(weights)).toHaveLength(6);
  expect(lora).toMatchObject({ rank: 2, alpha: 4, trainAttn: true, trainMlp: true, trainUnembed: true });
  expect(Object.keys(peft.baseShapes)).toEqual(["base_model.model.model.embed_tokens.weight"]);
});

describe("the Tinker service's name of the unembedding", () => {
  const tinkerName = "base_model.model.model.unembed_tokens.lora_A.weight";
  const namesIn = async (folder: string) => {
    const bytes = await readFile(join(folder, "adapter_model.safetensors"));
    const header = JSON.parse(bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE())).toString()) as object;
    return Object.keys(header).filter((name) => name !== "__metadata__");
  };
  const modulesIn = async (folder: string) =>
    (JSON.parse(await readFile(join(folder, "adapter_config.json"), "utf8")) as { target_modules: string[] })
      .target_modules;

  test("is written by renameAdapter, read as lm_head, and changed back to the same bytes", async () => {
    const values = Object.fromEntries(
      Object.entries(whole).map(([name, { shape, data }], i) => [name, { shape, data: data.map((_, j) => i + j / 8) }]),
    );
    const folder = await folderOf(values);
    const [before, expected] = [
      await readFile(join(folder, "adapter_model.safetensors")),
      await readPeft(folder, base),
    ];
    expect(await renameAdapter(folder, "peft")).toBe(false);
    expect(await renameAdapter(folder, "tinker")).toBe(true);
    expect(await namesIn(folder)).toEqual(
      Object.keys(whole).map((name) => name.replace(".model.lm_head.", ".model.model.unembed_tokens.")),
    );
    expect(await modulesIn(folder)).toEqual(["down_proj", "k_proj", "unembed_tokens"]);
    expect(await readPeft(folder, base)).toEqual(expected);
    expect(await renameAdapter(folder, "peft")).toBe(true);
    expect((await readFile(join(folder, "adapter_model.safetensors"))).equals(before)).toBe(true);
    expect(await modulesIn(folder)).toEqual(["down_proj", "k_proj", "lm_head"]);
  });

  test("a change that ended between the two files is completed by the next one", async () => {
    const folder = await folderOf(whole);
    const settings = await readFile(join(folder, "adapter_config.json"), "utf8");
    await renameAdapter(folder, "tinker");
    await writeFile(join(folder, "adapter_config.json"), settings);
    expect(await renameAdapter(folder, "tinker")).toBe(true);
    expect(await modulesIn(folder)).toEqual(["down_proj", "k_proj", "unembed_tokens"]);
    expect(await renameAdapter(folder, "tinker")).toBe(false);
  });

  test("an adapter with both names is rejected and left as it is", async () => {
    const folder = await folderOf({ ...whole, [tinkerName]: tensor([2, 64]) });
    const before = await readFile(join(folder, "adapter_model.safetensors"));
    await expect(readPeft(folder, base)).rejects.toMatchObject({ code: "stray_tensor", tensor: tinkerName });
    await expect(renameAdapter(folder, "tinker")).rejects.toThrow(
      "two tensors would have the name base_model.model.model.unembed_tokens.lora_A.weight",
    );
    expect((await readFile(join(folder, "adapter_model.safetensors"))).equals(before)).toBe(true);
  });

  test("an adapter without the unembedding is not written", async () => {
    const {
      "base_model.model.lm_head.lora_A.weight": _,
      "base_model.model.lm_head.lora_B.weight": __,
      ...rest
    } = whole;
    const folder = await folderOf(rest);
    expect(await renameAdapter(folder, "tinker")).toBe(false);
    expect(await modulesIn(folder)).toEqual(["down_proj", "k_proj"]);
  });
});

describe("rejected before the weights are read", () => {
  const other = (name: string, shape: number[]) => folderOf({ ...whole, [`base_model.model.${name}`]: tensor(shape) });
  test.each([
    ["a layer that the model does not have", "model.layers.2.self_attn.k_proj.lora_A.weight", [2, 64], "stray_tensor"],
    [
      "a linear layer that the model does not have",
      "model.layers.1.self_attn.x_proj.lora_A.weight",
      [2, 64],
      "stray_tensor",
    ],
    ["a norm", "model.layers.1.input_layernorm.lora_A.weight", [2, 64], "stray_tensor"],
    ["an embedding", "model.embed_tokens.lora_A.weight", [2, 64], "stray_tensor"],
    ["an unknown LoRA matrix", "model.layers.1.self_attn.k_proj.lora_C.weight", [2, 64], "stray_tensor"],
    ["another width", "model.layers.1.self_attn.q_proj.lora_A.weight", [2, 65], "shape_mismatch"],
    ["another rank", "model.layers.1.self_attn.q_proj.lora_B.weight", [64, 3], "shape_mismatch"],
    ["a wide axis beside an empty one", "model.layers.1.self_attn.q_proj.lora_B.weight", [0, 2], "shape_mismatch"],
  ])("%s", async (_, name, shape, code) => {
    await expect(readPeft(await other(name, shape), base)).rejects.toMatchObject({
      code,
      tensor: `base_model.model.${name}`,
    });
  });

  test("a rank above maxRank", async () => {
    const folder = await folderOf({}, 9);
    await expect(readPeft(folder, base)).rejects.toThrow(ConfigError);
    await expect(readPeft(folder, base)).rejects.toThrow("adapter_config.json: r must be at most 8, got 9");
    await expect(readPeft(folder)).resolves.toMatchObject({ lora: { rank: 9 } }); // without a base model there is no limit
  });

  test("a configuration and a header larger than any adapter of the model", async () => {
    const { configBytes, headerBytes } = peftBounds(base);
    const folder = await folderOf(whole);
    const metadata = JSON.stringify({ __metadata__: { a: "x".repeat(headerBytes) } });
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(metadata.length));
    await writeFile(join(folder, "adapter_model.safetensors"), Buffer.concat([size, Buffer.from(metadata)]));
    await expect(readPeft(folder, base)).rejects.toThrow(/the header must have at most \d+ bytes, got \d+/);
    await writeFile(join(folder, "adapter_config.json"), " ".repeat(configBytes + 1));
    await expect(readPeft(folder, base)).rejects.toThrow(WeightsError);
    await expect(readPeft(folder, base)).rejects.toMatchObject({ code: "too_large" });
  });
});

test("the bounds allow the largest adapter in float32 with all module names in the configuration", () => {
  const large = readConfig({
    model_type: "llama",
    vocab_size: 128_256,
    hidden_size: 8192,
    num_hidden_layers: 80,
    num_attention_heads: 64,
    num_key_value_heads: 8,
    intermediate_size: 28_672,
  });
  const { configBytes, headerBytes, weightsBytes } = peftBounds({ config: large, maxRank: 256 });
  const linears = 80 * 7 + 1;
  expect(configBytes).toBeGreaterThan(
    10_000 + linears * '"base_model.model.model.layers.79.self_attn.q_proj", '.length,
  );
  const entry = `"${layer}.self_attn.q_proj.lora_A.weight":{"dtype":"F32","shape":[256,28672],"data_offsets":[13000000000,13000000000]},`;
  expect(headerBytes).toBeGreaterThan(2 * linears * entry.length);
  // 80 layers of q, o (2 × 16 384), k, v (2 × 9216), gate, up and down (3 × 36 864), and the unembedding
  const values = 256 * (80 * (2 * 16_384 + 2 * 9216 + 3 * 36_864) + 128_256 + 8192);
  expect(weightsBytes).toBeGreaterThan(values * 4);
  expect(weightsBytes).toBeLessThan(values * 4 + 5 * 128_256 * 8192 * 4);
});
