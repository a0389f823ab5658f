/** `@tinklet/models`: where models come from, their weights and their adapters on disk. Needs Node. */
export {
  type PeftAdapter,
  type PeftState,
  peftFiles,
  readPeft,
  type StateTensor,
  writePeft,
  writeTextAtomically,
} from "./peft/peft.ts";
export { openModel } from "./weights/open-model.ts";
export { decodeSafetensors, openSafetensors } from "./weights/safetensors.ts";
export type {
  DownloadProgress,
  NamedTensor,
  OpenedModel,
  OpenModelOptions,
  StoredDtype,
  TensorInfo,
  WeightSource,
} from "./weights/types.ts";
export { encodeSafetensors, type TensorToWrite, writeSafetensors } from "./weights/write-safetensors.ts";
