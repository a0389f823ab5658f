/**
 * Brings a checkpoint's files into a folder. The service offers them in two ways: packed into one archive (until 0.34, and our
 * own server), and file by file, as external weights (the official client since 0.28). The archive comes first: an export needs a
 * model that loads the weights, which servers list as a training run. Where archives are off, training weights are exported, and for
 * sampler weights, which cannot be exported, their training half is. Node only, loaded when first needed.
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

/** How a checkpoint is fetched. */
export interface CheckpointFetching extends Fetching {
  readonly rest: RestClient;
  /** Opens training weights, for exporting them. */
  readonly openTraining: (path: string) => PromiseLike<Pick<TrainingClient, "saveWeightsExternal">>;
}

/** How long an export that is only made for a download lives, should its deletion fail. */
const exportSeconds = 3600;

/**
 * Fetches a checkpoint into `target`, which a download that breaks off leaves as it was.
 *
 * @param target - made; an empty folder, or one with nothing but the files of a checkpoint, is replaced.
 * @param parent - a folder on the same disk, for what is on its way.
 * @returns how many bytes came.
 * @throws {@link InvalidInputError} when `target` holds anything else, before anything is fetched.
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

/** Fetches a checkpoint into a folder that need not be there yet. */
export async function fetchCheckpointInto(path: string, folder: string, how: CheckpointFetching): Promise<number> {
  const target = resolve(folder);
  await mkdir(dirname(target), { recursive: true });
  return fetchCheckpoint(path, target, dirname(target), how);
}

/** Unpacks an archive beside the target and moves it there. */
export function fetchInto(url: string, target: string, parent: string, context: Fetching): Promise<number> {
  return replacing(target, parent, async (scratch, files) => {
    const bytes = await downloadFile(url, join(scratch, "archive.tar"), "archive", context);
    await unpackTar(join(scratch, "archive.tar"), files, context);
    return bytes;
  });
}

/** Whether an answer means that the server has no such route, or no longer. */
const isLacking = (error: unknown): boolean =>
  error instanceof APIStatusError && [400, 404, 405, 410, 501].includes(error.status);

/** Exports training weights for the time of a download; `undefined` when the server knows no exports. */
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
    // it expires by itself; failing to delete it must not hide what came before
    await rest.deleteCheckpointFromTinkerPath(exported, { timeoutMs: 30_000 }).catch(() => {});
  }
}

/** Fetches an external checkpoint, file by file. */
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
        throw downloadError(`The checkpoint has a file that leads out of its folder (${name}) and was not fetched.`);
      }
      // Links live shorter than a large download takes: each file gets a fresh one.
      const url = (await rest.getExternalWeightsUrls(path, call)).urls[name];
      if (url === undefined) throw downloadError(`The file ${name} of ${path} is gone.`);
      await mkdir(dirname(file), { recursive: true });
      bytes += await downloadFile(url, file, name, context);
    }
    return bytes;
  });
}

/** The training weights that were saved under the name of sampler weights. */
async function trainingHalf(path: string, { signal, rest }: CheckpointFetching): Promise<string | undefined> {
  const { trainingRunId, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(path);
  const twin = `tinker://${trainingRunId}/${checkpointId.replace(/^sampler_/, "")}`;
  const { checkpoints } = await rest.listCheckpoints(trainingRunId, omitUndefined({ signal }));
  return checkpoints.some(({ tinkerPath }) => tinkerPath === twin) ? twin : undefined;
}

/** The files that checkpoints have. Anything else in a folder is the user's. */
const checkpointFiles =
  /^(adapter_config\.json|adapter_model(-\d+-of-\d+)?\.(safetensors|bin)|adapter_model\.(safetensors|bin)\.index\.json|checkpoint_complete)$/;

/** Refuses a target that holds anything but the files of a checkpoint: replacing it would delete that. */
async function checkReplaceable(target: string): Promise<void> {
  const entries = await readdir(target, { withFileTypes: true }).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === "ENOENT") return [];
    const hint = "Choose another folder, or one that is not there yet.";
    throw new InvalidInputError("folder", `${target} cannot be replaced: ${cause.message}`, { hint, cause });
  });
  const foreign = entries.filter((entry) => !entry.isFile() || !checkpointFiles.test(entry.name));
  const [first] = foreign.map((entry) => (entry.isDirectory() ? `${entry.name}${sep}` : entry.name)).toSorted();
  if (first === undefined) return;
  throw new InvalidInputError(
    "folder",
    `${target} has ${first} in it, which is no file of a checkpoint and would be deleted with the folder`,
    {
      hint: `Choose a folder that is not there yet, for example ${join(target, "checkpoint")}, or move ${first} away.`,
    },
  );
}

/** Fills a folder beside the target and moves it there: what was there goes only when the new one is in its place. */
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
    await checkReplaceable(target); // files may have come while it was on its way
    if (existsSync(target)) await rename(target, before);
    await rename(files, target).catch(async (cause: Error) => {
      if (!existsSync(before)) throw cause;
      await rename(before, target).catch(() => {
        onlyCopy = true;
        throw new TinkerError(`${target} could not be replaced: ${cause.message}`, {
          code: "write_failed",
          hint: `What was there is in ${before}, the new files in ${files}: move one of them to ${target}.`,
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
