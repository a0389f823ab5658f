import { copyFileSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  tinyConfig,
  tinyGguf,
  tinyTensors,
  writeTinyGguf,
  writeTinyModel,
  writeTinyShards,
} from "../../../../test/fixtures/models/tiny-models.ts";
import { ConfigError, WeightsError } from "../errors.ts";
import { openModel } from "./open-model.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "open-model-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const bytesOf = async (source: string) => {
  const model = await openModel(source);
  const all = [...model.weights.tensors.keys()].sort().map((name) => [name, model.weights.readFloat32(name)]);
  model.close();
  return all;
};

describe("supported sources", () => {
  test("a folder, its file, and the same model in shards have the same tensors", async () => {
    const file = writeTinyModel(join(folder, "one"));
    writeTinyShards(join(folder, "two"));
    const fromFolder = await bytesOf(join(folder, "one"));
    expect(fromFolder).toHaveLength(tinyTensors().length);
    expect(await bytesOf(file)).toEqual(fromFolder);
    expect(await bytesOf(join(folder, "two"))).toEqual(fromFolder);
    const model = await openModel(file);
    expect(model).toMatchObject({ origin: file, config: tinyConfig });
    model.close();
  });

  test("a folder with one GGUF file", async () => {
    const file = writeTinyGguf(folder);
    expect(await bytesOf(folder)).toEqual(await bytesOf(file));
    copyFileSync(tinyGguf, join(folder, "second.gguf"));
    await expect(openModel(folder)).rejects.toMatchObject({
      code: "no_weights",
      hint: expect.stringContaining("second.gguf"),
    });
  });
});

describe("rejected sources", () => {
  test.each([
    ["a missing path", "no/such/folder", "not_found"],
    ["neither a path nor an id", "a b c", "not_found"],
    ["an id with parent folders", "../..", "no_weights"],
  ])("%s", async (_, source, code) => {
    await expect(openModel(source)).rejects.toMatchObject({ code });
  });

  test("a folder without weights, or with only pickles", async () => {
    await expect(openModel(folder)).rejects.toMatchObject({ code: "no_weights" });
    writeFileSync(join(folder, "pytorch_model.bin"), "");
    await expect(openModel(folder)).rejects.toMatchObject({ hint: expect.stringContaining("pickles") });
    const other = join(folder, "notes.txt");
    writeFileSync(other, "");
    await expect(openModel(other)).rejects.toMatchObject({ code: "unknown_format" });
  });

  test("weights with a missing or invalid configuration", async () => {
    const file = writeTinyModel(folder);
    for (const text of ["{", "[]", "7"]) {
      writeFileSync(join(folder, "config.json"), text);
      await expect(openModel(file)).rejects.toBeInstanceOf(ConfigError);
    }
    rmSync(join(folder, "config.json"));
    await expect(openModel(file)).rejects.toMatchObject({ code: "no_config" });
  });

  test("an unsupported architecture, or absurd sizes", async () => {
    const file = writeTinyModel(folder);
    const configured = async (change: Record<string, unknown>) => {
      writeFileSync(join(folder, "config.json"), JSON.stringify({ ...tinyConfig, ...change }));
      return openModel(file);
    };
    await expect(configured({ model_type: "gemma" })).rejects.toMatchObject({ field: "model_type" });
    await expect(configured({ num_hidden_layers: 1e9 })).rejects.toMatchObject({ code: "missing_tensor" });
    await expect(configured({ num_hidden_layers: 1 })).rejects.toMatchObject({ code: "unexpected_tensor" });
    await expect(configured({ vocab_size: 97 })).rejects.toMatchObject({ code: "shape_mismatch" });
  });

  test("weights that do not match the configuration", async () => {
    const tensors = tinyTensors();
    writeTinyModel(folder, tensors.slice(1));
    await expect(openModel(folder)).rejects.toMatchObject({
      code: "missing_tensor",
      tensor: "model.embed_tokens.weight",
    });

    writeTinyModel(folder, [...tensors, { ...tensors[1], name: "model.layers.2.input_layernorm.weight" } as never]);
    await expect(openModel(folder)).rejects.toMatchObject({
      code: "unexpected_tensor",
      tensor: "model.layers.2.input_layernorm.weight",
    });

    const turned = tensors.map((tensor) =>
      tensor.name === "model.layers.1.mlp.up_proj.weight" ? { ...tensor, shape: [...tensor.shape].reverse() } : tensor,
    );
    writeTinyModel(folder, turned);
    await expect(openModel(folder)).rejects.toMatchObject({
      code: "shape_mismatch",
      tensor: "model.layers.1.mlp.up_proj.weight",
    });
  });

  test("a tensor with an unsupported dtype", async () => {
    const tensors = tinyTensors().map((tensor) =>
      tensor.name === "model.norm.weight"
        ? { ...tensor, dtype: "F64", bytes: new Uint8Array(8 * (tensor.shape[0] as number)) }
        : tensor,
    );
    writeTinyModel(folder, tensors);
    await expect(openModel(folder)).rejects.toMatchObject({ code: "unsupported_dtype", tensor: "model.norm.weight" });
  });

  test("old checkpoints with precomputed RoPE frequencies are accepted", async () => {
    const extra = {
      name: "model.layers.0.self_attn.rotary_emb.inv_freq",
      dtype: "F32",
      shape: [1],
      bytes: new Uint8Array(4),
    };
    writeTinyModel(folder, [...tinyTensors(), extra]);
    (await openModel(folder)).close();
  });
});

describe("shards", () => {
  test.each([
    "../model.safetensors",
    "/etc/hosts",
    "C:\\x.safetensors",
    "..\\x.safetensors",
    "sub/x.safetensors",
    ".x.safetensors",
    "x.bin",
    7,
  ])("an index may not name %s", async (file) => {
    const { index } = writeTinyShards(folder);
    const parsed = JSON.parse(readFileSync(index, "utf8"));
    parsed.weight_map["model.norm.weight"] = file;
    writeFileSync(index, JSON.stringify(parsed));
    await expect(openModel(folder)).rejects.toMatchObject({
      code: "bad_index",
      tensor: "model.norm.weight",
      file: index,
    });
  });

  test("a missing shard, a missing tensor, and a duplicate tensor", async () => {
    const { index, shards } = writeTinyShards(folder);
    const parsed = JSON.parse(readFileSync(index, "utf8"));
    const [first, second] = shards as [string, string];
    const valid = readFileSync(second);
    copyFileSync(first, second);
    await expect(openModel(folder)).rejects.toMatchObject({ code: "duplicate_tensor" });
    rmSync(second);
    await expect(openModel(folder)).rejects.toMatchObject({ code: "unreadable_file", file: second });
    writeFileSync(second, valid);
    parsed.weight_map["model.norm.weight"] = "model-00001-of-00002.safetensors";
    writeFileSync(index, JSON.stringify(parsed));
    await expect(openModel(folder)).rejects.toMatchObject({ code: "bad_index", tensor: "model.norm.weight" });
  });

  test.skipIf(process.platform !== "linux")("files are closed when opening fails", async () => {
    const { shards } = writeTinyShards(folder);
    writeFileSync(shards[1] as string, "broken");
    await expect(openModel(folder)).rejects.toBeInstanceOf(WeightsError);
    const open = readdirSync("/proc/self/fd").map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return ""; // the descriptor of readdir itself, closed by now
      }
    });
    expect(open.filter((path) => path.startsWith(folder))).toEqual([]);
  });
});
