/** `@tinklet/server`: the Tinker API on your own machine. This file lists the public exports. */
export {
  type DeviceChoice,
  type FoundDevice,
  type FoundRuntime,
  findDevices,
  findRuntime,
  type Precision,
} from "@tinklet/engine";
export type { RunFolderInfo, RunFolders, Studio, StudioFile } from "@tinklet/wire";
export { type ApiKey, hashApiKey, parseApiKeys } from "./http/access/auth.ts";
export type { ServedModel } from "./http/api.ts";
export { defaultLimits, type Limits } from "./limits.ts";
export {
  createLocalServer,
  createLocalServer as startLocalServer,
  type LocalServer,
  type LocalServerOptions,
} from "./local.ts";
export { createLog, type Log, type LogFields, type LogFormat } from "./log.ts";
export { type ResolveOptions, resolveModels } from "./models.ts";
export { isLoopback, type RunningServer, type ServeOptions, serve } from "./serve.ts";
export { createServer, type ModelSource, type ServerOptions, type TinkletServer } from "./server.ts";
export { type DataFolder, openDataFolder, type PruneChoice, type PrunePlan } from "./store/data-folder.ts";
export type { DataKind, DataUse, KindUse, RunData } from "./store/files/data-use.ts";
export type { PrunedRun, PrunedStep, PruneOutcome } from "./store/prune.ts";
export { StoreError, type StoreErrorCode } from "./store/store-error.ts";
