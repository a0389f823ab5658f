/** Writes a model's tokenizer next to other weights: an adapter, or a merged model. */
import { constants } from "node:fs";
import { copyFile, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { TokenizerError } from "../errors.ts";
import { readGgufMetadata } from "../weights/gguf.ts";
import { writeTextAtomically } from "../write-text.ts";
import { tokenizerFilesFromGguf } from "./from-gguf.ts";

/** Files of a tokenizer, in older and newer formats. */
const tokenizerNames = [
  "tokenizer.json",
  "tiktoken.model",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja",
];
/** Additional files of a complete model. */
const modelNames = ["generation_config.json", "LICENSE"];

/**
 * Copies the tokenizer of the model at `path` (its folder or its GGUF file) into `folder`. Writes nothing if the model has no tokenizer, or
 * one that cannot be rebuilt from a GGUF file, because such a model can still be trained.
 *
 * @param options.wholeModel - also copy the generation settings and the licence. @defaultValue `false`
 */
export async function writeTokenizer(
  path: string,
  folder: string,
  options: { readonly wholeModel?: boolean } = {},
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const names = options.wholeModel ? [...tokenizerNames, ...modelNames] : tokenizerNames;
  if ((await stat(path)).isDirectory()) {
    for (const name of names) {
      await copyFile(join(path, name), join(folder, name), constants.COPYFILE_FICLONE).catch((error: unknown) => {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      });
    }
    return;
  }
  try {
    const files = Object.entries(tokenizerFilesFromGguf(readGgufMetadata(path), path));
    for (const [name, text] of files) {
      if (text !== undefined && names.includes(name)) await writeTextAtomically(join(folder, name), text);
    }
  } catch (error) {
    if (!(error instanceof TokenizerError)) throw error;
  }
}
