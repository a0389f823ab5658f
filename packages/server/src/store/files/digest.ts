/** Checksums of large data without blocking the event loop. */
import { createHash, type Hash } from "node:crypto";
import { yieldToEventLoop } from "@tinklet/engine";

/** Bytes hashed per turn of the event loop: some milliseconds. */
const pieceBytes = 4 * 1024 * 1024;

/** SHA-256 of the concatenated parts. */
export async function sha256(parts: readonly Uint8Array[]): Promise<Hash> {
  const hash = createHash("sha256");
  let since = 0;
  for (const part of parts) {
    for (let at = 0; at < part.byteLength; at += pieceBytes) {
      const piece = part.subarray(at, at + pieceBytes);
      hash.update(piece);
      since += piece.byteLength;
      if (since < pieceBytes) continue;
      since = 0;
      await yieldToEventLoop();
    }
  }
  return hash;
}
