/**
 * Reads the key that `tinklet auth login` or the official tool stored in `~/.tinker/credentials.json`. The command line writes the file.
 * Messages never quote its contents, because they are live keys.
 */
import { TinkerError } from "@tinklet/wire/errors";
import { isPlainObject } from "@tinklet/wire/options";
import { nodeBuiltin } from "../../node-builtin.ts";
import { hostedBaseUrl } from "../environment.ts";
import { credentialsFile } from "./credentials-file.node.ts";

/** A stored key. `manual`: pasted by the user; `generated`: created by an older tool for this machine. */
export interface StoredKey {
  readonly type: "manual" | "generated";
  readonly key: string;
  readonly name: string;
  readonly note?: string;
  /** The server that the key is for. Absent in files of the official tool, whose keys are for the hosted service. */
  readonly origin?: string;
  readonly details?: {
    readonly org_details: { readonly name: string };
    readonly user_details: { readonly email: string };
  };
}

/** The file's content. */
export interface StoredCredentials {
  readonly version: 1;
  /** Id of the key for the hosted service; the official tool reads it too. */
  readonly default?: string;
  readonly keys: Readonly<Record<string, StoredKey>>;
}

/** Reads the file; without a file, the list of keys is empty. @throws {@link TinkerError} with code `bad_credentials_file`. */
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
    throw unreadable(file, "is not JSON"); // not the parser's message, which quotes the file
  }
  const { version = 1, keys = {}, default: chosen } = isPlainObject(content) ? content : { version: 0 };
  const isKey = (key: unknown) =>
    isPlainObject(key) && typeof key["key"] === "string" && typeof key["name"] === "string";
  if (version !== 1 || !isPlainObject(keys) || !Object.values(keys).every(isKey)) {
    throw unreadable(file, "does not have the format that this version reads");
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

/** The key for a server. For the hosted service it is the default key, as in the official tool. */
export function keyFor(origin: string, { default: chosen = "", keys }: StoredCredentials): FoundKey | undefined {
  const ids = origin === hostedOrigin ? [chosen] : Object.keys(keys).toReversed();
  for (const id of ids) {
    const record = Object.hasOwn(keys, id) ? keys[id] : undefined;
    if (record !== undefined && originOf(record) === origin) return { id, record };
  }
  return undefined;
}

/**
 * The stored key for a server; undefined if no key is stored.
 *
 * @throws {@link TinkerError} with code `bad_credentials_file`, or `key_of_another_server` if all stored keys are for other servers.
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
  throw new TinkerError(`The stored API key belongs to ${origins.join(" or ")} and is not sent to ${origin}.`, {
    code: "key_of_another_server",
    hint: [
      `Store a key for that server (npx tinklet auth login --base-url ${`${origin}${pathname}`.replace(/\/+$/, "")}), or set TINKER_API_KEY or `,
      { name: "apiKey" },
      ".",
    ],
  });
}
