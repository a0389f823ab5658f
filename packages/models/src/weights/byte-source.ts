/** Bytes with a name and a known size, which the readers of weight files read from: a file on disk, or bytes in memory. */

/** Bytes with a name and a known size. */
export interface ByteSource {
  /** Shown in error messages. */
  readonly path: string;
  readonly size: number;
  /** Fills `into` from `position`; the caller has checked both against `size`. */
  read(into: Uint8Array, position: number): void;
  /** Idempotent. */
  close(): void;
}

/** Bytes in memory. @param path - their name in error messages */
export const bytesInMemory = (bytes: Uint8Array, path: string): ByteSource => ({
  path,
  size: bytes.byteLength,
  read: (into, position) => into.set(bytes.subarray(position, position + into.byteLength)),
  close: () => {},
});
