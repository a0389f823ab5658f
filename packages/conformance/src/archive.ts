/**
 * Reads a checkpoint archive: a tar file (gzipped or not) with a PEFT adapter. Supports only the parts of the formats that the cases need. An
 * invalid file fails the case.
 */
import { gunzipSync } from "node:zlib";
import { fail, holds } from "./checks.ts";
import type { Context } from "./context.ts";
import { described } from "./http.ts";

export interface Tensor {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** An adapter in PEFT's format. */
export interface Adapter {
  // biome-ignore lint/suspicious/noExplicitAny: an untrusted file of any shape
  readonly config: any;
  readonly tensors: ReadonlyMap<string, Tensor>;
}

/** Maximum decompressed bytes of an archive; the adapters trained by the kit have a few megabytes. */
const maxUnpackedBytes = 1024 * 1024 * 1024;

function unpacked(bytes: Uint8Array, maxBytes: number): Uint8Array {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  try {
    return new Uint8Array(gunzipSync(bytes, { maxOutputLength: maxBytes }));
  } catch (error) {
    return fail("the archive", `gzip of at most ${maxBytes} bytes`, (error as Error).message);
  }
}

/** Files of a tar archive by base name. */
export function readTar(bytes: Uint8Array, maxBytes = maxUnpackedBytes): Map<string, Uint8Array> {
  const raw = unpacked(bytes, maxBytes);
  const files = new Map<string, Uint8Array>();
  const ascii = new TextDecoder("latin1");
  for (let at = 0; at + 512 <= raw.length && raw[at] !== 0; ) {
    const field = (from: number, to: number) =>
      ascii
        .decode(raw.subarray(at + from, at + to))
        .replace(/\0.*$/s, "")
        .trim();
    holds(field(257, 262) === "ustar", "the archive", "a tar file", `${raw.length} bytes without a tar header`);
    const digits = field(124, 136);
    // only digits: a negative size would move the reader back to an earlier header
    holds(/^[0-7]*$/.test(digits), "the size of a file in the archive", "octal digits", digits);
    const size = Number.parseInt(digits || "0", 8);
    holds(at + 512 + size <= raw.length, "the size of a file in the archive", "at most the size of the archive", size);
    const isFile = ["", "0"].includes(field(156, 157));
    if (isFile) files.set(field(0, 100).split("/").at(-1)!, raw.subarray(at + 512, at + 512 + size));
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}

/** Tensors of a safetensors file as float32. */
export function readSafetensors(bytes: Uint8Array): Map<string, Tensor> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerLength = Number(view.getBigUint64(0, true));
  holds(
    headerLength < bytes.length,
    "adapter_model.safetensors",
    "a safetensors header",
    `a length of ${headerLength}`,
  );
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + headerLength))) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const tensors = new Map<string, Tensor>();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const { dtype, shape } = entry;
    const [start, end] = entry.data_offsets;
    const data = bytes.slice(8 + headerLength + start, 8 + headerLength + end);
    tensors.set(name, { shape, values: widened(dtype, data) });
  }
  return tensors;
}

function widened(dtype: string, data: Uint8Array): Float32Array {
  if (dtype === "F32") return new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
  const words = new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
  if (dtype === "BF16") return new Float32Array(Uint32Array.from(words, (word) => word << 16).buffer);
  if (dtype === "F16") return Float32Array.from(words, half);
  return fail("dtype of a tensor", "F32, BF16 or F16", dtype);
}

function half(word: number): number {
  const sign = word & 0x8000 ? -1 : 1;
  const exponent = (word >> 10) & 31;
  const fraction = (word & 1023) / 1024;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** -14 : sign * (1 + fraction) * 2 ** (exponent - 15);
}

/**
 * Downloads a checkpoint archive. If the official route is missing, the variants of other servers are tried (a bare name, a redirect),
 * because the cases about the adapter's content are separate from the cases about the route.
 */
async function archiveBytes(context: Context, path: string): Promise<Uint8Array> {
  const [run, ...rest] = path.replace("tinker://", "").split("/");
  const name = rest.at(-1)!;
  let seen = "";
  for (const id of [`sampler_weights/${name}`, name]) {
    let answer = await context.http.get(`training_runs/${run}/checkpoints/${id}/archive`);
    const url = answer.headers.get("location") ?? answer.json?.url;
    // The URL is signed, so no key is sent.
    if (typeof url === "string")
      answer = await context.http.get(new URL(url, context.target.baseUrl).href, { key: null });
    if (answer.status === 200) return answer.bytes;
    seen = described(answer);
  }
  return fail(`the archive of ${path}`, "a URL that can be downloaded", seen);
}

/** Downloads and parses the adapter of a sampler checkpoint. */
export async function downloadAdapter(context: Context, path: string): Promise<Adapter> {
  const files = readTar(await archiveBytes(context, path));
  const file = (name: string) => files.get(name) ?? fail("files of the archive", name, [...files.keys()]);
  const config: unknown = JSON.parse(new TextDecoder().decode(file("adapter_config.json")));
  return { config, tensors: readSafetensors(file("adapter_model.safetensors")) };
}

/** The tensors whose names match a pattern. */
export function select(adapter: Adapter, pattern: RegExp): [string, Tensor][] {
  return [...adapter.tensors].filter(([name]) => pattern.test(name));
}
