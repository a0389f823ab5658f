/**
 * Protobuf's wire format: the reader and the two-pass writer that the generated code calls. Pass one computes the sizes of nested
 * messages in order, pass two consumes them, so that a batch is written into one buffer of the exact length and each byte array is
 * copied once; general protobuf runtimes copy it at every level.
 */

/** The bytes are not a valid message. Callers convert it to the typed error of their side (client or server). */
export class WireFormatError extends Error {
  override readonly name = "WireFormatError";
}

const textDecoder = new TextDecoder("utf-8", { fatal: true });
const textEncoder = new TextEncoder();

/** A 64-bit integer: a number where a double holds it exactly, a `bigint` beyond. */
export type Int64 = number | bigint;

/** Reads protobuf's wire format from a byte range; never beyond its end. */
export class Reader {
  readonly bytes: Uint8Array;
  readonly #view: DataView;
  position: number;
  end: number;
  #depth = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.position = 0;
    this.end = bytes.byteLength;
  }

  /** The next field's tag, or 0 at the end of the message. */
  tag(): number {
    if (this.position >= this.end) return 0;
    const tag = this.uint32();
    if (tag >>> 3 === 0) throw new WireFormatError("field number 0");
    return tag;
  }

  /** The low 32 bits of a varint, which may be up to ten bytes long. */
  uint32(): number {
    let result = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#byte();
      if (shift < 32) result |= (byte & 0x7f) << shift;
      if (byte < 0x80) return result >>> 0;
    }
    throw new WireFormatError("a varint longer than ten bytes");
  }

  int32(): number {
    return this.uint32() | 0;
  }

  bool(): boolean {
    return this.#varint64() !== 0n;
  }

  int64(): Int64 {
    const start = this.position;
    const small = this.#smallVarint();
    if (small !== undefined) return small;
    this.position = start;
    return exact(BigInt.asIntN(64, this.#varint64()));
  }

  uint64(): Int64 {
    return exact(this.#varint64());
  }

  /** An unsigned integer of eight bytes. */
  fixed64(): Int64 {
    return exact(this.#view.getBigUint64(this.#take(8), true));
  }

  float(): number {
    return this.#view.getFloat32(this.#take(4), true);
  }

  double(): number {
    return this.#view.getFloat64(this.#take(8), true);
  }

  /** A view that shares memory with the message. */
  byteArray(): Uint8Array {
    const length = this.uint32();
    const start = this.#take(length);
    return this.bytes.subarray(start, start + length);
  }

  string(): string {
    try {
      return textDecoder.decode(this.byteArray());
    } catch (error) {
      if (error instanceof WireFormatError) throw error;
      throw new WireFormatError("a string that is not UTF-8");
    }
  }

  /** Reads a nested message with `body`; the reader ends at the end of that message. */
  nested<T>(body: (reader: Reader) => T): T {
    const length = this.uint32();
    const outer = this.end;
    const end = this.position + length;
    if (end > outer) throw new WireFormatError("truncated message");
    if (++this.#depth > 100) throw new WireFormatError("messages nested too deeply");
    this.end = end;
    const value = body(this);
    if (this.position !== end) throw new WireFormatError("a field that extends beyond its message");
    this.end = outer;
    this.#depth--;
    return value;
  }

  /** Reads the elements of a repeated number, packed or not. */
  repeated<T>(tag: number, read: (reader: Reader) => T, into: T[]): void {
    if ((tag & 7) !== 2) {
      into.push(read(this));
      return;
    }
    this.nested((reader) => {
      while (reader.position < reader.end) into.push(read(reader));
    });
  }

  /** Skips a field that this version does not know. */
  skip(tag: number): void {
    switch (tag & 7) {
      case 0:
        this.#varint64();
        return;
      case 1:
        this.#take(8);
        return;
      case 2:
        this.#take(this.uint32());
        return;
      case 5:
        this.#take(4);
        return;
      case 3:
        this.#skipGroup(tag >>> 3);
        return;
      default:
        throw new WireFormatError(`wire type ${tag & 7}`);
    }
  }

  #skipGroup(field: number): void {
    if (++this.#depth > 100) throw new WireFormatError("messages nested too deeply");
    for (;;) {
      const tag = this.tag();
      if (tag === 0) throw new WireFormatError("truncated group");
      if ((tag & 7) === 4) {
        if (tag >>> 3 !== field) throw new WireFormatError("mismatched group");
        this.#depth--;
        return;
      }
      this.skip(tag);
    }
  }

  #byte(): number {
    if (this.position >= this.end) throw new WireFormatError("truncated message");
    return this.bytes[this.position++] as number;
  }

  #take(length: number): number {
    const start = this.position;
    if (length > this.end - start) throw new WireFormatError("truncated message");
    this.position = start + length;
    return start;
  }

  // A varint of up to four bytes, as lengths and shapes usually are: computed without bigint.
  #smallVarint(): number | undefined {
    let result = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#byte();
      result |= (byte & 0x7f) << shift;
      if (byte < 0x80) return result;
    }
    return undefined;
  }

  #varint64(): bigint {
    let result = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte();
      result |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, result);
    }
    throw new WireFormatError("a varint longer than ten bytes");
  }
}

function exact(value: bigint): Int64 {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** How many bytes an unsigned 32-bit number takes as a varint. */
export function varintSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5;
}

/** Size of a signed 32-bit number: negative ones are sign-extended to ten bytes. */
export const int32Size = (value: number): number => (value < 0 ? 10 : varintSize(value));

/** Size of a 64-bit number. */
export function int64Size(value: Int64): number {
  if (typeof value === "number" && value >= 0 && value <= 0xffffffff) return varintSize(value);
  let rest = BigInt.asUintN(64, BigInt(value));
  let size = 1;
  for (; rest >= 0x80n; size++) rest >>= 7n;
  return size;
}

/** Size of a length-delimited value of `length` bytes, its length included. */
export const delimitedSize = (length: number): number => varintSize(length) + length;

/** Cache of encoded strings: names such as `target_tokens` repeat for each datum, and copying is cheaper than encoding again. */
const knownTexts = new Map<string, Uint8Array>();

function encodeText(value: string): Uint8Array {
  const known = knownTexts.get(value);
  if (known !== undefined) return known;
  const bytes = textEncoder.encode(value);
  if (value.length <= 32 && knownTexts.size < 256) knownTexts.set(value, bytes);
  return bytes;
}

/** Pass one: sizes of nested messages in writing order, and the encoded strings. */
export class Sizer {
  readonly sizes: number[] = [];
  readonly texts: Uint8Array[] = [];

  /** Starts a nested message; {@link close} ends it. */
  open(): number {
    return this.sizes.push(0) - 1;
  }

  /** Ends a nested message of `size` bytes; returns its size with its length prefix. */
  close(slot: number, size: number): number {
    this.sizes[slot] = size;
    return delimitedSize(size);
  }

  text(value: string): number {
    const bytes = encodeText(value);
    this.texts.push(bytes);
    return delimitedSize(bytes.byteLength);
  }
}

/** Uninitialised memory where the runtime has it: every byte will be written. */
function uninitialised(length: number): Uint8Array<ArrayBuffer> {
  const host = globalThis as { Buffer?: { allocUnsafeSlow?(length: number): Uint8Array<ArrayBuffer> } };
  const memory = host.Buffer?.allocUnsafeSlow?.(length);
  return memory === undefined ? new Uint8Array(length) : new Uint8Array(memory.buffer, memory.byteOffset, length);
}

/** Pass two: writes into a buffer of exactly the measured size. */
export class Writer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView;
  readonly #sizer: Sizer;
  #position = 0;
  #size = 0;
  #text = 0;

  constructor(sizer: Sizer, length: number, headroom = 0) {
    this.bytes = uninitialised(headroom + length);
    this.#view = new DataView(this.bytes.buffer, this.bytes.byteOffset, headroom + length);
    this.#sizer = sizer;
    this.#position = headroom;
  }

  /** A tag or any unsigned 32-bit number. */
  uint32(value: number): void {
    let rest = value;
    while (rest >= 0x80) {
      this.bytes[this.#position++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.bytes[this.#position++] = rest;
  }

  int32(value: number): void {
    if (value >= 0) this.uint32(value);
    else this.int64(value);
  }

  int64(value: Int64): void {
    if (typeof value === "number" && value >= 0 && value <= 0xffffffff) {
      this.uint32(value);
      return;
    }
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest >= 0x80n; rest >>= 7n) this.bytes[this.#position++] = Number(rest & 0x7fn) | 0x80;
    this.bytes[this.#position++] = Number(rest);
  }

  fixed64(value: Int64): void {
    this.#view.setBigUint64(this.#position, BigInt.asUintN(64, BigInt(value)), true);
    this.#position += 8;
  }

  float(value: number): void {
    this.#view.setFloat32(this.#position, value, true);
    this.#position += 4;
  }

  double(value: number): void {
    this.#view.setFloat64(this.#position, value, true);
    this.#position += 8;
  }

  byteArray(value: Uint8Array): void {
    const length = value.byteLength;
    this.uint32(length);
    if (length > 32) this.bytes.set(value, this.#position);
    else for (let i = 0; i < length; i++) this.bytes[this.#position + i] = value[i] as number; // faster than `set` for short arrays
    this.#position += length;
  }

  /** Number of bytes written; must equal the measured size. */
  get written(): number {
    return this.#position;
  }

  text(): void {
    this.byteArray(this.#sizer.texts[this.#text++] as Uint8Array);
  }

  /** The length prefix of the next nested message. */
  nestedSize(): void {
    this.uint32(this.#sizer.sizes[this.#size++] as number);
  }
}

/** Runs both passes. @param headroom - number of unused bytes before the message */
export function encodeMessage<T>(
  value: T,
  size: (value: T, sizer: Sizer) => number,
  write: (value: T, writer: Writer) => void,
  headroom = 0,
): Uint8Array {
  const sizer = new Sizer();
  const writer = new Writer(sizer, size(value, sizer), headroom);
  write(value, writer);
  if (writer.written !== writer.bytes.byteLength) throw new Error("a value changed while it was being encoded");
  return writer.bytes;
}
