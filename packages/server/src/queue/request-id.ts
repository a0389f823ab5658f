/**
 * Encrypted row numbers as public ids. Rows are numbered across tenants, so a plain number would show a tenant how active the others are.
 * An id is one AES block of the row number and a tag of the tenant: it reveals neither and cannot be guessed. The server can verify an id
 * without a row, and so distinguishes an expired result from an id that never existed.
 */
import { type Cipher, createCipheriv, createDecipheriv, createHmac, type Decipher, timingSafeEqual } from "node:crypto";

const cipher = "aes-128-ecb"; // safe here: every plaintext is a single block and unique
const tagBytes = 8;
const oldChecksumLength = 16;

/** Ids of one kind of rows. */
export class OpaqueIds {
  readonly #secret: Buffer;
  readonly #encrypt: Cipher;
  readonly #decrypt: Decipher;
  readonly #kind: string;
  /** By tenant. Bounded by the number of API keys. */
  readonly #tags = new Map<string, Buffer>();

  /** @param kind - what the rows are; an id of one kind is invalid for another kind. */
  constructor(secret: Buffer, kind: string) {
    this.#secret = secret;
    this.#kind = kind;
    const key = createHmac("sha256", secret).update(`${kind} ids`).digest().subarray(0, 16);
    // Without padding every block is independent, so that one object serves all ids.
    this.#encrypt = createCipheriv(cipher, key, null).setAutoPadding(false);
    this.#decrypt = createDecipheriv(cipher, key, null).setAutoPadding(false);
  }

  make(row: number, tenant: string): string {
    const block = Buffer.alloc(16);
    this.#tag(tenant).copy(block);
    block.writeBigUInt64BE(BigInt(row), tagBytes);
    return this.#encrypt.update(block).toString("hex");
  }

  /** The row number, or `undefined` when this server never issued this id to this tenant. */
  read(text: string, tenant: string): number | undefined {
    if (!/^[0-9a-f]{32}$/.test(text)) return undefined;
    const block = this.#decrypt.update(Buffer.from(text, "hex"));
    if (!timingSafeEqual(block.subarray(0, tagBytes), this.#tag(tenant))) return undefined;
    return Number(block.readBigUInt64BE(tagBytes));
  }

  #tag(tenant: string): Buffer {
    let tag = this.#tags.get(tenant);
    if (tag === undefined) {
      tag = createHmac("sha256", this.#secret).update(`${this.#kind} of\0${tenant}`).digest().subarray(0, tagBytes);
      this.#tags.set(tenant, tag);
    }
    return tag;
  }
}

/** Ids of requests. The format of an older release (the number in base 36 and a checksum) is also read. */
export class RequestIds {
  readonly #secret: Buffer;
  readonly #ids: OpaqueIds;

  constructor(secret: Buffer) {
    this.#secret = secret;
    this.#ids = new OpaqueIds(secret, "request");
  }

  make(id: number, tenant: string): string {
    return this.#ids.make(id, tenant);
  }

  /** The row number, or `undefined` when this server never issued this id to this tenant. */
  read(text: string, tenant: string): number | undefined {
    return this.#ids.read(text, tenant) ?? this.#readOld(text, tenant);
  }

  #readOld(text: string, tenant: string): number | undefined {
    const match = /^([0-9a-z]{1,10})-([0-9a-f]{16})$/.exec(text);
    if (match === null) return undefined;
    const id = Number.parseInt(match[1]!, 36);
    const checksum = createHmac("sha256", this.#secret)
      .update(`request\0${id}\0${tenant}`)
      .digest("hex")
      .slice(0, oldChecksumLength);
    return timingSafeEqual(Buffer.from(checksum), Buffer.from(match[2]!)) ? id : undefined;
  }
}
