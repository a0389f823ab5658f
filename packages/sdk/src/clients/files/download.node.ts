/** Downloads a URL to a file with progress, and unpacks archives safely. Node only, loaded when first needed. */
import { TinkerError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { nodeBuiltin } from "../../node-builtin.ts";

const { createReadStream, createWriteStream } = nodeBuiltin<typeof import("node:fs")>("node:fs");
const { mkdir, open, statfs } = nodeBuiltin<typeof import("node:fs/promises")>("node:fs/promises");
const { dirname, resolve, sep } = nodeBuiltin<typeof import("node:path")>("node:path");
const { Readable } = nodeBuiltin<typeof import("node:stream")>("node:stream");
const { pipeline } = nodeBuiltin<typeof import("node:stream/promises")>("node:stream/promises");
const { createGunzip } = nodeBuiltin<typeof import("node:zlib")>("node:zlib");

/** Progress of a download. */
export interface DownloadProgress {
  /** Name of the file, or `archive`. */
  readonly file: string;
  readonly receivedBytes: number;
  /** Absent if the server does not report the size. */
  readonly totalBytes?: number;
}

/** Options of a download. */
export interface Fetching {
  readonly fetch: (url: string, init?: RequestInit) => Promise<Response>;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: (progress: DownloadProgress) => void;
}

/** The error of a failed download or an invalid archive. */
export function downloadError(message: string, options: { readonly hint?: string; readonly cause?: unknown } = {}) {
  return new TinkerError(message, { code: "download_failed", ...options });
}

/** The error of a failed write. */
export function writeFailure(path: string, cause: unknown): TinkerError {
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code !== "ENOSPC" && code !== "EDQUOT") {
    return new TinkerError(`${path} could not be written: ${message}`, { code: "write_failed", cause });
  }
  const hint = "Free some space and run the same command again.";
  return new TinkerError(`The disk is full: ${path} could not be written.`, { code: "disk_full", hint, cause });
}

/**
 * @param file - temporary file of the caller; it is not deleted when the download fails.
 * @returns the number of bytes received.
 */
export async function downloadFile(url: string, file: string, what: string, fetching: Fetching): Promise<number> {
  const { fetch, signal, onProgress } = fetching;
  let response: Response;
  try {
    response = await fetch(url, { ...omitUndefined({ signal }) });
  } catch (cause) {
    signal?.throwIfAborted();
    throw downloadError(`The ${what} could not be downloaded: ${(cause as Error).message}`, {
      cause,
      hint: "Download links expire; run the same call again to get a new one.",
    });
  }
  if (!response.ok || response.body === null) {
    throw downloadError(`The ${what} could not be downloaded: status ${response.status}`, {
      hint: "Download links expire; run the same call again to get a new one.",
    });
  }
  const total = Number(response.headers.get("content-length") ?? 0);
  let received = 0;
  const counting = async function* (source: AsyncIterable<Uint8Array>) {
    for await (const chunk of source) {
      received += chunk.length;
      onProgress({
        file: what,
        receivedBytes: received,
        ...omitUndefined({ totalBytes: total === 0 ? undefined : total }),
      });
      yield chunk;
    }
  };
  try {
    await pipeline(Readable.fromWeb(response.body as never), counting, createWriteStream(file), {
      ...omitUndefined({ signal }),
    });
    // The content length of a compressed body is that of its compressed form.
    if (total > 0 && received !== total && response.headers.get("content-encoding") === null)
      throw new Error(`the body ended after ${received} of ${total} bytes`);
  } catch (cause) {
    signal?.throwIfAborted();
    // A failed write has the syscall "write"; other errors are the connection's.
    if ((cause as NodeJS.ErrnoException).syscall === "write") throw writeFailure(file, cause);
    throw downloadError(`The ${what} could not be downloaded: ${(cause as Error).message}`, {
      cause,
      hint: `${received} bytes were received. Try again.`,
    });
  }
  return received;
}

interface Entry {
  readonly name: string;
  readonly type: "file" | "folder";
  readonly size: number;
}

/** Maximum number of entries in an archive. A checkpoint has a few files; a large one has some hundreds. */
const maxEntries = 4000;

/** Maximum size of a long name or of attributes, which are read into memory. */
const maxNameBytes = 1 << 20;

/** Assumed free space of a disk that does not report it. */
const unknownFreeBytes = 64 * 2 ** 30;

/**
 * Unpacks a tar archive, compressed or not. Links, paths outside the folder, a truncated archive, more than 4000 entries and an archive
 * larger than the free disk space are rejected before any file is written.
 *
 * @throws {@link TinkerError} for an invalid or unsafe archive; with code `disk_full` for one that does not fit on the disk. The
 *   signal's reason when aborted.
 */
export async function unpackTar(
  packed: string,
  folder: string,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<void> {
  const archive = await decompressed(packed, signal);
  const file = await open(archive, "r");
  const entries: (Entry & { readonly at: number })[] = [];
  try {
    const { size: length } = await file.stat();
    const header = Buffer.alloc(512);
    let longName: string | undefined;
    let longSize: number | undefined;
    for (let at = 0, count = 0; ; count++) {
      signal?.throwIfAborted();
      const { bytesRead } = await file.read(header, 0, 512, at);
      if (bytesRead < 512) throw damaged(); // an archive ends with a block of zeros, so the file was truncated
      if (header.every((byte) => byte === 0)) break;
      if (count >= maxEntries) {
        throw downloadError(`The archive has more than ${maxEntries} entries and was not unpacked.`, {
          hint: "Checkpoints have far fewer. The archive may be damaged or malicious.",
        });
      }
      const { name, type, size: shortSize } = readHeader(header);
      const isExtension = type === "L" || type === "x" || type === "g";
      const size = isExtension ? shortSize : (longSize ?? shortSize);
      at += 512;
      if (at + size > length) throw damaged();
      if (type === "L" || type === "x") {
        if (size > maxNameBytes) throw damaged();
        const body = Buffer.alloc(size);
        await file.read(body, 0, size, at);
        const attribute = (key: string) =>
          new RegExp(`^\\d+ ${key}=([^\\n]*)\\n`, "m").exec(body.toString("utf8"))?.[1];
        longName = type === "L" ? text(body) : (attribute("path") ?? longName);
        if (type === "x") longSize = wholeNumber(attribute("size"), 10) ?? longSize;
      } else if (type !== "g") {
        entries.push({ ...safeEntry(longName ?? name, type, size, folder), at });
        longName = longSize = undefined;
      }
      at += Math.ceil(size / 512) * 512;
    }
  } finally {
    await file.close();
  }
  if (entries.length === 0) throw downloadError("The archive is empty or not a tar file.");
  for (const { name, type, size, at } of entries) {
    signal?.throwIfAborted();
    const path = resolve(folder, name);
    await mkdir(type === "folder" ? path : dirname(path), { recursive: true });
    if (type === "folder") continue;
    const source = size === 0 ? Readable.from([]) : createReadStream(archive, { start: at, end: at + size - 1 });
    await pipeline(source, createWriteStream(path), { ...omitUndefined({ signal }) }).catch((cause) => {
      signal?.throwIfAborted();
      throw writeFailure(path, cause);
    });
  }
}

/**
 * The path of the uncompressed archive. A gzip file is decompressed next to it, up to half of the free space, because unpacking its files
 * needs the same amount again.
 */
async function decompressed(path: string, signal: AbortSignal | undefined): Promise<string> {
  const file = await open(path, "r");
  const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0).finally(() => file.close());
  if (buffer.readUInt16BE() !== 0x1f8b) return path;
  const unpacked = `${path}.unpacked`;
  const most = Math.floor((await freeBytes(dirname(path))) / 2);
  const bounded = async function* (source: AsyncIterable<Uint8Array>) {
    let bytes = 0;
    for await (const chunk of source) {
      bytes += chunk.length;
      if (bytes > most) throw noRoom(unpacked, most);
      yield chunk;
    }
  };
  const options = { ...omitUndefined({ signal }) };
  await pipeline(createReadStream(path), createGunzip(), bounded, createWriteStream(unpacked), options).catch(
    (cause) => {
      signal?.throwIfAborted();
      if (cause instanceof TinkerError) throw cause;
      if ((cause as NodeJS.ErrnoException).syscall === "write") throw writeFailure(unpacked, cause);
      throw damaged(cause);
    },
  );
  return unpacked;
}

/** Free space on a folder's disk. Some mounted disks report no size. */
async function freeBytes(folder: string): Promise<number> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return blocks === 0 ? unknownFreeBytes : bavail * bsize;
}

const noRoom = (path: string, most: number) =>
  new TinkerError(`The disk is full: ${path} could not be written.`, {
    code: "disk_full",
    hint: `Free some space, or choose a folder on a larger disk: the archive unpacks to more than ${most} bytes, half of what is free, and its files need as much again.`,
  });

const damaged = (cause?: unknown) =>
  downloadError("The archive is damaged.", { cause, hint: "The download may be incomplete; try again." });

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("utf8").replace(/\0.*$/s, "");

function readHeader(header: Buffer): { name: string; type: string; size: number } {
  const prefix = header.subarray(257, 262).toString() === "ustar" ? text(header.subarray(345, 500)) : "";
  const name = text(header.subarray(0, 100));
  const stated = Number.parseInt(text(header.subarray(148, 156)).trim(), 8);
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0);
  if (stated !== sum) throw damaged();
  const type = text(header.subarray(156, 157)) || "0";
  return { name: prefix === "" ? name : `${prefix}/${name}`, type, size: readSize(header.subarray(124, 136)) };
}

/** Octal digits or, from 8 GiB, GNU tar's form: a 12-byte number whose first bit is set. */
function readSize(field: Buffer): number {
  if (field[0] !== 0x80) return wholeNumber(text(field).trim() || "0", 8) as number;
  const size = field.subarray(1).reduce((value, byte) => value * 256 + byte, 0);
  if (!Number.isSafeInteger(size)) throw damaged();
  return size;
}

/** Parses digits only; a negative size would make the reader move backwards. */
function wholeNumber(digits: string | undefined, radix: 8 | 10): number | undefined {
  if (digits === undefined) return undefined;
  const value = Number.parseInt(digits, radix);
  if (!(radix === 8 ? /^[0-7]+$/ : /^[0-9]+$/).test(digits) || !Number.isSafeInteger(value)) throw damaged();
  return value;
}

function safeEntry(name: string, type: string, size: number, folder: string): Entry {
  if (type !== "0" && type !== "5") {
    throw downloadError(`The archive has a link or device (${name}) and was not unpacked.`, {
      hint: "It may be damaged or malicious.",
    });
  }
  const path = resolve(folder, name);
  if (path !== resolve(folder) && !path.startsWith(resolve(folder) + sep)) {
    throw downloadError(`The archive has a path outside its folder (${name}) and was not unpacked.`, {
      hint: "It may be damaged or malicious.",
    });
  }
  return { name, type: type === "5" ? "folder" : "file", size };
}
