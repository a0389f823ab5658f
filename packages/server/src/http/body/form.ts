/**
 * Parses multipart/form-data into views of the body, so that an adapter of a gigabyte is in memory only once, where its bytes are counted.
 * The search for boundaries yields to the event loop after each chunk.
 */
import { yieldToEventLoop } from "@tinklet/engine";

/** Bytes searched without yielding: a few milliseconds. */
const chunkBytes = 4 * 1024 * 1024;
const maxParts = 100;
/** Per part. */
const maxHeaderBytes = 16 * 1024;

/** The content of each part by its name, the last one if a name repeats. `undefined` if the body is not a valid form. */
export async function readForm(body: Uint8Array, contentType: string): Promise<Map<string, Uint8Array> | undefined> {
  const boundary = /;\s*boundary=(?:"([^"]{1,200})"|([^\s;]{1,200}))/i.exec(contentType);
  if (boundary === null) return undefined;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const delimiter = Buffer.from(`--${boundary[1] ?? boundary[2]}`);
  const next = Buffer.concat([Buffer.from("\r\n"), delimiter]);
  const parts = new Map<string, Uint8Array>();
  let at = await find(bytes, delimiter, 0);
  for (let count = 0; at >= 0 && count < maxParts; count++) {
    const from = at + (count === 0 ? delimiter : next).length;
    const line = bytes.toString("latin1", from, from + 2);
    if (line === "--") return parts;
    const head = bytes.subarray(from, from + maxHeaderBytes);
    const end = head.indexOf("\r\n\r\n");
    if (line !== "\r\n" || end < 0) return undefined;
    const name = nameOf(head.toString("utf8", 0, end));
    if (name === undefined) return undefined;
    at = await find(bytes, next, from + end + 2); // in an empty part the boundary directly follows the headers
    if (at < 0) return undefined;
    parts.set(name, bytes.subarray(from + end + 4, Math.max(at, from + end + 4)));
  }
  return undefined;
}

/** The `name` in a part's headers. */
function nameOf(headers: string): string | undefined {
  const line = /^content-disposition:\s*form-data\s*;(.*)$/im.exec(headers)?.[1];
  const found = line === undefined ? null : /(?:^|[;\s])name="([^"]*)"/i.exec(line);
  return found?.[1]?.replaceAll("%22", '"').replaceAll("%0D", "\r").replaceAll("%0A", "\n");
}

async function find(bytes: Buffer, wanted: Buffer, from: number): Promise<number> {
  for (let at = from; at < bytes.length; at += chunkBytes) {
    const found = bytes.subarray(at, at + chunkBytes + wanted.length - 1).indexOf(wanted);
    if (found >= 0) return at + found;
    await yieldToEventLoop();
  }
  return -1;
}
