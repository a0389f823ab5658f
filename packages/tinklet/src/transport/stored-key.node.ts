/**
 * The key that `tinklet auth login` (or the official tool) stored in `~/.tinker/credentials.json`. Reads it; writing is the command
 * line's work. Nothing of the file's content ever gets into a message: it holds live keys.
 */
import { TinkerError } from "../errors.ts";
import { nodeBuiltin } from "../node-builtin.ts";
import { isPlainObject } from "../wire/fields.ts";
import { credentialsFile } from "./credentials-file.node.ts";

/** A stored key. `manual`: pasted by its owner; `generated`: made by an older tool for this machine alone. */
export interface StoredKey {
  readonly type: "manual" | "generated";
  readonly key: string;
  readonly name: string;
  readonly note?: string;
  readonly details?: {
    readonly org_details: { readonly name: string };
    readonly user_details: { readonly email: string };
  };
}

/** The file's content. */
export interface StoredCredentials {
  readonly version: 1;
  /** Id of the key that is used. */
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

/** The key to use, where one is stored. @throws {@link TinkerError} with code `bad_credentials_file`. */
export function storedKey(): string | undefined {
  const { default: chosen = "", keys } = readCredentials(credentialsFile());
  return Object.hasOwn(keys, chosen) ? keys[chosen]?.key : undefined;
}
