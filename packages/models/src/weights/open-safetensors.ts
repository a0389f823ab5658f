/** Opens safetensors files on disk. */
import { safetensorsSource } from "./safetensors.ts";
import type { WeightSource } from "./types.ts";
import { WeightFile } from "./weight-file.ts";

/**
 * Opens a single safetensors file, for example a PEFT adapter; tensors keep the names in the file.
 *
 * @param mostHeaderBytes - maximum header size; a larger header is rejected before it is read. @defaultValue the limit of the format
 */
export function openSafetensors(
  path: string,
  mostHeaderBytes?: number,
): WeightSource & { readonly metadata: Readonly<Record<string, string>> } {
  return safetensorsSource(new WeightFile(path), mostHeaderBytes);
}
