/** Resolves the model of a command and its tokenizer. */
import { existsSync } from "node:fs";
import { bundledModel } from "@tinklet/models/config";
import type { Tokenizer } from "@tinklet/sdk";
import { omitUndefined } from "@tinklet/wire/options";
import type { OptionSpec } from "./command.ts";
import type { Context } from "./context.ts";
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
  tokenizer: { type: "string", value: "PATH|HUB_ID", about: "tokenizer to use instead of the model's" },
};

/** A model: its name on the server, and the source that a local server loads. */
export interface ChosenModel {
  readonly name: string;
  /** For `models` of a local server; empty for the bundled model. */
  readonly serve: readonly string[];
}

/**
 * The model of `--model`. Default: the bundled model on a local server, otherwise the server's only model, or the bundled model if the
 * server has it.
 *
 * @throws {@link UsageError} when `--model` is missing and there is no default
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
  const cut = existsSync(given) ? -1 : given.indexOf("="); // an existing path may contain "="
  return { name: cut < 0 ? given : given.slice(0, cut), serve: [given] };
}

/** Rejects names that resemble the bundled model's, which would otherwise be looked up on the Hub. */
export function checkLocalModel(given: string): void {
  const source = given.replace(/^[^=]*=/, "");
  if (source === bundledModel || !/^tinklet\//i.test(source) || existsSync(source)) return;
  throw new UsageError(`--model: unknown model ${source}; the bundled model is ${bundledModel}`);
}

/** The folder of the bundled model. @throws {@link CliError} naming the missing package or file */
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
 * The tokenizer of a model: that of `--tokenizer`, else that of the local model source, else the server's, else the one known for the
 * model's name.
 *
 * @param ask - requests the tokenizer from the server; absent when no server is used
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

/** The source in `name=source`; an existing path is returned unchanged, because it may contain "=". */
function sourceOf(served: string): string {
  const cut = served.indexOf("=");
  return cut < 0 || existsSync(served) ? served : served.slice(cut + 1);
}
