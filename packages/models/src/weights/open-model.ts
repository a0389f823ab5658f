/**
 * Opens a model from a folder, a file, or a Hub id: finds the weights, the configuration and the tokenizer, and checks that weights and
 * configuration match.
 */

import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { ConfigError, WeightsError } from "../errors.ts";
import { fetchModel } from "../hub/fetch-model.ts";
import { HubError } from "../hub/hub-error.ts";
import { findSource } from "../source.ts";
import { tokenizerFromFiles } from "../tokenizer/from-files.ts";
import { tokenizerFromGguf } from "../tokenizer/from-gguf.ts";
import { readTokenizerFiles } from "../tokenizer/read-tokenizer-files.ts";
import { checkTensors } from "./check-tensors.ts";
import { openGguf } from "./gguf-model.ts";
import { openSafetensors } from "./open-safetensors.ts";
import { openShards } from "./shards.ts";
import type { OpenedModel, OpenModelOptions, WeightSource } from "./types.ts";
import { readSmallText } from "./weight-file.ts";

const largestConfigBytes = 4 * 1024 * 1024;
const singleFile = "model.safetensors";
const indexFile = "model.safetensors.index.json";

/**
 * Opens a model: the bundled model by its name (`tinklet/base`), a folder in Hugging Face layout, a `.safetensors` file next to its
 * `config.json`, a `.gguf` file, or a Hub id (`org/name`, `org/name@revision`, `org/name:file.gguf`), which is downloaded to the cache
 * first.
 *
 * Only headers are read; tensors are read on demand.
 * @throws WeightsError, ConfigError, and HubError if a download fails.
 * @example
 * ```ts
 * const model = await openModel("HuggingFaceTB/SmolLM2-135M-Instruct");
 * const embedding = model.weights.readFloat32("model.embed_tokens.weight");
 * ```
 */
export async function openModel(source: string, options: OpenModelOptions = {}): Promise<OpenedModel> {
  options.signal?.throwIfAborted();
  const place = findSource(source);
  if (place?.kind === "folder") return openFolder(place.path, source);
  if (place?.kind === "file") return openFile(place.path, source);
  if (place === undefined) {
    throw new WeightsError(`there is no file or folder ${source}, and it is not a Hub id (org/name)`, {
      code: "not_found",
      file: source,
    });
  }
  const fetched = await fetchModel(place.id, options).catch((error: unknown) => {
    throw error instanceof HubError ? error.about(`there is no file or folder ${source}`) : error;
  });
  return kindOnDisk(fetched) === "folder" ? openFolder(fetched, source) : openFile(fetched, source);
}

function kindOnDisk(path: string): "file" | "folder" | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isDirectory() ? "folder" : stat?.isFile() ? "file" : undefined;
}

function openFile(path: string, origin: string): OpenedModel {
  if (path.endsWith(".gguf")) {
    const { config, weights, metadata } = openGguf(path);
    return opened({ config, weights, origin, path, loadTokenizer: async () => tokenizerFromGguf(metadata, path) });
  }
  if (path.endsWith(".safetensors")) {
    const folder = dirname(path);
    const config = readConfig(folder);
    return opened({
      config,
      weights: openSafetensors(path),
      origin,
      path: folder,
      loadTokenizer: async () => tokenizerFromFiles(readTokenizerFiles(folder), folder),
    });
  }
  throw new WeightsError(`${path} must be a .safetensors or .gguf file`, { code: "unknown_format", file: path });
}

function openFolder(folder: string, origin: string): OpenedModel {
  const names = readdirSync(folder);
  const ggufs = names.filter((name) => name.endsWith(".gguf"));
  const isSingle = names.includes(singleFile);
  if (!isSingle && !names.includes(indexFile)) {
    if (ggufs.length === 1) return openFile(join(folder, ggufs[0] as string), origin);
    const pickles = names.some((name) => name.endsWith(".bin") || name.endsWith(".pth") || name.endsWith(".pt"));
    throw new WeightsError(`${folder} has no ${singleFile}, no ${indexFile}, and not exactly one .gguf file`, {
      code: "no_weights",
      file: folder,
      ...(ggufs.length > 1 && { hint: `name one of its files: ${ggufs.map((name) => basename(name)).join(", ")}` }),
      ...(pickles && { hint: "PyTorch pickles are not supported; save the model with safe_serialization=True" }),
    });
  }
  const config = readConfig(folder);
  return opened({
    config,
    weights: isSingle ? openSafetensors(join(folder, singleFile)) : openShards(folder, indexFile),
    origin,
    path: folder,
    loadTokenizer: async () => tokenizerFromFiles(readTokenizerFiles(folder), folder),
  });
}

/** Checks, for every format, that the tensors match the configuration. */
function opened(model: {
  config: Record<string, unknown>;
  weights: WeightSource;
  origin: string;
  path: string;
  loadTokenizer: OpenedModel["loadTokenizer"];
}): OpenedModel {
  try {
    checkTensors(model.config, model.weights, model.origin);
  } catch (error) {
    model.weights.close();
    throw error;
  }
  return { ...model, close: () => model.weights.close() };
}

function readConfig(folder: string): Record<string, unknown> {
  const path = join(folder, "config.json");
  if (kindOnDisk(path) !== "file") {
    throw new ConfigError(`${folder} has no config.json`, {
      code: "no_config",
      hint: "put the model's config.json next to the weights",
    });
  }
  let config: unknown;
  try {
    config = JSON.parse(readSmallText(path, largestConfigBytes));
  } catch (cause) {
    throw new ConfigError(`${path}: ${(cause as Error).message}`, { code: "bad_config", cause });
  }
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw new ConfigError(`${path} must contain a JSON object`, { code: "bad_config" });
  }
  return config as Record<string, unknown>;
}
