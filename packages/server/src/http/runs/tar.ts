/** Writes a tar archive (ustar, plain files only) as a stream, so that no archive is held in memory. */

export interface TarEntry {
  readonly name: string;
  readonly size: number;
  /** Opens the content. Called when the entry is written, so that only one file is open at a time. */
  readonly content: () => AsyncIterable<Uint8Array>;
}

const block = 512;

export async function* tarStream(entries: Iterable<TarEntry>, modifiedMs: number): AsyncGenerator<Uint8Array> {
  for (const { name, size, content } of entries) {
    yield header(name, size, modifiedMs);
    let written = 0;
    for await (const part of content()) {
      written += part.byteLength;
      yield part;
    }
    if (written !== size) throw new Error(`${name} changed while it was being archived`);
    if (size % block !== 0) yield new Uint8Array(block - (size % block));
  }
  yield new Uint8Array(2 * block);
}

/** The largest size in eleven octal digits, just below 8 GiB; larger sizes are binary, as in GNU tar. */
const maxOctalSize = 8 ** 11 - 1;
const sizeField = { at: 124, length: 12 } as const;

function putSize(header: Uint8Array, size: number): void {
  const { at, length } = sizeField;
  if (size <= maxOctalSize) {
    header.set(new TextEncoder().encode(size.toString(8).padStart(length - 1, "0")), at);
    return;
  }
  header[at] = 0x80;
  new DataView(header.buffer).setBigUint64(at + length - 8, BigInt(size));
}

function header(name: string, size: number, modifiedMs: number): Uint8Array {
  const bytes = new Uint8Array(block);
  const put = (text: string, at: number) => bytes.set(new TextEncoder().encode(text), at);
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, "0");
  put(name, 0);
  put(octal(0o644, 7), 100);
  put(octal(0, 7), 108);
  put(octal(0, 7), 116);
  putSize(bytes, size);
  put(octal(Math.floor(modifiedMs / 1000), 11), 136);
  put("        ", 148); // the checksum is computed with its own field as spaces
  put("0", 156);
  put("ustar\u000000", 257);
  put(
    `${octal(
      bytes.reduce((sum, byte) => sum + byte, 0),
      6,
    )}\0 `,
    148,
  );
  return bytes;
}
