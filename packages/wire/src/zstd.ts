/**
 * zstd bodies. The runtime's own implementation is used where it has one (Node 22.15 and later), else a WebAssembly build
 * that is loaded when the first body is compressed: those who do not compress never pay for it.
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

/** One zstd frame of the whole body. */
export async function compressZstd(bytes: Uint8Array): Promise<Uint8Array> {
  return (await zstd()).compress(bytes);
}

/** How {@link decompressZstd} works. */
export interface DecompressOptions {
  /** More than this is refused before it is unpacked. */
  readonly maxBytes: number;
  /** Told how many bytes the content may take, before each try to unpack it; may throw to stop. */
  readonly onRoom?: (bytes: number) => void;
  /** @defaultValue {@link unpackZstdFrame}, on the caller's thread */
  readonly unpack?: (bytes: Uint8Array, capacity: number) => Promise<Uint8Array | undefined>;
}

/** Unpacks a frame into at most `capacity` bytes; none when it is longer or damaged. Holds its thread up until it is done. */
export async function unpackZstdFrame(bytes: Uint8Array, capacity: number): Promise<Uint8Array | undefined> {
  const { decompress } = await zstd();
  try {
    return decompress(bytes, capacity);
  } catch {
    return undefined;
  }
}

/** A function that unpacks a frame whose size is known, at once: for readers that cannot wait. It throws when the content is longer. */
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
  const told = contentSize(bytes);
  const tooLarge = () => new InvalidInputError("body", `unpacks to more than the ${maxBytes} bytes allowed`);
  if (told !== undefined && told > maxBytes) throw tooLarge();
  // A frame that hides its size gets room in steps, so that a small body never costs the full limit.
  let capacity = told ?? Math.min(maxBytes, Math.max(1 << 20, bytes.byteLength * 4));
  for (;;) {
    onRoom?.(capacity);
    const content = await unpack(bytes, capacity);
    if (content !== undefined) return content;
    if (told !== undefined) throw new InvalidInputError("body", "is not intact zstd");
    if (capacity >= maxBytes) throw tooLarge();
    capacity = Math.min(maxBytes, capacity * 4);
  }
}

/** The content size that a frame's header tells, if it does (RFC 8878, 3.1.1.1). */
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
