/**
 * Who is asking. Without configured keys (loopback only) every well-formed key is the one local user; with them each key is a
 * tenant of its own. Keys are kept as SHA-256: they are long random texts, so a slow password hash would add nothing. Also makes
 * and reads the short-lived tokens that `auth/token` hands out.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "tinklet";
import { Refusal } from "../queue/refusal.ts";

export interface Caller {
  /** Everything that is stored belongs to a tenant. */
  readonly tenant: string;
}

/** One configured key. */
export interface ApiKey {
  /** Letters, digits, `.`, `_`, `-`: shown in listings, part of every stored row. */
  readonly name: string;
  /** {@link hashApiKey} of the key. */
  readonly sha256: string;
}

/** The tenant of a server without configured keys. */
export const localTenant = "local";

const tokenLifetimeMs = 3_600_000;

/** The form in which a key may be written to a file. */
export const hashApiKey = (key: string): string => createHash("sha256").update(key).digest("hex");

/**
 * Reads a key file: one `name sha256:<hex>` a line, `#` begins a comment.
 *
 * @throws Error naming the line, without repeating what stands on it; also when there is no key at all.
 */
export function parseApiKeys(text: string): ApiKey[] {
  const keys: ApiKey[] = [];
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    const content = line.replace(/#.*/, "").trim();
    if (content === "") continue;
    const match = /^([A-Za-z0-9][A-Za-z0-9._-]{0,63})\s+sha256:([0-9a-f]{64})$/.exec(content);
    if (match === null) {
      throw new Error(
        `line ${i + 1} of the key file is not "name sha256:<64 hex digits>". Keys are stored hashed: printf %s KEY | sha256sum`,
      );
    }
    if (keys.some(({ name }) => name === match[1])) throw new Error(`line ${i + 1} of the key file repeats a name`);
    keys.push({ name: match[1]!, sha256: match[2]! });
  }
  // An empty list would mean a server that takes any key.
  if (keys.length === 0) {
    throw new Error(
      'the key file holds no key. Write one "name sha256:<64 hex digits>" a line, or leave the file out (--api-keys, apiKeys).',
    );
  }
  return keys;
}

/** The key of a chat: clients of OpenAI's API send it as a bearer, those of Anthropic's as `X-API-Key`, or as a bearer too. */
export function credentialOf(request: Request): string | null {
  const bearer = /^bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "");
  return request.headers.get("x-api-key") ?? bearer?.[1] ?? null;
}

export class Auth {
  readonly #keys: readonly ApiKey[];
  readonly #secret: Buffer;
  readonly #clock: Clock;

  constructor(keys: readonly ApiKey[], secret: Buffer, clock: Clock) {
    this.#keys = keys;
    this.#secret = secret;
    this.#clock = clock;
  }

  /** Whether keys are configured. */
  get strict(): boolean {
    return this.#keys.length > 0;
  }

  /** @throws {@link Refusal} 401 */
  identify(credential: string | null): Caller {
    const tenant = this.tenantOf(credential);
    if (tenant !== undefined) return { tenant };
    const missing = credential === null || credential === "";
    throw new Refusal(
      401,
      "unauthorized",
      missing
        ? "The X-API-Key header is missing. Set TINKER_API_KEY; on a server without configured keys any tml-… will do."
        : "The X-API-Key header holds no key of this server.",
    );
  }

  /** The tenant that a key or token stands for. */
  tenantOf(credential: string | null): string | undefined {
    if (credential === null || credential.length > 4096) return undefined;
    if (credential.startsWith("eyJ")) {
      const subject = this.#readToken(credential);
      if (subject !== undefined) return subject;
      return this.strict ? undefined : localTenant;
    }
    if (!/^tml-[\x21-\x7e]+$/.test(credential)) return undefined;
    if (!this.strict) return localTenant;
    const given = Buffer.from(hashApiKey(credential), "hex");
    // every key is compared, so that the time taken does not tell which one was close
    let found: string | undefined;
    for (const { name, sha256 } of this.#keys) if (timingSafeEqual(given, Buffer.from(sha256, "hex"))) found = name;
    return found;
  }

  /** Whether a tenant is one of this server's. */
  knows(tenant: string): boolean {
    return this.strict ? this.#keys.some(({ name }) => name === tenant) : tenant === localTenant;
  }

  /** A token for a tenant, good for an hour. */
  token(tenant: string): string {
    const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const now = Math.floor(this.#clock.now() / 1000);
    const claims = {
      iss: "passport-tinklet",
      sub: `tml:user:${tenant}`,
      email: "",
      org_id: "tinklet",
      iat: now,
      exp: now + tokenLifetimeMs / 1000,
    };
    const text = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}`;
    return `${text}.${this.#sign(text)}`;
  }

  #readToken(token: string): string | undefined {
    const match = /^([\w-]+\.([\w-]+))\.([\w-]+)$/.exec(token);
    if (match === null) return undefined;
    const given = Buffer.from(match[3]!);
    const expected = Buffer.from(this.#sign(match[1]!));
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
    const claims = JSON.parse(Buffer.from(match[2]!, "base64url").toString()) as { sub: string; exp: number };
    if (claims.exp * 1000 <= this.#clock.now()) return undefined;
    const tenant = claims.sub.slice("tml:user:".length);
    // a key that was taken out of the file ends its tokens too
    return !this.strict ? localTenant : this.knows(tenant) ? tenant : undefined;
  }

  #sign(text: string): string {
    return createHmac("sha256", this.#secret).update(`token\0${text}`).digest("base64url");
  }
}
