/**
 * Reading a request's body within bounds: size as sent, size unpacked, depth and parts of JSON, and the size of all bodies together.
 * Every way a body can be too much ends in a typed refusal before it costs memory.
 */
import { createGunzip } from "node:zlib";
import { ownTurn } from "@tinklet/engine";
import { InvalidInputError, ResponseValidationError } from "tinklet";
import { decompressZstd, parseJson } from "tinklet/wire";
import type { Limits } from "../limits.ts";
import { Refusal } from "../queue/refusal.ts";
import { type SideThread, ThreadClosed, ThreadDied } from "../thread/side-thread.ts";

/** Bytes of bodies in memory, for all requests together. */
export class BodyBudget {
  readonly #limit: number;
  #used = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** What the bodies of one request hold; {@link BodyHold.release} gives it back. */
  hold(): BodyHold {
    let held = 0;
    return {
      take: (bytes) => {
        if (this.#used + bytes > this.#limit) {
          throw new Refusal(
            429,
            "too_many_bytes",
            "The bodies of all requests together are larger than the server takes.",
            {
              retryAfterSeconds: 1,
            },
          );
        }
        this.#used += bytes;
        held += bytes;
      },
      release: () => {
        this.#used -= held;
        held = 0;
      },
    };
  }

  /** Bytes that are held now. */
  get used(): number {
    return this.#used;
  }
}

/** One request's part of a {@link BodyBudget}. */
export interface BodyHold {
  /** @throws {@link Refusal} 429 when there is no room for these bytes. */
  take(bytes: number): void;
  release(): void;
}

/** How large one body may be. */
export interface BodyBounds {
  /** As sent. */
  readonly bodyBytes: number;
  /** Unpacked. */
  readonly decompressedBytes: number;
}

/** What reading a body takes. */
export interface BodyReader {
  readonly bounds: BodyBounds;
  readonly hold: BodyHold;
  /** Where zstd is unpacked. */
  readonly thread: SideThread;
}

/** The body's bytes, unpacked. @throws {@link Refusal} */
export async function readBody(request: Request, { bounds, hold, thread }: BodyReader): Promise<Uint8Array> {
  const told = Number(request.headers.get("content-length") ?? Number.NaN);
  if (told > bounds.bodyBytes) throw tooLarge(bounds.bodyBytes);
  const sent = await readSent(request, told, bounds, hold);
  const encoding = (request.headers.get("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding === "identity" || encoding === "" || sent.byteLength === 0) return sent;
  try {
    if (encoding === "zstd") {
      // The room is taken before it is filled, since several bodies may be unpacked before the first of them is looked at.
      let taken = 0;
      const onRoom = (room: number) => {
        hold.take(room - taken);
        taken = room;
      };
      return await decompressZstd(sent, {
        maxBytes: bounds.decompressedBytes,
        onRoom,
        unpack: (bytes, capacity) => thread.run("unpackZstd", { bytes: own(bytes), capacity }),
      });
    }
    if (encoding === "gzip") {
      const unpacked = createGunzip({ chunkSize: 64 * 1024 });
      unpacked.end(sent);
      return await collect(unpacked, bounds.decompressedBytes, hold);
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
    `Content-Encoding: ${encoding.slice(0, 40)} is not understood; use zstd or gzip.`,
  );
}

/** Bytes over memory of their own: a view would take along, to another thread, all that it is a view of. */
const own = (bytes: Uint8Array): Uint8Array => (bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice());

/** A stream's bytes, each part counted as it comes: what comes too much is never in memory. */
async function collect(stream: AsyncIterable<Uint8Array>, limit: number, hold: BodyHold): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let total = 0;
  for await (const part of stream) {
    total += part.byteLength;
    if (total > limit) throw tooLarge(limit);
    hold.take(part.byteLength);
    parts.push(part);
  }
  return joined(parts, total);
}

/** Bytes copied in one turn of the event loop: some milliseconds. */
const copyPiece = 8 * 1024 * 1024;

/** The parts end to end; large ones with turns of the event loop in between. */
async function joined(parts: readonly Uint8Array[], total: number): Promise<Uint8Array> {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return only;
  const bytes = new Uint8Array(total);
  let at = 0;
  let since = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.byteLength;
    since += part.byteLength;
    if (since < copyPiece) continue;
    since = 0;
    await ownTurn();
  }
  return bytes;
}

/** Bodies up to this are taken in one piece; of larger ones only what has arrived counts against the budget. */
const onePieceBytes = 1024 * 1024;

async function readSent(request: Request, told: number, bounds: BodyBounds, hold: BodyHold): Promise<Uint8Array> {
  // The HTTP parser holds a sender to its Content-Length; only without one, or when it is large, must the stream be counted.
  if (told <= onePieceBytes) {
    hold.take(told);
    return new Uint8Array(await request.arrayBuffer());
  }
  if (request.body === null) return new Uint8Array(0);
  return collect(request.body as unknown as AsyncIterable<Uint8Array>, bounds.bodyBytes, hold);
}

const tooLarge = (limit: number): Refusal =>
  new Refusal(413, "body_too_large", `The body is larger than the ${limit} bytes that this server takes.`);

/** The JSON value of a body; an empty one is an empty object. @throws {@link Refusal} 400 */
export function readJson(bytes: Uint8Array, limits: Limits): unknown {
  if (bytes.byteLength === 0) return {};
  const { depth, parts, elements } = shapeOf(bytes);
  if (depth > limits.jsonDepth) {
    throw new Refusal(400, "json_too_deep", `The JSON is nested deeper than ${limits.jsonDepth} levels.`);
  }
  for (const [count, limit, what] of [
    [parts, limits.jsonParts, "objects, arrays and keys"],
    [elements, limits.jsonElements, "elements"],
  ] as const) {
    if (count <= limit) continue;
    const many = `The JSON has ${count} ${what}, and ${limit} are taken.`;
    throw new Refusal(413, "json_too_large", `${many} Send less at once; passes have a binary form.`);
  }
  try {
    return parseJson(utf8.decode(bytes));
  } catch (error) {
    const told = error instanceof ResponseValidationError ? error.message : "not valid UTF-8";
    throw new Refusal(400, "bad_json", `body: ${told}`);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** The deepest nesting of brackets outside of strings, how many objects, arrays and keys there are, and how many elements. */
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
  // The first element of an array has no comma before it.
  return { depth: deepest, parts, elements: elements + 1 };
}
