/**
 * The data folder of servers on this machine. `ServiceClient.local()`, `--local` and `tinklet serve` share this rule, so that each finds
 * the checkpoints of the others.
 */
import { nodeBuiltin } from "../node-builtin.ts";

/**
 * The data folder: the argument, else `TINKLET_DATA_DIR`, else `~/.tinklet`.
 *
 * @param given - a folder, or `memory` to store nothing on disk
 * @returns `undefined` for `memory`
 */
export function localDataDir(given?: string): string | undefined {
  const { homedir } = nodeBuiltin<typeof import("node:os")>("node:os");
  const { join } = nodeBuiltin<typeof import("node:path")>("node:path");
  const chosen = given ?? (process.env["TINKLET_DATA_DIR"] || join(homedir(), ".tinklet"));
  return chosen === "memory" ? undefined : chosen;
}
