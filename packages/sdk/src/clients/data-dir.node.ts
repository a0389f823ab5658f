/**
 * The data folder of servers on this machine, and the name of this program. `ServiceClient.local()`, `--local` and `tinklet serve` share this rule, so that each finds
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

/** The file name of this program, without its folder and arguments, which may be secrets; `undefined` for `node -e` and a console. */
export function programName(): string | undefined {
  const { basename } = nodeBuiltin<typeof import("node:path")>("node:path");
  return basename(process.argv[1] ?? "") || undefined;
}
