/** A model from the bytes of its files, where there are no files on disk: one `model.safetensors`, `config.json` and the tokenizer's files. */
import { ConfigError, WeightsError } from "../errors.ts";
import { tokenizerFromFiles } from "../tokenizer/from-files.ts";
import type { Tokenizer, TokenizerFiles } from "../tokenizer/types.ts";
import { bytesInMemory } from "../weights/byte-source.ts";
import { checkTensors } from "../weights/check-tensors.ts";
import { safetensorsSource } from "../weights/safetensors.ts";
import type { WeightSource } from "../weights/types.ts";

/** The file with a model's weights. */
export const modelWeightsFile = "model.safetensors";

/** A model whose weights match its configuration. */
export interface ModelInMemory {
  /** The parsed `config.json`. */
  readonly config: Record<string, unknown>;
  readonly weights: WeightSource;
  /** Its name in error messages. */
  readonly origin: string;
  /** The contents of its tokenizer's files. */
  readonly tokenizerFiles: TokenizerFiles;
  /** @throws TokenizerError for files that are not a supported tokenizer. */
  loadTokenizer(): Promise<Tokenizer>;
}

/**
 * Reads a model from its files, with the checks of `openModel`.
 *
 * @param files - their contents by name; `config.json`, `model.safetensors` and `tokenizer.json` are required
 * @throws ConfigError, WeightsError
 */
export function modelFromFiles(files: Readonly<Record<string, Uint8Array>>, origin: string): ModelInMemory {
  const bytesOf = (name: string): Uint8Array | undefined => (Object.hasOwn(files, name) ? files[name] : undefined);
  const text = (name: string): string | undefined => {
    const bytes = bytesOf(name);
    return bytes && new TextDecoder().decode(bytes);
  };
  const weightBytes = bytesOf(modelWeightsFile);
  if (weightBytes === undefined) {
    throw new WeightsError(`${origin} has no ${modelWeightsFile}`, {
      code: "no_weights",
      file: modelWeightsFile,
      hint: "weights in several files and GGUF files can be opened in Node only",
    });
  }
  const config = parseConfig(text("config.json"), origin);
  const weights = safetensorsSource(bytesInMemory(weightBytes, modelWeightsFile));
  checkTensors(config, weights, origin);
  const tokenizerFiles: TokenizerFiles = {
    "tokenizer.json": text("tokenizer.json") ?? "",
    "tiktoken.model": text("tiktoken.model"),
    "tokenizer_config.json": text("tokenizer_config.json"),
    "generation_config.json": text("generation_config.json"),
    "config.json": text("config.json"),
    "chat_template.jinja": text("chat_template.jinja"),
  };
  const loadTokenizer = async (): Promise<Tokenizer> => tokenizerFromFiles(tokenizerFiles, origin);
  return { config, weights, origin, tokenizerFiles, loadTokenizer };
}

function parseConfig(text: string | undefined, origin: string): Record<string, unknown> {
  if (text === undefined) throw new ConfigError(`${origin} has no config.json`, { code: "no_config" });
  let config: unknown;
  try {
    config = JSON.parse(text);
  } catch (cause) {
    throw new ConfigError(`${origin}: config.json is not JSON: ${(cause as Error).message}`, {
      code: "bad_config",
      cause,
    });
  }
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw new ConfigError(`${origin}: config.json must contain a JSON object`, { code: "bad_config" });
  }
  return config as Record<string, unknown>;
}
