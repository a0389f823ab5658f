/**
 * Who is asking. Without configured keys (loopback only) every well-formed key is the one local user; with them each key is a
 * tenant of its own. Keys are kept as SHA-256: they are long random texts, so a slow password hash would add nothing. Also makes
 * and reads the short-lived tokens that `auth/token` hands out. A token is signed with its key's hash: it ends when the key is replaced.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "@tinklet/wire/clock";
import { Refusal } from "../../queue/refusal.ts";

export interface Caller {
  /** Everything that is stored belongs to a tenant. */
  readonly tenant: string;
  /** What was shown. Only keys are exchanged for tokens and sign-ins, or one that leaked would renew itself for ever. */
  readonly credential: "key" | "token" | "sign-in";
  /** Id of the sign-in, where one was shown. */
  readonly signIn?: string;
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
    const caller = this.callerOf(credential);
    if (caller !== undefined) return caller;
    throw new Refusal(
      401,
      "unauthorized",
      credential === null || credential === ""
        ? "The X-API-Key header is missing. Set TINKER_API_KEY; on a server without configured keys any tml-… will do."
        : isToken(credential)
          ? "The token in X-API-Key is not valid: it has expired, its key was replaced, or an older release made it. Get a new one for the key (POST /api/v1/auth/token)."
          : "The X-API-Key header holds no key of this server.",
    );
  }

  /** Who a key or token stands for. */
  callerOf(credential: string | null): Caller | undefined {
    if (credential === null || credential.length > 4096) return undefined;
    if (isToken(credential)) {
      const tenant = this.#readToken(credential);
      if (tenant !== undefined) return { tenant, credential: "token" };
      // one of another server is as good as a key here
      return this.strict ? undefined : { tenant: localTenant, credential: "key" };
    }
    const tenant = this.#tenantOfKey(credential);
    return tenant === undefined ? undefined : { tenant, credential: "key" };
  }

  #tenantOfKey(key: string): string | undefined {
    if (!/^tml-[\x21-\x7e]+$/.test(key)) return undefined;
    if (!this.strict) return localTenant;
    const given = Buffer.from(hashApiKey(key), "hex");
    // every key is compared, so that the time taken does not tell which one was close
    let found: string | undefined;
    for (const { name, sha256 } of this.#keys) if (timingSafeEqual(given, Buffer.from(sha256, "hex"))) found = name;
    return found;
  }

  /** Changes with the tenant's key, and does not tell it; `undefined` when the tenant is none of this server's. */
  keyFingerprint(tenant: string): string | undefined {
    const key = this.strict ? this.#keys.find(({ name }) => name === tenant)?.sha256 : undefined;
    if (key === undefined && (this.strict || tenant !== localTenant)) return undefined;
    return createHmac("sha256", this.#secret)
      .update(`key\0${tenant}\0${key ?? ""}`)
      .digest("base64url");
  }

  /** A token for the owner of a key, good for an hour. @throws {@link Refusal} 403 when the caller has shown something else */
  token({ tenant, credential }: Caller): string {
    if (this.strict && credential !== "key") {
      throw new Refusal(
        403,
        "key_required",
        "X-API-Key: a token is given out for an API key (tml-…) only; send the key.",
      );
    }

    const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const now = Math.floor(this.#clock.now() / 1000);
    const claims = {
      iss: "passport-tinklet",
      sub: `${subjectPrefix}${tenant}`,
      email: "",
      org_id: "tinklet",
      iat: now,
      exp: now + tokenLifetimeMs / 1000,
    };
    const text = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}`;
    return `${text}.${this.#sign(text, tenant)}`;
  }

  #readToken(token: string): string | undefined {
    const match = /^([\w-]+\.([\w-]+))\.([\w-]+)$/.exec(token);
    if (match === null) return undefined;
    const claims = readClaims(match[2]!);
    if (claims === undefined) return undefined;
    const given = Buffer.from(match[3]!);
    const expected = Buffer.from(this.#sign(match[1]!, claims.tenant) ?? "");
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
    return claims.expiresAt > this.#clock.now() ? claims.tenant : undefined;
  }

  #sign(text: string, tenant: string): string | undefined {
    const key = this.keyFingerprint(tenant);
    if (key === undefined) return undefined;
    return createHmac("sha256", this.#secret).update(`token\0${key}\0${text}`).digest("base64url");
  }
}

const isToken = (credential: string): boolean => credential.startsWith("eyJ");

const subjectPrefix = "tml:user:";

/** What a token says, before its signature is checked. */
function readClaims(part: string): { tenant: string; expiresAt: number } | undefined {
  try {
    const { sub, exp } = JSON.parse(Buffer.from(part, "base64url").toString()) as { sub?: unknown; exp?: unknown };
    if (typeof sub !== "string" || !sub.startsWith(subjectPrefix) || typeof exp !== "number") return undefined;
    return { tenant: sub.slice(subjectPrefix.length), expiresAt: exp * 1000 };
  } catch {
    return undefined;
  }
}
