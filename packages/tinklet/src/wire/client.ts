/**
 * The wire as a client needs it: everything but a server's half of the codecs, which a browser bundle should not carry.
 */
export * from "./checkpoints.ts";
export * from "./contract.ts";
export * from "./custom-loss.ts";
export { readDate, writeDate } from "./dates.ts";
export * from "./datum.ts";
export { writeDuration } from "./duration.ts";
export { decodeBase64, encodeBase64, type Field, type Shape } from "./fields.ts";
export * from "./futures.ts";
export * from "./json.ts";
export {
  type FieldDescription,
  type InputOf,
  type InputTypeOf,
  type Message,
  type TypeOf,
  unknownFields,
  wireOf,
} from "./message.ts";
export * from "./model-input.ts";
export * from "./optimizer.ts";
export {
  decodeForwardBackwardOutput,
  decodeSampleResponse,
  encodeForwardBackwardRequest,
  protobufContentType,
} from "./proto/tensors.ts";
export type { PromptProvenanceSpan, ProvenanceSpans, SampledProvenanceSpan } from "./provenance.ts";
export * from "./rest.ts";
export type { NewerRelease } from "./route.ts";
export * from "./sampling.ts";
export * from "./session.ts";
export * from "./session-search.ts";
export * from "./telemetry.ts";
export * from "./tensor-data.ts";
export * from "./tinker-path.ts";
export * from "./training.ts";
export * from "./training-json.ts";
export * from "./weights.ts";
export { compressZstd } from "./zstd.ts";
