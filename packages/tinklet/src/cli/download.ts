/** Fetches a link to a file with progress, and unpacks archives safely. */
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { dirname, resolve, sep } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import type { Context } from "./context.ts";
import { CliError } from "./explain.ts";
import { writeFailure } from "./files.ts";
import { formatDuration, formatSize } from "./format.ts";

/** @returns how many bytes came. */
export async function downloadFile(
  url: string,
  file: string,
  what: string,
  { output, signal, fetch }: Context,
): Promise<number> {
  let response: Response;
  try {
    response = await fetch(url, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw new CliError(`The ${what} could not be fetched: ${(cause as Error).message}`, {
      cause,
      hint: "Links expire; run the command again for a fresh one.",
    });
  }
  if (!response.ok || response.body === null) {
    throw new CliError(`The ${what} could not be fetched: status ${response.status}`, {
      hint: "Links expire; run the command again for a fresh one.",
    });
  }
  const total = Number(response.headers.get("content-length") ?? 0);
  const startMs = performance.now();
  let received = 0;
  const counting = async function* (source: AsyncIterable<Uint8Array>) {
    for await (const chunk of source) {
      received += chunk.length;
      const seconds = (performance.now() - startMs) / 1000;
      const left =
        total === 0
          ? ""
          : ` of ${formatSize(total)}, ${formatDuration(((total - received) * seconds) / received)} left`;
      output.progress(
        `Downloading ${what}: ${formatSize(received)}${left}, ${formatSize(received / Math.max(seconds, 0.001))}/s`,
      );
      yield chunk;
    }
  };
  try {
    await pipeline(Readable.fromWeb(response.body as never), counting, createWriteStream(file), { signal });
    // A body that was compressed on its way has another length than it says.
    if (total > 0 && received !== total && response.headers.get("content-encoding") === null)
      throw new Error(`it ended after ${received} of ${total} bytes`);
  } catch (cause) {
    await rm(file, { force: true });
    signal.throwIfAborted();
    // A failed write has an error code of the system; anything else is the connection's.
    if ((cause as NodeJS.ErrnoException).syscall === "write") throw writeFailure(file, cause);
    throw new CliError(`The ${what} could not be fetched: ${(cause as Error).message}`, {
      cause,
      hint: `${formatSize(received)} had come. Run the command again.`,
    });
  }
  output.endProgress();
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
 * @throws {@link CliError} for an archive that cannot be trusted or is not one.
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
  if (entries.length === 0) throw new CliError("The archive is empty or not a tar file.");
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
  new CliError("The archive is damaged.", { cause, hint: "The download may be incomplete; try again." });

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
    throw new CliError(`The archive has a link or device (${name}) and was not unpacked.`, {
      hint: "It may be damaged or malicious.",
    });
  }
  const path = resolve(folder, name);
  if (path !== resolve(folder) && !path.startsWith(resolve(folder) + sep)) {
    throw new CliError(`The archive has a path that leads out of its folder (${name}) and was not unpacked.`, {
      hint: "It may be damaged or malicious.",
    });
  }
  return { name, type: type === "5" ? "folder" : "file", size };
}
