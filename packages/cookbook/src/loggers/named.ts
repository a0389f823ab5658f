/** Loggers by name, for command lines. */
import { InvalidInputError } from "@tinklet/sdk";
import type { MetricsLogger } from "./metrics-logger.ts";
import { tensorboard } from "./tensorboard.ts";
import { trackio } from "./trackio.ts";

const known: Readonly<Record<string, (project: string) => MetricsLogger>> = {
  tensorboard: () => tensorboard(),
  trackio: (project) => trackio({ project }),
};

/** The loggers that have a name. */
export const loggerNames: readonly string[] = Object.keys(known);

/**
 * The loggers of these names, each once.
 *
 * @param options.project - the project of the runs, for loggers that have projects. @defaultValue "tinklet"
 * @throws InvalidInputError for an unknown name, and for a logger that lacks a setting.
 */
export function loggersNamed(
  names: readonly string[],
  options: { readonly project?: string } = {},
): readonly MetricsLogger[] {
  return [...new Set(names)].map((name) => {
    const make = Object.hasOwn(known, name) ? known[name] : undefined;
    if (make === undefined)
      throw new InvalidInputError("logTo", `must be of ${loggerNames.join(", ")}, not ${JSON.stringify(name)}`);
    return make(options.project ?? "tinklet");
  });
}
