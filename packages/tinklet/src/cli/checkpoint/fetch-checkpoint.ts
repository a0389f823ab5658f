/** Downloads a checkpoint's files into a folder and shows the progress. */

import type { RestClient } from "@tinklet/sdk";
import { type CheckpointFetching, fetchCheckpoint as fetchFiles, fetchInto as unpackInto } from "@tinklet/sdk/files";
import type { Context } from "../context.ts";
import { showProgress } from "./download.ts";

/**
 * Downloads a checkpoint into `target`. An interrupted download leaves `target` unchanged.
 *
 * @param parent - a folder on the same disk, for temporary files
 * @returns the number of bytes
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

/** Options for downloading a checkpoint's files, with a progress listener. */
export function fetchingOf(context: Context, rest: RestClient): CheckpointFetching {
  const { signal, fetch, output } = context;
  const openTraining = async (from: string) => {
    output.progress(`Exporting ${from}`);
    return (await context.service()).createTrainingClientFromState(from, { signal });
  };
  return { signal, fetch, rest, openTraining, onProgress: showProgress(context) };
}

/** Unpacks an archive into a temporary folder and renames it to `target`. */
export function fetchInto(url: string, target: string, parent: string, context: Context): Promise<number> {
  const { signal, fetch } = context;
  return unpackInto(url, target, parent, { signal, fetch, onProgress: showProgress(context) });
}
