/**
 * Exports a model with its adapter merged, as a folder for transformers or as a GGUF file for llama.cpp. The output is written under a
 * temporary name and renamed when it is complete.
 */

import { existsSync, readdirSync } from "node:fs";
import { mkdir, rename, rm, rmdir, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { readConfig } from "../config/read-config.ts";
import { ConfigError, ModelError } from "../errors.ts";
import { loadTokenizerFiles } from "../load-tokenizer.ts";
import { readPeft } from "../peft/peft.ts";
import { writeTokenizer } from "../tokenizer/write-tokenizer.ts";
import { openModel } from "../weights/open-model.ts";
import type { DownloadProgress } from "../weights/types.ts";
import { syncFolder, temporaryBeside } from "../weights/write-file.ts";
import { mergeAdapter } from "./merge.ts";
import { writeGgufModel } from "./write-gguf-model.ts";
import { writeMergedModel } from "./write-merged-model.ts";

/** Output formats of {@link exportModel}. */
export const exportFormats = ["merged", "gguf"] as const;
/** Dtypes per format, the default first; `base` keeps the dtypes of the base model. */
export const exportDtypes = {
  merged: ["base", "f32", "f16", "bf16"],
  gguf: ["f16", "q8_0", "bf16", "f32"],
} as const;

export type ExportFormat = (typeof exportFormats)[number];
export type ExportDtype = (typeof exportDtypes)[ExportFormat][number];

/** Progress of an export. */
export interface ExportProgress {
  /** The tensor being written. */
  readonly tensor: string;
  /** Values written so far, out of `total`. */
  readonly done: number;
  readonly total: number;
}

/** Options of {@link exportModel}. */
export interface ExportOptions {
  readonly format: ExportFormat;
  /** Folder of a PEFT adapter to merge. @defaultValue none: the base model is exported unchanged */
  readonly adapter?: string | undefined;
  /** @defaultValue `base` for merged (quantised weights become `f16`), `f16` for gguf */
  readonly dtype?: ExportDtype | undefined;
  /** The model's name in the GGUF metadata. @defaultValue the base name of `out` */
  readonly name?: string | undefined;
  /** Use only the Hub cache. @defaultValue true if `HF_HUB_OFFLINE` is set */
  readonly offline?: boolean | undefined;
  /** Called with the progress of downloads of the base model from the Hub. */
  readonly onDownload?: ((progress: DownloadProgress) => void) | undefined;
  readonly onProgress?: ((progress: ExportProgress) => void) | undefined;
  /** Aborts the export: partial output is removed and the promise rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/** Result of {@link exportModel}. */
export interface ExportResult {
  /** The file (gguf) or folder (merged). */
  readonly path: string;
  readonly bytes: number;
  readonly dtype: ExportDtype;
  /** Limitations of the exported files, as sentences to show to the user. */
  readonly notes: readonly string[];
}

/**
 * Merges an adapter into its base model and exports the result.
 *
 * @param base - any source that {@link openModel} accepts: the bundled model's name, a folder, a file, or a Hub id.
 * @param out - the file (gguf) or folder (merged) to create; it must not exist or must be an empty folder.
 * @throws ConfigError for an invalid option or a model that the format cannot represent; WeightsError if the adapter belongs to another
 *   base model; TokenizerError if GGUF cannot represent the tokenizer; `signal.reason`.
 * @example
 * ```ts
 * await exportModel("tinklet/base", "pirate.gguf", { format: "gguf", adapter: "runs/pirate/adapter", dtype: "q8_0" });
 * ```
 */
export async function exportModel(base: string, out: string, options: ExportOptions): Promise<ExportResult> {
  const { format, signal, onProgress = () => {}, onDownload, offline } = options;
  const dtype = checkedDtype(options);
  const path = resolve(out);
  checkTarget(path, format);
  const model = await openModel(base, { signal, offline, ...(onDownload && { onProgress: onDownload }) });
  const temporary = temporaryBeside(path);
  try {
    const adapter = options.adapter === undefined ? undefined : await readPeft(options.adapter);
    const { config, weights } = model;
    const merged = mergeAdapter(
      { config, model: readConfig(config), readFloat32: (name) => weights.readFloat32(name) },
      adapter,
    );
    const total = merged.tensors.reduce((sum, { shape }) => sum + sizeOf(shape), 0);
    let done = 0;
    const tensors = merged.tensors.map((tensor) => ({
      ...tensor,
      dtype: model.weights.tensors.get(tensor.from)?.dtype ?? "F32",
      async read() {
        signal?.throwIfAborted();
        onProgress({ tensor: tensor.name, done, total });
        const values = await tensor.read();
        done += values.length;
        return values;
      },
    }));
    await mkdir(dirname(path), { recursive: true });
    const target = { config: merged.config, tensors, dtype };
    let notes: readonly string[] = [];
    if (format === "merged") {
      await mkdir(temporary);
      await writeMergedModel(temporary, target);
      await writeTokenizer(model.path, temporary, { wholeModel: true });
    } else {
      const files = await loadTokenizerFiles(model.path);
      notes = await writeGgufModel(temporary, { ...target, files, name: options.name ?? basename(path, ".gguf") });
    }
    signal?.throwIfAborted();
    onProgress({ tensor: "", done: total, total });
    if (existsSync(path)) await rmdir(path); // an empty folder: checkTarget rejected the rest, and rmdir fails if files were added since
    await rename(temporary, path);
    await syncFolder(dirname(path));
    return { path, bytes: await bytesAt(path), dtype, notes };
  } finally {
    model.close();
    await rm(temporary, { recursive: true, force: true });
  }
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

function checkedDtype({ format, dtype }: ExportOptions): ExportDtype {
  if (!exportFormats.includes(format)) {
    const message = `format must be one of ${exportFormats.join(", ")}, got ${JSON.stringify(format)}`;
    throw new ConfigError(message, { code: "bad_option", field: "format" });
  }
  const known: readonly ExportDtype[] = exportDtypes[format];
  if (dtype === undefined) return known[0] as ExportDtype;
  if (known.includes(dtype)) return dtype;
  throw new ConfigError(`dtype of ${format} must be one of ${known.join(", ")}, got ${JSON.stringify(dtype)}`, {
    code: "bad_option",
    field: "dtype",
  });
}

function checkTarget(path: string, format: ExportFormat): void {
  if (!existsSync(path)) return;
  const isEmptyFolder = format === "merged" && isFolder(path) && readdirSync(path).length === 0;
  if (isEmptyFolder) return;
  throw new ModelError("already_there", `${path} already exists`, { hint: "choose another path, or move it away" });
}

function isFolder(path: string): boolean {
  try {
    readdirSync(path);
    return true;
  } catch {
    return false;
  }
}

async function bytesAt(path: string): Promise<number> {
  if (!isFolder(path)) return (await stat(path)).size;
  const sizes = await Promise.all(readdirSync(path).map(async (name) => (await stat(join(path, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
