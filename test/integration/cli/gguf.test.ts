// Every door of the product opens a GGUF file as it opens a folder: commands on this machine, a server, and programs. No network.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ModelInput, ServiceClient } from "tinklet";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { tinyGguf } from "../../fixtures/models/tiny-models.ts";
import { Executable } from "./executable.ts";

vi.setConfig({ testTimeout: 120_000 }); // processes: a busy machine is no failure
let tool: Executable;
const offline = { HF_ENDPOINT: "http://127.0.0.1:1" };
const few = ["--max-tokens", "4", "--temperature", "0"];

beforeAll(async () => {
  tool = await Executable.build({ server: true });
  const lines = Array.from({ length: 4 }, (_, at) => JSON.stringify({ prompt: `${at}?`, completion: ` ${at * 7}` }));
  writeFileSync(join(tool.work, "data.jsonl"), `${lines.join("\n")}\n`);
}, 60_000);
afterAll(() => tool?.remove());

const run = (args: readonly string[], stdin?: string) =>
  tool.run(args, { env: offline, ...(stdin === undefined ? {} : { stdin }) });

describe("commands with --local", () => {
  it("sample, plain, in chat, and under a name", async () => {
    const plain = await run(["sample", "hi", "--local", "--model", tinyGguf, ...few]);
    expect(plain).toMatchObject({ code: 0, stderr: expect.not.stringContaining("Error") });
    const chat = await run(["sample", "hi", "--chat", "--local", "--model", `mine=${tinyGguf}`, ...few]);
    expect(chat).toMatchObject({ code: 0, stderr: expect.not.stringContaining("Error") });
  });

  it("chat", async () => {
    const { code, stderr } = await run(["chat", "--local", "--model", tinyGguf, ...few], "hi\n");
    expect(stderr).not.toContain("Error");
    expect(code).toBe(0);
  });

  it("inspect", async () => {
    const { code, stdout } = await run(["inspect", "data.jsonl", "--local", "--model", tinyGguf]);
    expect(code).toBe(0);
    expect(stdout).toContain("0?");
  });

  it("train, and again where it stopped", async () => {
    const settings = ["--rank", "2", "--batch-size", "2", "--learning-rate", "0.01", "--save-every", "1"];
    const train = ["train", "data.jsonl", "--local", "--model", tinyGguf, "--out", "run", ...settings];
    const first = await run(train);
    expect(first.stderr).toContain("LoRA rank 2");
    expect(first.code).toBe(0);
    // As if it had been interrupted after its first checkpoint.
    const checkpoints = join(tool.work, "run", "checkpoints.jsonl");
    writeFileSync(checkpoints, `${readFileSync(checkpoints, "utf8").split("\n")[0]}\n`);
    const again = await run(train);
    expect(again.stderr).toMatch(/Resuming run at step 2 of/);
    expect(again.code).toBe(0);
    const sampled = await run(["sample", "hi", "--local", "--model", tinyGguf, "--from", "run", ...few]);
    expect(sampled).toMatchObject({ code: 0, stderr: expect.not.stringContaining("Error") });
  });
});

it("serve: a client without the file gets the tokenizer from the server", async () => {
  const serving = tool.start(["serve", "--model", `quantized=${tinyGguf}`, "--port", "0"], {
    env: offline,
    stdin: null,
  });
  try {
    const url = /https?:\/\/[\d.:]+/.exec(await serving.line((line) => /127\.0\.0\.1:\d+/.test(line)))?.[0] as string;
    const args = ["sample", "hi", "--chat", "--model", "quantized", "--base-url", url, "--api-key", "tml-x", ...few];
    const { code, stderr } = await run(args);
    expect(stderr).not.toContain("Error");
    expect(code).toBe(0);
  } finally {
    serving.child.kill("SIGTERM");
    await serving.ended;
  }
});

describe("ServiceClient.local", () => {
  beforeAll(() => {
    vi.stubEnv("HF_HOME", join(tool.work, "hf"));
    vi.stubEnv("HF_ENDPOINT", "http://127.0.0.1:1");
  });
  afterAll(() => vi.unstubAllEnvs());

  it("trains a GGUF, keeps its state, and goes on from it after a restart", async () => {
    const dataDir = join(tool.work, "local");
    const options = { models: [tinyGguf], dataDir };
    let path: string;
    {
      await using service = await ServiceClient.local(options);
      const trainer = await service.createLoraTrainingClient({ baseModel: tinyGguf, rank: 2, seed: 1 });
      const tokenizer = await trainer.getTokenizer();
      expect(tokenizer.decode(tokenizer.encode("hello there"))).toBe("hello there");
      ({ path } = await trainer.saveState("first"));
    }
    {
      await using service = await ServiceClient.local(options);
      const trainer = await service.createTrainingClientFromStateWithOptimizer(path);
      const tokens = (await trainer.getTokenizer()).encode("hello there");
      const sampler = await trainer.saveWeightsAndGetSamplingClient();
      const params = { maxTokens: 2, temperature: 0 };
      const { sequences } = await sampler.sample(ModelInput.fromInts(tokens), { samplingParams: params });
      expect(sequences[0]?.tokens.length).toBeGreaterThan(0);
    }
    expect(readdirSync(dataDir).length).toBeGreaterThan(0);
    rmSync(dataDir, { recursive: true, force: true });
  });

  it("a sampler of the bundled model has its tokenizer at hand", async () => {
    await using service = await ServiceClient.local();
    const sampler = await service.createSamplingClient({ baseModel: "tinklet/base" });
    const tokenizer = await sampler.getTokenizer();
    expect(tokenizer.hasChatTemplate).toBe(true);
    expect(tokenizer.decode(tokenizer.encode("hello there"))).toBe("hello there");
  });
});
