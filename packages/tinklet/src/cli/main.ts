/**
 * Entry point of the command line. Imports only the command table, so that every start is fast; the code of a command and the SDK
 * are loaded when the command runs.
 */
import { readFileSync } from "node:fs";
import { commandTable, findCommand, type Listed } from "./commands.ts";
import { exitCodes } from "./exit-codes.ts";

/**
 * Runs one command.
 *
 * @param args - the arguments after the program's name
 * @returns the exit code: 0, 1 for an error, 2 for a wrong call, 130 after Ctrl-C.
 */
export async function main(args: readonly string[]): Promise<number> {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCodes.ok); // the reader closed the pipe, for example `| head`
    throw error;
  });
  const { command, words, group, rest } = findCommand(withoutHelpWord(args));
  const asksForVersion = ["--version", "-v", "-V"].includes(rest[0] ?? "");
  if (command?.words[0] === "version" || (command === undefined && asksForVersion)) {
    process.stdout.write(`tinklet ${version()}\n`);
    return exitCodes.ok;
  }
  const asksForHelp = rest.includes("--help") || rest.includes("-h");
  if (args.length === 0) {
    process.stdout.write(firstScreen());
    return exitCodes.ok;
  }
  if (command === undefined) {
    const shown =
      group === undefined ? help(commandTable) : help(commandTable.filter(({ words: [first] }) => first === group));
    if (asksForHelp) {
      process.stdout.write(shown);
      return exitCodes.ok;
    }
    const { unknownCommand } = await import("./parse.ts");
    process.stderr.write(`Error: ${unknownCommand(words, rest, commandTable)}\n`);
    return exitCodes.usage;
  }
  const [{ run }, spec] = await Promise.all([import("./run.ts"), command.load()]);
  return run(command.words, spec, rest);
}

/** `help train` as `train --help`, and `help` as `--help`. */
const withoutHelpWord = (args: readonly string[]): readonly string[] =>
  args[0] === "help" ? [...args.slice(1), "--help"] : args;

/** What `tinklet` without arguments prints. `npx` runs a local or a global installation, so its commands can be pasted. */
const firstScreen =
  (): string => `tinklet ${version()}: fine-tune language models, on this machine or with a Tinker server.

Start here:
  npx tinklet quickstart                      train a small model in under a minute; needs no key
  npx tinklet train data.jsonl --local        fine-tune on your own conversations
  npx tinklet chat --local --from runs/data   chat with the result
  npx tinklet doctor                          check this machine, the key and the server

npx tinklet help lists all commands, npx tinklet help COMMAND describes one.
`;

/** The version of this package. */
export function version(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}

/** The list of commands and the options of all commands. */
function help(listed: readonly Listed[]): string {
  const width = Math.max(...listed.map(({ words }) => words.join(" ").length));
  const lines: string[] = ["Usage: tinklet <command> [options]", ""];
  let section: string | undefined;
  for (const { words, about, section: of } of listed) {
    if (of !== section) lines.push(...(section === undefined ? [] : [""]), `${of}:`);
    section = of;
    lines.push(`  ${words.join(" ").padEnd(width)}  ${about}`);
  }
  return `${lines.join("\n")}\n\n${globalHelp}`;
}

const globalHelp = `Options of every command, before or after it:
  -f, --format table|json   how results are written (--json for short; streams are one JSON value per line)
      --base-url URL        the server            [TINKER_BASE_URL]
      --api-key KEY         the key               [TINKER_API_KEY]; other users of this machine can see it
      --api-key-file FILE   a file with the key, - for stdin
      --local               use a local server: no key, no network
      --data-dir FOLDER     data folder of --local  [TINKLET_DATA_DIR, else ~/.tinklet]; memory stores nothing
      --device DEVICE       where --local and serve compute: cpu (default), cuda, webgpu, or auto for the best GPU
      --precision KIND      arithmetic on a CUDA device: float32 (default), tf32 or bfloat16
  -q, --quiet               results and errors only
      --no-color            no colours            [NO_COLOR]
  -h, --help                help on a command

Exit codes: 0 success, 1 error, 2 usage error, 130 interrupted.
`;
