/** Which model a command means, and the tokenizer that belongs to it. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Tokenizer } from "../tokenizer/index.ts";
import type { OptionSpec } from "./command.ts";
import { bundledModel, type Context } from "./context.ts";
import { CliError } from "./explain.ts";
import { type Input, UsageError } from "./parse.ts";

/** Options of every command that works with a model. */
export const modelOptions: Readonly<Record<string, OptionSpec>> = {
  model: {
    type: "string",
    short: "m",
    value: "NAME",
    about: `base model (with --local: ${bundledModel}, a folder, or a Hub name)`,
  },
  tokenizer: { type: "string", value: "FOLDER|NAME", about: "take another tokenizer than the model's own" },
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
 * @throws {@link UsageError} when none is given and none goes without saying.
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
  const cut = given.indexOf("=");
  return { name: cut < 0 ? given : given.slice(0, cut), serve: [given] };
}

/** The folder of the bundled model. @throws {@link CliError} saying exactly what is missing. */
export function bundledModelFolder(): string {
  let folder: string;
  try {
    const installed = dirname(createRequire(import.meta.url).resolve("@tinklet/base-model/package.json"));
    folder = existsSync(join(installed, "model")) ? join(installed, "model") : installed;
  } catch (cause) {
    throw new CliError("The bundled model is not installed.", { cause, hint: "npm install @tinklet/base-model" });
  }
  const missing = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"].filter(
    (file) => !existsSync(join(folder, file)),
  );
  if (missing.length === 0) return folder;
  throw new CliError(
    `The bundled model is incomplete: ${missing.map((file) => join(folder, file)).join(", ")} missing.`,
    {
      hint: "Reinstall @tinklet/base-model, or give a model of your own: --model name=FOLDER.",
    },
  );
}

/** The tokenizer of a model: what `--tokenizer` says, else the model's own folder, else by name. */
export async function tokenizerFor(input: Input, model: ChosenModel): Promise<Tokenizer> {
  const { loadTokenizer, tokenizerForModel } = await import("../tokenizer/index.ts");
  const given = input.text("tokenizer");
  if (given !== undefined) return loadTokenizer(given);
  if (model.name === bundledModel) return loadTokenizer(bundledModelFolder());
  const folder = model.serve[0]?.replace(/^[^=]*=/, "");
  return folder === undefined ? tokenizerForModel({ modelName: model.name }) : loadTokenizer(folder);
}
