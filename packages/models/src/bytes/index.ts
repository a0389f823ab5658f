/** `@tinklet/models/bytes`: models and adapters from the bytes of their files, and back. No `node:` imports. */
export {
  type PeftAdapter,
  type PeftBase,
  type PeftState,
  peftFiles,
  readPeftFiles,
  type StateTensor,
} from "../peft/peft-format.ts";
export { encodeSafetensors } from "../weights/encode-safetensors.ts";
export { decodeSafetensors } from "../weights/safetensors.ts";
export type { DownloadProgress, NamedTensor, WeightSource } from "../weights/types.ts";
export { type ModelInMemory, modelFromFiles, modelWeightsFile } from "./model-from-files.ts";
