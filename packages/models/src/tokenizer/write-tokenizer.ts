/** Writes a model's tokenizer beside other weights: an adapter, or the model with an adapter merged into it. */
import { constants } from "node:fs";
import { copyFile, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { TokenizerError } from "../errors.ts";
import { readGgufMetadata } from "../weights/gguf.ts";
import { writeTextAtomically } from "../write-text.ts";
import { tokenizerFilesFromGguf } from "./from-gguf.ts";

/** What makes a tokenizer, in its old forms and its new one. */
const tokenizerNames = [
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja",
];
/** What belongs to a whole model besides. */
const modelNames = ["generation_config.json", "LICENSE"];

/**
 * Copies the tokenizer of the model at `path` (its folder or its GGUF file) into `folder`. Of a model without one, or one that cannot be
 * rebuilt from a GGUF, nothing is written: such a model can be trained all the same.
 *
 * @param options.wholeModel - the generation settings and the licence, too. @defaultValue `false`
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
