/**
 * Where a server on this machine keeps runs and checkpoints: one rule for `ServiceClient.local()`, for `--local` and for
 * `tinklet serve`, so that each finds what the others saved.
 */
import { nodeBuiltin } from "../node-builtin.ts";

/**
 * The data folder: what is given, else `TINKLET_DATA_DIR`, else `~/.tinklet`.
 *
 * @param given - a folder, or `memory` to keep nothing
 * @returns `undefined` when everything is kept in memory and lost with the server
 */
export function localDataDir(given?: string): string | undefined {
  const { homedir } = nodeBuiltin<typeof import("node:os")>("node:os");
  const { join } = nodeBuiltin<typeof import("node:path")>("node:path");
  const chosen = given ?? (process.env["TINKLET_DATA_DIR"] || join(homedir(), ".tinklet"));
  return chosen === "memory" ? undefined : chosen;
}
