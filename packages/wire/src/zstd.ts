/**
 * zstd compression of bodies; the SDK decides in `submit-request.ts` which ones it compresses. Uses the runtime's implementation where there is one (Node 22.15 and later), else a WebAssembly build that
 * is loaded when the first body is compressed.
 */
import { InvalidInputError, TinkerError } from "./errors.ts";

interface Zstd {
  compress(bytes: Uint8Array): Uint8Array;
  /** Throws when the output would be longer than `capacity`. */
  decompress(bytes: Uint8Array, capacity: number): Uint8Array;
}

interface ZlibWithZstd {
  zstdCompressSync?(bytes: Uint8Array): Uint8Array;
  zstdDecompressSync?(bytes: Uint8Array, options: { maxOutputLength: number }): Uint8Array;
}

let loaded: Promise<Zstd> | undefined;

function builtinZlib(): ZlibWithZstd | undefined {
  const host = (globalThis as { process?: { getBuiltinModule?: (id: string) => unknown } }).process;
  return host?.getBuiltinModule?.("node:zlib") as ZlibWithZstd | undefined;
}

async function load(): Promise<Zstd> {
  const zlib = builtinZlib();
  const { zstdCompressSync, zstdDecompressSync } = zlib ?? {};
  if (zstdCompressSync !== undefined && zstdDecompressSync !== undefined) {
    return {
      compress: (bytes) => zstdCompressSync(bytes),
      decompress: (bytes, maxOutputLength) => zstdDecompressSync(bytes, { maxOutputLength }),
    };
  }
  const wasm = await import("@bokuweb/zstd-wasm");
  await wasm.init();
  return {
    compress: (bytes) => wasm.compress(bytes, 3), // level 3, the library's default and the official client's
    decompress: (bytes, capacity) => wasm.decompress(bytes, { defaultHeapSize: capacity }),
  };
}

function zstd(): Promise<Zstd> {
  loaded ??= load().catch((cause: unknown) => {
    loaded = undefined;
    throw new TinkerError("zstd is not available here", {
      code: "zstd_missing",
      hint: "Install @bokuweb/zstd-wasm, or run Node 22.15 or later.",
      cause,
    });
  });
  return loaded;
}

/** Compresses a body into one zstd frame. */
export async function compressZstd(bytes: Uint8Array): Promise<Uint8Array> {
  return (await zstd()).compress(bytes);
}

/** Options of {@link decompressZstd}. */
export interface DecompressOptions {
  /** Limit of the decompressed size; a frame that declares more is rejected before it is decompressed. */
  readonly maxBytes: number;
  /** Called before each attempt with the number of bytes that will be allocated; may throw to stop. */
  readonly onRoom?: (bytes: number) => void;
  /** @defaultValue {@link unpackZstdFrame}, on the caller's thread */
  readonly unpack?: (bytes: Uint8Array, capacity: number) => Promise<Uint8Array | undefined>;
}

/** Decompresses a frame into at most `capacity` bytes; `undefined` when it is longer or damaged. Blocks its thread. */
export async function unpackZstdFrame(bytes: Uint8Array, capacity: number): Promise<Uint8Array | undefined> {
  const { decompress } = await zstd();
  try {
    return decompress(bytes, capacity);
  } catch {
    return undefined;
  }
}

/** A synchronous decompressor of frames of known size. It throws when the content is longer than `capacity`. */
export async function zstdUnpacker(): Promise<(bytes: Uint8Array, capacity: number) => Uint8Array> {
  return (await zstd()).decompress;
}

/**
 * The content of one zstd frame.
 *
 * @throws {@link InvalidInputError} when it is not zstd, is damaged, or is too large.
 */
export async function decompressZstd(bytes: Uint8Array, options: DecompressOptions): Promise<Uint8Array> {
  const { maxBytes, onRoom, unpack = unpackZstdFrame } = options;
  const declared = contentSize(bytes);
  const tooLarge = () => new InvalidInputError("body", `decompresses to more than the limit of ${maxBytes} bytes`);
  if (declared !== undefined && declared > maxBytes) throw tooLarge();
  // For a frame without a declared size the buffer grows in steps, so that a small body does not allocate the full limit.
  let capacity = declared ?? Math.min(maxBytes, Math.max(1 << 20, bytes.byteLength * 4));
  for (;;) {
    onRoom?.(capacity);
    const content = await unpack(bytes, capacity);
    if (content !== undefined) return content;
    if (declared !== undefined) throw new InvalidInputError("body", "is not intact zstd");
    if (capacity >= maxBytes) throw tooLarge();
    capacity = Math.min(maxBytes, capacity * 4);
  }
}

/** The content size in the frame's header, if the header has one (RFC 8878, 3.1.1.1). */
function contentSize(bytes: Uint8Array): number | undefined {
  const fail = (): never => {
    throw new InvalidInputError("body", "is not zstd");
  };
  if (bytes.length < 6) return fail();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0, true) !== 0xfd2fb528) return fail();
  const descriptor = bytes[4]!;
  const singleSegment = (descriptor & 0x20) !== 0;
  const sizeFlag = descriptor >> 6;
  const at = 5 + (singleSegment ? 0 : 1) + [0, 1, 2, 4][descriptor & 3]!;
  const length = [singleSegment ? 1 : 0, 2, 4, 8][sizeFlag]!;
  if (bytes.length < at + length) return fail();
  switch (length) {
    case 1:
      return view.getUint8(at);
    case 2:
      return view.getUint16(at, true) + 256;
    case 4:
      return view.getUint32(at, true);
    case 8:
      return Number(view.getBigUint64(at, true));
    default:
      return undefined;
  }
}
