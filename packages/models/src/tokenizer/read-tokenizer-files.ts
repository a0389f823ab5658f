/** Reads the tokenizer files of a model folder: `tokenizer.json` and the optional settings files. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { TokenizerError } from "../errors.ts";
import { readSmallText } from "../weights/weight-file.ts";
import { isTiktoken } from "./is-tiktoken.ts";
import type { TokenizerFileName, TokenizerFiles } from "./types.ts";

/** Limit; the largest published `tokenizer.json` has about 35 MB. */
const largestTokenizerBytes = 256 * 1024 * 1024;
const largestSettingsBytes = 16 * 1024 * 1024;

/** @throws TokenizerError `no_tokenizer` if there is no `tokenizer.json`; WeightsError if a file is too large or not UTF-8. */
export function readTokenizerFiles(folder: string): TokenizerFiles {
  const read = (name: TokenizerFileName): string | undefined => {
    const path = join(folder, name);
    const largest =
      name === "tokenizer.json" || name === "tiktoken.model" ? largestTokenizerBytes : largestSettingsBytes;
    return existsSync(path) ? readSmallText(path, largest) : undefined;
  };
  const definition = read("tokenizer.json");
  const settings = read("tokenizer_config.json");
  const ranks = definition === undefined && isTiktoken(settings) ? read("tiktoken.model") : undefined;
  if (definition === undefined && ranks === undefined) {
    throw new TokenizerError(`${folder} has no tokenizer.json`, {
      code: "no_tokenizer",
      hint: existsSync(join(folder, "tokenizer.model"))
        ? "it has a tokenizer.model; AutoTokenizer.from_pretrained(...).save_pretrained(...) writes the tokenizer.json"
        : "only tokenizers with a tokenizer.json, and Kimi's with a tiktoken.model, are supported; save_pretrained() in Python writes one",
    });
  }
  return {
    "tokenizer.json": definition ?? "",
    ...(ranks === undefined ? {} : { "tiktoken.model": ranks }),
    "tokenizer_config.json": settings,
    "generation_config.json": read("generation_config.json"),
    "config.json": read("config.json"),
    "chat_template.jinja": read("chat_template.jinja"),
  };
}
