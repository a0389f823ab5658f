/** Loads the tokenizer of a model without its weights: from a folder, a GGUF file, the bundled model or the Hub. */
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { TokenizerError } from "./errors.ts";
import { completeInCache, fetchModel } from "./hub/fetch-model.ts";
import { hubCache } from "./hub/hub-cache.ts";
import { hubClient } from "./hub/hub-client.ts";
import { type HubId, parseTokenizerId } from "./hub/hub-id.ts";
import { hubSettings } from "./hub/hub-settings.ts";
import { readTokenizerOnHub } from "./hub/tokenizer-files.ts";
import { findSource } from "./source.ts";
import { tokenizerFromFiles } from "./tokenizer/from-files.ts";
import { tokenizerFilesFromGguf, tokenizerFromGguf } from "./tokenizer/from-gguf.ts";
import { readTokenizerFiles } from "./tokenizer/read-tokenizer-files.ts";
import type { Tokenizer, TokenizerFiles } from "./tokenizer/types.ts";
import { readGgufMetadata } from "./weights/gguf.ts";

/** Options of {@link loadTokenizer}; all except `signal` apply only to names on the Hub. */
export interface LoadTokenizerOptions {
  /** Branch, tag or commit. @defaultValue `"main"` */
  readonly revision?: string | undefined;
  /** The folder that holds `models--org--name`. @defaultValue `HF_HUB_CACHE`, else `$HF_HOME/hub` */
  readonly cacheDir?: string | undefined;
  /** Use only the local cache; send no request. @defaultValue true if `HF_HUB_OFFLINE` is set */
  readonly offline?: boolean | undefined;
  /** @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The source of a tokenizer: its files as text, or a GGUF file. */
type TokenizerSource =
  | { readonly kind: "files"; readonly files: TokenizerFiles; readonly origin: string }
  | { readonly kind: "gguf"; readonly path: string };

/**
 * Loads the tokenizer of a model: the bundled model's name, a folder, a `.gguf` or `.safetensors` file, or a name on the Hub, whose
 * weights are not downloaded. After the first download the tokenizer is read from the Hub cache.
 *
 * @throws TokenizerError, WeightsError or HubError
 *
 * @example
 * ```ts
 * const tokenizer = await loadTokenizer("./SmolLM2-135M-Instruct.Q4_1.gguf");
 * tokenizer.decode(tokenizer.encode("Hello")); // "Hello"
 * ```
 */
export async function loadTokenizer(source: string, options: LoadTokenizerOptions = {}): Promise<Tokenizer> {
  const found = await findTokenizer(source, options);
  if (found.kind === "files") return tokenizerFromFiles(found.files, found.origin);
  return tokenizerFromGguf(readGgufMetadata(found.path), found.path);
}

/** Like {@link loadTokenizer}, but returns the contents of the tokenizer's files, to send or to write next to weights. */
export async function loadTokenizerFiles(source: string, options: LoadTokenizerOptions = {}): Promise<TokenizerFiles> {
  const found = await findTokenizer(source, options);
  return found.kind === "files" ? found.files : tokenizerFilesFromGguf(readGgufMetadata(found.path), found.path);
}

async function findTokenizer(source: string, options: LoadTokenizerOptions): Promise<TokenizerSource> {
  options.signal?.throwIfAborted();
  const place = findSource(source);
  if (place?.kind === "folder") return findInFolder(place.path);
  if (place?.kind === "file") {
    return place.path.endsWith(".gguf") ? { kind: "gguf", path: place.path } : findInFolder(dirname(place.path));
  }
  const id = parseTokenizerId(source, options.revision);
  if (id === undefined) {
    throw new TokenizerError(`"${source}" is not a file, a folder or a name on the Hub`, { code: "not_found" });
  }
  return findOnHub(id, source, options);
}

/** The folder's tokenizer files, or its only GGUF file. */
function findInFolder(folder: string): TokenizerSource {
  const names = readdirSync(folder);
  const ggufs = names.filter((name) => name.endsWith(".gguf"));
  if (!names.includes("tokenizer.json") && ggufs.length === 1) {
    return { kind: "gguf", path: join(folder, basename(ggufs[0] as string)) };
  }
  return { kind: "files", files: readTokenizerFiles(folder), origin: folder };
}

async function findOnHub(id: HubId, origin: string, options: LoadTokenizerOptions): Promise<TokenizerSource> {
  const settings = hubSettings(options);
  const { signal, fetch } = options;
  if (id.file !== undefined) {
    const path = await fetchModel(id, {
      cacheDir: settings.cacheDir,
      offline: settings.offline,
      ...(signal && { signal }),
    });
    return { kind: "gguf", path };
  }
  const cache = hubCache(settings.cacheDir, id);
  const client = hubClient(id, settings, { signal, fetch });
  try {
    const files = await readTokenizerOnHub({ id, client, cache, offline: settings.offline });
    return { kind: "files", files, origin };
  } catch (error) {
    // The tokenizer of a GGUF-only repository is inside the GGUF file; it can be read if the weights are in the cache.
    const path = completeInCache(id, cache);
    if (path?.endsWith(".gguf")) return { kind: "gguf", path };
    throw error;
  }
}
