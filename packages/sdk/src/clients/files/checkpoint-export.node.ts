/**
 * Exports a checkpoint for other programs: as an adapter folder, or merged into its base model by `@tinklet/models`. Node only, loaded
 * when first needed.
 */
import { InvalidInputError, TinkerError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { nodeBuiltin } from "../../node-builtin.ts";
import { type CheckpointFetching, fetchCheckpoint } from "./checkpoint-files.node.ts";
import { writeFailure } from "./download.node.ts";

const { existsSync } = nodeBuiltin<typeof import("node:fs")>("node:fs");
const { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, rmdir, stat } =
  nodeBuiltin<typeof import("node:fs/promises")>("node:fs/promises");
const { dirname, join, resolve } = nodeBuiltin<typeof import("node:path")>("node:path");

/**
 * Export formats of checkpoints. `peft` and `tinker` are the adapter alone; they differ in the name of the unembedding (`lm_head`, or
 * `unembed_tokens`, which `weights.build_hf_model` of the official cookbook expects).
 */
export const checkpointFormats = ["peft", "tinker", "merged", "gguf"] as const;

const isAdapterFormat = (format: CheckpointExport["format"]): format is "peft" | "tinker" =>
  format === "peft" || format === "tinker";

/** The files of an adapter folder, and the marker that the official `push-hf` requires, which other folders lack. */
const adapterFiles = ["adapter_config.json", "adapter_model.safetensors"] as const;
const marker = "checkpoint_complete";

/** Options of an export. */
export interface CheckpointExport {
  readonly format: (typeof checkpointFormats)[number];
  readonly dtype?: string | undefined;
  readonly baseModel?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called for every tensor that is written; `total` is the number of values. */
  readonly onTensor?:
    | ((progress: { readonly tensor: string; readonly done: number; readonly total: number }) => void)
    | undefined;
  /** Called with the progress of downloading the base model's files from the Hub. */
  readonly onDownload?: CheckpointFetching["onProgress"] | undefined;
}

/** Result of an export. */
export interface ExportedCheckpoint {
  /** Path of the file (`gguf`) or folder. */
  readonly path: string;
  readonly bytes: number;
  /** Notes for users of the result, one sentence each. */
  readonly notes: readonly string[];
}

/** Validates the options before any download. */
export async function checkExport({ format, dtype }: CheckpointExport, out: string): Promise<string> {
  if (!checkpointFormats.includes(format)) {
    throw new InvalidInputError(
      "format",
      `must be one of ${checkpointFormats.join(", ")}, not ${JSON.stringify(format)}`,
    );
  }
  if (isAdapterFormat(format)) {
    if (dtype !== undefined) {
      const problem = `is only valid with format merged or gguf; ${format} keeps the adapter's type`;
      throw new InvalidInputError("dtype", problem);
    }
  } else {
    const known: readonly string[] = (await modelsPackage()).exportDtypes[format];
    if (dtype !== undefined && !known.includes(dtype)) {
      throw new InvalidInputError(
        "dtype",
        `must be one of ${known.join(", ")} for ${format}, not ${JSON.stringify(dtype)}`,
      );
    }
  }
  const path = resolve(out);
  if (existsSync(path)) {
    const names = format === "gguf" ? undefined : await readdir(path).catch(() => undefined);
    if (names?.length !== 0) {
      throw new InvalidInputError("out", `${path} already exists: choose another path, or move it`);
    }
  }
  return path;
}

/** Downloads a checkpoint and writes it in the requested format. */
export async function exportCheckpoint(
  tinkerPath: string,
  out: string,
  how: CheckpointExport & CheckpointFetching,
): Promise<ExportedCheckpoint> {
  const path = await checkExport(how, out);
  const parent = dirname(path);
  await mkdir(parent, { recursive: true });
  if (isAdapterFormat(how.format)) await modelsPackage(); // fails before the download if it is missing
  const scratch = await mkdtemp(join(parent, ".tinklet-"));
  try {
    const adapter = join(scratch, "adapter");
    await fetchCheckpoint(tinkerPath, adapter, scratch, how);
    return await exportAdapter(adapter, path, how);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Writes an adapter folder with other names (`peft`, `tinker`), or merged into its base model (`merged`, `gguf`). */
export async function exportAdapter(adapter: string, out: string, how: CheckpointExport): Promise<ExportedCheckpoint> {
  const path = await checkExport(how, out);
  if (isAdapterFormat(how.format)) return renamedCopy(adapter, path, how.format);
  const { exportModel } = await modelsPackage();
  const base = how.baseModel ?? (await baseModelOf(adapter));
  try {
    const { bytes, notes } = await exportModel(base, path, {
      format: how.format as "merged" | "gguf",
      adapter,
      ...omitUndefined({ signal: how.signal, onProgress: how.onTensor, onDownload: how.onDownload }),
      ...omitUndefined({ dtype: how.dtype as "f16" | undefined }),
    });
    return { path, bytes, notes };
  } catch (error) {
    how.signal?.throwIfAborted();
    throw explained(error, { base, path, isGiven: how.baseModel !== undefined });
  }
}

/** Copies an adapter folder and renames its unembedding; the copy appears when it is complete. */
async function renamedCopy(adapter: string, path: string, names: "peft" | "tinker"): Promise<ExportedCheckpoint> {
  const { renameAdapter } = await modelsPackage();
  await mkdir(dirname(path), { recursive: true });
  const scratch = await mkdtemp(join(dirname(path), ".tinklet-"));
  try {
    const files = existsSync(join(adapter, marker)) ? [...adapterFiles, marker] : adapterFiles;
    for (const file of files) await copyFile(join(adapter, file), join(scratch, file));
    await renameAdapter(scratch, names);
    if (existsSync(path)) await rmdir(path); // an empty folder, by `checkExport`
    await rename(scratch, path);
    return { path, bytes: await bytesIn(path), notes: [] };
  } catch (cause) {
    await rm(scratch, { recursive: true, force: true });
    if (cause instanceof TinkerError) throw cause;
    const message = `${adapter} could not be exported: ${(cause as Error).message}`;
    throw new TinkerError(message, { code: "export_failed", cause });
  }
}

async function modelsPackage(): Promise<typeof import("@tinklet/models")> {
  try {
    return await import("@tinklet/models");
  } catch (cause) {
    throw new TinkerError("Exporting an adapter needs the package @tinklet/models, which is not installed.", {
      code: "missing_peer",
      hint: "Run: npm install @tinklet/models",
      cause,
    });
  }
}

/** The server's name of the base model. */
async function baseModelOf(adapter: string): Promise<string> {
  const file = join(adapter, "adapter_config.json");
  let name: unknown;
  try {
    name = (JSON.parse(await readFile(file, "utf8")) as Record<string, unknown>)["base_model_name_or_path"];
  } catch (cause) {
    throw new TinkerError(`${adapter} is not an adapter: ${(cause as Error).message}`, {
      code: "export_failed",
      cause,
    });
  }
  if (typeof name === "string" && name !== "") return name;
  throw new InvalidInputError("baseModel", "must be set, because the adapter does not name its base model", {
    hint: ["Pass a folder, a .gguf file or a Hub name (", { name: "baseModel" }, ")."],
  });
}

/** Error codes for a base model that was not found under its name. */
const unfound = [
  "not_found",
  "no_weights",
  "no_config",
  "no_bundled_model",
  "offline",
  "unauthorized",
  "network",
  "http_status",
  "bad_response",
];

function explained(error: unknown, { base, path, isGiven }: { base: string; path: string; isGiven: boolean }): unknown {
  if (!(error instanceof Error) || error instanceof TinkerError) return error;
  const { code, hint, syscall } = error as Error & { code?: unknown; hint?: unknown; syscall?: unknown };
  if (typeof syscall === "string") return writeFailure(path, error);
  if (typeof code !== "string") return error;
  const said = typeof hint === "string" ? error.message.replace(` (${hint})`, "") : error.message;
  if (unfound.includes(code) && !isGiven) {
    return new TinkerError(
      `The base model ${JSON.stringify(base)} (the server's name) was not found on this machine: ${said}`,
      {
        code: "base_model_not_found",
        hint: [
          "Set its location (",
          { name: "baseModel" },
          "): a folder, a .gguf file or a Hub name. Format peft needs no base model.",
        ],
        cause: error,
      },
    );
  }
  return new TinkerError(said, { code: "export_failed", cause: error, ...(typeof hint === "string" && { hint }) });
}

async function bytesIn(folder: string): Promise<number> {
  const sizes = await Promise.all((await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
