/** The folders that an engine in Node reads and writes: adapters in PEFT's format, and merged models. */
import { type PeftBase, readPeft, writePeft, writeTokenizer } from "@tinklet/models";
import { type MergeOptions, writeMerged } from "./adapter/merge.ts";
import type { AdapterState } from "./types.ts";

export interface ModelFolders {
  writePeft(folder: string, state: AdapterState, baseModel: string): Promise<void>;
  readPeft(folder: string, base: PeftBase): Promise<AdapterState>;
  writeMerged(options: Omit<MergeOptions, "path">): Promise<void>;
}

/** @param path - the base model's folder or GGUF file, whose tokenizer is copied; absent for a model that exists only in memory */
export const modelFolders = (path?: string): ModelFolders => ({
  async writePeft(folder, state, baseModel) {
    await writePeft(folder, state, baseModel);
    if (path !== undefined) await writeTokenizer(path, folder);
  },
  readPeft,
  writeMerged: (options) => writeMerged({ ...options, path }),
});
