/** The entry `bytes` against the readers of folders: the same model, the same adapter, the same refusals. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readConfig } from "../config/read-config.ts";
import { ConfigError, WeightsError } from "../errors.ts";
import { readPeft, writePeft } from "../peft/peft.ts";
import { bundledModelFolder } from "../source.ts";
import { openModel } from "../weights/open-model.ts";
import { modelFromFiles, peftFiles, readPeftFiles } from "./index.ts";

const folder = bundledModelFolder() as string;
const filesOf = (path: string): Record<string, Uint8Array> =>
  Object.fromEntries(
    readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => [name, readFileSync(join(path, name))]),
  );

it("reads the model that openModel reads", async () => {
  const opened = await openModel(folder);
  const model = modelFromFiles(filesOf(folder), "it");
  expect(model.config).toEqual(opened.config);
  expect([...model.weights.tensors.keys()]).toEqual([...opened.weights.tensors.keys()]);
  // Bytes are compared: `toEqual` takes seconds for a million numbers.
  const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array) => Buffer.from(buffer, byteOffset, byteLength);
  for (const name of opened.weights.tensors.keys()) {
    const [read, expected] = [model, opened].map(({ weights }) => bytesOf(weights.readFloat32(name)));
    expect(expected!.length, name).toBeGreaterThan(0);
    expect(read!.equals(expected!), name).toBe(true);
  }
  const [one, other] = await Promise.all([model.loadTokenizer(), opened.loadTokenizer()]);
  expect(one.encode("What is the capital of Spain?")).toEqual(other.encode("What is the capital of Spain?"));
  opened.close();
});

it.each([
  ["model.safetensors", WeightsError, "no_weights"],
  ["config.json", ConfigError, "no_config"],
])("names a missing %s", (name, type, code) => {
  const { [name]: _, ...files } = filesOf(folder);
  const open = () => modelFromFiles(files, "it");
  expect(open).toThrow(type);
  expect(open).toThrow(expect.objectContaining({ code }) as Error);
});

it("rejects weights that are cut off", () => {
  const files = filesOf(folder);
  const short = { ...files, "model.safetensors": files["model.safetensors"]!.subarray(0, 4096) };
  expect(() => modelFromFiles(short, "it")).toThrow(WeightsError);
});

it("reads and writes the adapters that readPeft and writePeft do", async () => {
  const config = readConfig(JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as Record<string, unknown>);
  const { hiddenSize } = config;
  const values = (count: number) => Float32Array.from({ length: count }, (_, i) => i / 7);
  const module = "base_model.model.model.layers.0.self_attn.q_proj";
  const adapter = {
    lora: { rank: 2, alpha: 32 },
    weights: {
      [`${module}.lora_A.weight`]: { data: values(2 * hiddenSize), shape: [2, hiddenSize] },
      [`${module}.lora_B.weight`]: { data: values(hiddenSize * 2), shape: [hiddenSize, 2] },
    },
  };
  const out = mkdtempSync(join(tmpdir(), "tinklet-peft-"));
  try {
    await writePeft(out, adapter, "it");
    const files = filesOf(out);
    const written = peftFiles(adapter, "it").map(({ name, parts }) => [name, Buffer.concat(parts)] as const);
    for (const [name, bytes] of written) expect(bytes.equals(files[name] as Uint8Array), name).toBe(true);
    expect(readPeftFiles(files, { config })).toEqual(await readPeft(out, { config }));
    const { "adapter_model.safetensors": _, ...incomplete } = files;
    expect(() => readPeftFiles(incomplete, { config })).toThrow("the adapter has no adapter_model.safetensors");
    const large = { ...files, "adapter_config.json": new Uint8Array(64 * 1024 * 1024) };
    expect(() => readPeftFiles(large, { config })).toThrow("adapter_config.json must have at most");
  } finally {
    rmSync(out, { recursive: true });
  }
});
