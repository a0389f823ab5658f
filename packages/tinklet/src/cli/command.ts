/** What a command is: how it is called, and what it does. Types only, so that the list of commands stays light. */
import type { Context } from "./context.ts";
import type { Input } from "./parse.ts";

/** An option of a command. */
export interface OptionSpec {
  readonly type: "string" | "boolean";
  readonly short?: string;
  /** May be given more than once. */
  readonly multiple?: boolean;
  /** What stands for the value in the help. @defaultValue the option's name in capitals */
  readonly value?: string;
  readonly choices?: readonly string[];
  readonly about: string;
}

/** A command. */
export interface Command {
  /** Its words and arguments, for example `run info RUN_ID`. */
  readonly usage: string;
  /** A sentence or a paragraph. */
  readonly about: string;
  readonly options?: Readonly<Record<string, OptionSpec>>;
  /** Names of the arguments; `NAME?` may be left out, `NAME...` may be many or none. @defaultValue none */
  readonly arguments?: readonly string[];
  readonly examples?: readonly string[];
  /** @returns the exit code; nothing means 0. */
  run(input: Input, context: Context): Promise<number | undefined>;
}
