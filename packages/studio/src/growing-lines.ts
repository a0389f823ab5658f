/**
 * Reads a JSONL file while another program appends to it: continues after the last complete line and restarts if the file was replaced.
 * Bytes, lines and the length of a line are bounded, and the work is linear in them; a line that is too long or not an object is skipped.
 * NaN and Infinity, which Python writes, become missing values. Rows are passed to a {@link RowStore}.
 */
import type { JsonValue, RunFileRow } from "@tinklet/wire";
import { openPlainFile, readAt } from "./plain-file.ts";

/** Maximum bytes read from one file; the rest of a longer file is not shown. */
const maxBytes = 256 * 1024 * 1024;
/** Maximum lines read from one file, including skipped ones. */
const maxLines = 1_000_000;
/** Maximum bytes of a line: parsing one blocks the event loop for some tens of milliseconds. */
const maxLineBytes = 2 * 1024 * 1024;
/** Bytes parsed before yielding to the event loop. */
const chunkBytes = 128 * 1024;

/** Stores the rows of a file. */
export interface RowStore {
  /**
   * Adds a row.
   *
   * @param bytes - the length of its line.
   * @returns false if the store is full; the rest of the file is then not read.
   */
  add(row: RunFileRow, bytes: number): boolean;
  /** Deletes all rows, because the file was replaced. */
  clear(): void;
}

/** Stores the first rows of a file, up to the bounds. */
class RowList implements RowStore {
  rows: RunFileRow[] = [];
  readonly #maxRows: number;
  readonly #maxBytes: number;
  #bytes = 0;

  constructor({ maxRows, maxBytes: most }: RowBounds) {
    this.#maxRows = maxRows;
    this.#maxBytes = most;
  }

  add(row: RunFileRow, bytes: number): boolean {
    if (this.rows.length >= this.#maxRows || this.#bytes + bytes > this.#maxBytes) return false;
    this.rows.push(row);
    this.#bytes += bytes;
    return true;
  }

  clear(): void {
    this.rows = [];
    this.#bytes = 0;
  }
}

/** Stores one page of a file's rows, and counts all rows. */
export class RowPage implements RowStore {
  rows: RunFileRow[] = [];
  total = 0;
  readonly #offset: number;
  readonly #bounds: RowBounds;
  #bytes = 0;

  constructor(offset: number, bounds: RowBounds) {
    this.#offset = offset;
    this.#bounds = bounds;
  }

  add(row: RunFileRow, bytes: number): boolean {
    const { maxRows, maxBytes: most } = this.#bounds;
    if (this.total++ < this.#offset || this.rows.length >= maxRows) return true;
    this.#bytes += bytes;
    if (this.#bytes <= most) this.rows.push(row);
    return true;
  }

  clear(): void {
    this.rows = [];
    this.total = 0;
    this.#bytes = 0;
  }
}

/** Limits of the rows stored of a file. */
export interface RowBounds {
  readonly maxRows: number;
  /** Maximum total length of the stored lines. */
  readonly maxBytes: number;
}

/** A file whose rows are added to a store. */
export class GrowingFile<Store extends RowStore> {
  readonly path: string;
  readonly store: Store;
  #isFull = false;
  #read = 0;
  #lines = 0;
  /** Start of the last line if its end was not written yet; empty if it exceeds `maxLineBytes`. */
  #begun: Buffer[] = [];
  #begunBytes = 0;
  #inode = 0;
  #updatedAt = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(path: string, store: Store) {
    this.path = path;
    this.store = store;
  }

  /** Modification time of the file. */
  get updatedAt(): number {
    return this.#updatedAt;
  }

  /** Reads the new lines of the file. A missing file has no rows. */
  read(): Promise<Store> {
    const turn = this.#turn.then(() => this.#readOn()).then(() => this.store);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  async #readOn(): Promise<void> {
    const file = await openPlainFile(this.path);
    try {
      const found = await file?.stat();
      if (found === undefined || found.ino !== this.#inode || found.size < this.#read) {
        this.store.clear();
        this.#isFull = false;
        this.#read = 0;
        this.#lines = 0;
        this.#begin();
        this.#inode = found?.ino ?? 0;
      }
      if (file === undefined || found === undefined) return;
      this.#updatedAt = Math.round(found.mtimeMs);
      const end = Math.min(found.size, maxBytes);
      while (this.#read < end && !this.#isFull) {
        const bytes = await readAt(file, this.#read, Math.min(chunkBytes, end - this.#read));
        if (bytes.length === 0) break;
        this.#read += bytes.length;
        this.#take(bytes);
      }
    } finally {
      await file?.close();
    }
  }

  #take(bytes: Buffer): void {
    let from = 0;
    for (let end = bytes.indexOf(10); end >= 0 && !this.#isFull; end = bytes.indexOf(10, from)) {
      this.#hold(bytes.subarray(from, end));
      this.#endLine();
      from = end + 1;
    }
    this.#hold(Buffer.from(bytes.subarray(from))); // a copy, so that the chunk can be freed
  }

  #hold(part: Buffer): void {
    this.#begunBytes += part.length;
    if (this.#begunBytes > maxLineBytes) this.#begun = [];
    else if (part.length > 0) this.#begun.push(part);
  }

  #begin(): void {
    this.#begun = [];
    this.#begunBytes = 0;
  }

  #endLine(): void {
    const bytes = this.#begunBytes;
    const line = this.#begun.length === 1 ? this.#begun[0]! : Buffer.concat(this.#begun);
    this.#begin();
    this.#lines++;
    const row = bytes > maxLineBytes ? undefined : rowOf(line.toString("utf8"));
    if (row !== undefined) this.#isFull = !this.store.add(row, bytes);
    if (this.#lines >= maxLines) this.#isFull = true;
  }
}

/** A file with few rows, stored without conversion. */
export class GrowingLines {
  readonly #file: GrowingFile<RowList>;

  constructor(path: string, bounds: RowBounds = { maxRows: 10_000, maxBytes: 8 * 1024 * 1024 }) {
    this.#file = new GrowingFile(path, new RowList(bounds));
  }

  /** Reads the file and returns all rows. */
  async read(): Promise<readonly RunFileRow[]> {
    return (await this.#file.read()).rows;
  }
}

/** Reads the last rows of a file, from at most `maxBytes` at its end. */
export async function lastRows(path: string, { maxRows, maxBytes: most }: RowBounds): Promise<readonly RunFileRow[]> {
  const file = await openPlainFile(path);
  if (file === undefined) return [];
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - most);
    const bytes = await readAt(file, from, size - from);
    const lines = bytes
      .subarray(0, bytes.lastIndexOf(10) + 1)
      .toString("utf8")
      .split("\n");
    if (from > 0) lines.shift(); // an incomplete line
    const rows: RunFileRow[] = [];
    for (let i = lines.length - 1; i >= 0 && rows.length < maxRows; i--) {
      const row = rowOf(lines[i]!);
      if (row !== undefined) rows.push(row);
    }
    return rows.reverse();
  } finally {
    await file.close();
  }
}

function rowOf(line: string): RunFileRow | undefined {
  if (line.trim() === "") return undefined;
  const value = parsed(line) ?? (/NaN|Infinity/.test(line) ? parsed(withNulls(line)) : undefined);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as RunFileRow) : undefined;
}

/** Replaces NaN, Infinity and -Infinity outside strings with null, in one pass. */
function withNulls(line: string): string {
  const parts: string[] = [];
  let from = 0;
  let isString = false;
  for (let at = 0; at < line.length; at++) {
    const character = line[at];
    if (character === '"') isString = !isString;
    else if (isString && character === "\\") at++;
    else if (!isString && (character === "N" || character === "I" || character === "-")) {
      const found = ["NaN", "Infinity", "-Infinity"].find((name) => line.startsWith(name, at));
      if (found === undefined) continue;
      parts.push(line.slice(from, at), "null");
      from = at + found.length;
      at = from - 1;
    }
  }
  return parts.join("") + line.slice(from);
}

function parsed(line: string): JsonValue | undefined {
  try {
    return JSON.parse(line) as JsonValue;
  } catch {
    return undefined;
  }
}
