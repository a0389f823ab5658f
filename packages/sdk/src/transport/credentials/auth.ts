/**
 * The client's credential: an API key, the output of a command, or a key stored by `auth login`, chosen by the contract's rules.
 * `token.ts` exchanges it for short-lived tokens; the transport sends it.
 */

import type { ClientConfigResponse } from "@tinklet/wire/client";
import { type Clock, systemClock } from "@tinklet/wire/clock";
import { TinkerError } from "@tinklet/wire/errors";
import { environment, isNode, resolveBaseUrl } from "../environment.ts";
import { hasCredentialsFile } from "./credentials-file.node.ts";

/** Returns the value of `X-API-Key` for each request. */
export interface Credentials {
  token(): string | Promise<string>;
}

/** The credentials that the user configured. */
export interface CredentialSource {
  /** Set from the credentials file on the first request, if a stored key is used. */
  apiKey: string | undefined;
  readonly command: string | undefined;
  /** The server of the client; a stored key is sent only to the server that it belongs to. */
  readonly baseUrl?: string | undefined;
}

/** Reads the key and the credential command from the options or the environment. */
export function credentialSource(options: {
  readonly apiKey?: string | undefined;
  readonly baseUrl?: string | undefined;
}): CredentialSource {
  return {
    apiKey: options.apiKey ?? environment("TINKER_API_KEY"),
    command: environment("TINKER_CREDENTIAL_CMD"),
    baseUrl: options.baseUrl,
  };
}

/** Whether a key is a JWT, which needs no exchange. */
export const isToken = (key: string | undefined): key is string => key?.startsWith("eyJ") ?? false;
const isKey = (key: string | undefined): key is string => (key?.startsWith("tml-") ?? false) || isToken(key);

/** The error for an unusable key. It contains the key's length and nothing else of it. */
function keyProblem(key: string | undefined): TinkerError {
  if (key === undefined) {
    return new TinkerError("No API key is set.", {
      code: "no_api_key",
      hint: [
        "Set TINKER_API_KEY or pass ",
        { name: "apiKey" },
        " (keys begin with tml-), or store a key: npx tinklet auth login. To train on this machine without a key, use ",
        { name: "ServiceClient.local()" },
        ".",
      ],
    });
  }
  const trimmed = key.trim().replace(/^["']|["']$/g, "");
  return new TinkerError(
    `The API key (${key.length} characters) must begin with tml-, or be a token that begins with eyJ.`,
    {
      code: "bad_api_key",
      hint:
        trimmed !== key && isKey(trimmed)
          ? "Remove the quotes or spaces around it."
          : ["Check TINKER_API_KEY or ", { name: "apiKey" }, ": the value may be the key of another service."],
    },
  );
}

const fixed = (key: string): Credentials => ({ token: () => key });

/** The credential that a command prints; the code that runs it is imported on the first request. */
function commanded(command: string, clock: Clock): Credentials {
  let credentials: Promise<Credentials> | undefined;
  let loaded: Credentials | undefined;
  const load = async () => {
    if (!isNode()) {
      throw new TinkerError("TINKER_CREDENTIAL_CMD can only be run on Node.", { code: "credential_command" });
    }
    const { CommandCredential } = await import("./credential-command.node.ts");
    loaded = new CommandCredential(command, clock);
    return loaded;
  };
  return {
    token: () => {
      if (loaded !== undefined) return loaded.token();
      credentials ??= load();
      return credentials.then((made) => made.token());
    },
  };
}

/** The key that `auth login` stored, read on the first request, so that programs with a configured key do not load the reader. */
function stored(source: CredentialSource): Credentials {
  const read = async () => {
    const { storedKey } = await import("./stored-key.node.ts");
    const key = storedKey(resolveBaseUrl(source.baseUrl));
    if (!isKey(key)) throw keyProblem(key);
    source.apiKey = key;
    return key;
  };
  return { token: () => source.apiKey ?? read() };
}

/**
 * The credential of the first request, before the server's configuration is known.
 *
 * @throws {@link TinkerError} with code `no_api_key` or `bad_api_key` without a usable key, a command or a file of stored keys. Errors of
 * that file are thrown on the first request: `bad_credentials_file`, or `key_of_another_server` if it has no key for this server.
 */
export function firstCredentials(source: CredentialSource, clock: Clock = systemClock()): Credentials {
  const { apiKey, command } = source;
  if (isKey(apiKey)) return fixed(apiKey);
  if (command !== undefined) return commanded(command, clock);
  if (apiKey === undefined && hasCredentialsFile()) return stored(source);
  throw keyProblem(apiKey);
}

/** The credential that is exchanged for a short-lived token. */
export function exchangeCredentials(
  source: CredentialSource,
  config: ClientConfigResponse,
  clock: Clock = systemClock(),
): Credentials {
  const { apiKey, command } = source;
  if (isToken(apiKey)) return fixed(apiKey);
  if (config.credentialDefaultSource === "credential_cmd" && command !== undefined) return commanded(command, clock);
  return firstCredentials(source, clock);
}
