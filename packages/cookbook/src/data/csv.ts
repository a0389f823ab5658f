/**
 * CSV by RFC 4180: a first line of names, then one record per line; a quoted cell may hold commas, line breaks and doubled quotes. A
 * tab instead of the comma is TSV. Every cell is a string. Reads a stream; errors have line numbers.
 */
import { createReadStream } from "node:fs";
import { DataError } from "./data-error.ts";
import { type JsonLine, unreadable } from "./jsonl.ts";

/**
 * Reads a CSV file with a line of names.
 *
 * @param separator - @defaultValue ","
 * @throws {@link DataError} with the file and the line on which the record begins.
 *
 * @example
 * ```ts
 * for await (const { value, line } of readCsv("data.csv")) console.log(line, value); // { prompt: "…", completion: "…" }
 * ```
 */
export async function* readCsv(file: string, separator: "," | "\t" = ","): AsyncGenerator<JsonLine> {
  let names: readonly string[] | undefined;
  for await (const { cells, line } of records(file, separator)) {
    if (cells.length === 1 && cells[0] === "") continue; // a blank line
    if (names === undefined) {
      names = checkedNames(cells, { file, line });
      continue;
    }
    if (cells.length !== names.length)
      throw new DataError({ file, line }, `has ${cells.length} cells where the first line has ${names.length}`, {
        hint: 'A cell with a comma, a quote or a line break stands in quotes: "so, for example".',
      });
    yield { value: Object.fromEntries(names.map((name, at) => [name, cells[at]])), line };
  }
}

function checkedNames(cells: readonly string[], place: { readonly file: string; readonly line: number }): string[] {
  const names = cells.map((name) => name.trim());
  const wrong = names.find((name, at) => name === "" || names.indexOf(name) !== at);
  if (wrong === undefined) return names;
  const problem = wrong === "" ? "has a column without a name" : `has two columns named ${JSON.stringify(wrong)}`;
  throw new DataError(place, problem, { hint: "The first line of a CSV file names its columns." });
}

interface CsvRecord {
  readonly cells: readonly string[];
  /** Where it begins, counted from 1. */
  readonly line: number;
}

async function* records(file: string, separator: string): AsyncGenerator<CsvRecord> {
  let state: "start" | "plain" | "quoted" | "closed" = "start"; // of the cell
  let [line, begin, cell]: [number, number, string] = [1, 1, ""];
  let cells: string[] = [];
  for await (const text of texts(file, () => line)) {
    for (const char of text) {
      if (char === "\n") line += 1;
      if (state === "quoted") {
        if (char === '"') state = "closed";
        else cell += char;
      } else if (char === '"' && state === "start") state = "quoted";
      else if (char === '"' && state === "closed") {
        cell += char; // a doubled quote
        state = "quoted";
      } else if (char === separator) {
        cells.push(cell);
        [cell, state] = ["", "start"];
      } else if (char === "\n") {
        yield { cells: [...cells, state === "closed" ? cell : cell.replace(/\r$/, "")], line: begin };
        [cells, cell, state, begin] = [[], "", "start", line];
      } else if (state === "closed") {
        if (char !== "\r") throw new DataError({ file, line: begin }, "has text after a closing quote");
      } else {
        cell += char;
        state = "plain";
      }
    }
  }
  if (state === "quoted") throw new DataError({ file, line: begin }, "has a quote that is never closed");
  if (cells.length > 0 || cell !== "" || state === "closed") yield { cells: [...cells, cell], line: begin };
}

async function* texts(file: string, line: () => number): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true }); // takes a byte-order mark away
  const decode = (chunk?: Buffer) => {
    try {
      return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
    } catch (cause) {
      throw new DataError({ file, line: line() }, "is not UTF-8 text, here or soon after", {
        cause,
        hint: "Save the file as UTF-8.",
      });
    }
  };
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) yield decode(chunk);
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError({ file }, unreadable(cause), { cause });
  }
  yield decode();
}
