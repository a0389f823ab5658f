/** Writes safetensors files: the header, then the values of one tensor at a time. */

import { WeightsError } from "../errors.ts";
import { assertLittleEndian } from "./codecs.ts";
import { encodedChunks, type WrittenDtype } from "./encode.ts";
import { checkCount, encodeHeader, type TensorToWrite } from "./encode-safetensors.ts";
import { writeFileAtomically } from "./write-file.ts";

/**
 * Writes tensors in the given order.
 * @param metadata Arbitrary strings; transformers expects `{ format: "pt" }`.
 * @throws WeightsError for a duplicate name or a shape that does not match its data; an existing file is then unchanged.
 */
export async function writeSafetensors(
  file: string,
  tensors: Iterable<TensorToWrite>,
  metadata?: Readonly<Record<string, string>>,
): Promise<void> {
  assertLittleEndian();
  const list = [...tensors];
  const header = encodeHeader(list, metadata, file);
  await writeFileAtomically(file, async (append) => {
    await append(header);
    for (const tensor of list) await appendTensor(tensor, append, file);
  });
}

/** Appends the values of one tensor, computing them if needed. @throws WeightsError naming the tensor. */
export async function appendTensor(
  { name, shape, dtype, data }: Omit<TensorToWrite, "dtype"> & { readonly dtype: WrittenDtype },
  append: (bytes: Uint8Array) => Promise<void>,
  file: string,
): Promise<void> {
  const values = typeof data === "function" ? await data() : data;
  checkCount(name, shape, values, file);
  try {
    for (const bytes of encodedChunks(dtype, values)) await append(bytes);
  } catch (error) {
    if (!(error instanceof WeightsError)) throw error;
    const { message, code, hint } = error;
    const withoutHint = hint === undefined ? message : message.replace(` (${hint})`, "");
    throw new WeightsError(`tensor ${name}: ${withoutHint}`, {
      code,
      tensor: name,
      file,
      ...(hint && { hint }),
      cause: error,
    });
  }
}
