/**
 * Downloads one file from the Hub into the cache: resumes an earlier attempt, retries on connection errors, and verifies the size and,
 * if the Hub provides one, the checksum before the file is added to the cache.
 */

import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open, rm, stat } from "node:fs/promises";
import type { DownloadProgress } from "../weights/types.ts";
import type { HubCache } from "./hub-cache.ts";
import { type HubClient, isTransient, type RemoteFile } from "./hub-client.ts";
import { HubError } from "./hub-error.ts";

export interface DownloadOptions {
  readonly client: HubClient;
  readonly cache: HubCache;
  readonly commit: string;
  readonly file: string;
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Waits between attempts; injectable for tests. */
  readonly sleep: (ms: number) => Promise<void>;
}

/** Back-off before the second, third … attempt. An attempt that got further than all previous ones resets the count. */
const retryDelaysMs = [500, 1000, 2000, 4000, 8000];
/** Progress is reported at most once per this many bytes, and at the end of the file. */
const progressStepBytes = 1024 * 1024;

/** Downloads `file` of `commit` into the cache, if needed, and links it into the commit's snapshot folder. */
export async function download(options: DownloadOptions): Promise<void> {
  const { client, cache, commit, file, signal } = options;
  let furthest = 0;
  for (let attempt = 0; ; attempt++) {
    signal?.throwIfAborted();
    try {
      const remote = await client.describeFile(commit, file); // repeated per attempt, because signed URLs expire
      if (!(await cache.hasBlob(remote.etag, remote.size))) {
        await fetchBlob(remote, options, (position) => {
          if (position <= furthest) return;
          furthest = position;
          attempt = 0;
        });
      }
      await cache.link(commit, file, remote.etag);
      return;
    } catch (error) {
      const delay = retryDelaysMs[attempt];
      if (delay === undefined || !isTransient(error)) throw error;
      await options.sleep(delay);
    }
  }
}

async function fetchBlob(
  remote: RemoteFile,
  options: DownloadOptions,
  onBytes: (position: number) => void,
): Promise<void> {
  const { client, cache, file } = options;
  const partial = await cache.claimPartial(remote.etag);
  let handle: FileHandle | undefined;
  try {
    let received = (await stat(partial)).size;
    if (remote.size !== undefined && received > remote.size) received = 0; // left over from another file
    let digest = contentDigest(remote);
    await hashStart(partial, received, digest?.hash);
    handle = await open(partial, "r+");
    const isWhole = received > 0 && received === remote.size;
    if (!isWhole) {
      const { body, resumed } = await client.openFile(remote, received);
      if (!resumed && received > 0) {
        received = 0;
        digest = contentDigest(remote);
      }
      await handle.truncate(received);
      const report = progressOf(options, remote);
      report(received);
      received = await receive(body, received, async (part, position) => {
        onBytes(position + part.byteLength);
        if (remote.size !== undefined && position + part.byteLength > remote.size) throw wrongSize(file, remote);
        digest?.hash.update(part);
        await (handle as FileHandle).write(part, 0, part.byteLength, position);
        report(position + part.byteLength);
      });
      if (remote.size !== undefined && received < remote.size) {
        throw new HubError("network", `the connection ended after ${received} of ${remote.size} bytes of ${file}`);
      }
    }
    if (digest && digest.hash.digest("hex") !== digest.expected) {
      throw new HubError("corrupt_download", `${file} does not match the checksum from the Hub`, {
        hint: "the received bytes were deleted; try again",
      });
    }
    await handle.sync();
    await handle.close();
    handle = undefined;
    await cache.commitBlob(partial, remote.etag);
  } catch (error) {
    await handle?.close();
    if (error instanceof HubError && error.code === "corrupt_download") await rm(partial, { force: true });
    else await cache.releasePartial(partial, remote.etag);
    throw error;
  }

  /** Writes the body to the file. An error of the body stream is a broken connection and becomes a `network` error. */
  async function receive(
    body: AsyncIterable<Uint8Array>,
    start: number,
    store: (part: Uint8Array, position: number) => Promise<void>,
  ): Promise<number> {
    let position = start;
    const parts = body[Symbol.asyncIterator]();
    for (;;) {
      let next: IteratorResult<Uint8Array>;
      try {
        next = await parts.next();
      } catch (cause) {
        options.signal?.throwIfAborted();
        throw new HubError("network", `the connection broke at byte ${position} of ${file}`, { cause });
      }
      if (next.done) return position;
      try {
        await store(next.value, position);
      } catch (error) {
        await parts.return?.(); // releases the connection
        throw error;
      }
      position += next.value.byteLength;
    }
  }
}

function wrongSize(file: string, remote: RemoteFile): HubError {
  return new HubError("corrupt_download", `${file} is longer than the ${remote.size} bytes announced by the Hub`);
}

/** The expected digest from the ETag: a sha256 for large files, a git blob id for small ones. */
function contentDigest({ etag, size }: RemoteFile): { hash: Hash; expected: string } | undefined {
  if (/^[0-9a-f]{64}$/.test(etag)) return { hash: createHash("sha256"), expected: etag };
  if (/^[0-9a-f]{40}$/.test(etag) && size !== undefined) {
    return { hash: createHash("sha1").update(`blob ${size}\0`), expected: etag };
  }
  return undefined;
}

/** Hashes the bytes of the earlier attempt, so that a resumed file is verified as a whole. */
async function hashStart(path: string, bytes: number, hash: Hash | undefined): Promise<void> {
  if (!hash || bytes === 0) return;
  for await (const part of createReadStream(path, { end: bytes - 1 })) hash.update(part as Buffer);
}

function progressOf({ onProgress, file }: DownloadOptions, { size }: RemoteFile): (receivedBytes: number) => void {
  let next = 0;
  return (receivedBytes) => {
    if (!onProgress || (receivedBytes < next && receivedBytes !== size)) return;
    next = receivedBytes + progressStepBytes;
    onProgress({ file, receivedBytes, ...(size !== undefined && { totalBytes: size }) });
  };
}
