/**
 * Sign-in of a browser: a one-time token from a printed link, or a key, is exchanged for a cookie that scripts cannot read. The cookie is a
 * random number; the store has its hash, its tenant and a fingerprint of the key, so that signing out, a replaced key and its expiry end
 * it, also after a restart. Changes with a cookie must come from the page's own origin.
 */
import { createHash } from "node:crypto";
import type { Clock } from "@tinklet/wire/clock";
import { entropy } from "@tinklet/wire/entropy";
import { Refusal } from "../../queue/refusal.ts";
import type { Database } from "../../store/database.ts";
import { addSignIn, deleteSignIn, getSignIn } from "../../store/tables/sign-ins.ts";
import { type Auth, type Caller, localTenant } from "../access/auth.ts";

const cookieSeconds = 12 * 3600;
/** Unused one-time tokens; beyond it the oldest is dropped. */
const maxTokens = 32;

/** Has the port, because browsers send a cookie to all ports of a host. */
const cookieName = (url: URL): string => `tinklet_studio_${url.port || (url.protocol === "https:" ? "443" : "80")}`;

const hashed = (token: string): string => createHash("sha256").update(token).digest("hex");
const randomText = (): string => Buffer.from(entropy.bytes(24)).toString("base64url");

export interface SignInOptions {
  readonly auth: Auth;
  readonly db: Database;
  readonly clock: Clock;
}

export class SignIn {
  readonly #auth: Auth;
  readonly #db: Database;
  readonly #clock: Clock;
  /** Hashes of unused one-time tokens. */
  readonly #tokens = new Set<string>();
  /** Functions that end the open streams of a sign-in, by its id. */
  readonly #streams = new Map<string, Set<() => void>>();

  constructor({ auth, db, clock }: SignInOptions) {
    this.#auth = auth;
    this.#db = db;
    this.#clock = clock;
  }

  /** Whether signing in needs a key. If so, there are no links with tokens. */
  get needsKey(): boolean {
    return this.#auth.strict;
  }

  /** A one-time token for the local tenant. */
  token(): string {
    const token = randomText();
    const [oldest] = this.#tokens;
    if (this.#tokens.size >= maxTokens && oldest !== undefined) this.#tokens.delete(oldest);
    this.#tokens.add(hashed(token));
    return token;
  }

  /**
   * Signs in with a token or a key; returns the `Set-Cookie` header.
   *
   * @throws {@link Refusal} 401
   */
  async admit(credentials: { readonly token?: unknown; readonly key?: unknown }, url: URL): Promise<string> {
    const tenant = this.#tenantOf(credentials);
    const cookie = randomText();
    const now = this.#clock.now();
    const row = {
      id: hashed(cookie),
      tenant,
      key: this.#auth.keyFingerprint(tenant)!,
      expires_at: now + cookieSeconds * 1000,
    };
    await this.#db.write((sql) => addSignIn(sql, row, now));
    this.#endStreams(); // sign-ins per tenant are limited: the new one may have ended the oldest
    return setCookie(url, cookie, cookieSeconds);
  }

  #tenantOf({ token, key }: { readonly token?: unknown; readonly key?: unknown }): string {
    if (typeof token === "string" && !this.needsKey) {
      if (this.#tokens.delete(hashed(token.slice(0, 200)))) return localTenant;
      throw new Refusal(
        401,
        "link_used",
        "This link was already used, or the server was restarted. Sign in with a key, or open the last link that the server printed.",
      );
    }
    const caller = typeof key === "string" ? this.#auth.callerOf(key.trim()) : undefined;
    if (caller?.credential === "key") return caller.tenant;
    throw new Refusal(
      401,
      "unauthorized",
      this.needsKey
        ? "key: must be a key of this server."
        : "key: must begin with tml-; this server accepts any such key.",
    );
  }

  /** The tenant of a request's cookie; `undefined` without a valid cookie. */
  tenantOf(request: Request, url: URL): string | undefined {
    const cookie = readCookie(request, url);
    return cookie === undefined ? undefined : this.#signedIn(cookie);
  }

  /**
   * The caller by a request's cookie; `undefined` without a cookie.
   *
   * @throws {@link Refusal} 401 for a cookie that is no longer valid, 403 for a change that a page of another origin requests.
   */
  callerOf(request: Request, url: URL): Caller | undefined {
    const cookie = readCookie(request, url);
    if (cookie === undefined) return undefined;
    const tenant = this.#signedIn(cookie);
    if (tenant === undefined) {
      throw new Refusal(
        401,
        "signed_out",
        "This browser is no longer signed in: the sign-in expired, it signed out, the key was replaced, or an older release signed it in. Sign in again.",
      );
    }
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (!isRead) checkSameOrigin(request, url);
    return { tenant, credential: "sign-in", signIn: hashed(cookie) };
  }

  #signedIn(cookie: string): string | undefined {
    const row = getSignIn(this.#db.sql, hashed(cookie));
    if (row === undefined || row.expires_at <= this.#clock.now()) return undefined;
    return this.#auth.keyFingerprint(row.tenant) === row.key ? row.tenant : undefined;
  }

  /** Calls `end` when a sign-in ends. @returns a function that removes the callback */
  untilSignedOut(id: string, end: () => void): () => void {
    const expiresAt = getSignIn(this.#db.sql, id)?.expires_at ?? 0;
    const stopTimer = this.#clock.timer(Math.max(0, expiresAt - this.#clock.now()), end);
    const ends = this.#streams.get(id) ?? new Set();
    this.#streams.set(id, ends.add(end));
    return () => {
      stopTimer();
      if (ends.delete(end) && ends.size === 0) this.#streams.delete(id);
    };
  }

  /** Ends the streams of sign-ins that no longer exist. */
  #endStreams(): void {
    for (const [id, ends] of this.#streams) {
      if (getSignIn(this.#db.sql, id) === undefined) for (const end of [...ends]) end();
    }
  }

  /** Ends a sign-in; returns the `Set-Cookie` header that removes its cookie. */
  async signOut(request: Request, url: URL): Promise<string> {
    const cookie = readCookie(request, url);
    if (cookie !== undefined) await this.#db.write((sql) => deleteSignIn(sql, hashed(cookie)));
    this.#endStreams();
    return setCookie(url, "", 0);
  }
}

/** The value of a request's cookie, unchecked. */
function readCookie(request: Request, url: URL): string | undefined {
  const name = cookieName(url);
  const cookies = (request.headers.get("cookie") ?? "").slice(0, 8192).split(/;\s*/);
  return cookies.find((cookie) => cookie.startsWith(`${name}=`))?.slice(name.length + 1);
}

/** @param url - as the browser sees it. @throws {@link Refusal} 403 */
export function checkSameOrigin(request: Request, url: URL): void {
  if (request.headers.get("origin") === url.origin) return;
  throw new Refusal(
    403,
    "foreign_origin",
    `Changes with a cookie must come from the server's own page (Origin: ${url.origin}). For a server behind a proxy, set its public URL (--public-url, publicUrl).`,
  );
}

function setCookie(url: URL, value: string, seconds: number): string {
  const secure = url.protocol === "https:" ? "; Secure" : "";
  return `${cookieName(url)}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`;
}
