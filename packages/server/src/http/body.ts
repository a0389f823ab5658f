/**
 * Reading a request's body within bounds: size as sent, size unpacked, depth of JSON. Every way a body can be too much ends in a
 * typed refusal before it costs memory.
 */
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { InvalidInputError, ResponseValidationError } from "tinklet";
import { decompressZstd, parseJson } from "tinklet/wire";
import type { Limits } from "../limits.ts";
import { Refusal } from "../queue/refusal.ts";

const unzip = promisify(gunzip);

/** The body's bytes, unpacked. @throws {@link Refusal} */
export async function readBody(request: Request, limits: Limits): Promise<Uint8Array> {
  const told = Number(request.headers.get("content-length") ?? Number.NaN);
  if (told > limits.bodyBytes) throw tooLarge(limits.bodyBytes);
  // The HTTP parser holds a sender to its Content-Length; only without one must the stream be counted.
  const sent = Number.isFinite(told) ? new Uint8Array(await request.arrayBuffer()) : await readCounted(request, limits);
  const encoding = (request.headers.get("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding === "identity" || encoding === "" || sent.byteLength === 0) return sent;
  try {
    if (encoding === "zstd") return await decompressZstd(sent, limits.decompressedBytes);
    if (encoding === "gzip") return await unzip(sent, { maxOutputLength: limits.decompressedBytes });
  } catch (error) {
    const code = (error as { code?: string }).code;
    if (code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(limits.decompressedBytes);
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

async function readCounted(request: Request, limits: Limits): Promise<Uint8Array> {
  if (request.body === null) return new Uint8Array(0);
  const parts: Uint8Array[] = [];
  let total = 0;
  for await (const part of request.body as unknown as AsyncIterable<Uint8Array>) {
    total += part.byteLength;
    if (total > limits.bodyBytes) throw tooLarge(limits.bodyBytes);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

const tooLarge = (limit: number): Refusal =>
  new Refusal(413, "body_too_large", `The body is larger than the ${limit} bytes that this server takes.`);

/** The JSON value of a body; an empty one is an empty object. @throws {@link Refusal} 400 */
export function readJson(bytes: Uint8Array, limits: Limits): unknown {
  if (bytes.byteLength === 0) return {};
  if (depthOf(bytes) > limits.jsonDepth) {
    throw new Refusal(400, "json_too_deep", `The JSON is nested deeper than ${limits.jsonDepth} levels.`);
  }
  try {
    return parseJson(utf8.decode(bytes));
  } catch (error) {
    const told = error instanceof ResponseValidationError ? error.message : "not valid UTF-8";
    throw new Refusal(400, "bad_json", `body: ${told}`);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** The deepest nesting of brackets outside of strings. */
function depthOf(bytes: Uint8Array): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (inString) {
      if (byte === 0x5c) i++;
      else if (byte === 0x22) inString = false;
    } else if (byte === 0x22) inString = true;
    else if (byte === 0x7b || byte === 0x5b) deepest = Math.max(deepest, ++depth);
    else if (byte === 0x7d || byte === 0x5d) depth--;
  }
  return deepest;
}
