/** `--log-to`: metrics loggers besides the run folder. */
import { basename } from "node:path";
import type { MetricsLogger } from "@tinklet/cookbook";
import type { OptionSpec } from "../command.ts";
import type { Output } from "../output/output.ts";
import { type Input, UsageError } from "../parse.ts";

export const logToOption: Readonly<Record<string, OptionSpec>> = {
  "log-to": {
    type: "string",
    multiple: true,
    value: "LOGGER",
    about: "tensorboard or trackio, besides the local files (repeatable)",
  },
};

/** The loggers of `--log-to`. @throws {@link UsageError} for an unknown name */
export async function loggersOf(input: Input): Promise<readonly MetricsLogger[]> {
  const names = input.texts("log-to").flatMap((text) => text.split(","));
  if (names.length === 0) return [];
  const { loggerNames, loggersNamed } = await import("@tinklet/cookbook");
  const unknown = names.find((name) => !loggerNames.includes(name));
  if (unknown !== undefined)
    throw new UsageError(`--log-to must be one of ${loggerNames.join(", ")}, not "${unknown}"`);
  return loggersNamed(names);
}

/** Prints how to open the logged metrics. */
export function noteLoggers(loggers: readonly MetricsLogger[], folder: string, output: Output): void {
  for (const { name } of loggers) {
    if (name === "tensorboard") output.note(`tensorboard --logdir ${folder} shows the run.`);
    else output.note(`${name} shows the run as ${basename(folder)}.`);
  }
}
