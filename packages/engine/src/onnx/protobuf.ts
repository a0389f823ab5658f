/** The part of the protobuf wire format that ONNX models need: varints and length-delimited fields. */

/** Messages up to this length are concatenated immediately: small copies are cheaper than long lists of parts. */
const smallBytes = 1024;

/** Collects the parts of a message. Large fields are copied once, in the outermost `finish`, at any nesting depth. */
export class ProtobufWriter {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  #push(bytes: Uint8Array): this {
    this.#parts.push(bytes);
    this.#length += bytes.length;
    return this;
  }

  #rawVarint(value: number | bigint): this {
    let rest = BigInt.asUintN(64, BigInt(value)); // protobuf encodes negative numbers in ten bytes
    const bytes: number[] = [];
    do {
      const low = Number(rest & 0x7fn);
      rest >>= 7n;
      bytes.push(rest > 0n ? low | 0x80 : low);
    } while (rest > 0n);
    return this.#push(Uint8Array.from(bytes));
  }

  varint(field: number, value: number | bigint): this {
    return this.#rawVarint(field << 3).#rawVarint(value);
  }

  float(field: number, value: number): this {
    this.#rawVarint((field << 3) | 5);
    return this.#push(new Uint8Array(Float32Array.of(value).buffer));
  }

  bytes(field: number, value: Uint8Array): this {
    return this.#rawVarint((field << 3) | 2)
      .#rawVarint(value.length)
      .#push(value);
  }

  string(field: number, value: string): this {
    return this.bytes(field, new TextEncoder().encode(value));
  }

  message(field: number, write: (writer: ProtobufWriter) => void): this {
    const inner = new ProtobufWriter();
    write(inner);
    if (inner.#length <= smallBytes) return this.bytes(field, inner.finish());
    this.#rawVarint((field << 3) | 2).#rawVarint(inner.#length);
    for (const part of inner.#parts) this.#push(part);
    return this;
  }

  finish(): Uint8Array {
    const result = new Uint8Array(this.#length);
    let offset = 0;
    for (const part of this.#parts) {
      result.set(part, offset);
      offset += part.length;
    }
    return result;
  }
}
