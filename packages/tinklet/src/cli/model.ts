/** Which model a command means, and the tokenizer that belongs to it. */
import { existsSync } from "node:fs";
import type { Tokenizer } from "@tinklet/sdk";
import { omitUndefined } from "@tinklet/wire/options";
import type { OptionSpec } from "./command.ts";
import { bundledModel, type Context } from "./context.ts";
import { CliError } from "./output/explain.ts";
import { type Input, UsageError } from "./parse.ts";

/** Options of every command that works with a model. */
export const modelOptions: Readonly<Record<string, OptionSpec>> = {
  model: {
    type: "string",
    short: "m",
    value: "NAME",
    about: `base model (with --local: ${bundledModel}, a folder, a .gguf file, or a Hub name)`,
  },
  tokenizer: { type: "string", value: "PATH|HUB_ID", about: "take another tokenizer than the model's own" },
};

/** A model as the server calls it, and what a local server must be told to serve it. */
export interface ChosenModel {
  readonly name: string;
  /** For `models` of a local server; empty for the bundled model. */
  readonly serve: readonly string[];
}

/**
 * The model that the options mean. Without one: the bundled model of a local server, or what the server has where that is one
 * model alone or the bundled one.
 *
 * @throws {@link UsageError} when none is given and there is no default.
 */
export async function chosenModel(
  input: Input,
  context: Context,
  { askServer = true }: { readonly askServer?: boolean } = {},
): Promise<ChosenModel> {
  const given = input.text("model");
  if (given === undefined) {
    if (context.isLocal) return { name: bundledModel, serve: [] };
    if (!askServer) throw new UsageError("--model is missing (--local needs none)");
    const service = await context.service();
    const { supportedModels } = await service.getServerCapabilities({ signal: context.signal });
    const names = supportedModels.map(({ modelName }) => modelName);
    const name = names.length === 1 ? names[0] : names.find((one) => one === bundledModel);
    if (name !== undefined) return { name, serve: [] };
    throw new UsageError(`--model is missing; the server has: ${names.join(", ")}`);
  }
  if (!context.isLocal || given === bundledModel) return { name: given, serve: [] };
  checkLocalModel(given);
  const cut = existsSync(given) ? -1 : given.indexOf("="); // a path may hold "=", and is then no name
  return { name: cut < 0 ? given : given.slice(0, cut), serve: [given] };
}

/** Refuses a name like the bundled model's that is not its: it would be looked for on the Hub. */
export function checkLocalModel(given: string): void {
  const source = given.replace(/^[^=]*=/, "");
  if (source === bundledModel || !/^tinklet\//i.test(source) || existsSync(source)) return;
  throw new UsageError(`--model: there is no ${source}; the bundled model is ${bundledModel}`);
}

/** The folder of the bundled model. @throws {@link CliError} saying exactly what is missing. */
export async function bundledModelFolder(): Promise<string> {
  const models = await import("@tinklet/models");
  try {
    return models.bundledModelFolder();
  } catch (error) {
    const { message, hint } = error as Error & { readonly hint?: string };
    const said = hint === undefined ? message : message.replace(` (${hint})`, "");
    throw new CliError(`${said.slice(0, 1).toUpperCase()}${said.slice(1)}.`, {
      cause: error,
      ...omitUndefined({ hint }),
    });
  }
}

/**
 * The tokenizer of a model: what `--tokenizer` says, else that of the source that a local server is given, else what the server hands
 * out or the name leads to.
 *
 * @param ask - asks the server; without it only the name is left.
 */
export async function tokenizerFor(
  input: Input,
  model: ChosenModel,
  ask?: (name: string) => Promise<Tokenizer>,
): Promise<Tokenizer> {
  const { loadTokenizer, tokenizerForModel } = await import("@tinklet/sdk");
  const given = input.text("tokenizer");
  if (given !== undefined) return loadTokenizer(given);
  const [served] = model.serve;
  if (served !== undefined) return loadTokenizer(sourceOf(served));
  if (ask !== undefined) return ask(model.name);
  return model.name === bundledModel
    ? loadTokenizer(await bundledModelFolder())
    : tokenizerForModel({ modelName: model.name });
}

/** The source in `name=source`, or all of it where that is a path. */
function sourceOf(served: string): string {
  const cut = served.indexOf("=");
  return cut < 0 || existsSync(served) ? served : served.slice(cut + 1);
}
