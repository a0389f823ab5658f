/**
 * From the name of a dataset on the Hub to files on disk: those of its files that are wanted, fetched if they are not in the cache, which
 * is `huggingface_hub`'s own. Offline, or with the Hub out of reach, what is in the cache is used.
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
  /** Chooses the files, out of the names of all that there are. */
  readonly select: (files: readonly string[]) => readonly string[];
}

/** A file of a dataset. */
export interface DatasetFile {
  /** Its name in the repository. */
  readonly file: string;
  /** Where it is on disk. */
  readonly path: string;
}

/**
 * Makes files of a dataset present in the cache.
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
    throw new HubError("offline", `the dataset ${repositoryOf(id)} is not in the cache and downloads are off`, {
      hint: `unset HF_HUB_OFFLINE (or the offline option) to fetch it once; the cache is ${settings.cacheDir}`,
    });
  }
  const client = hubClient(dataset, settings, { signal });
  let listing: { commit: string; files: readonly string[] };
  try {
    listing = await client.listFiles();
  } catch (error) {
    const files = isTransient(error) ? await cached() : undefined;
    if (files === undefined) throw error;
    return files; // the Hub is out of reach; what we have is whole
  }
  const { commit } = listing;
  const folder = cache.snapshot(commit);
  const files = select(listing.files.filter((file) => isInside(folder, file)));
  const sleep = (ms: number) => setTimeout(ms, undefined, { ...(signal && { signal }) });
  for (const file of files) {
    if (!existsSync(join(folder, file))) await download({ client, cache, commit, file, onProgress, signal, sleep });
  }
  await cache.remember(commit);
  return files.map((file) => ({ file, path: join(folder, file) }));
}

/** Whether a name that the Hub gave stays in the folder. */
function isInside(folder: string, file: string): boolean {
  const path = relative(folder, join(folder, file));
  return path !== "" && path.split(sep).join("/") === file && !path.startsWith("..");
}
