/**
 * What makes two requests the same: a digest of what they mean, not of their bytes, since a client may write the keys of a map in
 * another order when it sends a request again.
 */
import { createHash, type Hash } from "node:crypto";
import type { ForwardBackwardRequest, ModelInputChunk, TensorData } from "tinklet/wire";

/**
 * The digest of a JSON body.
 *
 * @param ignore - top-level fields that may differ between two sendings of one request.
 */
export function fingerprintJson(kind: string, body: unknown, ignore: readonly string[] = []): string {
  const hash = createHash("sha256").update(kind);
  const skipped = new Set(ignore);
  const object = body as Record<string, unknown>;
  const kept = Object.fromEntries(Object.entries(object).filter(([key]) => !skipped.has(key)));
  return hash.update(canonical(kept)).digest("base64url");
}

/** JSON text with sorted keys; integers of any size. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
  }
  return typeof value === "bigint" ? value.toString() : JSON.stringify(value);
}

/** The digest of a pass, the same for its binary and its JSON form. */
export function fingerprintPass(kind: string, request: ForwardBackwardRequest): string {
  const { data, lossFn, lossFnConfig } = request.forwardBackwardInput;
  const hash = createHash("sha256").update(
    canonical([kind, request.modelId, request.seqId ?? 0, lossFn, lossFnConfig ?? {}, data.length]),
  );
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
