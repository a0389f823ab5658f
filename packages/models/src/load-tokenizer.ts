/** The tokenizer of any model, without its weights: from a folder, a GGUF file, the bundled model or the Hub. */
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

/** Where tokenizers come from; all but `signal` matter only for a name on the Hub. */
export interface LoadTokenizerOptions {
  /** A branch, tag or commit. @defaultValue `"main"` */
  readonly revision?: string | undefined;
  /** The folder that holds `models--org--name`. @defaultValue `HF_HUB_CACHE`, else `$HF_HOME/hub` */
  readonly cacheDir?: string | undefined;
  /** Use the local cache only; send no request. @defaultValue `HF_HUB_OFFLINE` */
  readonly offline?: boolean | undefined;
  /** @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What a tokenizer is made of: files as text, or the metadata of a GGUF. */
type Found =
  | { readonly kind: "files"; readonly files: TokenizerFiles; readonly origin: string }
  | { readonly kind: "gguf"; readonly path: string };

/**
 * Loads the tokenizer of a model: the bundled name, a folder, a `.gguf` or `.safetensors` file, or a name on the Hub, whose weights
 * are not fetched. A name that was fetched once is read from the Hub's cache.
 *
 * @throws TokenizerError, WeightsError or HubError saying what is missing and what to do.
 *
 * @example
 * ```ts
 * const tokenizer = await loadTokenizer("./SmolLM2-135M-Instruct.Q4_1.gguf");
 * tokenizer.decode(tokenizer.encode("Hello")); // "Hello"
 * ```
 */
export async function loadTokenizer(source: string, options: LoadTokenizerOptions = {}): Promise<Tokenizer> {
  const found = await find(source, options);
  if (found.kind === "files") return tokenizerFromFiles(found.files, found.origin);
  return tokenizerFromGguf(readGgufMetadata(found.path), found.path);
}

/** The same as the contents of files, whatever the model came as: to be sent, or written beside weights. */
export async function loadTokenizerFiles(source: string, options: LoadTokenizerOptions = {}): Promise<TokenizerFiles> {
  const found = await find(source, options);
  return found.kind === "files" ? found.files : tokenizerFilesFromGguf(readGgufMetadata(found.path), found.path);
}

async function find(source: string, options: LoadTokenizerOptions): Promise<Found> {
  options.signal?.throwIfAborted();
  const place = findSource(source);
  if (place?.kind === "folder") return inFolder(place.path);
  if (place?.kind === "file") {
    return place.path.endsWith(".gguf") ? { kind: "gguf", path: place.path } : inFolder(dirname(place.path));
  }
  const id = parseTokenizerId(source, options.revision);
  if (id === undefined) {
    throw new TokenizerError(`"${source}" is neither a file nor a folder nor a name on the Hub`, { code: "not_found" });
  }
  return onHub(id, source, options);
}

/** A folder's own files, or those inside of its only GGUF. */
function inFolder(folder: string): Found {
  const names = readdirSync(folder);
  const ggufs = names.filter((name) => name.endsWith(".gguf"));
  if (!names.includes("tokenizer.json") && ggufs.length === 1) {
    return { kind: "gguf", path: join(folder, basename(ggufs[0] as string)) };
  }
  return { kind: "files", files: readTokenizerFiles(folder), origin: folder };
}

async function onHub(id: HubId, origin: string, options: LoadTokenizerOptions): Promise<Found> {
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
    // A repository of one GGUF has its tokenizer in there; if the weights were fetched, it is at hand.
    const path = completeInCache(id, cache);
    if (path?.endsWith(".gguf")) return { kind: "gguf", path };
    throw error;
  }
}
