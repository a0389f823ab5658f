/** What the rest of the engine uses of this folder. */

export { HubError, type HubErrorCode } from "../hub/hub-error.ts";
export { openModel } from "./open-model.ts";
export { openSafetensors } from "./safetensors.ts";
export type {
  DownloadProgress,
  OpenedModel,
  OpenModelOptions,
  StoredDtype,
  TensorInfo,
  WeightSource,
} from "./types.ts";
export { type TensorToWrite, writeSafetensors } from "./write-safetensors.ts";
