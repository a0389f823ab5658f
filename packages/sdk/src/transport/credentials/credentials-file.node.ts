/**
 * The path of the credentials file of `tinklet auth login` and of the official tool, and whether it exists. `stored-key.node.ts` reads
 * it, on the first request.
 */
import { hasNodeBuiltins, nodeBuiltin } from "../../node-builtin.ts";

/** The path that the official tool uses. */
export function credentialsFile(): string {
  const { homedir } = nodeBuiltin<typeof import("node:os")>("node:os");
  return nodeBuiltin<typeof import("node:path")>("node:path").join(homedir(), ".tinker", "credentials.json");
}

/** Whether the file exists; false in browsers. */
export function hasCredentialsFile(): boolean {
  return hasNodeBuiltins() && nodeBuiltin<typeof import("node:fs")>("node:fs").existsSync(credentialsFile());
}
