/**
 * Authentication by API key or token. Without configured keys (loopback only) all well-formed keys are the same local tenant; with them
 * each key is a tenant. Keys are stored as SHA-256: they are long random strings, so a slow password hash would not make them safer. Also
 * signs and checks the one-hour tokens of `auth/token`; the signature depends on the key's hash, so a token ends when its key is replaced.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "@tinklet/wire/clock";
import { Refusal } from "../../queue/refusal.ts";

export interface Caller {
  /** Everything that is stored belongs to a tenant. */
  readonly tenant: string;
  /** Kind of the credential. Only a key can be exchanged for a token or a sign-in: otherwise a leaked token could be renewed without end. */
  readonly credential: "key" | "token" | "sign-in";
  /** Id of the sign-in, if that is the credential. */
  readonly signIn?: string;
}

/** One configured key. */
export interface ApiKey {
  /** The tenant: letters, digits, `.`, `_`, `-`. Shown in listings and stored with every row. */
  readonly name: string;
  /** {@link hashApiKey} of the key. */
  readonly sha256: string;
}

/** The tenant of a server without configured keys. */
export const localTenant = "local";

const tokenLifetimeMs = 3_600_000;

/** The hash of a key, as it is written to a key file. */
export const hashApiKey = (key: string): string => createHash("sha256").update(key).digest("hex");

/**
 * Reads a key file: one `name sha256:<hex>` per line; `#` starts a comment.
 *
 * @throws Error with the number of an invalid line, without its text, which may be a key; also when the file has no key.
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
  // a server with an empty list would accept any key
  if (keys.length === 0) {
    throw new Error(
      'the key file has no key. Write one "name sha256:<64 hex digits>" per line, or leave the file out.',
    );
  }
  return keys;
}

/** A key or token of a request, and the header that holds it. */
export interface Credential {
  readonly value: string | null;
  /** For error messages. */
  readonly header: "X-API-Key" | "Authorization";
}

/** The credential of a request of the Tinker API. */
export const keyCredential = (request: Request): Credential => ({
  value: request.headers.get("x-api-key"),
  header: "X-API-Key",
});

/** The credential of a chat request: OpenAI's clients send a bearer token, Anthropic's `X-API-Key` or a bearer token. */
export function chatCredential(request: Request): Credential {
  const key = keyCredential(request);
  if (key.value !== null || !request.headers.has("authorization")) return key;
  const bearer = /^bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "");
  return { value: bearer?.[1] ?? null, header: "Authorization" };
}

export class Auth {
  readonly #keys: readonly (ApiKey & { readonly digest: Buffer })[];
  readonly #secret: Buffer;
  readonly #clock: Clock;
  /** By tenant; bounded by the number of keys, which do not change while the server runs. */
  readonly #fingerprints = new Map<string, string>();

  constructor(keys: readonly ApiKey[], secret: Buffer, clock: Clock) {
    this.#keys = keys.map((key) => ({ ...key, digest: Buffer.from(key.sha256, "hex") }));
    this.#secret = secret;
    this.#clock = clock;
  }

  /** Whether keys are configured. */
  get strict(): boolean {
    return this.#keys.length > 0;
  }

  /** @throws {@link Refusal} 401 */
  identify({ value, header }: Credential): Caller {
    const caller = this.callerOf(value);
    if (caller !== undefined) return caller;
    throw new Refusal(
      401,
      "unauthorized",
      value === null || value === ""
        ? header === "X-API-Key"
          ? "The X-API-Key header is missing. Set TINKER_API_KEY; a server without configured keys accepts any key that begins with tml-."
          : "The Authorization header has no bearer token. Send Authorization: Bearer KEY."
        : isToken(value)
          ? `The token in the ${header} header is not valid: it has expired, its key was replaced, or an older release issued it. Get a new one for the key (POST /api/v1/auth/token).`
          : `The ${header} header has no key of this server.${this.strict ? "" : " Without configured keys it accepts any key that begins with tml-."}`,
    );
  }

  /** The caller that a key or token identifies; `undefined` if it is not valid. */
  callerOf(credential: string | null): Caller | undefined {
    if (credential === null || credential.length > 4096) return undefined;
    if (isToken(credential)) {
      const tenant = this.#readToken(credential);
      if (tenant !== undefined) return { tenant, credential: "token" };
      // a server without configured keys accepts a token of any server like a key
      return this.strict ? undefined : { tenant: localTenant, credential: "key" };
    }
    const tenant = this.#tenantOfKey(credential);
    return tenant === undefined ? undefined : { tenant, credential: "key" };
  }

  #tenantOfKey(key: string): string | undefined {
    if (!/^tml-[\x21-\x7e]+$/.test(key)) return undefined;
    if (!this.strict) return localTenant;
    const given = Buffer.from(hashApiKey(key), "hex");
    // all keys are compared, so that the time taken does not show which one matched
    let found: string | undefined;
    for (const { name, digest } of this.#keys) if (timingSafeEqual(given, digest)) found = name;
    return found;
  }

  /** A keyed hash that changes with the tenant's key and does not reveal it; `undefined` if the tenant has no key here. */
  keyFingerprint(tenant: string): string | undefined {
    const known = this.#fingerprints.get(tenant);
    if (known !== undefined) return known;
    const key = this.strict ? this.#keys.find(({ name }) => name === tenant)?.sha256 : undefined;
    if (key === undefined && (this.strict || tenant !== localTenant)) return undefined;
    const fingerprint = createHmac("sha256", this.#secret)
      .update(`key\0${tenant}\0${key ?? ""}`)
      .digest("base64url");
    this.#fingerprints.set(tenant, fingerprint);
    return fingerprint;
  }

  /** A token for the tenant of a key, valid for one hour. @throws {@link Refusal} 403 when the credential is not a key */
  token({ tenant, credential }: Caller): string {
    if (this.strict && credential !== "key") {
      throw new Refusal(
        403,
        "key_required",
        "X-API-Key: must be an API key (tml-…), because tokens are issued for keys only. Send the key.",
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

/** The claims of a token, whose signature is not checked yet. */
function readClaims(part: string): { tenant: string; expiresAt: number } | undefined {
  try {
    const { sub, exp } = JSON.parse(Buffer.from(part, "base64url").toString()) as { sub?: unknown; exp?: unknown };
    if (typeof sub !== "string" || !sub.startsWith(subjectPrefix) || typeof exp !== "number") return undefined;
    return { tenant: sub.slice(subjectPrefix.length), expiresAt: exp * 1000 };
  } catch {
    return undefined;
  }
}
