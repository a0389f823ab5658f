/**
 * Short-lived tokens that a credential is exchanged for: their claims and their refresh. Loaded if the server requires tokens instead of
 * keys.
 */

import type { WhoamiResponse } from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { TinkerError } from "@tinklet/wire/errors";
import { type CredentialSource, type Credentials, isToken } from "./auth.ts";

/** A token's claims. The signature is not verified; only the server can do that. */
export function tokenClaims(token: string): Readonly<Record<string, unknown>> | undefined {
  const payload = token.split(".")[1] ?? "";
  try {
    const base64 = payload.replaceAll("-", "+").replaceAll("_", "/");
    const text = new TextDecoder().decode(Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)));
    const claims: unknown = JSON.parse(text);
    return typeof claims === "object" && claims !== null ? (claims as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** The user of a token. @throws {@link TinkerError} when the token has no such claims. */
export function whoamiOf(token: string | undefined): WhoamiResponse {
  const claims = token === undefined ? undefined : tokenClaims(token);
  const urn = claims?.["sub"];
  if (typeof urn !== "string") {
    throw new TinkerError("The credential has no claims about its user.", {
      code: "whoami_unavailable",
      hint: "Only servers that exchange keys for tokens report the user; an API key has no claims.",
    });
  }
  const { email, org_id: org } = claims ?? {};
  return {
    userUrn: urn,
    ...(typeof email === "string" && email !== "" ? { email } : {}),
    ...(typeof org === "string" ? { orgUrn: `tml:organization:${org}` } : {}),
  };
}

/** A token passed as the API key that has claims about its user. */
export function passportToken({ apiKey }: CredentialSource): string | undefined {
  const issuer = isToken(apiKey) ? tokenClaims(apiKey)?.["iss"] : undefined;
  return typeof issuer === "string" && issuer.startsWith("passport-") ? apiKey : undefined;
}

/** The background refresh runs this long before the token expires; in the last minute, requests refresh it themselves. */
const refreshAheadMs = 300_000;
const lastMinuteMs = 60_000;
const retryRefreshMs = 60_000;
/** Minimum period of the refresh, for tokens whose lifetime is shorter than `refreshAheadMs`. */
const shortestRefreshMs = 5_000;

/** A token that is renewed before it expires. */
export class ExchangedToken implements Credentials {
  readonly #exchange: () => Promise<string>;
  readonly #clock: Clock;
  readonly #warn: (message: string) => void;
  #token: string | undefined;
  /** When the token expires, in milliseconds of the clock; undefined if its claims do not say. */
  #expiresMs: number | undefined;
  #refreshing: Promise<string> | undefined;
  #cancelTimer: () => void = () => {};
  #closed = false;

  /** @param options.clock - its timers must not keep the process alive. */
  constructor(options: {
    readonly exchange: () => Promise<string>;
    readonly clock: Clock;
    readonly warn: (message: string) => void;
    /** A token of another process, to start with. */
    readonly initial?: string | undefined;
  }) {
    this.#exchange = options.exchange;
    this.#clock = options.clock;
    this.#warn = options.warn;
    if (options.initial !== undefined) this.#keep(options.initial);
  }

  /** The current token, for handles. */
  get current(): string | undefined {
    return this.#token;
  }

  /** Runs the first exchange; rejects if it fails. */
  async start(): Promise<void> {
    if (this.#token === undefined) await this.#refresh();
    this.#schedule(this.#nextRefreshMs());
  }

  token(): string | Promise<string> {
    const token = this.#token;
    if (token !== undefined && (this.#leftMs() ?? 0) > lastMinuteMs) return token;
    return this.#refresh().catch((error: unknown) => {
      if (token === undefined) throw error;
      this.#warn(`The credential could not be renewed; the previous one is still used: ${(error as Error).message}`);
      return token;
    });
  }

  /** Concurrent callers share one exchange. */
  #refresh(): Promise<string> {
    this.#refreshing ??= this.#exchange()
      .then((token) => this.#keep(token))
      .finally(() => {
        this.#refreshing = undefined;
      });
    return this.#refreshing;
  }

  /** Decodes the claims once: every request reads the time of expiry. */
  #keep(token: string): string {
    const end = tokenClaims(token)?.["exp"];
    this.#token = token;
    this.#expiresMs = typeof end === "number" ? end * 1000 : undefined;
    return token;
  }

  #leftMs(): number | undefined {
    return this.#expiresMs === undefined ? undefined : this.#expiresMs - this.#clock.now();
  }

  #nextRefreshMs(): number {
    const left = this.#leftMs();
    if (left === undefined) return retryRefreshMs;
    return Math.max(left - refreshAheadMs, shortestRefreshMs);
  }

  #schedule(delayMs: number): void {
    if (this.#closed) return;
    this.#cancelTimer = this.#clock.timer(delayMs, () => {
      this.#refresh().then(
        () => this.#schedule(this.#nextRefreshMs()),
        () => this.#schedule(retryRefreshMs),
      );
    });
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimer();
  }
}
