/**
 * `@tinklet/sdk/environment`: what the command line needs of the SDK before it has a client: environment variables, the data folder,
 * secrets out of texts, hints for failures. This entry has no promise of stability.
 */
export { localDataDir } from "./clients/data-dir.node.ts";
export { environment } from "./transport/environment.ts";
export { hintFor } from "./transport/hints.ts";
export { Redactor } from "./transport/redact.ts";
