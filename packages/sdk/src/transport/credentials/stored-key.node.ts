/**
 * The key that `tinklet auth login` (or the official tool) stored in `~/.tinker/credentials.json`. Reads it; writing is the command
 * line's work. Nothing of the file's content ever gets into a message: it holds live keys.
 */
import { TinkerError } from "@tinklet/wire/errors";
import { isPlainObject } from "@tinklet/wire/options";
import { nodeBuiltin } from "../../node-builtin.ts";
import { hostedBaseUrl } from "../environment.ts";
import { credentialsFile } from "./credentials-file.node.ts";

/** A stored key. `manual`: pasted by its owner; `generated`: made by an older tool for this machine alone. */
export interface StoredKey {
  readonly type: "manual" | "generated";
  readonly key: string;
  readonly name: string;
  readonly note?: string;
  /** The server that the key is for. Absent in what the official tool wrote: its keys are for the hosted service. */
  readonly origin?: string;
  readonly details?: {
    readonly org_details: { readonly name: string };
    readonly user_details: { readonly email: string };
  };
}

/** The file's content. */
export interface StoredCredentials {
  readonly version: 1;
  /** Id of the key that is used for the hosted service, by the official tool too. */
  readonly default?: string;
  readonly keys: Readonly<Record<string, StoredKey>>;
}

/** What is stored; no keys where there is no file. @throws {@link TinkerError} with code `bad_credentials_file`. */
export function readCredentials(file: string): StoredCredentials {
  let text: string;
  try {
    text = nodeBuiltin<typeof import("node:fs")>("node:fs").readFileSync(file, "utf8");
  } catch (cause) {
    const { code } = cause as { readonly code: string };
    if (code === "ENOENT" || code === "ENOTDIR") return { version: 1, keys: {} };
    throw unreadable(file, `cannot be read (${code})`);
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    throw unreadable(file, "is not JSON"); // without the parser's words, which quote the file
  }
  const { version = 1, keys = {}, default: chosen } = isPlainObject(content) ? content : { version: 0 };
  const isKey = (key: unknown) =>
    isPlainObject(key) && typeof key["key"] === "string" && typeof key["name"] === "string";
  if (version !== 1 || !isPlainObject(keys) || !Object.values(keys).every(isKey)) {
    throw unreadable(file, "is not a file of stored keys that this version knows");
  }
  return {
    version,
    ...(typeof chosen === "string" ? { default: chosen } : {}),
    keys: keys as StoredCredentials["keys"],
  };
}

const unreadable = (file: string, problem: string) =>
  new TinkerError(`${file} ${problem}.`, {
    code: "bad_credentials_file",
    hint: "Set TINKER_API_KEY, or delete the file and run: npx tinklet auth login.",
  });

/** A stored key with its id. */
export interface FoundKey {
  readonly id: string;
  readonly record: StoredKey;
}

const hostedOrigin = new URL(hostedBaseUrl).origin;
const originOf = ({ origin = hostedOrigin }: StoredKey): string => origin;

/** The key that is used for a server. The hosted service's is the default one, as the official tool has it. */
export function keyFor(origin: string, { default: chosen = "", keys }: StoredCredentials): FoundKey | undefined {
  const ids = origin === hostedOrigin ? [chosen] : Object.keys(keys).toReversed();
  for (const id of ids) {
    const record = Object.hasOwn(keys, id) ? keys[id] : undefined;
    if (record !== undefined && originOf(record) === origin) return { id, record };
  }
  return undefined;
}

/**
 * The key to use for a server, where one is stored.
 *
 * @throws {@link TinkerError} with code `bad_credentials_file`, or `key_of_another_server` where all that is stored is for others.
 */
export function storedKey(baseUrl: string): string | undefined {
  const { origin, pathname } = new URL(baseUrl);
  const stored = readCredentials(credentialsFile());
  const found = keyFor(origin, stored);
  if (found !== undefined) return found.record.key;
  const { default: chosen = "", keys } = stored;
  const others = Object.entries(keys).filter(([id, { origin: own }]) => own !== undefined || id === chosen);
  if (others.length === 0) return undefined;
  const origins = [...new Set(others.map(([, record]) => originOf(record)))];
  throw new TinkerError(
    `The stored API key belongs to ${origins.join(" or ")} and is not sent to ${origin}, which was asked.`,
    {
      code: "key_of_another_server",
      hint: `Store a key for that server (npx tinklet auth login --base-url ${`${origin}${pathname}`.replace(/\/+$/, "")}), or give one: TINKER_API_KEY or apiKey.`,
    },
  );
}
