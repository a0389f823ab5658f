/** `@tinklet/models`: finds and downloads models; reads and writes tokenizers, weights and adapters. Requires Node. */

export { bundledModel } from "./config/bundled-model.ts";
export { ConfigError, ModelError, TokenizerError, WeightsError } from "./errors.ts";
export {
  type ExportDtype,
  type ExportFormat,
  type ExportOptions,
  type ExportProgress,
  type ExportResult,
  exportDtypes,
  exportFormats,
  exportModel,
} from "./export/export-model.ts";
export { type MergeBase, type MergedModel, type MergedTensor, mergeAdapter, type Product } from "./export/merge.ts";
export { writeMergedModel } from "./export/write-merged-model.ts";
export { type DatasetFile, type FetchDatasetOptions, fetchDataset } from "./hub/fetch-dataset.ts";
export { HubError, type HubErrorCode } from "./hub/hub-error.ts";
export { type HubId, parseDatasetId } from "./hub/hub-id.ts";
export { type HubSettings, hubSettings } from "./hub/hub-settings.ts";
export { type LoadTokenizerOptions, loadTokenizer, loadTokenizerFiles } from "./load-tokenizer.ts";
export { type AdapterNames, renameAdapter } from "./peft/adapter-names.ts";
export { readPeft, writePeft } from "./peft/peft.ts";
export {
  type PeftAdapter,
  type PeftBase,
  type PeftBounds,
  type PeftState,
  peftBounds,
  peftFiles,
  type StateTensor,
} from "./peft/peft-format.ts";
export { bundledModelFolder, findSource, type ModelSource } from "./source.ts";
export type { Tokenizer, TokenizerFiles } from "./tokenizer/types.ts";
export { writeTokenizer } from "./tokenizer/write-tokenizer.ts";
export { encodeSafetensors, type TensorToWrite } from "./weights/encode-safetensors.ts";
export { openModel } from "./weights/open-model.ts";
export { openSafetensors } from "./weights/open-safetensors.ts";
export { decodeSafetensors } from "./weights/safetensors.ts";
export type {
  DownloadProgress,
  NamedTensor,
  OpenedModel,
  OpenModelOptions,
  StoredDtype,
  TensorInfo,
  WeightSource,
} from "./weights/types.ts";
export { writeSafetensors } from "./weights/write-safetensors.ts";
export { writeTextAtomically } from "./write-text.ts";
