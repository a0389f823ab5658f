/**
 * `tinklet/wire`: what the bytes are. Client and server import the same types, codecs and routes from here.
 */
export * from "./contract.ts";
export * from "./dates.ts";
export * from "./datum.ts";
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
export * from "./proto/tensors.ts";
export * from "./rest.ts";
export * from "./sampling.ts";
export * from "./session.ts";
export * from "./telemetry.ts";
export * from "./tensor-data.ts";
export * from "./tinker-path.ts";
export * from "./training.ts";
export * from "./weights.ts";
export * from "./zstd.ts";
