/**
 * Resolves a model on the Hub to files on disk: selects the files of the repository that belong to the model and downloads those that are
 * not in the cache. If offline or if the Hub is unreachable, a model that is complete in the cache is used.
 */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseShardIndex } from "../weights/shards.ts";
import type { OpenModelOptions } from "../weights/types.ts";
import { readSmallText } from "../weights/weight-file.ts";
import { download } from "./download.ts";
import { type HubCache, hubCache } from "./hub-cache.ts";
import { hubClient, isTransient } from "./hub-client.ts";
import { HubError } from "./hub-error.ts";
import { type HubId, repositoryOf } from "./hub-id.ts";
import { hubSettings } from "./hub-settings.ts";

const singleFile = "model.safetensors";
const indexFile = "model.safetensors.index.json";
const largestIndexBytes = 64 * 1024 * 1024;
/** Files besides the weights; only the first one is required. */
const settingsFiles = [
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
];

/** Injectable dependencies for tests. */
interface FetchDependencies {
  readonly sleep?: (ms: number) => Promise<void>;
}

/**
 * Downloads a model into the cache, if needed.
 * @returns the snapshot folder, or the path of the GGUF file.
 * @throws HubError
 */
export async function fetchModel(
  id: HubId,
  options: OpenModelOptions = {},
  seams: FetchDependencies = {},
): Promise<string> {
  const settings = hubSettings(options);
  const { signal, onProgress } = options;
  const cache = hubCache(settings.cacheDir, id);
  const cached = completeInCache(id, cache);
  const isPinned = /^[0-9a-f]{40}$/.test(id.revision); // a commit is immutable: no request needed
  if (cached !== undefined && (settings.offline || isPinned)) return cached;
  if (settings.offline) {
    throw new HubError("offline", `${describe(id)} is not complete in the cache and downloads are disabled`, {
      hint: `unset HF_HUB_OFFLINE (or the offline option) to download it once; the cache is ${settings.cacheDir}`,
    });
  }

  const client = hubClient(id, settings, { signal });
  const sleep = seams.sleep ?? ((ms: number) => setTimeout(ms, undefined, { ...(signal && { signal }) }));
  let listing: { commit: string; files: readonly string[] };
  try {
    listing = await client.listFiles();
  } catch (error) {
    if (cached !== undefined && isTransient(error)) return cached; // the Hub is unreachable; the cached model is complete
    throw error;
  }
  const { commit, files } = listing;
  const fetchFile = (file: string) => download({ client, cache, commit, file, onProgress, signal, sleep });

  for (const file of settingsFiles) {
    if (id.file !== undefined) break;
    if (files.includes(file)) await fetchFile(file);
    else await cache.cacheText(commit, file, undefined); // so that later calls send no request for it
  }
  const weights = weightFiles(id, files);
  for (const file of weights) await fetchFile(file);
  if (weights.includes(indexFile)) for (const shard of shardsOf(cache.snapshot(commit))) await fetchFile(shard);
  await cache.saveRevision(commit);
  return result(cache.snapshot(commit), weights);
}

/** The weight files among the files of the repository. */
function weightFiles(id: HubId, files: readonly string[]): readonly string[] {
  if (id.file !== undefined) {
    if (!files.includes(id.file)) {
      throw new HubError("not_found", `${repositoryOf(id)} has no file ${id.file}`, { hint: ggufHint(id, files) });
    }
    return [id.file];
  }
  if (files.includes(singleFile)) return [singleFile];
  if (files.includes(indexFile)) return [indexFile];
  const ggufs = files.filter((file) => file.endsWith(".gguf"));
  if (ggufs.length === 1 && !(ggufs[0] as string).includes("/")) return ggufs;
  throw new HubError("not_found", `${repositoryOf(id)} has no safetensors weights and not exactly one GGUF file`, {
    hint: ggufHint(id, files),
  });
}

function ggufHint(id: HubId, files: readonly string[]): string {
  const ggufs = files.filter((file) => /^[^/]+\.gguf$/.test(file));
  if (ggufs.length === 0) return "only safetensors and GGUF files are supported";
  return `name one: ${ggufs
    .slice(0, 8)
    .map((file) => `${repositoryOf(id)}:${file}`)
    .join(", ")}`;
}

/** Path of the model in the cache, if all its files are there. */
export function completeInCache(id: HubId, cache: HubCache): string | undefined {
  const commit = cache.knownCommit();
  if (commit === undefined || !existsSync(cache.snapshot(commit))) return undefined;
  const folder = cache.snapshot(commit);
  try {
    const files = readdirSync(folder).filter((file) => existsSync(join(folder, file))); // skips broken links
    const weights = weightFiles(id, files);
    const needed = weights.includes(indexFile) ? shardsOf(folder) : [];
    const isGguf = weights.some((file) => file.endsWith(".gguf"));
    const isComplete = (isGguf || files.includes("config.json")) && needed.every((file) => files.includes(file));
    return isComplete ? result(folder, weights) : undefined;
  } catch {
    return undefined; // missing or unreadable files: not a complete model
  }
}

function shardsOf(folder: string): readonly string[] {
  const path = join(folder, indexFile);
  return [...new Set(parseShardIndex(readSmallText(path, largestIndexBytes), path).values())];
}

function result(folder: string, weights: readonly string[]): string {
  const gguf = weights.find((file) => file.endsWith(".gguf"));
  return gguf === undefined ? folder : join(folder, gguf);
}

function describe(id: HubId): string {
  return `${repositoryOf(id)} at ${id.revision}${id.file ? ` (${id.file})` : ""}`;
}
