/** Writes a merged model for llama.cpp: one GGUF file with weights, configuration, tokenizer and chat template. */

import { readConfig } from "../config/read-config.ts";
import { tokenizerToGguf } from "../tokenizer/to-gguf.ts";
import type { TokenizerFiles } from "../tokenizer/types.ts";
import { codecs } from "../weights/codecs.ts";
import type { WrittenDtype } from "../weights/encode.ts";
import { fileTypes, ggufArchitecture, modelFields, ropeFactors } from "../weights/gguf-metadata.ts";
import { ggufName, interleavedHeads, interleaveRows, ropeFactorsName } from "../weights/gguf-names.ts";
import { type GgufField, type GgufTensorToWrite, writeGguf } from "../weights/write-gguf.ts";
import type { MergedTensor } from "./merge.ts";

/** The parts of the file. */
export interface GgufModelToWrite {
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: readonly MergedTensor[];
  readonly dtype: string;
  readonly files: TokenizerFiles;
  readonly name: string;
}

const dtypes: Readonly<Record<string, WrittenDtype>> = { f32: "F32", f16: "F16", bf16: "BF16", q8_0: "Q8_0" };

/**
 * Writes the file. Vectors (norms, biases) stay float32, as llama.cpp requires; a matrix whose row length is not a multiple of the block
 * size is written as f16 instead of quantised.
 *
 * @returns limitations of the file, as sentences to show to the user.
 * @throws ConfigError, WeightsError or TokenizerError for a model that GGUF or llama.cpp cannot represent.
 */
export async function writeGgufModel(file: string, model: GgufModelToWrite): Promise<readonly string[]> {
  const config = readConfig(model.config);
  const dtype = dtypes[model.dtype] as WrittenDtype;
  const notes: string[] = [];
  const tokenizer = tokenizerToGguf(model.files, config.vocabSize, "the tokenizer");
  const fields = new Map<string, GgufField>([
    ...modelFields(config),
    ["general.name", { type: "string", value: model.name }],
    ["general.file_type", { type: "u32", value: fileTypes[dtype as keyof typeof fileTypes] }],
    ["general.quantization_version", { type: "u32", value: 2 }],
    ...tokenizer.fields,
  ]);
  const isLlama = ggufArchitecture(config) === "llama";
  const names = model.tensors.map(({ name }) => name);
  const heads = isLlama ? interleavedHeads(names, config.heads, config.kvHeads) : new Map<string, number>();
  const unquantised: string[] = [];
  const tensors = model.tensors.map(({ name, shape, read }): GgufTensorToWrite => {
    const isMatrix = shape.length > 1;
    const fits = (shape.at(-1) as number) % codecs[dtype].blockValues === 0;
    if (isMatrix && !fits) unquantised.push(name);
    const turned = heads.get(name);
    const data = turned === undefined ? read : async () => interleaveRows(await read(), shape[0] as number, turned);
    return { name: ggufName(name) as string, shape, dtype: isMatrix ? (fits ? dtype : "F16") : "F32", data };
  });
  const factors = ropeFactors(config);
  if (factors) tensors.push({ name: ropeFactorsName, shape: [factors.length], dtype: "F32", data: factors });
  await writeGguf(file, fields, tensors);
  if (unquantised.length > 0) {
    const width = codecs[dtype].blockValues;
    notes.push(
      `${unquantised.length} of ${tensors.length} tensors are stored as f16 because their row length is not a multiple of ${width} values, for example ${unquantised[0]}`,
    );
  }
  return [...tokenizer.notes, ...notes];
}
