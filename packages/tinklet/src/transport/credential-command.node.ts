/**
 * Runs `TINKER_CREDENTIAL_CMD` in a shell. What it prints is the credential; how it exits says nothing, and what it writes
 * to standard error is its own affair.
 */

import { TinkerError } from "../errors.ts";
import { nodeBuiltin } from "../node-builtin.ts";

const { exec } = nodeBuiltin<typeof import("node:child_process")>("node:child_process");

/** @throws {@link TinkerError} when it prints nothing. */
export function runCredentialCommand(command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    exec(command, { encoding: "utf8", windowsHide: true }, (_error, stdout) => {
      const credential = stdout.trim();
      if (credential !== "") return resolve(credential);
      reject(
        new TinkerError("TINKER_CREDENTIAL_CMD printed no credential.", {
          code: "credential_command",
          hint: "Run the command in a shell: it must print the key or token on standard output.",
        }),
      );
    });
  });
}
