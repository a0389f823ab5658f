/**
 * Opens a sharded safetensors checkpoint: `model.safetensors.index.json` maps each tensor to a file. The index is verified against the
 * shards, and its file names must not leave the folder.
 */

import { join } from "node:path";
import { WeightsError } from "../errors.ts";
import { assertLittleEndian } from "./codecs.ts";
import { fileWeights } from "./file-weights.ts";
import { readSafetensorsHeader, type SafetensorsHeader } from "./safetensors.ts";
import { parseStrictJson } from "./strict-json.ts";
import type { TensorInfo, WeightSource } from "./types.ts";
import { readSmallText, WeightFile } from "./weight-file.ts";

/** Limit; the largest published indices have a few megabytes. */
const largestIndexBytes = 64 * 1024 * 1024;
/** Limit, because a process can open a limited number of files; real checkpoints have at most a few hundred shards. */
const mostShards = 1000;

/** The shard file of each tensor, each a plain name in the index's folder. @throws WeightsError naming the index. */
export function parseShardIndex(text: string, path: string): Map<string, string> {
  const refuse = (message: string, tensor?: string) =>
    new WeightsError(`${path}: ${message}`, { code: "bad_index", file: path, ...(tensor !== undefined && { tensor }) });
  let index: unknown;
  try {
    index = parseStrictJson(text);
  } catch (cause) {
    throw refuse(`not valid JSON: ${(cause as Error).message}`);
  }
  const map = (index as { weight_map?: unknown } | null)?.weight_map;
  if (typeof map !== "object" || map === null || Array.isArray(map)) throw refuse("it has no weight_map");
  const files = new Map<string, string>();
  for (const [name, file] of Object.entries(map)) {
    // Only a plain file name: no path separators of any OS, no drive letter, no leading dot.
    if (typeof file !== "string" || !/^[A-Za-z0-9_][A-Za-z0-9_.-]*\.safetensors$/.test(file)) {
      throw refuse(
        `tensor ${name} must be in a .safetensors file of the same folder, got ${JSON.stringify(file)}`,
        name,
      );
    }
    files.set(name, file);
  }
  if (files.size === 0) throw refuse("its weight_map is empty");
  if (new Set(files.values()).size > mostShards) throw refuse(`it must name at most ${mostShards} files`);
  return files;
}

/** Opens every shard of the index in `folder`. */
export function openShards(folder: string, indexName = "model.safetensors.index.json"): WeightSource {
  assertLittleEndian();
  const indexPath = join(folder, indexName);
  const weightMap = parseShardIndex(readSmallText(indexPath, largestIndexBytes), indexPath);
  const files = new Map<string, WeightFile>();
  try {
    const headers = new Map<string, SafetensorsHeader>();
    for (const shard of new Set(weightMap.values())) {
      const file = new WeightFile(join(folder, shard));
      files.set(file.path, file);
      headers.set(shard, readSafetensorsHeader(file));
    }
    refuseRepeats(headers, indexPath);
    const tensors = new Map<string, TensorInfo>();
    const unreadable = new Map<string, { dtype: string; file: string }>();
    for (const [name, shard] of weightMap) {
      const header = headers.get(shard) as SafetensorsHeader;
      const info = header.tensors.get(name);
      const other = header.unreadable.get(name);
      if (info) tensors.set(name, info);
      else if (other) unreadable.set(name, other);
      else {
        throw new WeightsError(`${indexPath} says that tensor ${name} is in ${shard}, but it is not`, {
          code: "bad_index",
          tensor: name,
          file: join(folder, shard),
        });
      }
    }
    return fileWeights({ files, tensors, unreadable });
  } catch (error) {
    for (const file of files.values()) file.close();
    throw error;
  }
}

/** Rejects a tensor that is in two shards, since the correct one is ambiguous. */
function refuseRepeats(headers: ReadonlyMap<string, SafetensorsHeader>, indexPath: string): void {
  const home = new Map<string, string>();
  for (const [shard, header] of headers) {
    for (const name of [...header.tensors.keys(), ...header.unreadable.keys()]) {
      const first = home.get(name);
      if (first !== undefined) {
        throw new WeightsError(`tensor ${name} is both in ${first} and in ${shard}`, {
          code: "duplicate_tensor",
          tensor: name,
          file: indexPath,
        });
      }
      home.set(name, shard);
    }
  }
}
