/** Runs a command: parses its arguments, creates its context, prints errors and returns the exit code. */
import { withApiKey } from "./auth/api-key.ts";
import type { Command, OptionSpec } from "./command.ts";
import { Context } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { Output } from "./output/output.ts";
import { printable } from "./output/printable.ts";
import { globalOptions, parseInput, UsageError } from "./parse.ts";

/** @returns the exit code. */
export async function run(words: readonly string[], command: Command, args: readonly string[]): Promise<number> {
  let input: ReturnType<typeof parseInput>;
  try {
    input = parseInput(command, args);
    if (!input.flag("help")) input = await withApiKey(input);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return usage(words, command, error);
  }
  if (input.flag("help")) {
    process.stdout.write(commandHelp(command));
    return exitCodes.ok;
  }
  const output = Output.of(input);
  if (input.text("api-key") !== undefined && input.text("api-key-file") === undefined)
    output.note(
      "Warning: --api-key shows the key to other users of this machine: use TINKER_API_KEY or --api-key-file.",
    );
  const context = new Context(input, output);
  try {
    return (await command.run(input, context)) ?? exitCodes.ok;
  } catch (error) {
    output.endProgress();
    context.hasFailed = true;
    if (error instanceof UsageError) return usage(words, command, error);
    if (context.signal.aborted) {
      output.note("Interrupted.");
      return exitCodes.interrupted;
    }
    const { explain, wrongCall } = await import("./output/explain.ts");
    const wrong = wrongCall(error, command, input);
    if (wrong !== undefined) return usage(words, command, wrong);
    output.error(explain(error));
    return exitCodes.error;
  } finally {
    await context.close();
  }
}

function usage(words: readonly string[], command: Command, error: UsageError): number {
  const hint = error.hint === undefined ? "" : `Hint: ${error.hint}\n`;
  const message = printable(`Error: ${error.message.replace(/[.?]?$/, (end) => end || ".")}\n${hint}`);
  process.stderr.write(`${message}Usage: tinklet ${command.usage}\nHelp:  tinklet ${words.join(" ")} --help\n`);
  return exitCodes.usage;
}

function commandHelp({ usage: line, about, options = {}, examples = [] }: Command): string {
  const own = Object.entries(options).map(optionLine);
  const shared = Object.entries(globalOptions)
    .filter(([name]) => !Object.hasOwn(options, name))
    .map(optionLine);
  const width = Math.max(...[...own, ...shared].map(([name]) => name.length));
  const listed = (lines: readonly (readonly [string, string])[]) =>
    lines.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`);
  return `${[
    `Usage: tinklet ${line}`,
    "",
    about,
    ...(own.length === 0 ? [] : ["", "Options:", ...listed(own)]),
    "",
    "Options of every command:",
    ...listed(shared),
    ...(examples.length === 0 ? [] : ["", "Examples:", ...examples.map((example) => `  tinklet ${example}`)]),
  ].join("\n")}\n`;
}

function optionLine([name, { type, short, value, choices, about }]: [string, OptionSpec]): readonly [string, string] {
  const shown = type === "boolean" ? "" : ` ${value ?? choices?.join("|") ?? name.toUpperCase().replace(/^.*-/, "")}`;
  return [`${short === undefined ? "    " : `-${short}, `}--${name}${shown}`, about];
}
