/**
 * Downloads the files of a model and of the runtime, with progress, and keeps them in a cache of the browser. A cached file is used when the
 * server confirms it (304 for its ETag or its date) or cannot be reached.
 */
import { ModelError } from "../errors.ts";
import type { EngineOptions } from "../types.ts";

export interface FetchFilesOptions {
  readonly fetch: typeof fetch;
  /** Where files are kept; absent outside of secure contexts. */
  readonly cache: Pick<Cache, "match" | "put"> | undefined;
  readonly signal: AbortSignal;
  readonly onProgress: NonNullable<EngineOptions["onProgress"]>;
}

/** A file that cannot be downloaded. */
const failed = (url: string, why: string, cause?: unknown): ModelError =>
  new ModelError("download_failed", `cannot download ${url}: ${why}`, {
    hint: "check the address and the connection; files that were downloaded before are kept",
    cause,
  });

/** Headers with which a server answers 304 if the cached file is still current; undefined if it cannot know. */
function conditions(cached: Response | undefined): Record<string, string> | undefined {
  const [etag, date] = [cached?.headers.get("etag"), cached?.headers.get("last-modified")];
  if (etag) return { "if-none-match": etag };
  return date ? { "if-modified-since": date } : undefined;
}

/** Reads a body and reports its progress. @throws ModelError for a body that is shorter or longer than announced. */
async function readBody(
  response: Response,
  { url, file }: { readonly url: string; readonly file: string },
  onProgress: FetchFilesOptions["onProgress"],
): Promise<Uint8Array<ArrayBuffer>> {
  // Compressed bodies are announced with their compressed length.
  const isPlain = (response.headers.get("content-encoding") ?? "identity") === "identity";
  const announced = Number(response.headers.get("content-length") ?? Number.NaN);
  const totalBytes = isPlain && Number.isSafeInteger(announced) ? announced : undefined;
  const chunks: Uint8Array[] = [];
  let receivedBytes = 0;
  const reader = response.body?.getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    receivedBytes += value.byteLength;
    onProgress({ file, receivedBytes, ...(totalBytes === undefined ? {} : { totalBytes }) });
  }
  if (totalBytes !== undefined && receivedBytes !== totalBytes) {
    throw failed(url, `it has ${totalBytes} bytes, and ${receivedBytes} arrived`);
  }
  const bytes = new Uint8Array(receivedBytes);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

/** A page of a single-page application that a server sends for unknown addresses is not a file of a model. */
const isPage = (response: Response): boolean => /^text\/html\b/i.test(response.headers.get("content-type") ?? "");

/**
 * Downloads one file, or takes it from the cache. Resolves with undefined if the server does not have it.
 * @throws ModelError `download_failed`; the signal's reason when aborted.
 */
export async function fetchFile(
  url: string,
  file: string,
  options: FetchFilesOptions,
): Promise<Uint8Array | undefined> {
  const { cache, signal, onProgress } = options;
  const cached = await cache?.match(url);
  const conditional = conditions(cached);
  let response: Response;
  try {
    response = await options.fetch(url, { signal, ...(conditional && { headers: conditional }) });
  } catch (cause) {
    signal.throwIfAborted();
    if (cached) return new Uint8Array(await cached.arrayBuffer()); // offline
    throw failed(url, (cause as Error).message, cause);
  }
  if (cached && (response.status === 304 || response.status >= 500)) return new Uint8Array(await cached.arrayBuffer());
  if (response.status === 404 || (response.ok && isPage(response))) return undefined;
  if (!response.ok) throw failed(url, `the server answered ${response.status}`);
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = await readBody(response, { url, file }, onProgress);
  } catch (cause) {
    signal.throwIfAborted();
    throw cause instanceof ModelError ? cause : failed(url, (cause as Error).message, cause);
  }
  const headers: Record<string, string> = {};
  for (const name of ["etag", "last-modified", "content-type"]) {
    const value = response.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  // A full storage must not fail the download: the file is fetched again next time.
  await cache?.put(url, new Response(bytes, { headers })).catch(() => {});
  return bytes;
}

/** Files of a model; those after the first two may be missing. */
const modelFiles = [
  "config.json",
  "model.safetensors",
  "tokenizer.json",
  "tokenizer_config.json",
  "generation_config.json",
  "chat_template.jinja",
] as const;

/**
 * Downloads the files of a model.
 * @param folder - the address of its folder, with a slash at the end
 */
export async function fetchModelFiles(
  folder: string,
  options: FetchFilesOptions,
): Promise<Readonly<Record<string, Uint8Array>>> {
  const found = await Promise.all(
    modelFiles.map(async (file) => [file, await fetchFile(new URL(file, folder).href, file, options)] as const),
  );
  return Object.fromEntries(found.flatMap(([file, bytes]) => (bytes === undefined ? [] : [[file, bytes] as const])));
}
