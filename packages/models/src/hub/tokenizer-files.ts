/**
 * Reads a tokenizer's files from the Hub, without the weights: from the cache, else from the network, all from one commit. A cached branch
 * is not checked for updates, because a model's tokenizer does not change after training. No `node:` imports: the cache is injected.
 */
import { TokenizerError } from "../errors.ts";
import { isTiktoken } from "../tokenizer/is-tiktoken.ts";
import type { TokenizerFileName, TokenizerFiles } from "../tokenizer/types.ts";
import { type HubClient, type HubClientOptions, type HubText, hubClient } from "./hub-client.ts";
import { HubError } from "./hub-error.ts";
import { type HubId, parseTokenizerId, repositoryOf } from "./hub-id.ts";

/** The part of the disk cache that reading small files needs. */
interface TextCache {
  knownCommit(): string | undefined;
  readText(commit: string, file: string): Promise<{ known: true; text: string | undefined } | { known: false }>;
  cacheText(commit: string, file: string, text: string | undefined): Promise<void>;
}

interface Source {
  readonly id: HubId;
  readonly client: HubClient;
  readonly cache?: TextCache;
  /** Use only the local cache; send no request. */
  readonly offline?: boolean;
}

/** Files besides `tokenizer.json`. `config.json` is not needed: for a model on the Hub it adds nothing to the tokenizer's files. */
const optionalFiles = ["tokenizer_config.json", "generation_config.json", "chat_template.jinja"] as const;

/** @throws HubError; TokenizerError `no_tokenizer` if the repository has no `tokenizer.json`. */
export async function readTokenizerOnHub(source: Source): Promise<TokenizerFiles> {
  const read = textReader(source);
  const definition = await read("tokenizer.json");
  const ranks = definition === undefined ? await readTiktoken(read) : undefined;
  if (definition === undefined && ranks === undefined) {
    throw new TokenizerError(`${repositoryOf(source.id)} has no tokenizer.json`, {
      code: "no_tokenizer",
      hint: "only tokenizers with a tokenizer.json, and Kimi's with a tiktoken.model, are supported; save_pretrained() in Python writes one",
    });
  }
  const [config, generation, template] = await Promise.all(optionalFiles.map(read));
  return {
    "tokenizer.json": definition ?? "",
    ...(ranks === undefined ? {} : { "tiktoken.model": ranks }),
    "tokenizer_config.json": config,
    "generation_config.json": generation,
    "chat_template.jinja": template,
  };
}

/** `tiktoken.model`, if the settings name its class. */
async function readTiktoken(read: (file: TokenizerFileName) => Promise<string | undefined>) {
  return isTiktoken(await read("tokenizer_config.json")) ? read("tiktoken.model") : undefined;
}

function textReader({ id, client, cache, offline }: Source): (file: TokenizerFileName) => Promise<string | undefined> {
  let commit = cache?.knownCommit();
  let usable = false; // tokenizer.json is cached: network errors for the optional files are ignored
  return async (file) => {
    const cached = commit === undefined ? undefined : await cache?.readText(commit, file);
    if (cached?.known) {
      usable ||= file === "tokenizer.json" && cached.text !== undefined;
      return cached.text;
    }
    if (offline) {
      if (file !== "tokenizer.json") return undefined;
      throw new HubError(
        "offline",
        `the tokenizer of ${repositoryOf(id)} is not in the cache and downloads are disabled`,
        {
          hint: "unset HF_HUB_OFFLINE to download it once, or pass a folder with a tokenizer.json",
        },
      );
    }
    let fetched: HubText | undefined;
    try {
      fetched = await client.readText(commit ?? id.revision, file);
    } catch (error) {
      if (usable && error instanceof HubError && error.code !== "unauthorized" && error.code !== "not_found") {
        return undefined;
      }
      throw error;
    }
    commit ??= fetched?.commit;
    if (commit !== undefined) await cache?.cacheText(commit, file, fetched?.text);
    return fetched?.text;
  };
}

/** Options of {@link fetchTokenizerFiles}. */
export interface FetchTokenizerOptions {
  /** Branch, tag or commit. @defaultValue `"main"` */
  readonly revision?: string | undefined;
  /** @defaultValue `https://huggingface.co` */
  readonly endpoint?: string | undefined;
  readonly token?: string | undefined;
  readonly fetch?: HubClientOptions["fetch"];
  readonly signal?: AbortSignal | undefined;
}

/**
 * Downloads a tokenizer's files from the Hub without a cache, for browsers.
 * @throws HubError, or TokenizerError if `name` is not a valid Hub name or the repository has no `tokenizer.json`.
 */
export async function fetchTokenizerFiles(name: string, options: FetchTokenizerOptions = {}): Promise<TokenizerFiles> {
  const id = parseTokenizerId(name, options.revision);
  if (id === undefined) throw new TokenizerError(`"${name}" is not a valid name on the Hub`, { code: "not_found" });
  const { endpoint = "https://huggingface.co", token, fetch, signal } = options;
  const access = { endpoint, ...(token !== undefined && { token }) };
  return readTokenizerOnHub({ id, client: hubClient(id, access, { fetch, signal, redirect: "follow" }) });
}
