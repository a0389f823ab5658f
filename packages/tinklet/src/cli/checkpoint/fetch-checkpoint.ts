/** Brings a checkpoint's files into a folder, with progress on the terminal. */

import type { RestClient } from "@tinklet/sdk";
import { type CheckpointFetching, fetchCheckpoint as fetchFiles, fetchInto as unpackInto } from "@tinklet/sdk/files";
import type { Context } from "../context.ts";
import { showProgress } from "./download.ts";

/**
 * Fetches a checkpoint into `target`, which a download that breaks off leaves as it was.
 *
 * @param parent - a folder on the same disk, for what is on its way.
 * @returns how many bytes came.
 */
export async function fetchCheckpoint(
  path: string,
  target: string,
  parent: string,
  context: Context,
  rest: RestClient,
): Promise<number> {
  return fetchFiles(path, target, parent, fetchingOf(context, rest)).finally(() => context.output.endProgress());
}

/** How files of checkpoints are fetched, with progress on the terminal. */
export function fetchingOf(context: Context, rest: RestClient): CheckpointFetching {
  const { signal, fetch, output } = context;
  const openTraining = async (from: string) => {
    output.progress(`Exporting ${from}`);
    return (await context.service()).createTrainingClientFromState(from, { signal });
  };
  return { signal, fetch, rest, openTraining, onProgress: showProgress(context) };
}

/** Unpacks an archive beside the target and moves it there. */
export function fetchInto(url: string, target: string, parent: string, context: Context): Promise<number> {
  const { signal, fetch } = context;
  return unpackInto(url, target, parent, { signal, fetch, onProgress: showProgress(context) });
}
