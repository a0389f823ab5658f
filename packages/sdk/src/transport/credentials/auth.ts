/**
 * Who the client says it is: an API key, the output of a command, or a key that `auth login` stored. Chooses the source by the
 * contract's rules; short-lived tokens that either is exchanged for are `token.ts`, sending is the transport's work.
 */

import type { ClientConfigResponse } from "@tinklet/wire/client";
import { type Clock, systemClock } from "@tinklet/wire/clock";
import { TinkerError } from "@tinklet/wire/errors";
import { environment, isNode, resolveBaseUrl } from "../environment.ts";
import { hasCredentialsFile } from "./credentials-file.node.ts";

/** Gives the value of `X-API-Key` for each request. */
export interface Credentials {
  token(): string | Promise<string>;
}

/** What the user gave. */
export interface CredentialSource {
  /** A stored key is filled in when the first request needs it. */
  apiKey: string | undefined;
  readonly command: string | undefined;
  /** The server that is asked: a stored key is used for its own alone. */
  readonly baseUrl?: string | undefined;
}

/** The key and the command that the options or the environment name. */
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

/** Whether a key is a token, which needs no exchange. */
export const isToken = (key: string | undefined): key is string => key?.startsWith("eyJ") ?? false;
const isKey = (key: string | undefined): key is string => (key?.startsWith("tml-") ?? false) || isToken(key);

/** Why a key cannot be used. Shows nothing of it but its length. */
function keyProblem(key: string | undefined): TinkerError {
  if (key === undefined) {
    return new TinkerError("No API key was given.", {
      code: "no_api_key",
      hint: "Set TINKER_API_KEY or pass apiKey (keys begin with tml-), or store a key: npx tinklet auth login. To train on this machine without a key, use ServiceClient.local().",
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

/** What the command prints; the code that runs it is loaded with the first request. */
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

/** The key that `auth login` stored; read with the first request, so that programs that bring a key never load the reader. */
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
 * The credential of the first request, before the server has said how it wants to be asked.
 *
 * @throws {@link TinkerError} with code `no_api_key` or `bad_api_key` when there is neither a usable key, nor a command, nor a file
 * of stored keys. What is wrong with that file is told by the first request, with code `bad_credentials_file`, or `key_of_another_server`
 * where it has no key for the server that is asked.
 */
export function firstCredentials(source: CredentialSource, clock: Clock = systemClock()): Credentials {
  const { apiKey, command } = source;
  if (isKey(apiKey)) return fixed(apiKey);
  if (command !== undefined) return commanded(command, clock);
  if (apiKey === undefined && hasCredentialsFile()) return stored(source);
  throw keyProblem(apiKey);
}

/** What is exchanged for a short-lived token. */
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
