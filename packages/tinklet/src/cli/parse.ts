/** Parses and checks arguments with the parser of `node:util`. Every failure is a {@link UsageError}. */
import { parseArgs } from "node:util";
import type { InvalidInputError } from "@tinklet/wire/errors";
import { closest, omitUndefined } from "@tinklet/wire/options";
import { checkRunName } from "@tinklet/wire/run-name";
import type { Command, OptionSpec } from "./command.ts";
import type { Listed } from "./commands.ts";

/** Wrong arguments: exit code 2, and a reference to the help. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

/** Options of every command; `main.ts` has their help text. */
export const globalOptions: Readonly<Record<string, OptionSpec>> = {
  format: { type: "string", short: "f", choices: ["table", "json"], about: "how results are written" },
  json: { type: "boolean", about: "same as --format json" },
  "base-url": { type: "string", about: "the server" },
  "api-key": { type: "string", about: "the key; other users of this machine can see it while the command runs" },
  "api-key-file": { type: "string", value: "FILE", about: "a file with the key, - for stdin" },
  local: { type: "boolean", about: "use a local server: no key, no network" },
  "data-dir": { type: "string", value: "FOLDER", about: "data folder of --local" },
  device: {
    type: "string",
    value: "DEVICE",
    choices: ["auto", "cpu", "cuda", "webgpu"],
    about: "where --local and serve compute: cpu (default), cuda, webgpu or auto",
  },
  precision: {
    type: "string",
    value: "KIND",
    choices: ["float32", "tf32", "bfloat16"],
    about: "arithmetic on a CUDA device: float32 (default), tf32 or bfloat16",
  },
  quiet: { type: "boolean", short: "q", about: "results and errors only" },
  "no-color": { type: "boolean", about: "no colours" },
  help: { type: "boolean", short: "h", about: "this help" },
};

type Value = string | boolean | readonly (string | boolean)[] | undefined;

/** Checked arguments. */
export class Input {
  readonly positionals: readonly string[];
  readonly #values: Readonly<Record<string, Value>>;

  constructor(values: Readonly<Record<string, Value>>, positionals: readonly string[]) {
    this.#values = values;
    this.positionals = positionals;
  }

  /** A copy with another value for one option. */
  with(name: string, value: string): Input {
    return new Input({ ...this.#values, [name]: value }, this.positionals);
  }

  flag(name: string): boolean {
    return this.#values[name] === true;
  }

  text(name: string): string | undefined {
    const value = this.#values[name];
    return typeof value === "string" ? value : undefined;
  }

  /** The name of a run. @throws {@link UsageError} with the rule for names */
  runName(option: string): string | undefined {
    const text = this.text(option);
    if (text === undefined) return undefined;
    try {
      return checkRunName(`--${option}`, text);
    } catch (error) {
      const { message, hint } = error as InvalidInputError;
      throw new UsageError(message, hint);
    }
  }

  texts(name: string): readonly string[] {
    const value = this.#values[name];
    return Array.isArray(value) ? (value as string[]) : [];
  }

  /** A whole number. @throws {@link UsageError} for other values and for numbers below `least` */
  integer(name: string, least = Number.MIN_SAFE_INTEGER): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (/^[+-]?\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value;
    throw new UsageError(`--${name} must be a whole number${least > -1e9 ? ` from ${least} on` : ""}, not "${text}"`);
  }

  /** A number. @throws {@link UsageError} for other values and for numbers below `least` */
  number(name: string, least = Number.NEGATIVE_INFINITY): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (text.trim() !== "" && Number.isFinite(value) && value >= least) return value;
    throw new UsageError(`--${name} must be a number${least > -1e9 ? ` from ${least} on` : ""}, not "${text}"`);
  }
}

/** The parser's message, with a suggestion for unknown options and shorter advice about values that begin with a dash. */
function complaint(message: string, options: readonly string[]): string {
  const option = /use '--([\w-]+)=-XYZ'/.exec(message)?.[1];
  if (option !== undefined) return `--${option} needs a value; write a value that begins with a dash as --${option}=-1`;
  const said = message.replace(/\. To specify a positional.*$/s, "");
  const unknown = /^Unknown option '--([^']+)'/.exec(said)?.[1];
  const close = unknown === undefined ? undefined : nearest(unknown, options);
  return close === undefined ? said : `${said}. Did you mean --${close}?`;
}

/** Parses the arguments after a command's words. */
export function parseInput(command: Command, args: readonly string[]): Input {
  const options = { ...globalOptions, ...command.options }; // a command may redefine a global option
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      strict: true,
      options: Object.fromEntries(
        Object.entries(options).map(([name, { type, short, multiple }]) => [
          name,
          { type, ...omitUndefined({ short, multiple }) },
        ]),
      ),
    });
  } catch (cause) {
    throw new UsageError(complaint((cause as Error).message, Object.keys(options)));
  }
  for (const [name, { choices }] of Object.entries(options)) {
    const value = parsed.values[name];
    if (choices !== undefined && typeof value === "string" && !choices.includes(value)) {
      throw new UsageError(`--${name} must be one of ${choices.join(", ")}, not "${value}"`);
    }
  }
  checkPositionals(command, parsed.positionals, parsed.values["help"] === true);
  return new Input(parsed.values as Record<string, Value>, parsed.positionals);
}

function checkPositionals({ arguments: names = [] }: Command, given: readonly string[], asksForHelp: boolean): void {
  if (asksForHelp) return;
  const required = names.filter((name) => !/[?]$|\.\.\.$/.test(name));
  const missing = required[given.length];
  if (missing !== undefined) throw new UsageError(`${missing} is missing`);
  const many = names.some((name) => name.endsWith("..."));
  if (!many && given.length > names.length) throw new UsageError(`"${given[names.length]}" is one argument too many`);
}

/** The message for an unknown command. */
export function unknownCommand(words: readonly string[], rest: readonly string[], table: readonly Listed[]): string {
  const typed = rest.find((arg) => !arg.startsWith("-"));
  const before = words.join(" ");
  if (typed === undefined && words.length === 0) return `There is no command in "${rest.join(" ")}".`;
  const known = [
    ...new Set(
      table
        .filter((entry) => words.every((word, at) => entry.words[at] === word))
        .map((entry) => entry.words[words.length]),
    ),
  ].filter((word): word is string => word !== undefined);
  if (typed === undefined) return `${before} needs one of: ${known.join(", ")}.`;
  const close = nearest(typed, known);
  const advice =
    close === undefined ? `Known: ${known.join(", ")}.` : `Did you mean ${[before, close].join(" ").trim()}?`;
  return `There is no command "${[before, typed].join(" ").trim()}". ${advice}`;
}

/** The known word that is similar to the typed one or begins with it. */
export const nearest = (typed: string, known: readonly string[]): string | undefined =>
  closest(typed, known) ?? known.find((word) => typed.length > 2 && word.startsWith(typed));
