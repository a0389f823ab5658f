/**
 * A base model with an adapter merged into it, W + (alpha / rank)·B·A, as tensors that are computed when their turn comes, so that the
 * whole never exists in memory. Knows names and shapes; in which format they are written is the business of others.
 */

import { setImmediate } from "node:timers/promises";
import type { ModelConfig } from "../config/read-config.ts";
import { sameShape, weightShapes } from "../config/tensor-shapes.ts";
import { ConfigError, WeightsError } from "../errors.ts";
import type { PeftAdapter, StateTensor } from "../peft/peft.ts";

/** The base, under Hugging Face's names. */
export interface MergeBase {
  /** The parsed `config.json`. */
  readonly config: Readonly<Record<string, unknown>>;
  /** What it says. */
  readonly model: ModelConfig;
  readFloat32(name: string): Float32Array;
}

/** A tensor of the merged model. */
export interface MergedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** The tensor of the base that it comes from. */
  readonly from: string;
  read(): Promise<Float32Array>;
}

/** What merging gives. */
export interface MergedModel {
  /** The base's `config.json`, changed only where merging demands it. */
  readonly config: Readonly<Record<string, unknown>>;
  /** In the order of the layers. */
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

/** Multiplications between two looks at the event loop. */
const sliceProducts = 1 << 24;

/** Adds the product to `w` in place, a row at a time, summed in double precision. Gives way to other work now and then. */
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
 * Merges. Adapting the unembedding of a tied model unties it: the embedding itself was not trained.
 *
 * @param multiply - for those who have a faster product; it may change `w`, which is this call's own where `readFloat32` copies.
 * @throws WeightsError naming a tensor of the adapter that does not fit the base.
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
    if (shape?.length !== 2) throw misfit(`${module}.lora_A.weight`, "has no place in the base model");
    const [outSize, inSize] = shape as [number, number];
    const rank = adapter?.lora.rank as number;
    if (!sameShape(a.shape, [rank, inSize])) throw misfit(`${module}.lora_A.weight`, shapeSaid(a, [rank, inSize]));
    if (!sameShape(b.shape, [outSize, rank])) throw misfit(`${module}.lora_B.weight`, shapeSaid(b, [outSize, rank]));
  }
  const scale = adapter === undefined ? 0 : adapter.lora.alpha / adapter.lora.rank;
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

/** The two matrices of an adapted linear. */
interface Module {
  readonly a: StateTensor;
  readonly b: StateTensor;
}

/** The adapted linears by Hugging Face's names without `.weight`. */
function modulesOf({ weights, lora }: PeftAdapter): ReadonlyMap<string, Module> {
  if (!(lora.rank > 0) || !Number.isFinite(lora.alpha)) {
    throw new ConfigError(`the adapter's rank is ${lora.rank} and its alpha ${lora.alpha}`, { field: "r" });
  }
  const halves = new Map<string, { A?: StateTensor; B?: StateTensor }>();
  for (const [name, tensor] of Object.entries(weights)) {
    const [, module, half] = /^(?:base_model\.model\.)?(.+)\.lora_([AB])\.weight$/.exec(name) ?? [];
    if (module === undefined || half === undefined) throw misfit(name, "is no part of a LoRA adapter");
    halves.set(module, { ...halves.get(module), [half]: tensor });
  }
  return new Map(
    [...halves].map(([module, { A: a, B: b }]) => {
      if (a === undefined || b === undefined) throw misfit(`${module}.lora_${a ? "B" : "A"}.weight`, "is missing");
      return [module, { a, b }];
    }),
  );
}

const shapeSaid = ({ shape }: StateTensor, wanted: readonly number[]): string =>
  `has shape [${shape.join(", ")}] instead of [${wanted.join(", ")}]`;

const misfit = (tensor: string, problem: string) =>
  new WeightsError(`tensor ${tensor} of the adapter ${problem}`, {
    code: "shape_mismatch",
    tensor,
    hint: "the adapter was made for another base model",
  });
