/**
 * Resolves a dataset on the Hub to files on disk: the selected files are downloaded unless they are in the cache, which is shared with
 * `huggingface_hub`. If offline or if the Hub is unreachable, the cached files are used.
 */
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { OpenModelOptions } from "../weights/types.ts";
import { download } from "./download.ts";
import { hubCache } from "./hub-cache.ts";
import { hubClient, isTransient } from "./hub-client.ts";
import { HubError } from "./hub-error.ts";
import { type HubId, repositoryOf } from "./hub-id.ts";
import { hubSettings } from "./hub-settings.ts";

/** Options of {@link fetchDataset}. */
export interface FetchDatasetOptions extends Pick<OpenModelOptions, "cacheDir" | "offline" | "signal" | "onProgress"> {
  /** Selects files from the names of all files in the repository. */
  readonly select: (files: readonly string[]) => readonly string[];
}

/** A downloaded file of a dataset. */
export interface DatasetFile {
  /** Name in the repository. */
  readonly file: string;
  /** Path on disk. */
  readonly path: string;
}

/**
 * Downloads the selected files of a dataset that are not in the cache.
 *
 * @throws HubError
 */
export async function fetchDataset(id: HubId, options: FetchDatasetOptions): Promise<readonly DatasetFile[]> {
  const { select, signal, onProgress } = options;
  const dataset: HubId = { ...id, kind: "dataset" };
  const settings = hubSettings(options);
  const cache = hubCache(settings.cacheDir, dataset);
  const known = cache.knownCommit();
  const cached = async () => {
    if (known === undefined || !existsSync(cache.snapshot(known))) return undefined;
    const folder = cache.snapshot(known);
    const found = await readdir(folder, { recursive: true });
    const files = found.map((name) => name.split(sep).join("/")).filter((name) => existsSync(join(folder, name)));
    return select(files).map((file) => ({ file, path: join(folder, file) }));
  };
  if (settings.offline) {
    const files = await cached();
    if (files !== undefined) return files;
    throw new HubError("offline", `the dataset ${repositoryOf(id)} is not in the cache and downloads are disabled`, {
      hint: `unset HF_HUB_OFFLINE (or the offline option) to download it once; the cache is ${settings.cacheDir}`,
    });
  }
  const client = hubClient(dataset, settings, { signal });
  let listing: { commit: string; files: readonly string[] };
  try {
    listing = await client.listFiles();
  } catch (error) {
    const files = isTransient(error) ? await cached() : undefined;
    if (files === undefined) throw error;
    return files; // the Hub is unreachable; the cached files are complete
  }
  const { commit } = listing;
  const folder = cache.snapshot(commit);
  const files = select(listing.files.filter((file) => isInside(folder, file)));
  const sleep = (ms: number) => setTimeout(ms, undefined, { ...(signal && { signal }) });
  for (const file of files) {
    if (!existsSync(join(folder, file))) await download({ client, cache, commit, file, onProgress, signal, sleep });
  }
  await cache.saveRevision(commit);
  return files.map((file) => ({ file, path: join(folder, file) }));
}

/** Whether a file name from the Hub stays inside the folder. */
function isInside(folder: string, file: string): boolean {
  const path = relative(folder, join(folder, file));
  return path !== "" && path.split(sep).join("/") === file && !path.startsWith("..");
}
