/**
 * Downloads a checkpoint's files to a folder. Servers offer two ways: one archive (until 0.34, and Tinklet servers), and single files as
 * external weights (since 0.28). The archive is tried first, because an export needs a model that loads the weights, which servers list
 * as a training run. Without archives, training weights are exported; for sampler weights, which cannot be exported, the training weights
 * of the same name are. Node only, loaded when first needed.
 */

import { ParsedCheckpointTinkerPath } from "@tinklet/wire/client";
import { APIStatusError, InvalidInputError, TinkerError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { nodeBuiltin } from "../../node-builtin.ts";
import type { RestClient } from "../rest/rest-client.ts";
import type { TrainingClient } from "../training/training-client.ts";
import { downloadError, downloadFile, type Fetching, unpackTar } from "./download.node.ts";

const { existsSync } = nodeBuiltin<typeof import("node:fs")>("node:fs");
const { mkdir, mkdtemp, readdir, rename, rm } = nodeBuiltin<typeof import("node:fs/promises")>("node:fs/promises");
const { dirname, join, resolve, sep } = nodeBuiltin<typeof import("node:path")>("node:path");

/** Options of downloading a checkpoint. */
export interface CheckpointFetching extends Fetching {
  readonly rest: RestClient;
  /** Creates a training client from training weights, to export them. */
  readonly openTraining: (path: string) => PromiseLike<Pick<TrainingClient, "saveWeightsExternal">>;
}

/** Time to live of an export made for a download, in case its deletion fails. */
const exportSeconds = 3600;

/**
 * Downloads a checkpoint to `target`. A failed download leaves `target` unchanged.
 *
 * @param target - created; an empty folder, or one that contains only the files of a checkpoint, is replaced.
 * @param parent - a folder on the same disk, for temporary files.
 * @returns the number of bytes received.
 * @throws {@link InvalidInputError} when `target` contains other files, before any download.
 */
export async function fetchCheckpoint(
  path: string,
  target: string,
  parent: string,
  context: CheckpointFetching,
): Promise<number> {
  const { checkpointType } = ParsedCheckpointTinkerPath.fromTinkerPath(path);
  const { signal, rest } = context;
  const call = omitUndefined({ signal });
  await checkReplaceable(target);
  if (checkpointType === "external") return fetchExternal(path, target, parent, context);
  let url: string;
  try {
    ({ url } = await rest.getCheckpointArchiveUrlFromTinkerPath(path, call));
  } catch (error) {
    if (!isLacking(error)) throw error;
    const exportable = checkpointType === "training" ? path : await trainingHalf(path, context);
    const bytes = exportable === undefined ? undefined : await fetchExported(exportable, target, parent, context);
    if (bytes !== undefined) return bytes;
    throw error;
  }
  return fetchInto(url, target, parent, context);
}

/** Downloads a checkpoint to a folder, which is created if it does not exist. */
export async function fetchCheckpointInto(path: string, folder: string, how: CheckpointFetching): Promise<number> {
  const target = resolve(folder);
  await mkdir(dirname(target), { recursive: true });
  return fetchCheckpoint(path, target, dirname(target), how);
}

/** Downloads and unpacks an archive next to the target, then moves it to the target. */
export function fetchInto(url: string, target: string, parent: string, context: Fetching): Promise<number> {
  return replacing(target, parent, async (scratch, files) => {
    const bytes = await downloadFile(url, join(scratch, "archive.tar"), "archive", context);
    await unpackTar(join(scratch, "archive.tar"), files, context);
    return bytes;
  });
}

/** Whether an error means that the server does not have the route. */
const isLacking = (error: unknown): boolean =>
  error instanceof APIStatusError && [400, 404, 405, 410, 501].includes(error.status);

/** Exports training weights, downloads and deletes the export; `undefined` if the server has no exports. */
async function fetchExported(
  path: string,
  target: string,
  parent: string,
  context: CheckpointFetching,
): Promise<number | undefined> {
  const { signal, rest, openTraining } = context;
  const call = omitUndefined({ signal });
  const trainer = await openTraining(path);
  let exported: string;
  try {
    ({ path: exported } = await trainer.saveWeightsExternal("download", { ttlSeconds: exportSeconds, ...call }));
  } catch (error) {
    if (isLacking(error)) return undefined;
    throw error;
  }
  try {
    return await fetchExternal(exported, target, parent, context);
  } finally {
    // The export expires anyway; a failed deletion must not hide an earlier error.
    await rest.deleteCheckpointFromTinkerPath(exported, { timeoutMs: 30_000 }).catch(() => {});
  }
}

/** Downloads an external checkpoint file by file. */
function fetchExternal(path: string, target: string, parent: string, context: CheckpointFetching): Promise<number> {
  const { signal, rest } = context;
  const call = omitUndefined({ signal });
  return replacing(target, parent, async (_, files) => {
    let bytes = 0;
    const names = Object.keys((await rest.getExternalWeightsUrls(path, call)).urls);
    if (names.length === 0) throw downloadError(`The checkpoint ${path} has no files.`);
    for (const name of names) {
      const file = resolve(files, name);
      if (!file.startsWith(resolve(files) + sep)) {
        throw downloadError(
          `The checkpoint has a file with a path outside its folder (${name}) and was not downloaded.`,
        );
      }
      // Links expire faster than a large download, so each file gets a new one.
      const url = (await rest.getExternalWeightsUrls(path, call)).urls[name];
      if (url === undefined) throw downloadError(`The file ${name} of ${path} no longer exists.`);
      await mkdir(dirname(file), { recursive: true });
      bytes += await downloadFile(url, file, name, context);
    }
    return bytes;
  });
}

/** The training weights with the same name as sampler weights, if they exist. */
async function trainingHalf(path: string, { signal, rest }: CheckpointFetching): Promise<string | undefined> {
  const { trainingRunId, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(path);
  const twin = `tinker://${trainingRunId}/${checkpointId.replace(/^sampler_/, "")}`;
  const { checkpoints } = await rest.listCheckpoints(trainingRunId, omitUndefined({ signal }));
  return checkpoints.some(({ tinkerPath }) => tinkerPath === twin) ? twin : undefined;
}

/** The files of checkpoints. Other files in a folder belong to the user. */
const checkpointFiles =
  /^(adapter_config\.json|adapter_model(-\d+-of-\d+)?\.(safetensors|bin)|adapter_model\.(safetensors|bin)\.index\.json|checkpoint_complete)$/;

/** Throws if the target contains files that do not belong to a checkpoint, because replacing the folder would delete them. */
async function checkReplaceable(target: string): Promise<void> {
  const entries = await readdir(target, { withFileTypes: true }).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === "ENOENT") return [];
    const hint = "Choose another folder, or one that does not exist yet.";
    throw new InvalidInputError("folder", `${target} cannot be replaced: ${cause.message}`, { hint, cause });
  });
  const foreign = entries.filter((entry) => !entry.isFile() || !checkpointFiles.test(entry.name));
  const [first] = foreign.map((entry) => (entry.isDirectory() ? `${entry.name}${sep}` : entry.name)).toSorted();
  if (first === undefined) return;
  throw new InvalidInputError(
    "folder",
    `${target} contains ${first}, which is not a checkpoint file and would be deleted with the folder`,
    {
      hint: `Choose a folder that does not exist yet, for example ${join(target, "checkpoint")}, or move ${first}.`,
    },
  );
}

/** Fills a folder next to the target and moves it to the target. The old folder is deleted after the new one is in place. */
async function replacing(
  target: string,
  parent: string,
  fill: (scratch: string, files: string) => Promise<number>,
): Promise<number> {
  const scratch = await mkdtemp(join(parent, ".tinklet-"));
  const [files, before] = [join(scratch, "files"), join(scratch, "before")];
  let onlyCopy = false;
  try {
    const bytes = await fill(scratch, files);
    await checkReplaceable(target); // files may have been added during the download
    if (existsSync(target)) await rename(target, before);
    await rename(files, target).catch(async (cause: Error) => {
      if (!existsSync(before)) throw cause;
      await rename(before, target).catch(() => {
        onlyCopy = true;
        throw new TinkerError(`${target} could not be replaced: ${cause.message}`, {
          code: "write_failed",
          hint: `The previous files are in ${before}, the new files in ${files}: move one of these folders to ${target}.`,
          cause,
        });
      });
      throw cause;
    });
    return bytes;
  } finally {
    if (!onlyCopy) await rm(scratch, { recursive: true, force: true });
  }
}
