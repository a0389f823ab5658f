/**
 * Merges an adapter into a base model, W + (alpha / rank)·B·A. Each tensor is computed when it is read, so the merged model is never held
 * in memory as a whole. This module handles names and shapes; `write-gguf-model.ts` and `write-merged-model.ts` handle file formats.
 */

import { setImmediate } from "node:timers/promises";
import { loraScale } from "../config/lora-scale.ts";
import type { ModelConfig } from "../config/read-config.ts";
import { sameShape, weightShapes } from "../config/tensor-shapes.ts";
import { ConfigError, WeightsError } from "../errors.ts";
import type { PeftAdapter, StateTensor } from "../peft/peft-format.ts";

/** The base model, with Hugging Face's tensor names. */
export interface MergeBase {
  /** The parsed `config.json`. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The validated configuration. */
  readonly model: ModelConfig;
  readFloat32(name: string): Float32Array;
}

/** A tensor of the merged model. */
export interface MergedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** Name of the base tensor it is computed from. */
  readonly from: string;
  read(): Promise<Float32Array>;
}

/** Result of {@link mergeAdapter}. */
export interface MergedModel {
  /** The base's `config.json`; merging changes only `tie_word_embeddings`, when needed. */
  readonly config: Readonly<Record<string, unknown>>;
  /** In layer order. */
  readonly tensors: readonly MergedTensor[];
}

/** w + scale·b·a, with w `[out, in]`, b `[out, rank]` and a `[rank, in]`. */
export interface Product {
  readonly w: Float32Array;
  readonly a: Float32Array;
  readonly b: Float32Array;
  readonly outSize: number;
  readonly inSize: number;
  readonly rank: number;
  readonly scale: number;
}

/** Multiplications between two yields to the event loop. */
const sliceProducts = 1 << 24;

/** Adds the product to `w` in place, row by row, summed in float64. Yields to the event loop every `sliceProducts` multiplications. */
async function addProduct({ w, a, b, outSize, inSize, rank, scale }: Product): Promise<Float32Array> {
  const row = new Float64Array(inSize);
  const rowsAtOnce = Math.max(1, Math.floor(sliceProducts / (inSize * rank)));
  for (let out = 0; out < outSize; out++) {
    if (out % rowsAtOnce === rowsAtOnce - 1) await setImmediate();
    row.fill(0);
    for (let r = 0; r < rank; r++) {
      const factor = scale * (b[out * rank + r] as number);
      if (factor === 0) continue;
      const start = r * inSize;
      for (let i = 0; i < inSize; i++) row[i] = (row[i] as number) + factor * (a[start + i] as number);
    }
    const start = out * inSize;
    for (let i = 0; i < inSize; i++) w[start + i] = (w[start + i] as number) + (row[i] as number);
  }
  return w;
}

/**
 * Merges an adapter. If it adapts the unembedding of a model with tied embeddings, the result is untied, because the embedding was not
 * trained.
 *
 * @param multiply - replaces the default matrix product, for example with a faster one. It may modify `w` in place, since `readFloat32`
 *   returns a copy.
 * @throws WeightsError naming an adapter tensor that does not match the base model.
 */
export function mergeAdapter(
  base: MergeBase,
  adapter: PeftAdapter | undefined,
  multiply: (product: Product) => Promise<Float32Array> = addProduct,
): MergedModel {
  const { model } = base;
  const shapes = weightShapes(model);
  const modules = adapter === undefined ? new Map<string, Module>() : modulesOf(adapter);
  const unties = model.tiedEmbeddings && modules.has("lm_head");
  if (unties) shapes.set("lm_head.weight", [model.vocabSize, model.hiddenSize]);
  for (const [module, { a, b }] of modules) {
    const shape = shapes.get(`${module}.weight`);
    if (shape?.length !== 2)
      throw adapterMismatch(`${module}.lora_A.weight`, "does not match any tensor of the base model");
    const [outSize, inSize] = shape as [number, number];
    const rank = adapter?.lora.rank as number;
    if (!sameShape(a.shape, [rank, inSize]))
      throw adapterMismatch(`${module}.lora_A.weight`, shapeMismatch(a, [rank, inSize]));
    if (!sameShape(b.shape, [outSize, rank]))
      throw adapterMismatch(`${module}.lora_B.weight`, shapeMismatch(b, [outSize, rank]));
  }
  const scale = adapter === undefined ? 0 : loraScale(adapter.lora);
  const tensors = [...shapes].map(([name, shape]): MergedTensor => {
    const from = name === "lm_head.weight" && unties ? "model.embed_tokens.weight" : name;
    const module = modules.get(name.replace(/\.weight$/, ""));
    const read = async () => {
      const w = base.readFloat32(from);
      if (module === undefined) return w;
      const [outSize, inSize] = shape as [number, number];
      const [a, b] = [module.a.data, module.b.data];
      return multiply({ w, a, b, outSize, inSize, rank: adapter?.lora.rank as number, scale });
    };
    return { name, shape, from, read };
  });
  return { config: unties ? { ...base.config, tie_word_embeddings: false } : base.config, tensors };
}

/** The two LoRA matrices of an adapted linear layer. */
interface Module {
  readonly a: StateTensor;
  readonly b: StateTensor;
}

/** The adapted linear layers by Hugging Face's names without `.weight`. */
function modulesOf({ weights, lora }: PeftAdapter): ReadonlyMap<string, Module> {
  if (!(lora.rank > 0) || !Number.isFinite(lora.alpha)) {
    throw new ConfigError(
      `the adapter's rank must be positive and its alpha finite, got rank ${lora.rank} and alpha ${lora.alpha}`,
      { field: "r" },
    );
  }
  const halves = new Map<string, { A?: StateTensor; B?: StateTensor }>();
  for (const [name, tensor] of Object.entries(weights)) {
    const [, module, half] = /^(?:base_model\.model\.)?(.+)\.lora_([AB])\.weight$/.exec(name) ?? [];
    if (module === undefined || half === undefined) throw adapterMismatch(name, "is not a LoRA tensor");
    halves.set(module, { ...halves.get(module), [half]: tensor });
  }
  return new Map(
    [...halves].map(([module, { A: a, B: b }]) => {
      if (a === undefined || b === undefined)
        throw adapterMismatch(`${module}.lora_${a ? "B" : "A"}.weight`, "is missing");
      return [module, { a, b }];
    }),
  );
}

const shapeMismatch = ({ shape }: StateTensor, expected: readonly number[]): string =>
  `has shape [${shape.join(", ")}] instead of [${expected.join(", ")}]`;

const adapterMismatch = (tensor: string, problem: string) =>
  new WeightsError(`tensor ${tensor} of the adapter ${problem}`, {
    code: "shape_mismatch",
    tensor,
    hint: "the adapter was trained on another base model",
  });
