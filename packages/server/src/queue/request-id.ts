/**
 * Numbers of rows as callers see them. Rows are numbered across tenants, so a number in the clear would tell a tenant how much the others
 * do. An id is one AES block of the row's number and its tenant: it shows neither, cannot be guessed, and tells the server without a row
 * whether this tenant was ever given it (a result that has expired is told from an id that never was).
 */
import { createCipheriv, createDecipheriv, createHmac, timingSafeEqual } from "node:crypto";

const cipher = "aes-128-ecb"; // one block, whose plaintext never repeats: there is nothing to chain
const tagBytes = 8;
const oldChecksumLength = 16;

/** Ids of one kind of rows. */
export class OpaqueIds {
  readonly #secret: Buffer;
  readonly #key: Buffer;
  readonly #kind: string;
  /** By tenant: each is one of the server's keys, so there are few. */
  readonly #tags = new Map<string, Buffer>();

  /** @param kind - the rows; an id of one kind is none of another. */
  constructor(secret: Buffer, kind: string) {
    this.#secret = secret;
    this.#kind = kind;
    this.#key = createHmac("sha256", secret).update(`${kind} ids`).digest().subarray(0, 16);
  }

  make(row: number, tenant: string): string {
    const block = Buffer.alloc(16);
    this.#tag(tenant).copy(block);
    block.writeBigUInt64BE(BigInt(row), tagBytes);
    return createCipheriv(cipher, this.#key, null).setAutoPadding(false).update(block).toString("hex");
  }

  /** The row's number, or `undefined` when this server never gave this id to this tenant. */
  read(text: string, tenant: string): number | undefined {
    if (!/^[0-9a-f]{32}$/.test(text)) return undefined;
    const block = createDecipheriv(cipher, this.#key, null).setAutoPadding(false).update(Buffer.from(text, "hex"));
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

/** Ids of requests. Those that an older release gave out (the number in base 36 and a checksum) are read, too. */
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

  /** The row's number, or `undefined` when this server never gave this id to this tenant. */
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
