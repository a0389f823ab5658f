/** The error for a run whose last checkpoint is no longer on the server, with the ways to continue. */
import { join } from "node:path";
import { APIStatusError, type Hint, RequestFailedError } from "@tinklet/sdk";
import type { Service, Trainer } from "../clients.ts";
import { DataError } from "../data/data-error.ts";
import type { CheckpointRecord, RunFolder } from "./run-folder.ts";

/** Whether a checkpoint could not be loaded because there is none. */
export function isGone(error: unknown): boolean {
  if (error instanceof APIStatusError) return error.status === 404 || error.status === 410;
  return error instanceof RequestFailedError && /not found|no such|there is no|expired|deleted/i.test(error.message);
}

/** @param lost - the checkpoint that was to be loaded */
export async function lostCheckpoint(
  lost: CheckpointRecord & { readonly state_path: string },
  { run, service }: { readonly run: RunFolder; readonly service: Service },
  cause: unknown,
): Promise<DataError> {
  const older = (await run.readCheckpoints()).filter(
    ({ state_path = lost.state_path }) => state_path !== lost.state_path,
  );
  const left = await lastThere(older, service);
  const why = "It has expired (those in the middle of a run are kept for 7 days), or was deleted,";
  const hint: Hint =
    left === undefined
      ? [
          `${why} or this is not the server, account or data folder that has it (`,
          { name: "dataDir" },
          "): this server has no checkpoint of this run. Use the server or data folder that has it, or train from the start in another folder (",
          { name: "folder" },
          ").",
        ]
      : [
          `${why} and ${left.name} is the latest that still exists: delete the lines after it in ${join(run.path, "checkpoints.jsonl")} to resume from it, or train from the start in another folder (`,
          { name: "folder" },
          "), with its weights (",
          { name: "from" },
          ` ${JSON.stringify(left.state_path)}) or without.`,
        ];
  const problem = `cannot resume: the server has no checkpoint ${lost.state_path} (${lost.name}), which is the last of this run`;
  return new DataError({ file: run.path }, problem, { hint, cause });
}

/** The last of these checkpoints that the server still has, where it can be asked. */
async function lastThere(
  records: readonly CheckpointRecord[],
  service: Service,
): Promise<CheckpointRecord | undefined> {
  const rest = service.createRestClient?.();
  if (rest === undefined) return undefined;
  for (const record of records.toReversed()) {
    const { state_path: path } = record;
    if (path !== undefined && (await isThere(() => rest.getWeightsInfoByTinkerPath(path)))) return record;
  }
  return undefined;
}

async function isThere(ask: () => PromiseLike<unknown>): Promise<boolean> {
  try {
    await ask();
    return true;
  } catch {
    return false;
  }
}

/** A checkpoint that can be trained on. */
export type TrainableRecord = CheckpointRecord & { readonly state_path: string };

/**
 * A trainer from the newest checkpoint that the server has.
 *
 * @param create - makes a trainer from the path of a checkpoint
 * @returns the trainer, if a checkpoint could be loaded, and the checkpoints that no longer exist
 */
export async function newestTrainer(
  { run, service }: { readonly run: RunFolder; readonly service: Service },
  create: (path: string) => PromiseLike<Trainer>,
): Promise<{ trainer?: Trainer; resumeFrom?: TrainableRecord; gone: TrainableRecord[] }> {
  const records = (await run.readCheckpoints()).filter((one): one is TrainableRecord => one.state_path !== undefined);
  const gone: TrainableRecord[] = [];
  for (const resumeFrom of records.toReversed()) {
    const { state_path: path } = resumeFrom;
    try {
      return { trainer: await create(path), resumeFrom, gone };
    } catch (error) {
      // A session, a model or the whole server may be gone as well: only the server's word on this checkpoint counts.
      if (!isGone(error) || !(await isConfirmed(path, service))) throw error;
      gone.push(resumeFrom);
    }
  }
  return { gone };
}

/** Whether the server says that it does not have a checkpoint; true where it cannot be asked. */
async function isConfirmed(path: string, service: Service): Promise<boolean> {
  const rest = service.createRestClient?.();
  if (rest === undefined) return true;
  try {
    await rest.getWeightsInfoByTinkerPath(path);
    return false;
  } catch (error) {
    return isGone(error);
  }
}
