/**
 * Request ids: a counter and a keyed checksum over it and its tenant. The checksum lets the server tell an id whose result has
 * expired from one it never gave out, without keeping a row, and makes ids of others unguessable.
 */
import { createHmac, timingSafeEqual } from "node:crypto";

const checksumLength = 16;

export class RequestIds {
  readonly #secret: Buffer;

  constructor(secret: Buffer) {
    this.#secret = secret;
  }

  make(id: number, tenant: string): string {
    return `${id.toString(36)}-${this.#checksum(id, tenant)}`;
  }

  /** The counter, or `undefined` when this server never gave this id to this tenant. */
  read(text: string, tenant: string): number | undefined {
    const match = /^([0-9a-z]{1,10})-([0-9a-f]{16})$/.exec(text);
    if (match === null) return undefined;
    const id = Number.parseInt(match[1]!, 36);
    const expected = Buffer.from(this.#checksum(id, tenant));
    return timingSafeEqual(expected, Buffer.from(match[2]!)) ? id : undefined;
  }

  #checksum(id: number, tenant: string): string {
    return createHmac("sha256", this.#secret)
      .update(`request\0${id}\0${tenant}`)
      .digest("hex")
      .slice(0, checksumLength);
  }
}
