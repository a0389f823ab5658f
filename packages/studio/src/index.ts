/** `@tinklet/studio`: the page of the local server, shipped built, and the folders of runs that it shows. This file alone decides what is public. */
import type { Studio } from "@tinklet/server";
import { loadPage } from "./page-files.ts";
import { runFolders } from "./run-folders.ts";

/** Options of {@link openStudio}. */
export interface StudioOptions {
  /** Folders of runs, or folders that hold such folders. @defaultValue none */
  readonly runs?: readonly string[];
}

/**
 * Opens the studio for a server.
 *
 * @throws Error when one of the folders is none, or the page was not built.
 *
 * @example
 * ```ts
 * await using server = await serve({ models: await resolveModels([]), studio: await openStudio({ runs: ["runs"] }) });
 * console.log(server.studioUrl());
 * ```
 */
export async function openStudio(options: StudioOptions = {}): Promise<Studio> {
  const files = await loadPage();
  const { runs = [] } = options;
  return { file: (path) => files.get(path), folders: runs.length === 0 ? undefined : await runFolders(runs) };
}
