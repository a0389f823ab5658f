/**
 * Downloads by signed links: a checkpoint's archive, one of its files, a session's trace. All are streamed: a file is opened at the first
 * read, and closed when the reader has read it or has left.
 */
import { pipeline, Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { archiveFiles } from "../../store/files/adapter-files.ts";
import { getCheckpoint } from "../../store/tables/models.ts";
import { problem } from "../answers.ts";
import type { Api } from "../api.ts";
import { type TarEntry, tarStream } from "./tar.ts";
import { traceStream } from "./trace.ts";

/** The response for a path `/download/KIND/…`. */
export async function download(api: Api, url: URL): Promise<Response> {
  const verdict = api.links.check(url);
  if (verdict === "forged") return problem(403, "bad_signature", "This link has no valid signature of this server.");
  if (verdict === "expired") return problem(410, "link_expired", "This link has expired; request a new one.");
  const [, , kind, ...rest] = url.pathname.split("/");
  const path = rest.join("/");
  if (kind === "trace") return trace(api, path);
  return kind === "archive" ? archive(api, path) : file(api, path);
}

/** One file of an adapter. The link's signature covers the path, so the path needs no further check. */
async function file(api: Api, path: string): Promise<Response> {
  const [run, kind, name, fileName] = path.split("/") as [string, string, string, string];
  const row = getCheckpoint(api.store.db.sql, run, kind, name);
  if (row === undefined) return problem(404, "unknown_checkpoint", "The checkpoint was deleted.");
  const size = await api.store.files.fileSize(row.files_id, fileName);
  return new Response(streamed(opened(() => api.store.files.streamFile(row.files_id, fileName))), {
    headers: { "content-type": "application/octet-stream", "content-length": String(size) },
  });
}

async function archive(api: Api, path: string): Promise<Response> {
  const [run, kind, name] = path.split("/") as [string, string, string];
  const row = getCheckpoint(api.store.db.sql, run, kind, name);
  if (row === undefined) return problem(404, "unknown_checkpoint", "The checkpoint was deleted.");
  const { files } = api.store;
  const entries: TarEntry[] = [];
  for (const file of archiveFiles) {
    const size = await files.fileSize(row.files_id, file);
    entries.push({ name: file, size, content: () => files.streamFile(row.files_id, file) });
  }
  const packed = pipeline(
    Readable.from(tarStream(entries, row.created_at)),
    createGzip({ level: 1 }),
    () => {}, // errors reach the reader through the stream; a reader that has left needs none
  );
  return new Response(streamed(packed), {
    headers: { "content-type": "application/gzip", "content-disposition": `attachment; filename="${row.name}.tar.gz"` },
  });
}

function trace(api: Api, sessionId: string): Response {
  return new Response(streamed(Readable.from(traceStream(api.store.db.sql, sessionId))), {
    headers: { "content-type": "application/json", "content-disposition": 'attachment; filename="trace.json"' },
  });
}

const streamed = (stream: Readable) => Readable.toWeb(stream) as ReadableStream<Uint8Array>;

/** A stream that opens its source at the first read. */
function opened(open: () => Readable): Readable {
  return Readable.from(
    (async function* () {
      yield* open() as AsyncIterable<Uint8Array>;
    })(),
    { objectMode: false },
  );
}
