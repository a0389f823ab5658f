/**
 * Parquet files, by `hyparquet`, which is loaded when the first is read. A row group is in memory at a time. The codecs that hyparquet lacks
 * are Node's own, and zstd the SDK's.
 */
import { stat } from "node:fs/promises";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { zstdUnpacker } from "@tinklet/wire";
import { DataError } from "./data-error.ts";
import { type JsonLine, unreadable } from "./jsonl.ts";

/**
 * Reads the rows of a Parquet file as objects. `line` is the row, counted from 1.
 *
 * @throws {@link DataError} naming the file.
 */
export async function* readParquet(file: string): AsyncGenerator<JsonLine> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import("hyparquet");
  await stat(file).catch((cause: unknown) => {
    throw new DataError({ file }, unreadable(cause), { cause });
  });
  const reading = async <T>(read: () => Promise<T>): Promise<T> => {
    try {
      return await read();
    } catch (cause) {
      const said = cause instanceof Error ? cause.message : String(cause);
      throw new DataError({ file }, `is not Parquet that can be read: ${said}`, { cause });
    }
  };
  const unpackZstd = await zstdUnpacker();
  const compressors = {
    GZIP: (input: Uint8Array, length: number) => new Uint8Array(gunzipSync(input, { maxOutputLength: length })),
    BROTLI: (input: Uint8Array, length: number) =>
      new Uint8Array(brotliDecompressSync(input, { maxOutputLength: length })),
    ZSTD: (input: Uint8Array, length: number) => new Uint8Array(unpackZstd(input, length)),
  };
  const source = await asyncBufferFromFile(file);
  const metadata = await reading(() => parquetMetadataAsync(source));
  let rowStart = 0;
  for (const { num_rows } of metadata.row_groups) {
    const rowEnd = rowStart + Number(num_rows);
    const options = { file: source, metadata, compressors, rowStart, rowEnd };
    const rows = await reading(() => parquetReadObjects(options));
    for (const [at, row] of rows.entries()) yield { value: plain(row), line: rowStart + at + 1 };
    rowStart = rowEnd;
  }
}

/** As JSON would have it: 64-bit integers as numbers where they are exact, else as texts; dates as ISO texts. */
function plain(value: unknown): unknown {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value instanceof Date) return value.toISOString();
  if (ArrayBuffer.isView(value) && !(value instanceof DataView))
    return Array.from(value as unknown as ArrayLike<unknown>, plain);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]) => (one === undefined || one === null ? [] : [[name, plain(one)]])),
  );
}
