/**
 * The command line's front door: what must be quick. Imports nothing but the list of commands; a command's own code is
 * loaded when it is asked for.
 */
import { packageVersion } from "../transport/environment.ts";

/** Runs one command. @returns the process's exit code. */
export async function main(args: readonly string[]): Promise<number> {
  if (args[0] === "version") {
    process.stdout.write(`tinklet ${packageVersion}\n`);
    return 0;
  }
  process.stderr.write("Error: Unknown command.\n");
  return 2;
}
