/** An exported model computes the same as base model and adapter: the bundled model with a random adapter, written and opened again. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundledModel, bundledModelFolder, type ExportOptions, exportModel, writePeft } from "@tinklet/models";
import { readConfig } from "@tinklet/models/config";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createAdapter } from "./adapter/adapter.ts";
import { exportState } from "./adapter/state.ts";
import { openEngine } from "./engine.ts";
import { createRandom } from "./random.ts";
import type { Engine, LossRequest } from "./types.ts";

let engine: Engine;
let folder: string;
let request: LossRequest;
let live: Float64Array;
let adapter: string;

const texts = [
  "Once upon a time there was a small boat that wanted to see the sea.",
  "What is 12 + 30? The answer is 42, and 7 * 8 is 56.",
  "Ahoy! 你好 naïve café: the captain's parrot said 'no'.",
];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tinklet-export-"));
  engine = await openEngine(bundledModelFolder(), { inThread: true, threads: 1 });
  const lora = { rank: 4, alpha: 32, seed: 1, trainAttn: true, trainMlp: true, trainUnembed: true };
  const random = createRandom(5, "adapter");
  const made = createAdapter(readConfig(engine.info.config), lora);
  const values = made.values.map((value) => value + 0.02 * (2 * random() - 1));
  adapter = join(folder, "adapter");
  await writePeft(adapter, exportState({ ...made, values }), bundledModel);
  const tokens = await Promise.all(texts.map((text) => engine.tokenizer.encode(text)));
  const data = tokens.map((ids) => ({
    tokens: ids.slice(0, -1),
    lossFnInputs: { target_tokens: { data: ids.slice(1) } },
  }));
  request = { data, lossFn: "cross_entropy" };
  const snapshot = await engine.importSnapshot(await engine.readPeft(adapter));
  live = logprobs(await engine.forward(snapshot, request));
});
afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

const logprobs = ({ lossFnOutputs }: Awaited<ReturnType<Engine["forward"]>>): Float64Array =>
  Float64Array.from(lossFnOutputs.flatMap((outputs) => Array.from(outputs["logprobs"]!.data)));

/** Log-probs of the exported model. */
async function exported(name: string, options: Omit<ExportOptions, "adapter">): Promise<Float64Array> {
  const out = join(folder, name);
  await exportModel(bundledModel, out, { ...options, adapter });
  const opened = await openEngine(out, { inThread: true, threads: 1 });
  try {
    return logprobs(await opened.forward(null, request));
  } finally {
    await opened.close();
  }
}

const rms = (values: Float64Array): number =>
  Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
const off = (values: Float64Array): number => rms(values.map((value, at) => value - live[at]!));

it("the adapter changes the model, and the exported ones change alike", async () => {
  const base = logprobs(await engine.forward(null, request));
  expect(live.length).toBeGreaterThan(60);
  expect(off(base)).toBeGreaterThan(0.1);

  const exact = await exported("exact", { format: "merged", dtype: "f32" });
  const coarse = await exported("coarse", { format: "merged", dtype: "bf16" });
  const half = await exported("half", { format: "merged", dtype: "f16" });
  // bfloat16's precision (2^-8) gives the condition number; the errors of f16 (2^-11) and float32 (2^-23) are smaller by these factors.
  expect(off(half)).toBeLessThan(off(coarse) / 4); // 8, with a factor 2 as a margin
  expect(off(exact)).toBeLessThan(off(coarse) / 2 ** 10); // 15 bits, minus a margin for other orders of summation
  expect(off(half)).toBeGreaterThan(off(exact));

  // Equal weights from another file give equal bits.
  expect(await exported("half.gguf", { format: "gguf", dtype: "f16" })).toEqual(half);
  expect(await exported("exact.gguf", { format: "gguf", dtype: "f32" })).toEqual(exact);
});
