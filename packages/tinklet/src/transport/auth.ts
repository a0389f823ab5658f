/**
 * Who the client says it is: an API key, the output of a command, or a short-lived token that either was exchanged for.
 * Chooses the source by the contract's rules and keeps the token fresh; sending it is the transport's work.
 */
import type { Clock } from "../clock.ts";
import { TinkerError } from "../errors.ts";
import type { ClientConfigResponse, WhoamiResponse } from "../wire/session.ts";
import { environment, isNode } from "./environment.ts";

/** Gives the value of `X-API-Key` for each request. */
export interface Credentials {
  token(): string | Promise<string>;
}

/** What the user gave. */
export interface CredentialSource {
  readonly apiKey: string | undefined;
  readonly command: string | undefined;
}

/** The key and the command that the options or the environment name. */
export function credentialSource(options: { readonly apiKey?: string | undefined }): CredentialSource {
  return {
    apiKey: options.apiKey ?? environment("TINKER_API_KEY"),
    command: environment("TINKER_CREDENTIAL_CMD"),
  };
}

const isToken = (key: string | undefined): key is string => key?.startsWith("eyJ") ?? false;
const isKey = (key: string | undefined): key is string => (key?.startsWith("tml-") ?? false) || isToken(key);

/** Why a key cannot be used. Shows nothing of it but its length. */
function keyProblem(key: string | undefined): TinkerError {
  if (key === undefined) {
    return new TinkerError("No API key was given.", {
      code: "no_api_key",
      hint: "Set TINKER_API_KEY or pass apiKey; keys begin with tml-. To train on this machine without a key, use ServiceClient.local().",
    });
  }
  const trimmed = key.trim().replace(/^["']|["']$/g, "");
  return new TinkerError(`The API key (${key.length} characters) does not begin with tml- (nor is it a token, eyJ).`, {
    code: "bad_api_key",
    hint:
      trimmed !== key && isKey(trimmed)
        ? "There are quotes or blanks around it; remove them."
        : "Check TINKER_API_KEY or apiKey: another service's key, or a name in place of the value?",
  });
}

const fixed = (key: string): Credentials => ({ token: () => key });

/** Runs the command for every token, as the official client does: it may hand out a new one each time. */
function commanded(command: string): Credentials {
  return {
    token: async () => {
      if (!isNode()) {
        throw new TinkerError("TINKER_CREDENTIAL_CMD can only be run on Node.", { code: "credential_command" });
      }
      const { runCredentialCommand } = await import("./credential-command.node.ts");
      return runCredentialCommand(command);
    },
  };
}

/**
 * The credential of the first request, before the server has said how it wants to be asked.
 *
 * @throws {@link TinkerError} with code `no_api_key` or `bad_api_key` when there is neither a usable key nor a command.
 */
export function firstCredentials({ apiKey, command }: CredentialSource): Credentials {
  if (isKey(apiKey)) return fixed(apiKey);
  if (command !== undefined) return commanded(command);
  throw keyProblem(apiKey);
}

/** What is exchanged for a short-lived token. */
export function exchangeCredentials(source: CredentialSource, config: ClientConfigResponse): Credentials {
  const { apiKey, command } = source;
  if (isToken(apiKey)) return fixed(apiKey);
  if (config.credentialDefaultSource === "credential_cmd" && command !== undefined) return commanded(command);
  return firstCredentials(source);
}

/** A token's claims, without checking its signature: only the server can. */
export function tokenClaims(token: string): Readonly<Record<string, unknown>> | undefined {
  const payload = token.split(".")[1];
  if (payload === undefined || payload === "") return undefined;
  try {
    const base64 = payload.replaceAll("-", "+").replaceAll("_", "/");
    const text = new TextDecoder().decode(Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)));
    const claims: unknown = JSON.parse(text);
    return typeof claims === "object" && claims !== null ? (claims as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Who a token belongs to. @throws {@link TinkerError} when it does not say. */
export function whoamiOf(token: string | undefined): WhoamiResponse {
  const claims = token === undefined ? undefined : tokenClaims(token);
  const urn = claims?.["sub"];
  if (typeof urn !== "string") {
    throw new TinkerError("This credential does not say whose it is.", {
      code: "whoami_unavailable",
      hint: "Only servers that exchange keys for tokens can tell; a plain API key carries no name.",
    });
  }
  const email = claims?.["email"];
  return { userUrn: urn, ...(typeof email === "string" && email !== "" ? { email } : {}) };
}

/** A directly given token that tells whose it is. */
export function passportToken({ apiKey }: CredentialSource): string | undefined {
  const issuer = isToken(apiKey) ? tokenClaims(apiKey)?.["iss"] : undefined;
  return typeof issuer === "string" && issuer.startsWith("passport-") ? apiKey : undefined;
}

/** The background refresh comes so long before the token ends; a request refreshes by itself in the last minute. */
const refreshAheadMs = 300_000;
const lastMinuteMs = 60_000;
const retryRefreshMs = 60_000;
/** Tokens that live shorter than the refresh is ahead must not be exchanged without pause. */
const shortestRefreshMs = 5_000;

/** A token that is exchanged again before it ends. */
export class ExchangedToken implements Credentials {
  readonly #exchange: () => Promise<string>;
  readonly #clock: Clock;
  readonly #warn: (message: string) => void;
  #token: string | undefined;
  #refreshing: Promise<string> | undefined;
  #cancelTimer: () => void = () => {};
  #closed = false;

  /** @param options.clock - its timers must not keep the process alive. */
  constructor(options: {
    readonly exchange: () => Promise<string>;
    readonly clock: Clock;
    readonly warn: (message: string) => void;
    /** A token that somebody else already has. */
    readonly initial?: string | undefined;
  }) {
    this.#exchange = options.exchange;
    this.#clock = options.clock;
    this.#warn = options.warn;
    this.#token = options.initial;
  }

  /** The token as it stands, for handing it on. */
  get current(): string | undefined {
    return this.#token;
  }

  /** The first exchange; its failure is the caller's to handle. */
  async start(): Promise<void> {
    if (this.#token === undefined) await this.#refresh();
    this.#schedule(this.#nextRefreshMs());
  }

  token(): string | Promise<string> {
    const token = this.#token;
    if (token !== undefined && (this.#leftMs(token) ?? 0) > lastMinuteMs) return token;
    return this.#refresh().catch((error: unknown) => {
      if (token === undefined) throw error;
      this.#warn(`The credential could not be renewed, the old one is used: ${(error as Error).message}`);
      return token;
    });
  }

  /** Concurrent callers share one exchange. */
  #refresh(): Promise<string> {
    this.#refreshing ??= this.#exchange()
      .then((token) => {
        this.#token = token;
        return token;
      })
      .finally(() => {
        this.#refreshing = undefined;
      });
    return this.#refreshing;
  }

  #leftMs(token: string): number | undefined {
    const end = tokenClaims(token)?.["exp"];
    return typeof end === "number" ? end * 1000 - this.#clock.now() : undefined;
  }

  #nextRefreshMs(): number {
    const left = this.#token === undefined ? undefined : this.#leftMs(this.#token);
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
