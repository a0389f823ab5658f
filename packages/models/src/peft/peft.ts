/**
 * Reads and writes folders with an adapter in PEFT's format; the format itself is in `peft-format.ts`. `adapter-names.ts` changes a folder
 * to the Tinker service's name of the unembedding and back.
 */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { WeightsError } from "../errors.ts";
import { openSafetensors } from "../weights/open-safetensors.ts";
import { readSmallText } from "../weights/weight-file.ts";
import { writeSafetensors } from "../weights/write-safetensors.ts";
import { writeTextAtomically } from "../write-text.ts";
import {
  configFile,
  type PeftAdapter,
  type PeftBase,
  type PeftState,
  peftBounds,
  peftConfig,
  readPeftConfig,
  readPeftTensors,
  weightsFile,
} from "./peft-format.ts";

/** Limit of the configuration's size in bytes if no base model is given. */
const defaultConfigBytes = 16 * 1024 * 1024;

/** Writes a PEFT folder; creates the folder if needed. */
export async function writePeft(folder: string, adapter: PeftAdapter, baseModel: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeSafetensors(
    join(folder, weightsFile),
    Object.entries(adapter.weights).map(([name, { data, shape }]) => ({ name, dtype: "F32" as const, shape, data })),
    { format: "pt" },
  );
  await writeTextAtomically(join(folder, configFile), peftConfig(adapter, baseModel));
}

/**
 * Reads a PEFT folder. The adapted modules are determined from the tensors, since `target_modules` may be a pattern. They may be fewer than
 * the engine adapts by default (often only q and v); the engine adds the missing ones.
 *
 * @param base - the base model; files that cannot be an adapter of it are rejected before they are read. Omit it only for trusted folders.
 * @throws ConfigError for settings that are not supported (DoRA, rank-stabilised scaling, per-module ranks, biases); WeightsError for
 *   files that are damaged, too large, or belong to another model.
 */
export async function readPeft(folder: string, base?: PeftBase): Promise<PeftState> {
  const bounds = base === undefined ? undefined : peftBounds(base);
  if (!existsSync(join(folder, configFile))) {
    throw new WeightsError(`${folder} has no ${configFile}`, { code: "no_adapter", file: folder });
  }
  const text = readSmallText(join(folder, configFile), bounds?.configBytes ?? defaultConfigBytes);
  const settings = readPeftConfig(text);
  return readPeftTensors(openSafetensors(join(folder, weightsFile), bounds?.headerBytes), settings, base);
}
