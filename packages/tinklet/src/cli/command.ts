/** The type of a command. Types only, so that loading the command table stays cheap. */
import type { Context } from "./context.ts";
import type { Input } from "./parse.ts";

/** An option of a command. */
export interface OptionSpec {
  readonly type: "string" | "boolean";
  readonly short?: string;
  /** Whether the option can be repeated. */
  readonly multiple?: boolean;
  /** Placeholder of the value in the help text. @defaultValue the option's name in capitals */
  readonly value?: string;
  readonly choices?: readonly string[];
  readonly about: string;
}

/** A command. */
export interface Command {
  /** Words and arguments, for example `run info RUN_ID`. */
  readonly usage: string;
  /** Description in the command's help. */
  readonly about: string;
  readonly options?: Readonly<Record<string, OptionSpec>>;
  /** Names of the arguments: `NAME` is required, `NAME?` optional, `NAME...` zero or more. @defaultValue none */
  readonly arguments?: readonly string[];
  readonly examples?: readonly string[];
  /** @returns the exit code; `undefined` means 0 */
  run(input: Input, context: Context): Promise<number | undefined>;
}
