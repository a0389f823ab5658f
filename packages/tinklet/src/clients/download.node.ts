/** Fetches a link to a file with progress, and unpacks archives safely. Node only, loaded when first needed. */
import { TinkerError } from "../errors.ts";
import { given } from "../given.ts";
import { nodeBuiltin } from "../node-builtin.ts";

const { createReadStream, createWriteStream } = nodeBuiltin<typeof import("node:fs")>("node:fs");
const { mkdir, open, rm } = nodeBuiltin<typeof import("node:fs/promises")>("node:fs/promises");
const { dirname, resolve, sep } = nodeBuiltin<typeof import("node:path")>("node:path");
const { Readable } = nodeBuiltin<typeof import("node:stream")>("node:stream");
const { pipeline } = nodeBuiltin<typeof import("node:stream/promises")>("node:stream/promises");
const { createGunzip } = nodeBuiltin<typeof import("node:zlib")>("node:zlib");

/** How far a download is. */
export interface DownloadProgress {
  /** What is being fetched: a file's name, or `archive`. */
  readonly file: string;
  readonly receivedBytes: number;
  /** Absent where the server does not say. */
  readonly totalBytes?: number;
}

/** How files are fetched. */
export interface Fetching {
  readonly fetch: (url: string, init?: RequestInit) => Promise<Response>;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: (progress: DownloadProgress) => void;
}

/** A download or an archive that cannot be used. */
export function downloadError(message: string, options: { readonly hint?: string; readonly cause?: unknown } = {}) {
  return new TinkerError(message, { code: "download_failed", ...options });
}

/** What a failed write means. */
export function writeFailure(path: string, cause: unknown): TinkerError {
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code !== "ENOSPC" && code !== "EDQUOT") {
    return new TinkerError(`${path} could not be written: ${message}`, { code: "write_failed", cause });
  }
  const hint = "Free some space and run the same command again.";
  return new TinkerError(`The disk is full: ${path} could not be written.`, { code: "disk_full", hint, cause });
}

/** @returns how many bytes came. */
export async function downloadFile(url: string, file: string, what: string, fetching: Fetching): Promise<number> {
  const { fetch, signal, onProgress } = fetching;
  let response: Response;
  try {
    response = await fetch(url, { ...given({ signal }) });
  } catch (cause) {
    signal?.throwIfAborted();
    throw downloadError(`The ${what} could not be fetched: ${(cause as Error).message}`, {
      cause,
      hint: "Links expire; try again for a fresh one.",
    });
  }
  if (!response.ok || response.body === null) {
    throw downloadError(`The ${what} could not be fetched: status ${response.status}`, {
      hint: "Links expire; try again for a fresh one.",
    });
  }
  const total = Number(response.headers.get("content-length") ?? 0);
  let received = 0;
  const counting = async function* (source: AsyncIterable<Uint8Array>) {
    for await (const chunk of source) {
      received += chunk.length;
      onProgress({ file: what, receivedBytes: received, ...given({ totalBytes: total === 0 ? undefined : total }) });
      yield chunk;
    }
  };
  try {
    await pipeline(Readable.fromWeb(response.body as never), counting, createWriteStream(file), {
      ...given({ signal }),
    });
    // A body that was compressed on its way has another length than it says.
    if (total > 0 && received !== total && response.headers.get("content-encoding") === null)
      throw new Error(`it ended after ${received} of ${total} bytes`);
  } catch (cause) {
    await rm(file, { force: true });
    signal?.throwIfAborted();
    // A failed write has an error code of the system; anything else is the connection's.
    if ((cause as NodeJS.ErrnoException).syscall === "write") throw writeFailure(file, cause);
    throw downloadError(`The ${what} could not be fetched: ${(cause as Error).message}`, {
      cause,
      hint: `${received} bytes had come. Try again.`,
    });
  }
  return received;
}

interface Entry {
  readonly name: string;
  readonly type: "file" | "folder";
  readonly size: number;
}

/**
 * Unpacks a tar archive, compressed or not. Links, names that lead out of the folder, and an archive that ends before its
 * end are refused before anything is written.
 *
 * @throws {@link TinkerError} for an archive that cannot be trusted or is not one.
 */
export async function unpackTar(packed: string, folder: string): Promise<void> {
  const archive = await decompressed(packed);
  const file = await open(archive, "r");
  const entries: (Entry & { readonly at: number })[] = [];
  try {
    const { size: length } = await file.stat();
    const header = Buffer.alloc(512);
    let longName: string | undefined;
    for (let at = 0; ; ) {
      const { bytesRead } = await file.read(header, 0, 512, at);
      if (bytesRead < 512) throw damaged(); // the end is a block of zeros, not the end of the file
      if (header.every((byte) => byte === 0)) break;
      const { name, type, size } = readHeader(header);
      at += 512;
      if (at + size > length) throw damaged();
      if (type === "L" || type === "x") {
        const body = Buffer.alloc(size);
        await file.read(body, 0, size, at);
        longName = type === "L" ? text(body) : (/\d+ path=([^\n]*)\n/.exec(body.toString("utf8"))?.[1] ?? longName);
      } else if (type !== "g") {
        entries.push({ ...safeEntry(longName ?? name, type, size, folder), at });
        longName = undefined;
      }
      at += Math.ceil(size / 512) * 512;
    }
  } finally {
    await file.close();
  }
  if (entries.length === 0) throw downloadError("The archive is empty or not a tar file.");
  for (const { name, type, size, at } of entries) {
    const path = resolve(folder, name);
    await mkdir(type === "folder" ? path : dirname(path), { recursive: true });
    if (type === "folder") continue;
    const source = size === 0 ? Readable.from([]) : createReadStream(archive, { start: at, end: at + size - 1 });
    await pipeline(source, createWriteStream(path)).catch((cause) => {
      throw writeFailure(path, cause);
    });
  }
}

/** The archive itself: a gzip file is unpacked beside it. */
async function decompressed(path: string): Promise<string> {
  const file = await open(path, "r");
  const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0).finally(() => file.close());
  if (buffer.readUInt16BE() !== 0x1f8b) return path;
  await pipeline(createReadStream(path), createGunzip(), createWriteStream(`${path}.unpacked`)).catch((cause) => {
    if ((cause as NodeJS.ErrnoException).syscall === "write") throw writeFailure(`${path}.unpacked`, cause);
    throw damaged(cause);
  });
  return `${path}.unpacked`;
}

const damaged = (cause?: unknown) =>
  downloadError("The archive is damaged.", { cause, hint: "The download may be incomplete; try again." });

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("utf8").replace(/\0.*$/s, "");

function readHeader(header: Buffer): { name: string; type: string; size: number } {
  const prefix = header.subarray(257, 262).toString() === "ustar" ? text(header.subarray(345, 500)) : "";
  const name = text(header.subarray(0, 100));
  const size = Number.parseInt(text(header.subarray(124, 136)).trim() || "0", 8);
  const stated = Number.parseInt(text(header.subarray(148, 156)).trim(), 8);
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0);
  if (stated !== sum || Number.isNaN(size)) throw damaged();
  return { name: prefix === "" ? name : `${prefix}/${name}`, type: text(header.subarray(156, 157)) || "0", size };
}

function safeEntry(name: string, type: string, size: number, folder: string): Entry {
  if (type !== "0" && type !== "5") {
    throw downloadError(`The archive has a link or device (${name}) and was not unpacked.`, {
      hint: "It may be damaged or malicious.",
    });
  }
  const path = resolve(folder, name);
  if (path !== resolve(folder) && !path.startsWith(resolve(folder) + sep)) {
    throw downloadError(`The archive has a path that leads out of its folder (${name}) and was not unpacked.`, {
      hint: "It may be damaged or malicious.",
    });
  }
  return { name, type: type === "5" ? "folder" : "file", size };
}
