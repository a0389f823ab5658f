/**
 * `@tinklet/sdk/files`: checkpoints as files, for the command line: downloaded, unpacked and exported. Needs a file system. Programs use
 * the methods of `RestClient` and `TrainingClient`; this entry has no promise of stability.
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
