/** `@tinklet/browser`: training and sampling inside a page. This file lists the public exports. */
export type { BrowserEngineOptions } from "@tinklet/engine/browser";
export { browserModel } from "./browser-model.ts";
export type { BrowserModel, ServedEngine } from "./engine-host.ts";
export {
  type AdapterFiles,
  type BrowserServer,
  type BrowserServerOptions,
  type StoredRun,
  startBrowserServer,
} from "./server.ts";
export { openStorage } from "./storage/indexed-db.ts";
export { type MemoryStorageOptions, memoryStorage } from "./storage/memory-storage.ts";
export {
  type BrowserStorage,
  type CheckpointKind,
  type CheckpointRecord,
  type RunRecord,
  type StorageChange,
  StorageError,
  type StorageRecords,
} from "./storage/storage.ts";
