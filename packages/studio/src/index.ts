/** `@tinklet/studio`: the built page of the local server, and a reader for the run folders that it shows. */
import type { Studio } from "@tinklet/wire";
import { loadPage } from "./page-files.ts";
import { runFolders } from "./run-folders.ts";

/** Options of {@link openStudio}. */
export interface StudioOptions {
  /** Run folders, or folders that contain run folders. @defaultValue none */
  readonly runs?: readonly string[];
}

/**
 * Opens the studio for a server.
 *
 * @throws Error if one of the paths is not a folder, or the page was not built.
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
