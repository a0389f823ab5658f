/** Training a GGUF model: checkpoints include its tokenizer. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadTokenizer } from "@tinklet/models";
import { afterAll, beforeAll, expect, it } from "vitest";
import { tinyGguf } from "../../../test/fixtures/models/tiny-models.ts";
import { openEngine } from "./engine.ts";
import type { Engine } from "./types.ts";

let engine: Engine;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tinklet-gguf-"));
  engine = await openEngine(tinyGguf, { inThread: true, threads: 1 });
});
afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

const text = "hello there";

it("savePeft writes the tokenizer beside the adapter", async () => {
  const { adapterId } = await engine.createAdapter({ rank: 2, seed: 1 });
  await engine.savePeft(adapterId, join(folder, "adapter"));
  expect((await readdir(join(folder, "adapter"))).sort()).toEqual([
    "adapter_config.json",
    "adapter_model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
  ]);
  const beside = await loadTokenizer(join(folder, "adapter"));
  expect(beside.encode(text)).toEqual(await engine.tokenizer.encode(text));
});

it("saveMerged writes a whole model, which opens again and reads text alike", async () => {
  const { adapterId } = await engine.createAdapter({ rank: 2, seed: 1 });
  const tokens = await engine.tokenizer.encode(text);
  const data = [{ tokens: tokens.slice(0, -1), lossFnInputs: { target_tokens: { data: tokens.slice(1) } } }];
  await engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" });
  await engine.optimStep(adapterId, { learningRate: 0.01 });
  await engine.saveMerged(adapterId, join(folder, "merged"));
  const merged = await openEngine(join(folder, "merged"), { inThread: true, threads: 1 });
  try {
    const messages = [{ role: "user", content: text }];
    expect(await merged.tokenizer.applyChatTemplate(messages)).toEqual(
      await engine.tokenizer.applyChatTemplate(messages),
    );
    expect(merged.info.eosTokenIds).toEqual(engine.info.eosTokenIds);
    const request = { data, lossFn: "cross_entropy" as const };
    const [mine, theirs] = [await engine.forward(adapterId, request), await merged.forward(null, request)];
    expect(theirs.metrics["loss:sum"]).toBeCloseTo(mine.metrics["loss:sum"] as number, 4);
  } finally {
    await merged.close();
  }
});
