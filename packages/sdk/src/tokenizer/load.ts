/**
 * Loads tokenizers by model name through `@tinklet/models`, which is imported on first use. Contains the cache and the conversion of
 * errors. In browsers the sources are the Hugging Face Hub and Tinklet servers.
 */
import type { StreamedTokenizer, TextStream, Tokenizer, TokenizerFiles } from "@tinklet/models/tokenizer";
import { fromModelError, TokenizerError } from "./errors.ts";
import { resolveTokenizer } from "./resolve.ts";

/** Options of {@link loadTokenizer}. */
export interface LoadTokenizerOptions {
  /** Branch, tag or commit. @defaultValue the commit that the official SDK pins, else `main` */
  readonly revision?: string;
  /** Folder that contains `models--org--name`. @defaultValue `HF_HUB_CACHE`, else `$HF_HOME/hub` */
  readonly cacheDir?: string;
  /** Use the local cache only; send no request. @defaultValue `HF_HUB_OFFLINE` */
  readonly offline?: boolean;
  /** @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch;
  readonly signal?: AbortSignal;
}

/** Loads `@tinklet/models`; replaced in tests. */
export interface ModelsPackage {
  /** With access to files. */
  models(): Promise<typeof import("@tinklet/models")>;
  /** Without access to files; works in browsers. */
  tokenizer(): Promise<typeof import("@tinklet/models/tokenizer")>;
}
export const installedModels: ModelsPackage = {
  models: () => import("@tinklet/models"),
  tokenizer: () => import("@tinklet/models/tokenizer"),
};

/** @throws {@link TokenizerError} `missing_peer` with the install command. */
async function loadPackage<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    throw new TokenizerError("missing_peer", "Tokenizers need the package @tinklet/models, which is not installed.", {
      cause,
      hint: "Run: npm install @tinklet/models",
    });
  }
}

/** Whether the runtime has a file system (Node, Bun, Deno). */
const hasFiles = (): boolean =>
  (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined;

/** Documented in `lazy.ts`. */
export function loadTokenizer(nameOrPath: string, options: LoadTokenizerOptions = {}): Promise<Tokenizer> {
  return loadTokenizerWith(installedModels, nameOrPath, options);
}

/** {@link loadTokenizer} with an explicit models package. */
export async function loadTokenizerWith(
  installed: ModelsPackage,
  nameOrPath: string,
  options: LoadTokenizerOptions = {},
): Promise<Tokenizer> {
  const { revision = resolveTokenizer(nameOrPath, nameOrPath).revision, ...rest } = options;
  if (hasFiles()) {
    const { loadTokenizer: load } = await loadPackage(installed.models);
    return withSdkErrors(await mapped(() => load(nameOrPath, { ...rest, revision })));
  }
  const { fetchTokenizerFiles, tokenizerFromFiles } = await loadPackage(installed.tokenizer);
  const { fetch, signal } = rest;
  return mapped(async () => {
    const files = await fetchTokenizerFiles(nameOrPath, { fetch, signal, revision });
    return withSdkErrors(tokenizerFromFiles(files, nameOrPath));
  });
}

/** A tokenizer from files in memory. @param origin - its name in error messages. */
export async function tokenizerOfFiles(
  files: TokenizerFiles,
  origin: string,
  installed: ModelsPackage = installedModels,
): Promise<Tokenizer> {
  const { tokenizerFromFiles } = await loadPackage(installed.tokenizer);
  return mapped(async () => withSdkErrors(tokenizerFromFiles(files, origin)));
}

/** Creates incremental decoders, one per sample. */
export async function textStreamsOf(
  tokenizer: StreamedTokenizer,
  installed: ModelsPackage = installedModels,
): Promise<() => TextStream> {
  const { createTextStream } = await loadPackage(installed.tokenizer);
  return () => createTextStream(tokenizer);
}

async function mapped<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw fromModelError(error);
  }
}

/** Wraps a tokenizer so that it throws the SDK's errors. */
function withSdkErrors(tokenizer: Tokenizer): Tokenizer {
  const guarded =
    <A extends unknown[], R>(call: (...args: A) => R) =>
    (...args: A): R => {
      try {
        return call(...args);
      } catch (error) {
        throw fromModelError(error);
      }
    };
  const { encode, applyChatTemplate } = tokenizer;
  return {
    ...tokenizer,
    encode: guarded(encode),
    applyChatTemplate: guarded(applyChatTemplate as (...args: unknown[]) => never),
  };
}

/** Size of the cache, as in the Python SDK. */
const mostKept = 32;
const kept = new Map<string, Promise<Tokenizer>>();

/** Documented in `lazy.ts`. */
export function tokenizerForModel(
  model: { readonly modelName: string; readonly tokenizerId?: string | undefined },
  options: LoadTokenizerOptions = {},
): Promise<Tokenizer> {
  const { id, revision = "main" } = resolveTokenizer(model.modelName, model.tokenizerId);
  const asked = options.revision ?? revision;
  const key = JSON.stringify([id, asked, options.cacheDir]);
  const found = kept.get(key) ?? loadTokenizer(id, { ...options, revision: asked });
  kept.delete(key);
  kept.set(key, found); // moves the entry to the end: most recently used
  found.catch(() => kept.get(key) === found && kept.delete(key));
  for (const oldest of kept.keys()) if (kept.size > mostKept) kept.delete(oldest);
  return found;
}
