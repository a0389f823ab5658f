/**
 * The bytes of a TensorBoard event file: records with their checksums (TFRecord), and the few fields of the `Event` message that
 * scalars, texts and a restart need, written by hand: the format has been the same for ten years.
 */

/** What an event holds besides its time and step. */
export type EventContent =
  | { readonly fileVersion: string }
  | { readonly scalars: Readonly<Record<string, number>> }
  | { readonly text: { readonly tag: string; readonly text: string } }
  /** The run resumes at this event's step: earlier events of later steps are not shown. */
  | { readonly restart: true };

/** One record of an event file. */
export function eventRecord(
  { timeMs, step }: { readonly timeMs: number; readonly step: number },
  content: EventContent,
): Buffer {
  return record(Buffer.concat([double(1, timeMs / 1000), integer(2, step), contentField(content)]));
}

function contentField(content: EventContent): Buffer {
  if ("fileVersion" in content) return bytes(3, content.fileVersion);
  if ("restart" in content) return bytes(7, integer(1, 1)); // SessionLog.START
  if ("text" in content) {
    const { tag, text } = content.text;
    const tensor = Buffer.concat([integer(1, 7), bytes(2, bytes(2, integer(1, 1))), bytes(8, text)]); // DT_STRING, shape [1]
    const metadata = bytes(1, bytes(1, "text")); // shown by the plugin of this name
    return bytes(5, bytes(1, Buffer.concat([bytes(1, `${tag}/text_summary`), bytes(8, tensor), bytes(9, metadata)])));
  }
  const values = Object.entries(content.scalars).map(([tag, value]) =>
    bytes(1, Buffer.concat([bytes(1, tag), float(2, value)])),
  );
  return bytes(5, Buffer.concat(values));
}

/** Length, checksum of the length, data, checksum of the data. */
function record(data: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(data.length));
  return Buffer.concat([head, maskedChecksum(head), data, maskedChecksum(data)]);
}

/** CRC-32C, masked as TFRecord has it, so that a record inside a record is not mistaken for one. */
function maskedChecksum(data: Uint8Array): Buffer {
  const crc = crc32c(data);
  const masked = (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
  const result = Buffer.alloc(4);
  result.writeUInt32LE(masked);
  return result;
}

/** For each byte, what eight steps of the division by the Castagnoli polynomial leave. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0x82f63b78 : rest >>> 1;
  return rest;
});

/** The CRC-32C checksum (Castagnoli). Node's `zlib.crc32` is another polynomial. */
export function crc32c(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) crc = (crc >>> 8) ^ (table[(crc ^ byte) & 0xff] as number);
  return (crc ^ 0xffffffff) >>> 0;
}

// Fields of protobuf messages: the number and the kind of the field, then its value.
const varint = (value: number): Buffer => {
  const parts: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) parts.push((rest % 128) | 128);
  return Buffer.from([...parts, rest]);
};
const integer = (field: number, value: number) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field: number, value: Buffer | string) => {
  const content = typeof value === "string" ? Buffer.from(value) : value;
  return Buffer.concat([varint(field * 8 + 2), varint(content.length), content]);
};
const double = (field: number, value: number) => {
  const result = Buffer.alloc(8);
  result.writeDoubleLE(value);
  return Buffer.concat([varint(field * 8 + 1), result]);
};
const float = (field: number, value: number) => {
  const result = Buffer.alloc(4);
  result.writeFloatLE(value);
  return Buffer.concat([varint(field * 8 + 5), result]);
};
