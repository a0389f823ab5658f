/** PEFT folders written by other programs: with few modules, with tensors of the base model, or damaged. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readPeft, writePeft } from "@tinklet/models";
import { afterAll, expect, it } from "vitest";
import { tinyConfig } from "../testing/tiny-model.ts";
import type { AdapterState, TensorOutput } from "../types.ts";
import { createAdapter } from "./adapter.ts";
import { exportState, importState } from "./state.ts";

const root = mkdtempSync(join(tmpdir(), "tinklet-peft-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const config = tinyConfig();
const lora = { rank: 2, alpha: 8, seed: 5, trainAttn: true, trainMlp: true, trainUnembed: true };
const adapter = createAdapter(config, lora);
adapter.values.forEach((_, i) => {
  adapter.values[i] = Math.sin(i + 1); // B too
});
const whole = exportState(adapter);

/** Writes these tensors to a folder and reads it with `readPeft`. */
async function readBack(weights: AdapterState["weights"]): Promise<AdapterState> {
  const folder = mkdtempSync(join(root, "adapter-"));
  await writePeft(folder, { ...whole, weights }, "base");
  return readPeft(folder);
}
const only = (pattern: RegExp): Record<string, TensorOutput> =>
  Object.fromEntries(Object.entries(whole.weights).filter(([name]) => pattern.test(name)));

it("an adapter of only q and v is completed with trainable modules whose B is zero", async () => {
  const some = only(/[qv]_proj/);
  const read = await readBack(some);
  expect(read.lora).toMatchObject({ trainAttn: true, trainMlp: false, trainUnembed: false });
  const { weights } = exportState(importState(config, read));
  expect(Object.keys(weights)).toEqual(Object.keys(only(/self_attn/)));
  for (const [name, { data }] of Object.entries(weights)) {
    if (name in some) expect(data).toEqual(some[name]!.data);
    else expect(data.some((value) => value !== 0)).toBe(name.includes("lora_A"));
  }
  // Only PEFT folders may omit modules; in a state that this engine exported, a missing module is data loss.
  const { peft: _, ...exported } = read;
  expect(() => importState(config, exported)).toThrow(expect.objectContaining({ code: "missing_tensor" }));
});

it("tensors of the base model in an adapter folder are ignored, unless the vocabulary size differs", async () => {
  const beside = (name: string, rows: number): Record<string, TensorOutput> => ({
    [`base_model.model.${name}.weight`]: {
      data: new Float32Array(rows * config.hiddenSize),
      shape: [rows, config.hiddenSize],
    },
  });
  for (const name of ["lm_head", "lm_head.base_layer", "model.embed_tokens", "model.embed_tokens.base_layer"]) {
    const same = await readBack({ ...whole.weights, ...beside(name, config.vocabSize) });
    expect(importState(config, same).values).toEqual(adapter.values);
    const enlarged = await readBack({ ...whole.weights, ...beside(name, config.vocabSize + 1) });
    expect(() => importState(config, enlarged)).toThrow(
      expect.objectContaining({ code: "shape_mismatch", tensor: `base_model.model.${name}.weight` }),
    );
  }
});

it("rejects a module with only one of its matrices, and a tensor of an unknown module", async () => {
  const half = await readBack(only(/q_proj|layers\.0\.self_attn\.v_proj\.lora_A/));
  expect(() => importState(config, half)).toThrow(
    expect.objectContaining({
      code: "missing_tensor",
      tensor: "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight",
    }),
  );
  const stray = "base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight";
  const other = await readBack({ ...whole.weights, [stray]: { data: new Float32Array(2), shape: [2, 1] } });
  expect(() => importState(config, other)).toThrow(expect.objectContaining({ code: "stray_tensor", tensor: stray }));
});
