/**
 * An adapter's state as files, and back: `adapter_model.safetensors` and `adapter_config.json` exactly as PEFT reads them,
 * `optimizer.safetensors` with the moments, `state.json` with the rest and a checksum of every file, and the empty marker
 * `checkpoint_complete` that the official `push-hf` command looks for. Values are float32 and survive bit for bit.
 */
import { createHash } from "node:crypto";
import type { AdapterState } from "@tinklet/engine";
import type { FileStore, FileToWrite } from "./file-store.ts";
import { StoreError } from "./store-error.ts";

/** The files of a checkpoint's archive: what PEFT needs, and the marker. */
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
  const weights = safetensors(
    Object.entries(state.weights).map(([name, { data, shape }]) => ({ name, shape, data })),
    { format: "pt" },
  );
  const content: FileToWrite[] = [
    { name: "adapter_config.json", parts: [text(peftConfig(state, baseModel))] },
    { name: "adapter_model.safetensors", parts: weights },
  ];
  if (state.optimizer !== undefined) {
    const moments = (["m", "v"] as const).flatMap((kind) =>
      Object.entries(state.optimizer?.[kind] ?? {}).map(([name, data]) => ({
        name: `${kind}.${name}`,
        shape: [data.length],
        data,
      })),
    );
    content.push({ name: "optimizer.safetensors", parts: safetensors(moments) });
  }
  const about: StateJson = {
    format: 1,
    baseModel,
    lora: state.lora,
    step: state.step,
    optimizer: state.optimizer !== undefined,
    sha256: Object.fromEntries(content.map(({ name, parts }) => [name, digest(parts)])),
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
  const verified = async (name: string): Promise<Uint8Array> => {
    const bytes = await files.readFile(id, name);
    if (digest([bytes]) === about.sha256[name]) return bytes;
    throw new StoreError(
      "corrupt",
      `The stored adapter ${id} is damaged: ${name} does not have its checksum.`,
      "Restore the folder adapters/ from a backup, or go on from another checkpoint.",
    );
  };
  const tensors = readSafetensors(await verified("adapter_model.safetensors"));
  const weights = Object.fromEntries(tensors.map(({ name, shape, data }) => [name, { shape, data }]));
  const state = { lora: about.lora, step: about.step, weights };
  if (!options.optimizer || !about.optimizer) return { ...state, step: 0 };
  const moments = { m: {} as Record<string, Float32Array>, v: {} as Record<string, Float32Array> };
  for (const { name, data } of readSafetensors(await verified("optimizer.safetensors"))) {
    moments[name.startsWith("m.") ? "m" : "v"][name.slice(2)] = data;
  }
  return { ...state, optimizer: moments };
}

/** The configuration that PEFT loads the adapter with. Target modules are those that have weights. */
function peftConfig(state: AdapterState, baseModel: string): Record<string, unknown> {
  const modules = new Set<string>();
  for (const name of Object.keys(state.weights)) {
    const match = /([^.]+)\.lora_[AB]\.weight$/.exec(name);
    if (match !== null) modules.add(match[1]!);
  }
  return {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: baseModel,
    r: state.lora.rank,
    lora_alpha: state.lora.alpha,
    lora_dropout: 0,
    target_modules: [...modules].sort(),
    bias: "none",
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: null,
    use_rslora: false,
  };
}

interface NamedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

function safetensors(tensors: readonly NamedTensor[], metadata?: Record<string, string>): Uint8Array[] {
  const header: Record<string, unknown> = metadata === undefined ? {} : { __metadata__: metadata };
  let end = 0;
  for (const { name, shape, data } of tensors) {
    header[name] = { dtype: "F32", shape, data_offsets: [end, end + data.byteLength] };
    end += data.byteLength;
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const head = new Uint8Array(8 + Math.ceil(json.length / 8) * 8).fill(0x20); // values begin at a multiple of 8
  new DataView(head.buffer).setBigUint64(0, BigInt(head.length - 8), true);
  head.set(json, 8);
  return [head, ...tensors.map(({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength))];
}

function readSafetensors(bytes: Uint8Array): NamedTensor[] {
  const headerBytes = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + headerBytes))) as Record<
    string,
    { shape: number[]; data_offsets: [number, number] }
  >;
  const values = new Uint8Array(bytes.subarray(8 + headerBytes)); // a copy of its own: aligned, and no view of a pool
  return Object.entries(header)
    .filter(([name]) => name !== "__metadata__")
    .map(
      ([
        name,
        {
          shape,
          data_offsets: [begin, end],
        },
      ]) => ({
        name,
        shape,
        data: new Float32Array(values.buffer, begin, (end - begin) / 4),
      }),
    );
}

function digest(parts: readonly Uint8Array[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}
