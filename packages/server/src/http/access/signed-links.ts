/** Links that need no key, each for one path and a limited time. The CLI downloads archives and traces with them. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "@tinklet/wire/clock";

export class SignedLinks {
  readonly #secret: Buffer;
  readonly #clock: Clock;

  constructor(secret: Buffer, clock: Clock) {
    this.#secret = secret;
    this.#clock = clock;
  }

  /** A link to `path` on `origin`, valid for `lifetimeMs`. */
  make(origin: string, path: string, lifetimeMs = 900_000): { url: string; expires: Date } {
    const expires = Math.ceil((this.#clock.now() + lifetimeMs) / 1000);
    return {
      url: `${origin}${path}?expires=${expires}&signature=${this.#sign(path, expires)}`,
      expires: new Date(expires * 1000),
    };
  }

  /** `expired` means that the signature is correct and the time is over. */
  check(url: URL): "valid" | "expired" | "forged" {
    const expires = Number(url.searchParams.get("expires"));
    const signature = Buffer.from(url.searchParams.get("signature") ?? "");
    const expected = Buffer.from(this.#sign(url.pathname, expires));
    if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) return "forged";
    return expires * 1000 > this.#clock.now() ? "valid" : "expired";
  }

  #sign(path: string, expires: number): string {
    return createHmac("sha256", this.#secret).update(`link\0${path}\0${expires}`).digest("base64url");
  }
}
