/**
 * Estimates the bytes of training data and prompts, and splits a batch into the chunks of one `forwardBackward` call. Pure functions; the
 * training client sends the chunks.
 */

import type { ClientConfigResponse, Datum, ModelInput, ModelInputChunk } from "@tinklet/wire/client";

/** Bytes of a text token in a training request, where tokens are packed as int32. */
const trainingBytesPerToken = 4;
/** Bytes of a text token in a sampling request, where tokens are decimal digits in JSON. */
const samplingBytesPerToken = 10;

/** Limits of one training request, from the server's client configuration. */
export type ChunkLimits = Pick<ClientConfigResponse, "fwdbwdMaxChunkLen" | "fwdbwdMaxChunkBytesCount">;

/**
 * Estimated bytes of one datum in a training request.
 *
 * @example
 * ```ts
 * estimateDatumBytes(datum); // 4 per text token, 8 per int64, 4 per float32, files as they are
 * ```
 */
export function estimateDatumBytes(datum: Datum): number {
  let bytes = estimateInputBytes(datum.modelInput, trainingBytesPerToken);
  for (const tensor of Object.values(datum.lossFnInputs)) bytes += tensor.byteLength;
  return bytes;
}

/** Estimated bytes of a prompt in a sampling request, as counted by the byte budget of sampling. */
export function estimatePromptBytes(prompt: ModelInput): number {
  return estimateInputBytes(prompt, samplingBytesPerToken);
}

function estimateInputBytes(input: ModelInput, bytesPerToken: number): number {
  return input.chunks.reduce((sum, chunk) => sum + estimateChunkBytes(chunk, bytesPerToken), 0);
}

function estimateChunkBytes(chunk: ModelInputChunk, bytesPerToken: number): number {
  switch (chunk.type) {
    case "encoded_text":
      return chunk.tokens.length * bytesPerToken;
    case "image":
      return chunk.data.byteLength;
    case "image_asset_pointer":
      return [...chunk.location].length; // Python counts characters, not UTF-16 units
    case "dmel":
      return chunk.dmel.byteLength;
  }
}

/** A part of a batch that is sent as one request. */
export interface DataChunk {
  readonly data: readonly Datum[];
  /** Estimated bytes of the request, as counted by the dispatch budget. */
  readonly bytes: number;
}

/**
 * Splits a batch into requests, in order: a chunk ends before a datum that would exceed the byte limit, or when it has the maximum number of
 * data. A datum larger than the byte limit gets its own chunk.
 *
 * @throws {@link InvalidInputError} naming `data` when the batch is empty.
 */
export function chunkData(data: readonly Datum[], limits: ChunkLimits): DataChunk[] {
  const chunks: DataChunk[] = [];
  let current: Datum[] = [];
  let bytes = 0;
  const close = () => {
    chunks.push({ data: current, bytes });
    current = [];
    bytes = 0;
  };
  for (const datum of data) {
    const size = estimateDatumBytes(datum);
    const full = bytes + size > limits.fwdbwdMaxChunkBytesCount || current.length >= limits.fwdbwdMaxChunkLen;
    if (current.length > 0 && full) close();
    current.push(datum);
    bytes += size;
  }
  close();
  return chunks;
}
