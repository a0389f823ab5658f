/** Reads which libraries a Linux library needs: the DT_NEEDED entries of its ELF file (64 bits, little-endian). */
import { closeSync, openSync, readSync } from "node:fs";

const programHeaders = { offset: 32, size: 54, count: 56 } as const;
const segment = { load: 1, dynamic: 2 } as const;
const tag = { end: 0n, needed: 1n, strings: 5n } as const;
/** Limit on the table of dynamic entries, in bytes; real libraries have a few kilobytes. */
const largestTable = 1 << 20;

/** Names of the needed libraries, for example `libcudnn.so.9`; empty if the file is not such a library or cannot be read. */
export function neededLibraries(path: string): readonly string[] {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch {
    return [];
  }
  try {
    const read = (position: number, length: number): Buffer => {
      const bytes = Buffer.alloc(length);
      if (readSync(file, bytes, 0, length, position) < length) throw new RangeError("beyond the end of the file");
      return bytes;
    };
    return neededBy(read);
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  } finally {
    closeSync(file);
  }
}

/** @throws RangeError for an offset outside of the file */
function neededBy(read: (position: number, length: number) => Buffer): readonly string[] {
  const head = read(0, 64);
  if (head.readUInt32BE(0) !== 0x7f454c46 || head[4] !== 2 || head[5] !== 1) return [];
  const start = Number(head.readBigUInt64LE(programHeaders.offset));
  const size = head.readUInt16LE(programHeaders.size);
  const segments = Array.from({ length: head.readUInt16LE(programHeaders.count) }, (_, i) => {
    const bytes = read(start + i * size, 56);
    const [offset, address, length] = [8, 16, 32].map((at) => Number(bytes.readBigUInt64LE(at))) as [
      number,
      number,
      number,
    ];
    return { type: bytes.readUInt32LE(0), offset, address, length };
  });
  const table = segments.find(({ type }) => type === segment.dynamic);
  if (!table || table.length > largestTable) return [];
  const bytes = read(table.offset, table.length);
  const entries = Array.from({ length: Math.floor(table.length / 16) }, (_, i) => ({
    tag: bytes.readBigUInt64LE(16 * i),
    value: Number(bytes.readBigUInt64LE(16 * i + 8)),
  }));
  const strings = entries.find((entry) => entry.tag === tag.strings)?.value;
  const inside = segments.find(
    ({ type, address, length }) =>
      type === segment.load && strings !== undefined && strings >= address && strings < address + length,
  );
  if (strings === undefined || !inside) return [];
  const stringsAt = strings - inside.address + inside.offset;
  return entries
    .filter((entry) => entry.tag === tag.needed)
    .map(({ value }) => {
      const name = read(stringsAt + value, 64);
      return name.toString("latin1", 0, Math.max(0, name.indexOf(0)));
    });
}
