/**
 * `tinklet/wire`: what the bytes are. Client and server import the same types, codecs and routes from here.
 */
export { untilAborted } from "../abort.ts";
export { given } from "../given.ts";
export { checkOptions, type OptionNames } from "./check-options.ts";
export * from "./client.ts";
export * from "./match-route.ts";
export * from "./progress.ts";
export {
  decodeForwardBackwardRequest,
  encodeForwardBackwardOutput,
  encodeSampleResponse,
  peekForwardBackwardRequest,
} from "./proto/tensors.ts";
export * from "./run-folders.ts";
export { type DecompressOptions, decompressZstd, unpackZstdFrame, zstdUnpacker } from "./zstd.ts";
