/**
 * The two requests of `auth login` and `auth logout`. They send the key that is being stored or removed, not the one that the SDK would
 * choose, so they do not use its clients.
 */

import { checkedBaseUrl, resolveBaseUrl, type StoredKey } from "@tinklet/sdk/credentials";
import { apiPrefix } from "@tinklet/wire";
import { isPlainObject } from "@tinklet/wire/options";
import { CliError } from "../output/explain.ts";

const path = `${apiPrefix}/auth/apikey/me`;
const timeoutMs = 30_000;

/** The server's description of a key. */
export interface KnownKey {
  readonly id: string;
  readonly name: string;
  readonly note: string;
  readonly details: NonNullable<StoredKey["details"]>;
}

/** Asks the server for the owner of a key. @throws {@link CliError} when the server rejects the key */
export async function describeKey(key: string, baseUrl: string | undefined, signal: AbortSignal): Promise<KnownKey> {
  const answer = await request("GET", key, baseUrl, signal);
  const found: unknown = await answer.json().catch(() => undefined);
  const { key_id: id, name, note, details } = isPlainObject(found) ? found : {};
  const { org_details: org, user_details: user } = isPlainObject(details) ? details : {};
  const [orgName, email] = [isPlainObject(org) && org["name"], isPlainObject(user) && user["email"]];
  if (
    !(Number.isInteger(id) || typeof id === "string") ||
    ![name, note, orgName, email].every((text) => typeof text === "string")
  ) {
    throw new CliError("The Tinker API returned an unexpected response");
  }
  return {
    id: String(id),
    name: name as string,
    note: note as string,
    details: { org_details: { name: orgName as string }, user_details: { email: email as string } },
  };
}

/** Deletes a key on the server, authenticated by the key itself. */
export async function deleteKey(key: string, baseUrl: string | undefined, signal: AbortSignal): Promise<void> {
  await request("DELETE", key, baseUrl, signal);
}

async function request(
  method: "GET" | "DELETE",
  key: string,
  given: string | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const baseUrl = checkedBaseUrl(resolveBaseUrl(given));
  let answer: Response;
  try {
    answer = await fetch(`${baseUrl}${path}`, {
      method,
      headers: { "x-api-key": key },
      redirect: "error", // a key is sent to the configured server only
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
  } catch (cause) {
    signal.throwIfAborted();
    const why = (cause as { cause?: { message?: string } }).cause?.message ?? (cause as Error).message;
    throw new CliError(`Could not reach the Tinker API at ${baseUrl}: ${why}`);
  }
  if (answer.ok) return answer;
  const body: unknown = await answer.json().catch(() => undefined);
  const detail =
    isPlainObject(body) && typeof body["detail"] === "string" ? body["detail"] : "Tinker API request failed";
  throw new CliError(`${detail} (HTTP ${answer.status} from ${path})`);
}
