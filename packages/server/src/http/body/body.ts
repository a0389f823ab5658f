/**
 * Reads a request's body within limits: bytes as sent, bytes decompressed, rate, depth and parts of its JSON, and the tenant's share of all
 * bodies. Bytes count once they have arrived, not when a header announces them. A body that exceeds a limit is refused before it takes
 * memory beyond it.
 */
import { createGunzip } from "node:zlib";
import { yieldToEventLoop } from "@tinklet/engine";
import { decompressZstd, parseJson } from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import type { Limits } from "../../limits.ts";
import { Refusal } from "../../queue/refusal.ts";
import { type SideThread, ThreadClosed, ThreadDied } from "../../thread/side-thread.ts";
import type { Lease } from "../access/tenant-pool.ts";

/** Maximum size of one body. */
export interface BodyBounds {
  /** Bytes as sent. */
  readonly bodyBytes: number;
  /** Bytes after decompression. */
  readonly decompressedBytes: number;
}

/** The bytes of a body as they arrive. Returns a function that stops listening. */
export type BodySource = (listener: BodyListener) => () => void;

export interface BodyListener {
  readonly part: (bytes: Uint8Array) => void;
  readonly end: () => void;
  readonly failed: (error: unknown) => void;
}

/** Dependencies of reading a body. */
export interface BodyReader {
  /** @defaultValue the request's own stream */
  readonly source: BodySource | undefined;
  readonly lease: Lease;
  readonly clock: Clock;
  /** Minimum rate of a body. */
  readonly pace: Pick<Limits, "bodyStallMs" | "bodyBytesPerSecond">;
  /** Decompresses zstd. */
  readonly thread: SideThread;
}

/** The body's bytes, decompressed. @throws {@link Refusal} */
export async function readBody(request: Request, bounds: BodyBounds, reader: BodyReader): Promise<Uint8Array> {
  const { lease, thread } = reader;
  const sent = await readSent(request, bounds.bodyBytes, reader);
  const encoding = (request.headers.get("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding === "identity" || encoding === "" || sent.byteLength === 0) return sent;
  try {
    if (encoding === "zstd") {
      // the bytes are leased before the memory is allocated, because several bodies may decompress at the same time
      let taken = 0;
      const onRoom = (room: number) => {
        lease.take(room - taken);
        taken = room;
      };
      return await decompressZstd(sent, {
        maxBytes: bounds.decompressedBytes,
        onRoom,
        unpack: (bytes, capacity) => thread.run("unpackZstd", { bytes: withOwnBuffer(bytes), capacity }),
      });
    }
    if (encoding === "gzip") {
      const unpacked = createGunzip({ chunkSize: 64 * 1024 });
      unpacked.end(sent);
      return await collect(unpacked, bounds.decompressedBytes, lease);
    }
  } catch (error) {
    if (error instanceof Refusal) throw error;
    if (error instanceof ThreadDied) throw tooLarge(bounds.decompressedBytes);
    if (error instanceof ThreadClosed) throw new Refusal(503, "shutting_down", error.message, { retryAfterSeconds: 1 });
    throw new Refusal(
      422,
      "bad_encoding",
      error instanceof InvalidInputError ? error.message : `body: is not intact ${encoding}`,
    );
  }
  throw new Refusal(
    415,
    "unknown_encoding",
    `Content-Encoding: must be zstd, gzip or identity, got ${encoding.slice(0, 40)}.`,
  );
}

/** Bytes that are not a view of a larger buffer: a message to another thread would copy the whole buffer. */
const withOwnBuffer = (bytes: Uint8Array): Uint8Array =>
  bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice();

/** Reads a stream into memory and counts each part when it arrives. @throws Refusal 413 above `limit` bytes, before they are stored */
async function collect(stream: AsyncIterable<Uint8Array>, limit: number, lease: Lease): Promise<Uint8Array> {
  const parts = new Parts(limit, lease);
  for await (const part of stream) parts.add(part);
  return joined(parts);
}

/**
 * The received parts of a body. Parts after the first are copied into blocks, each as large as all blocks before it: as separate arrays,
 * thousands of one-byte parts would take a hundred times their bytes. The lease counts the blocks, at most twice the received bytes.
 */
class Parts {
  readonly #limit: number;
  readonly #lease: Lease;
  readonly #full: Uint8Array[] = [];
  #block = new Uint8Array(0);
  /** Bytes used of the last block. */
  #filled = 0;
  #total = 0;

  constructor(limit: number, lease: Lease) {
    this.#limit = limit;
    this.#lease = lease;
  }

  get total(): number {
    return this.#total;
  }

  /** In order. */
  get blocks(): readonly Uint8Array[] {
    return [...this.#full, this.#block.subarray(0, this.#filled)];
  }

  /** @throws {@link Refusal} 413, 429 */
  add(part: Uint8Array): void {
    const total = this.#total + part.byteLength;
    if (total > this.#limit) throw tooLarge(this.#limit);
    if (this.#total === 0) {
      this.#lease.take(part.byteLength);
      this.#full.push(part);
    } else this.#copy(part);
    this.#total = total;
  }

  #copy(part: Uint8Array): void {
    const fits = part.subarray(0, this.#block.length - this.#filled);
    this.#block.set(fits, this.#filled);
    this.#filled += fits.length;
    const rest = part.subarray(fits.length);
    if (rest.length === 0) return;
    const size = Math.max(rest.length, Math.min(this.#total, largestBlock));
    this.#lease.take(size);
    if (this.#filled > 0) this.#full.push(this.#block);
    this.#block = new Uint8Array(size);
    this.#block.set(rest);
    this.#filled = rest.length;
  }
}

const largestBlock = 1024 * 1024;

/** Bytes copied without yielding to the event loop: some milliseconds. */
const copyChunkBytes = 8 * 1024 * 1024;

/** The parts as one array. */
async function joined({ blocks, total }: Parts): Promise<Uint8Array> {
  if (blocks[0]!.length === total) return blocks[0]!;
  const bytes = new Uint8Array(total);
  let at = 0;
  let since = 0;
  for (const block of blocks) {
    bytes.set(block, at);
    at += block.length;
    since += block.length;
    if (since < copyChunkBytes) continue;
    since = 0;
    await yieldToEventLoop();
  }
  return bytes;
}

async function readSent(request: Request, limit: number, reader: BodyReader): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length")) > limit) throw tooLarge(limit);
  const source = reader.source ?? (request.body === null ? undefined : streamSource(request.body));
  if (source === undefined) return new Uint8Array(0);
  const parts = new Parts(limit, reader.lease);
  await arrival(source, parts, reader);
  return joined(parts);
}

/** Resolves when the whole body has arrived. @throws {@link Refusal} 408 when it is too slow */
function arrival(source: BodySource, parts: Parts, { clock, pace }: BodyReader): Promise<void> {
  const { bodyStallMs, bodyBytesPerSecond } = pace;
  return new Promise((resolve, reject) => {
    const started = clock.monotonic();
    let lastPart = started;
    let stopTimer = () => {};
    let stopListening = () => {};
    const settle = (done: () => void) => {
      stopTimer();
      stopListening();
      done();
    };
    const watchPace = () => {
      const rateDeadline = started + bodyStallMs + (parts.total / bodyBytesPerSecond) * 1000;
      const left = Math.min(lastPart + bodyStallMs, rateDeadline) - clock.monotonic();
      if (left > 0) stopTimer = clock.timer(left, watchPace);
      else settle(() => reject(tooSlow(pace)));
    };
    watchPace();
    stopListening = source({
      part: (bytes) => {
        lastPart = clock.monotonic();
        try {
          parts.add(bytes);
        } catch (error) {
          settle(() => reject(error));
        }
      },
      end: () => settle(resolve),
      failed: () => settle(() => reject(incomplete())),
    });
  });
}

const tooSlow = ({ bodyStallMs, bodyBytesPerSecond }: BodyReader["pace"]): Refusal =>
  new Refusal(
    408,
    "body_too_slow",
    `The body must arrive with at least ${bodyBytesPerSecond} bytes per second and without a pause of ${bodyStallMs} ms. Send it again.`,
  );

const incomplete = (): Refusal =>
  new Refusal(400, "body_incomplete", "The connection closed before the body was complete. Send it again.");

/** A web stream as a source. */
const streamSource =
  (stream: ReadableStream<Uint8Array>): BodySource =>
  ({ part, end, failed }) => {
    const reader = stream.getReader();
    const pump = async (): Promise<void> => {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return end();
        part(value);
      }
    };
    pump().catch(failed);
    return () => void reader.cancel().catch(() => {});
  };

const tooLarge = (limit: number): Refusal =>
  new Refusal(413, "body_too_large", `The body is larger than the limit of ${limit} bytes.`);

/** The JSON value of a body; an empty body is read as `{}`. @throws {@link Refusal} 400, 413 */
export function readJson(bytes: Uint8Array, limits: Limits): unknown {
  if (bytes.byteLength === 0) return {};
  const { depth, parts, elements } = shapeOf(bytes);
  if (depth > limits.jsonDepth) {
    throw new Refusal(
      400,
      "json_too_deep",
      `The JSON is nested ${depth} levels deep; the limit is ${limits.jsonDepth}.`,
    );
  }
  for (const [count, limit, what] of [
    [parts, limits.jsonParts, "objects, arrays and keys"],
    [elements, limits.jsonElements, "elements"],
  ] as const) {
    if (count <= limit) continue;
    const problem = `The JSON has ${count} ${what}; the limit is ${limit}.`;
    throw new Refusal(413, "json_too_large", `${problem} Send less per request; passes can be sent as protobuf.`);
  }
  try {
    return parseJson(utf8.decode(bytes));
  } catch (error) {
    const problem = error instanceof ResponseValidationError ? error.message : "not valid UTF-8";
    throw new Refusal(400, "bad_json", `body: ${problem}`);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Depth of nested brackets outside of strings; number of objects, arrays and keys (`parts`); number of elements. */
function shapeOf(bytes: Uint8Array): { depth: number; parts: number; elements: number } {
  let depth = 0;
  let deepest = 0;
  let parts = 0;
  let elements = 0;
  let inString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (inString) {
      if (byte === 0x5c) i++;
      else if (byte === 0x22) inString = false;
    } else if (byte === 0x22) inString = true;
    else if (byte === 0x7b || byte === 0x5b) {
      parts++;
      deepest = Math.max(deepest, ++depth);
    } else if (byte === 0x2c) elements++;
    else if (byte === 0x3a) parts++;
    else if (byte === 0x7d || byte === 0x5d) depth--;
  }
  // one more element than commas
  return { depth: deepest, parts, elements: elements + 1 };
}
