/**
 * JSON Lines: one value per line, read as a stream; errors have line numbers. Lines end at `\n` alone (and a `\r`
 * before it): `node:readline` would also break at U+2028, which JSON allows inside a string.
 */
import { createReadStream } from "node:fs";
import { DataError } from "./data-error.ts";

/** One line of a file. */
export interface JsonLine {
  readonly value: unknown;
  /** Counted from 1, blank lines included. */
  readonly line: number;
}

/**
 * Reads a file of JSON Lines. Blank lines are skipped; a byte-order mark is tolerated.
 *
 * @throws {@link DataError} naming file and line for what is not UTF-8 or not JSON, and when the file cannot be read.
 *
 * @example
 * ```ts
 * for await (const { value, line } of readJsonl("data.jsonl")) console.log(line, value);
 * ```
 */
export function readJsonl(file: string): AsyncGenerator<JsonLine> {
  return readJsonLines(file, (error) => {
    throw error;
  });
}

/** {@link readJsonl} that reports invalid lines and continues after them. */
export async function* readJsonLines(file: string, onInvalid: (error: DataError) => void): AsyncGenerator<JsonLine> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let line = 0;
  for await (const bytes of lines(file)) {
    line += 1;
    let text: string;
    try {
      text = decoder.decode(bytes).trim();
    } catch (cause) {
      onInvalid(new DataError({ file, line }, "is not UTF-8 text", { cause, hint: "Save the file as UTF-8." }));
      continue;
    }
    if (text === "") continue;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      const said = cause instanceof Error ? cause.message : String(cause);
      const hint =
        text.startsWith("[") && line === 1 ? "This looks like one JSON array; write one object per line." : undefined;
      onInvalid(new DataError({ file, line }, `is not JSON: ${said}`, { cause, hint }));
      continue;
    }
    yield { value, line };
  }
}

async function* lines(file: string): AsyncGenerator<Uint8Array> {
  let rest: Buffer = Buffer.alloc(0);
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let start = 0;
      for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10, start)) {
        yield rest.subarray(start, end);
        start = end + 1;
      }
      rest = rest.subarray(start);
    }
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError({ file }, unreadable(cause), { cause });
  }
  if (rest.length > 0) yield rest;
}

/** Why a file cannot be read, in a few words. */
export function unreadable(cause: unknown): string {
  const code = (cause as NodeJS.ErrnoException).code;
  if (code === "ENOENT") return "there is no such file";
  if (code === "EISDIR") return "is a folder, not a file";
  if (code === "EACCES") return "may not be read";
  return `cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`;
}
