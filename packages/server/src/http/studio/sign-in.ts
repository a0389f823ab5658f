/**
 * Signing a browser in: a one-time token from a printed link, or a key, becomes a cookie that no script can read. The cookie is signed and
 * names a tenant; the server keeps nothing of it but its secret. Requests by cookie must come from the page's own origin.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "tinklet";
import { Refusal } from "../../queue/refusal.ts";
import { type Auth, type Caller, localTenant } from "../auth.ts";

const cookieSeconds = 12 * 3600;
/** Links that can be waiting to be opened; the oldest goes. */
const maxTokens = 32;

/** Cookies are shared by all ports of a host, so that each server has its own name. */
const cookieName = (url: URL): string => `tinklet_studio_${url.port || (url.protocol === "https:" ? "443" : "80")}`;

const hashed = (token: string): string => createHash("sha256").update(token).digest("hex");

export interface SignInOptions {
  readonly auth: Auth;
  readonly secret: Buffer;
  readonly clock: Clock;
}

export class SignIn {
  readonly #auth: Auth;
  readonly #secret: Buffer;
  readonly #clock: Clock;
  /** Hashes of tokens that were not used. */
  readonly #tokens = new Set<string>();

  constructor({ auth, secret, clock }: SignInOptions) {
    this.#auth = auth;
    this.#secret = secret;
    this.#clock = clock;
  }

  /** Whether a key is needed: then there are no links. */
  get needsKey(): boolean {
    return this.#auth.strict;
  }

  /** A token that signs the local user in, once. */
  token(): string {
    const token = randomBytes(24).toString("base64url");
    const [oldest] = this.#tokens;
    if (this.#tokens.size >= maxTokens && oldest !== undefined) this.#tokens.delete(oldest);
    this.#tokens.add(hashed(token));
    return token;
  }

  /**
   * The cookie for a token or a key.
   *
   * @throws {@link Refusal} 401
   */
  admit(given: { readonly token?: unknown; readonly key?: unknown }, url: URL): string {
    const tenant = this.#tenantOf(given);
    const expires = Math.floor(this.#clock.now() / 1000) + cookieSeconds;
    const text = `${tenant}.${expires}`;
    const value = `${Buffer.from(text).toString("base64url")}.${this.#sign(text)}`;
    return setCookie(url, value, cookieSeconds);
  }

  #tenantOf({ token, key }: { readonly token?: unknown; readonly key?: unknown }): string {
    if (typeof token === "string" && !this.needsKey) {
      if (this.#tokens.delete(hashed(token.slice(0, 200)))) return localTenant;
      throw new Refusal(
        401,
        "link_used",
        "This link was used already, or the server was started again. Sign in with a key, or open the link that it printed last.",
      );
    }
    const tenant = typeof key === "string" ? this.#auth.tenantOf(key.trim()) : undefined;
    if (tenant !== undefined) return tenant;
    throw new Refusal(
      401,
      "unauthorized",
      this.needsKey ? "That is no key of this server." : "Keys begin with tml-; on this server any such key will do.",
    );
  }

  /**
   * Whose cookie a request has.
   *
   * @throws {@link Refusal} 403 for a change that was not asked for by a page of this origin.
   */
  callerOf(request: Request, url: URL): Caller | undefined {
    const tenant = this.#readCookie(request, url);
    if (tenant === undefined) return undefined;
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (!isRead) checkSameOrigin(request, url);
    return { tenant };
  }

  #readCookie(request: Request, url: URL): string | undefined {
    const name = cookieName(url);
    const cookies = (request.headers.get("cookie") ?? "").slice(0, 8192).split(/;\s*/);
    const value = cookies.find((cookie) => cookie.startsWith(`${name}=`))?.slice(name.length + 1);
    const match = /^([\w-]{1,400})\.([\w-]{43})$/.exec(value ?? "");
    if (match === null) return undefined;
    const text = Buffer.from(match[1]!, "base64url").toString();
    const given = Buffer.from(match[2]!);
    const expected = Buffer.from(this.#sign(text));
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
    const dot = text.lastIndexOf(".");
    if (Number(text.slice(dot + 1)) * 1000 <= this.#clock.now()) return undefined;
    const tenant = text.slice(0, dot);
    // a key that was taken out of the file ends its cookies too
    return this.#auth.knows(tenant) ? tenant : undefined;
  }

  /** The header that ends a sign-in. */
  signOut(url: URL): string {
    return setCookie(url, "", 0);
  }

  #sign(text: string): string {
    return createHmac("sha256", this.#secret).update(`studio\0${text}`).digest("base64url");
  }
}

/** @throws {@link Refusal} 403 */
export function checkSameOrigin(request: Request, url: URL): void {
  if (request.headers.get("origin") === url.origin) return;
  throw new Refusal(403, "foreign_origin", "Changes by cookie must come from the server's own page.");
}

function setCookie(url: URL, value: string, seconds: number): string {
  const secure = url.protocol === "https:" ? "; Secure" : "";
  return `${cookieName(url)}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`;
}
