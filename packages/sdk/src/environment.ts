/**
 * `@tinklet/sdk/environment`: what the command line uses before it creates a client: environment variables, the data folder, redaction
 * of secrets, hints for failures. This entry is not covered by semantic versioning.
 */
export { localDataDir } from "./clients/data-dir.node.ts";
export { startLocal } from "./clients/local.ts";
export {
  type FolderUse,
  type FoundServer,
  findRunningServer,
  folderUse,
  isProcessRunning,
} from "./clients/running-server.node.ts";
export { environment } from "./transport/environment.ts";
export { hintFor } from "./transport/hints.ts";
export { Redactor } from "./transport/redact.ts";
