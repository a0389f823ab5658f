/** Writes a merged model as transformers does: `model.safetensors` and `config.json`. The caller adds the tokenizer. */

import { join } from "node:path";
import type { TensorToWrite } from "../weights/encode-safetensors.ts";
import type { StoredDtype } from "../weights/types.ts";
import { writeSafetensors } from "../weights/write-safetensors.ts";
import { writeTextAtomically } from "../write-text.ts";
import type { MergedTensor } from "./merge.ts";

/** The parts of the folder. */
export interface MergedModelToWrite {
  readonly config: Readonly<Record<string, unknown>>;
  /** Each with its dtype in the base model. */
  readonly tensors: readonly (MergedTensor & { readonly dtype: StoredDtype })[];
  /** `base` keeps the base model's dtypes; quantised tensors become `f16`. */
  readonly dtype: string;
}

const dtypes: Readonly<Record<string, TensorToWrite["dtype"]>> = { f32: "F32", f16: "F16", bf16: "BF16" };
const torchNames = { F32: "float32", F16: "float16", BF16: "bfloat16" } as const;

/** Writes into an existing folder. @throws WeightsError naming a tensor with values out of the dtype's range. */
export async function writeMergedModel(folder: string, { config, tensors, dtype }: MergedModelToWrite): Promise<void> {
  const stored = (baseDtype: StoredDtype): TensorToWrite["dtype"] =>
    dtypes[dtype] ?? (baseDtype === "F32" || baseDtype === "F16" || baseDtype === "BF16" ? baseDtype : "F16");
  const list = tensors.map(({ name, shape, dtype: baseDtype, read }) => ({
    name,
    shape,
    dtype: stored(baseDtype),
    data: read,
  }));
  await writeSafetensors(join(folder, "model.safetensors"), list, { format: "pt" });
  // Norms are often float32 while the matrices are 16-bit: `torch_dtype` is the dtype of most values.
  const values = { F32: 0, F16: 0, BF16: 0 };
  for (const one of list) values[one.dtype] += one.shape.reduce((product, size) => product * size, 1);
  const [main] = Object.entries(values).toSorted(([, a], [, b]) => b - a)[0] as [keyof typeof torchNames, number];
  const { quantization_config: _, ...kept } = config;
  const written = { ...kept, dtype: torchNames[main], torch_dtype: torchNames[main] };
  await writeTextAtomically(join(folder, "config.json"), `${JSON.stringify(written, null, 2)}\n`);
}
