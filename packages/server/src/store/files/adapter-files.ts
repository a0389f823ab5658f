/**
 * Writes and reads an adapter's state as files: `adapter_model.safetensors` and `adapter_config.json` in PEFT's format,
 * `optimizer.safetensors` with the moments, `state.json` with the other fields and a checksum of every file, and the empty marker
 * `checkpoint_complete`, which the official `push-hf` command requires. Values are float32 and are preserved bit for bit.
 */
import { createHash } from "node:crypto";
import { type AdapterState, yieldToEventLoop } from "@tinklet/engine";
import { decodeSafetensors, encodeSafetensors, type NamedTensor, peftFiles } from "@tinklet/models";
import { StoreError } from "../store-error.ts";
import { sha256 } from "./digest.ts";
import type { FileStore, FileToWrite } from "./file-store.ts";

/** The files of a checkpoint's archive: those that PEFT needs, and the marker. */
export const archiveFiles = ["adapter_config.json", "adapter_model.safetensors", "checkpoint_complete"] as const;

interface StateJson {
  readonly format: 1;
  readonly baseModel: string;
  readonly lora: AdapterState["lora"];
  readonly step: number;
  readonly optimizer: boolean;
  readonly sha256: Readonly<Record<string, string>>;
}

const text = (value: unknown): Uint8Array => new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);

/** Writes a state as a folder; returns its size in bytes. */
export async function writeAdapter(
  files: FileStore,
  id: string,
  state: AdapterState,
  baseModel: string,
): Promise<number> {
  await yieldToEventLoop(); // at shutdown many adapters are stored at once
  const content: FileToWrite[] = [...peftFiles(state, baseModel)];
  if (state.optimizer !== undefined) {
    const moments = (["m", "v"] as const).flatMap((kind) =>
      Object.entries(state.optimizer?.[kind] ?? {}).map(([name, data]) => ({
        name: `${kind}.${name}`,
        shape: [data.length],
        data,
      })),
    );
    content.push({ name: "optimizer.safetensors", parts: encodeSafetensors(moments) });
  }
  const digests: Record<string, string> = {};
  for (const { name, parts } of content) digests[name] = await digest(parts);
  const about: StateJson = {
    format: 1,
    baseModel,
    lora: state.lora,
    step: state.step,
    optimizer: state.optimizer !== undefined,
    sha256: digests,
  };
  content.push({ name: "state.json", parts: [text(about)] }, { name: "checkpoint_complete", parts: [] });
  return files.writeFolder(id, content);
}

/**
 * Reads a state back.
 *
 * @throws {@link StoreError} when a file's checksum does not match.
 */
export async function readAdapter(
  files: FileStore,
  id: string,
  options: { optimizer: boolean },
): Promise<AdapterState> {
  const about = JSON.parse(new TextDecoder().decode(await files.readFile(id, "state.json"))) as StateJson;
  const read = async (name: string): Promise<NamedTensor[]> => {
    const bytes = await files.readFile(id, name);
    if ((await digest([bytes])) === about.sha256[name]) return decodeSafetensors(bytes, name);
    throw damaged(id, name);
  };
  const tensors = await read("adapter_model.safetensors");
  const weights = Object.fromEntries(tensors.map(({ name, shape, data }) => [name, { shape, data }]));
  const state = { lora: about.lora, step: about.step, weights };
  if (!options.optimizer || !about.optimizer) return { ...state, step: 0 };
  const moments = { m: {} as Record<string, Float32Array>, v: {} as Record<string, Float32Array> };
  for (const { name, data } of await read("optimizer.safetensors")) {
    moments[name.startsWith("m.") ? "m" : "v"][name.slice(2)] = data;
  }
  return { ...state, optimizer: moments };
}

/**
 * Verifies the checksums of a folder, reading it in chunks. Data that the folder replaces may be deleted afterwards.
 *
 * @throws {@link StoreError} naming the file that differs.
 */
export async function verifyAdapter(files: FileStore, id: string): Promise<void> {
  const about = JSON.parse(new TextDecoder().decode(await files.readFile(id, "state.json"))) as StateJson;
  for (const [name, expected] of Object.entries(about.sha256)) {
    const hash = createHash("sha256");
    for await (const part of files.streamFile(id, name) as AsyncIterable<Uint8Array>) hash.update(part);
    if (hash.digest("hex") !== expected) throw damaged(id, name);
  }
}

const damaged = (id: string, name: string): StoreError =>
  new StoreError(
    "corrupt",
    `The stored adapter ${id} is damaged: the checksum of ${name} is wrong.`,
    "Restore the folder adapters/ from a backup, or continue from another checkpoint.",
  );

const digest = async (parts: readonly Uint8Array[]): Promise<string> => (await sha256(parts)).digest("hex");
