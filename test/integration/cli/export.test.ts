// What was trained here, written for other programs by the command line and by a program, and opened again. No network.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadTokenizer, openModel } from "@tinklet/models";
import { ServiceClient } from "tinklet";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { tinyGguf } from "../../fixtures/models/tiny-models.ts";
import { Executable } from "./executable.ts";

vi.setConfig({ testTimeout: 180_000 }); // processes: a busy machine is no failure
let tool: Executable;
const env = { HF_ENDPOINT: "http://127.0.0.1:1" };
const local = ["--local", "--data-dir", "data"];

beforeAll(async () => {
  tool = await Executable.build({ server: true });
  const lines = Array.from({ length: 4 }, (_, at) => JSON.stringify({ prompt: `${at}?`, completion: ` ${at * 7}` }));
  writeFileSync(join(tool.work, "data.jsonl"), `${lines.join("\n")}\n`);
  const settings = ["--rank", "2", "--batch-size", "2", "--learning-rate", "0.01", "--no-export"];
  const train = ["train", "data.jsonl", ...local, "--model", `mine=${tinyGguf}`, "--out", "run", ...settings];
  const { code, stderr } = await tool.run(train, { env });
  expect([code, stderr]).toEqual([0, expect.not.stringContaining("Error")]);
}, 180_000);
afterAll(() => tool?.remove());

it("a run becomes a GGUF by the command line, atomically, and another model by its adapter folder", async () => {
  const served = [...local];
  const missing = await tool.run(["export", "run", "--format", "gguf", "--out", "run.gguf", ...served], { env });
  expect(missing.code).toBe(1);
  expect(missing.stderr).toMatch(
    /The base model "mine" \(the server's name\) was not found on this machine[\s\S]*Hint: .*--base/,
  );
  expect(readdirSync(tool.work).filter((name) => /gguf|\.tinklet-|tmp/.test(name))).toEqual([]);

  const args = [
    "export",
    "run",
    "--format",
    "gguf",
    "--dtype",
    "q8_0",
    "--base",
    tinyGguf,
    "--out",
    "run.gguf",
    "--json",
  ];
  const { code, stdout, stderr } = await tool.run([...args, ...served], { env });
  expect([code, stderr]).toEqual([0, expect.not.stringContaining("Error")]);
  const said = JSON.parse(stdout) as { destination: string; size_bytes: number; dtype: string };
  expect(said).toMatchObject({ format: "gguf", dtype: "q8_0", checkpoint_path: expect.stringMatching(/^tinker:/) });
  expect(readFileSync(said.destination).length).toBe(said.size_bytes);
  const opened = await openModel(said.destination);
  expect(opened.config["tie_word_embeddings"]).toBe(false);
  opened.close();

  const adapter = await tool.run(["export", "run", "--format", "peft", "--out", "adapter", ...served], { env });
  expect(adapter.code).toBe(0);
  // the names that the official cookbook expects, from the server and from a folder, and back
  const inFolder = async (from: string, format: string, out: string, ...more: string[]) => {
    const { code, stderr } = await tool.run(["export", from, "--format", format, "--out", out, ...more], { env });
    expect([code, stderr]).toEqual([0, expect.not.stringContaining("Error")]);
    return readFileSync(join(tool.work, out, "adapter_model.safetensors"));
  };
  const official = await inFolder("run", "tinker", "official", ...served);
  expect(official.toString("latin1")).toContain("base_model.model.model.unembed_tokens.lora_A.weight");
  expect(official.toString("latin1")).not.toContain("lm_head");
  expect((await inFolder("adapter", "tinker", "renamed")).equals(official)).toBe(true);
  const original = readFileSync(join(tool.work, "adapter", "adapter_model.safetensors"));
  expect((await inFolder("renamed", "peft", "back")).equals(original)).toBe(true);
  expect(readdirSync(join(tool.work, "official")).sort()).toEqual(readdirSync(join(tool.work, "adapter")).sort());

  const merged = await tool.run(["export", "renamed", "--format", "merged", "--base", tinyGguf, "--out", "merged"], {
    env,
  });
  expect([merged.code, merged.stderr]).toEqual([0, expect.not.stringContaining("Error")]);
  expect(readdirSync(join(tool.work, "merged"))).toContain("tokenizer.json");
  const text = "hello there";
  expect((await loadTokenizer(join(tool.work, "merged"))).encode(text)).toEqual(
    (await loadTokenizer(tinyGguf)).encode(text),
  );
  expect(readdirSync(tool.work).filter((name) => /\.tinklet-|tmp/.test(name))).toEqual([]);
});

it("a program exports with exportCheckpoint, and is told of every tensor; an abort leaves nothing", async () => {
  vi.stubEnv("HF_ENDPOINT", "http://127.0.0.1:1");
  const dataDir = join(tool.work, "program");
  await using service = await ServiceClient.local({ dataDir, models: [tinyGguf] });
  const trainer = await service.createLoraTrainingClient({ baseModel: tinyGguf, rank: 2, seed: 1 });
  const { path } = await trainer.saveWeightsForSampler("final");
  const rest = service.createRestClient();
  const out = join(tool.work, "program.gguf");
  const tensors: string[] = [];
  const written = await rest.exportCheckpoint(path, out, {
    format: "gguf",
    onTensor: ({ tensor }) => tensors.push(tensor),
  });
  expect(written).toMatchObject({ path: out, bytes: readFileSync(out).length });
  expect(tensors).toContain("model.layers.0.self_attn.q_proj.weight");

  const controller = new AbortController();
  const before = readdirSync(tool.work);
  const stopped = rest.exportCheckpoint(path, join(tool.work, "never"), {
    format: "merged",
    signal: controller.signal,
    onTensor: () => controller.abort("enough"),
  });
  await expect(stopped).rejects.toBe("enough");
  expect(readdirSync(tool.work)).toEqual(before);
  const wrong = { format: "onnx" } as unknown as { format: "gguf" };
  await expect(rest.exportCheckpoint(path, out, wrong)).rejects.toMatchObject({ field: "format" });
  await expect(rest.exportCheckpoint(path, out, { format: "gguf" })).rejects.toMatchObject({ field: "out" });
  expect(existsSync(out)).toBe(true);
  vi.unstubAllEnvs();
});
