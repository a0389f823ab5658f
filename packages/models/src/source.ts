/** Resolves a user's model name to its source: the bundled model, a folder, a file, or a name on the Hub. */
import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { bundledModel } from "./config/bundled-model.ts";
import { WeightsError } from "./errors.ts";
import { type HubId, parseHubId } from "./hub/hub-id.ts";

/** Location of a model. */
export type ModelSource =
  | { readonly kind: "folder"; readonly path: string }
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "hub"; readonly id: HubId };

/**
 * Resolves `text` to a source. A path on disk takes precedence over a name on the Hub; `~/` is the home folder. `undefined` if it is
 * neither.
 * @throws WeightsError if `text` is the bundled model's name and the model is not installed.
 */
export function findSource(text: string): ModelSource | undefined {
  const path = text.startsWith("~/") ? join(homedir(), text.slice(2)) : text;
  const stat = path === "" ? undefined : statSync(path, { throwIfNoEntry: false });
  if (stat?.isDirectory()) return { kind: "folder", path };
  if (stat?.isFile()) return { kind: "file", path };
  if (text === bundledModel) return { kind: "folder", path: bundledModelFolder() };
  const id = parseHubId(text);
  return id && { kind: "hub", id };
}

/** The folder of `@tinklet/base-model`. @throws WeightsError if it is not installed or incomplete */
export function bundledModelFolder(): string {
  let folder: string;
  try {
    folder = dirname(createRequire(import.meta.url).resolve("@tinklet/base-model/package.json"));
  } catch (cause) {
    throw new WeightsError("the bundled model is not installed", {
      code: "no_bundled_model",
      hint: "npm install @tinklet/base-model",
      cause,
    });
  }
  const needed = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"];
  const missing = needed.filter((file) => !existsSync(join(folder, file)));
  if (missing.length === 0) return folder;
  throw new WeightsError(
    `the bundled model is incomplete, missing ${missing.map((file) => join(folder, file)).join(", ")}`,
    {
      code: "no_bundled_model",
      file: folder,
      hint: "reinstall @tinklet/base-model, or choose another model",
    },
  );
}
