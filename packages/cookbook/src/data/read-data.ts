/**
 * From the name of some data to its rows: a file by its ending, or a dataset of the Hugging Face Hub, fetched into the Hub's own cache.
 * Knows formats and places; what a row must be, others check.
 */
import { existsSync } from "node:fs";
import { extname } from "node:path";
import { fetchDataset, parseDatasetId } from "@tinklet/models";
import { checkOptions } from "@tinklet/wire/options";
import { readCsv } from "./csv.ts";
import { DataError } from "./data-error.ts";
import { chosenFiles } from "./dataset-files.ts";
import { readJsonLines } from "./jsonl.ts";
import { readParquet } from "./parquet.ts";

/** One row, and where it stands. */
export interface DataRow {
  readonly value: unknown;
  readonly file: string;
  /** The line, or the row of a Parquet file, counted from 1. */
  readonly line: number;
}

/** Options of {@link readData}. */
export interface ReadDataOptions {
  readonly signal?: AbortSignal | undefined;
  /** Told how far a download is. */
  readonly onProgress?: (progress: {
    readonly file: string;
    readonly receivedBytes: number;
    readonly totalBytes?: number;
  }) => void;
}

type OnInvalid = (error: DataError) => void;

const readers: Readonly<
  Record<
    string,
    (file: string, onInvalid: OnInvalid) => AsyncGenerator<{ readonly value: unknown; readonly line: number }>
  >
> = {
  ".jsonl": readJsonLines,
  ".ndjson": readJsonLines,
  ".csv": (file) => readCsv(file),
  ".tsv": (file) => readCsv(file, "\t"),
  ".parquet": readParquet,
};

/** Endings of files that can be read, with their dot. */
export const dataFileEndings: readonly string[] = Object.keys(readers);

/**
 * Reads rows of data.
 *
 * @param source - a file (`.jsonl`, `.csv`, `.tsv`, `.parquet`; any other ending is read as JSON Lines), or a dataset of the Hub:
 *   `org/name`, with a revision `org/name@revision` and a part of it `org/name:main/test`. Without a part it is the training split.
 * @throws {@link DataError} naming file and line; HubError when the Hub cannot give it.
 *
 * @example
 * ```ts
 * for await (const { value, file, line } of readData("openai/gsm8k:main/test")) console.log(file, line, value);
 * ```
 */
export async function* readData(source: string, options: ReadDataOptions = {}): AsyncGenerator<DataRow> {
  checkOptions("readData", options, { signal: true, onProgress: true });
  yield* readRows(source, options, (error) => {
    throw error;
  });
}

/** {@link readData} that reports invalid lines of JSON and continues after them. */
export async function* readRows(
  source: string,
  options: ReadDataOptions,
  onInvalid: OnInvalid,
): AsyncGenerator<DataRow> {
  for (const { path, name } of await filesOf(source, options)) {
    const read = readers[extname(path).toLowerCase()] ?? readJsonLines;
    for await (const { value, line } of read(path, onInvalid)) {
      options.signal?.throwIfAborted();
      yield { value, file: name, line };
    }
  }
}

/** The files that make the data; a name is what people know them by. */
async function filesOf(
  source: string,
  options: ReadDataOptions,
): Promise<readonly { readonly path: string; readonly name: string }[]> {
  const isFile = existsSync(source) || dataFileEndings.includes(extname(source).toLowerCase());
  const id = isFile ? undefined : parseDatasetId(source);
  if (id === undefined) {
    if (!isFile && /^(hf:|https?:)/.test(source))
      throw new DataError({ file: source }, "is neither a file nor a dataset's name", {
        hint: "A dataset of the Hub is named org/name, org/name@revision or org/name:part.",
      });
    return [{ path: source, name: source }];
  }
  const { part, ...dataset } = id;
  const name = `${dataset.owner}/${dataset.name}`;
  const paths = await fetchDataset(dataset, { ...options, select: (files) => chosenFiles(files, part, name) });
  return paths.map(({ path, file }) => ({ path, name: `${name}/${file}` }));
}
