/**
 * Who the client says it is: an API key, the output of a command, or a key that `auth login` stored. Chooses the source by the
 * contract's rules; short-lived tokens that either is exchanged for are `token.ts`, sending is the transport's work.
 */
import { TinkerError } from "../errors.ts";
import type { ClientConfigResponse } from "../wire/session.ts";
import { environment, isNode } from "./environment.ts";
import { storedKey } from "./stored-key.node.ts";

/** Gives the value of `X-API-Key` for each request. */
export interface Credentials {
  token(): string | Promise<string>;
}

/** What the user gave. */
export interface CredentialSource {
  readonly apiKey: string | undefined;
  readonly command: string | undefined;
}

/**
 * The key and the command that the options or the environment name; without either the key that `auth login` stored.
 *
 * @throws {@link TinkerError} with code `bad_credentials_file` when the stored key is needed and cannot be read.
 */
export function credentialSource(options: { readonly apiKey?: string | undefined }): CredentialSource {
  const command = environment("TINKER_CREDENTIAL_CMD");
  const given = options.apiKey ?? environment("TINKER_API_KEY");
  return { apiKey: given ?? (command === undefined ? storedKey() : undefined), command };
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
