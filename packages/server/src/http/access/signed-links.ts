/** Links that work without a key, for one thing and for a while: what the CLI downloads archives and traces by. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "@tinklet/wire/clock";

export class SignedLinks {
  readonly #secret: Buffer;
  readonly #clock: Clock;

  constructor(secret: Buffer, clock: Clock) {
    this.#secret = secret;
    this.#clock = clock;
  }

  /** A link to `path` on `origin`, good for `lifetimeMs`. */
  make(origin: string, path: string, lifetimeMs = 900_000): { url: string; expires: Date } {
    const expires = Math.ceil((this.#clock.now() + lifetimeMs) / 1000);
    return {
      url: `${origin}${path}?expires=${expires}&signature=${this.#sign(path, expires)}`,
      expires: new Date(expires * 1000),
    };
  }

  /** `valid`, `expired` (the signature is right, the time is over), or `forged`. */
  check(url: URL): "valid" | "expired" | "forged" {
    const expires = Number(url.searchParams.get("expires"));
    const given = Buffer.from(url.searchParams.get("signature") ?? "");
    const expected = Buffer.from(this.#sign(url.pathname, expires));
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return "forged";
    return expires * 1000 > this.#clock.now() ? "valid" : "expired";
  }

  #sign(path: string, expires: number): string {
    return createHmac("sha256", this.#secret).update(`link\0${path}\0${expires}`).digest("base64url");
  }
}
