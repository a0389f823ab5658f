/**
 * Where `tinklet auth login` (and the official tool) keep keys, and whether there is such a file. All that a client needs to know
 * before its first request; reading the file is `stored-key.node.ts`.
 */
import { hasNodeBuiltins, nodeBuiltin } from "../../node-builtin.ts";

/** Where the official tool keeps it, too. */
export function credentialsFile(): string {
  const { homedir } = nodeBuiltin<typeof import("node:os")>("node:os");
  return nodeBuiltin<typeof import("node:path")>("node:path").join(homedir(), ".tinker", "credentials.json");
}

/** A browser has none. */
export function hasCredentialsFile(): boolean {
  return hasNodeBuiltins() && nodeBuiltin<typeof import("node:fs")>("node:fs").existsSync(credentialsFile());
}
