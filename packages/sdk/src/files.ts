/**
 * `@tinklet/sdk/files`: downloads, unpacks and exports checkpoints, for the command line. Needs a file system. Programs use the methods
 * of `RestClient` and `TrainingClient` instead; this entry is not covered by semantic versioning.
 */
export {
  checkExport,
  checkpointFormats,
  type ExportedCheckpoint,
  exportAdapter,
  exportCheckpoint,
} from "./clients/files/checkpoint-export.node.ts";
export { type CheckpointFetching, fetchCheckpoint, fetchInto } from "./clients/files/checkpoint-files.node.ts";
export { type DownloadProgress, downloadFile, writeFailure } from "./clients/files/download.node.ts";
