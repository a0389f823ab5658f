/**
 * Finds a tokenizer's files, in a folder, in the Hugging Face cache or on the Hub, and makes a tokenizer of them. In a
 * browser there is only the Hub.
 */
import { environment, isNode } from "../transport/environment.ts";
import { TokenizerError } from "./errors.ts";
import { fetchHubFile, type HubFile, type HubSource, isHubId } from "./hub.ts";
import { resolveTokenizer } from "./resolve.ts";
import {
  installedPeers,
  type Tokenizer,
  type TokenizerFiles,
  type TokenizerPeers,
  tokenizerFromFiles,
} from "./tokenizer.ts";

/** Where tokenizers come from. */
export interface LoadTokenizerOptions {
  /** A branch, tag or commit. @defaultValue the commit that the official SDK pins, else `main` */
  readonly revision?: string;
  /** The folder that holds `models--org--name`. @defaultValue `HF_HUB_CACHE`, else `$HF_HOME/hub` */
  readonly cacheDir?: string;
  /** Ask nobody; use the cache alone. @defaultValue `HF_HUB_OFFLINE` */
  readonly offline?: boolean;
  /** @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch;
  readonly signal?: AbortSignal;
}

const optionalFiles = ["tokenizer_config.json", "generation_config.json", "chat_template.jinja"] as const;
type ReadFile = (file: keyof TokenizerFiles) => Promise<string | undefined>;

/**
 * Loads a tokenizer from a folder, or by its Hub name: from the cache if it is there, else from the Hub into the cache.
 * Obeys `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`.
 *
 * @throws {@link TokenizerError} saying what is missing and what to do.
 *
 * @example
 * ```ts
 * const tokenizer = await loadTokenizer("Qwen/Qwen3-8B");
 * tokenizer.decode(tokenizer.encode("Hello")); // "Hello"
 * ```
 */
export async function loadTokenizer(
  idOrFolder: string,
  options: LoadTokenizerOptions = {},
  peers: TokenizerPeers = installedPeers,
): Promise<Tokenizer> {
  const read = (await folderReader(idOrFolder)) ?? (await hubReader(idOrFolder, options));
  const definition = await read("tokenizer.json");
  if (definition === undefined) {
    throw new TokenizerError("tokenizer_not_found", `${idOrFolder} has no tokenizer.json.`, {
      hint: "Only tokenizers with a tokenizer.json can be loaded; convert others in Python with save_pretrained().",
    });
  }
  const [config, generation, template] = await Promise.all(optionalFiles.map(read));
  return tokenizerFromFiles(
    {
      "tokenizer.json": definition,
      "tokenizer_config.json": config,
      "generation_config.json": generation,
      "chat_template.jinja": template,
    },
    idOrFolder,
    peers,
  );
}

/** As many tokenizers are kept as in Python. */
const mostKept = 32;
const kept = new Map<string, Promise<Tokenizer>>();

/**
 * The tokenizer of a model, by the official SDK's rules for names. The last 32 are kept; a failure is not.
 *
 * @param model.tokenizerId - what the server says (`getInfo().modelData.tokenizerId`).
 */
export function tokenizerForModel(
  model: { readonly modelName: string; readonly tokenizerId?: string | undefined },
  options: LoadTokenizerOptions = {},
): Promise<Tokenizer> {
  const { id, revision = "main" } = resolveTokenizer(model.modelName, model.tokenizerId);
  const asked = options.revision ?? revision;
  const key = JSON.stringify([id, asked, options.cacheDir]);
  const found = kept.get(key) ?? loadTokenizer(id, { ...options, revision: asked });
  kept.delete(key);
  kept.set(key, found); // now the youngest
  found.catch(() => kept.get(key) === found && kept.delete(key));
  for (const oldest of kept.keys()) if (kept.size > mostKept) kept.delete(oldest);
  return found;
}

/** Reads from a folder, if that is what was given. */
async function folderReader(path: string): Promise<ReadFile | undefined> {
  if (!isNode()) return undefined;
  const { existingFolder, readText } = await import("./hub-cache.node.ts");
  const folder = await existingFolder(path);
  return folder === undefined ? undefined : (file) => readText(`${folder}/${file}`);
}

async function hubReader(id: string, options: LoadTokenizerOptions): Promise<ReadFile> {
  if (!isHubId(id)) {
    throw new TokenizerError("tokenizer_not_found", `"${id}" is neither a folder nor a name on the Hub.`);
  }
  const source: HubSource = {
    id,
    revision: options.revision ?? resolveTokenizer(id, id).revision ?? "main",
    endpoint: (environment("HF_ENDPOINT") ?? "https://huggingface.co").replace(/\/+$/, ""),
    token: environment("HF_TOKEN"),
    fetch: options.fetch ?? globalThis.fetch,
    signal: options.signal,
  };
  if (!isNode()) return async (file) => (await fetchHubFile(source, file))?.text;
  const offline = options.offline ?? /^(?:1|true|yes|on)$/i.test(environment("HF_HUB_OFFLINE") ?? "");
  const { HubCache, hubToken } = await import("./hub-cache.node.ts");
  return cachedReader({ ...source, token: await hubToken() }, new HubCache(id, options.cacheDir), offline);
}

/** What `hub-cache.node.ts` offers, as far as reading needs it. */
interface Cache {
  commitOf(revision: string): Promise<string | undefined>;
  read(commit: string, file: string): Promise<{ known: true; text: string | undefined } | { known: false }>;
  write(revision: string, commit: string, file: string, text: string | undefined): Promise<void>;
}

/**
 * The cache first, then the Hub. A cached branch is not asked for news: a tokenizer does not change under a model that
 * was trained with it. All files come from one commit, that of the first.
 */
async function cachedReader(source: HubSource, cache: Cache, offline: boolean): Promise<ReadFile> {
  let commit = await cache.commitOf(source.revision);
  let usable = false; // tokenizer.json is in the cache: the rest is worth asking for, not worth failing for
  return async (file) => {
    const cached = commit === undefined ? ({ known: false } as const) : await cache.read(commit, file);
    if (cached.known) {
      usable ||= file === "tokenizer.json" && cached.text !== undefined;
      return cached.text;
    }
    if (offline) {
      if (file !== "tokenizer.json") return undefined;
      throw new TokenizerError("tokenizer_not_found", `${source.id} is not in the cache, and HF_HUB_OFFLINE is set.`, {
        hint: "Load it once with the network, or give a folder with a tokenizer.json.",
      });
    }
    let fetched: HubFile | undefined;
    try {
      fetched = await fetchHubFile({ ...source, revision: commit ?? source.revision }, file);
    } catch (error) {
      if (usable && error instanceof TokenizerError && error.code === "tokenizer_network") return undefined;
      throw error;
    }
    commit ??= fetched?.commit;
    if (commit !== undefined) await cache.write(source.revision, commit, file, fetched?.text);
    return fetched?.text;
  };
}
