/**
 * Digests that decide whether a request with a known seq_id is a retry. They cover the decoded content, not the bytes, because a client
 * may write the keys of a map in another order when it retries.
 */
import { createHash, type Hash } from "node:crypto";
import type { ForwardBackwardRequest, ModelInputChunk, TensorData } from "@tinklet/wire";

/**
 * The digest of a JSON body.
 *
 * @param ignore - top-level fields that may differ between a request and its retry.
 */
export function fingerprintJson(kind: string, body: unknown, ignore: readonly string[] = []): string {
  const hash = createHash("sha256").update(kind);
  const skipped = new Set(ignore);
  const object = body as Record<string, unknown>;
  const kept = Object.fromEntries(Object.entries(object).filter(([key]) => !skipped.has(key)));
  return addCanonical(hash, kept).digest("base64url");
}

/** Characters that are collected per call of the hash: few calls, without a full copy of a long list as text. */
const pieceLength = 64 * 1024;

/** Adds JSON text with sorted keys; integers may be of any size. */
function addCanonical(hash: Hash, value: unknown): Hash {
  let piece = "";
  const write = (text: string) => {
    piece += text;
    if (piece.length < pieceLength) return;
    hash.update(piece);
    piece = "";
  };
  const walk = (item: unknown): void => {
    if (Array.isArray(item)) {
      write("[");
      for (let i = 0; i < item.length; i++) {
        if (i > 0) write(",");
        walk(item[i]);
      }
      write("]");
    } else if (typeof item === "object" && item !== null) {
      const entries = Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1));
      for (const [i, [key, inner]] of entries.entries()) {
        write(`${i === 0 ? "{" : ","}${JSON.stringify(key)}:`);
        walk(inner);
      }
      write(entries.length === 0 ? "{}" : "}");
    } else if (typeof item === "bigint" || Number.isFinite(item)) write(String(item));
    else write(`${JSON.stringify(item)}`);
  };
  walk(value);
  return hash.update(piece);
}

/** The digest of a pass; equal for its binary and its JSON form. */
export function fingerprintPass(kind: string, request: ForwardBackwardRequest): string {
  const { data, lossFn, lossFnConfig } = request.forwardBackwardInput;
  const head = [kind, request.modelId, request.seqId ?? 0, lossFn, lossFnConfig ?? {}, data.length];
  const hash = addCanonical(createHash("sha256"), head);
  for (const datum of data) {
    for (const chunk of datum.modelInput.chunks) addChunk(hash, chunk);
    for (const [name, tensor] of Object.entries(datum.lossFnInputs).sort(([a], [b]) => (a < b ? -1 : 1))) {
      addTensor(hash.update(`\0${name}\0`), tensor);
    }
  }
  return hash.digest("base64url");
}

const bytes = (view: ArrayBufferView) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

function addChunk(hash: Hash, chunk: ModelInputChunk): void {
  hash.update(`\0${chunk.type}\0`);
  if (chunk.type === "encoded_text") {
    hash.update(bytes(chunk.tokens instanceof Int32Array ? chunk.tokens : Int32Array.from(chunk.tokens)));
  } else if (chunk.type === "image") hash.update(chunk.data);
  else if (chunk.type === "dmel") hash.update(chunk.dmel);
  else hash.update(chunk.location);
}

function addTensor(hash: Hash, tensor: TensorData): void {
  hash.update(`${tensor.dtype}${JSON.stringify(tensor.shape ?? null)}`).update(bytes(tensor.values));
  if (tensor.sparseCrowIndices !== undefined) hash.update(bytes(tensor.sparseCrowIndices));
  if (tensor.sparseColIndices !== undefined) hash.update(bytes(tensor.sparseColIndices));
}
