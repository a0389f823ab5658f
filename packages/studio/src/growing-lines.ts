/**
 * Reads a JSONL file while another program appends to it: continues after the last complete line, restarts if the file was replaced, and
 * reads a bounded number of bytes. NaN and Infinity, which Python writes, become missing values. Rows are passed to a {@link RowStore}.
 */
import { open, stat } from "node:fs/promises";
import type { JsonValue, RunFileRow } from "@tinklet/wire";

/** Maximum bytes read from one file; the rest of a longer file is not shown. */
const maxBytes = 256 * 1024 * 1024;
/** Bytes parsed before yielding to the event loop, so that the first read of a large file does not block other requests. */
const chunkBytes = 512 * 1024;

/** Stores the rows of a file. */
export interface RowKeeper {
  /** Adds a row. @returns false if the store is full; the rest of the file is then not read. */
  add(row: RunFileRow): boolean;
  /** Deletes all rows, because the file was replaced. */
  clear(): void;
}

/** Stores rows without conversion. */
class RowList implements RowKeeper {
  rows: RunFileRow[] = [];

  add(row: RunFileRow): boolean {
    this.rows.push(row);
    return true;
  }

  clear(): void {
    this.rows = [];
  }
}

/** A file whose rows are added to a store. */
export class GrowingFile<Keeper extends RowKeeper> {
  readonly path: string;
  readonly kept: Keeper;
  #isFull = false;
  #read = 0;
  #rest: Buffer = Buffer.alloc(0);
  #inode = 0;
  #updatedAt = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(path: string, kept: Keeper) {
    this.path = path;
    this.kept = kept;
  }

  /** Modification time of the file. */
  get updatedAt(): number {
    return this.#updatedAt;
  }

  /** Reads the new lines of the file. A missing file has no rows. */
  read(): Promise<Keeper> {
    const turn = this.#turn.then(() => this.#readOn()).then(() => this.kept);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  async #readOn(): Promise<void> {
    const found = await stat(this.path).catch(() => undefined);
    if (found === undefined || found.ino !== this.#inode || found.size < this.#read) {
      this.kept.clear();
      this.#isFull = false;
      this.#read = 0;
      this.#rest = Buffer.alloc(0);
      this.#inode = found?.ino ?? 0;
    }
    if (found === undefined) return;
    this.#updatedAt = Math.round(found.mtimeMs);
    const end = Math.min(found.size, maxBytes);
    if (end <= this.#read || this.#isFull) return;
    const file = await open(this.path, "r");
    try {
      while (this.#read < end && !this.#isFull) {
        const { buffer, bytesRead } = await file.read(
          Buffer.alloc(Math.min(chunkBytes, end - this.#read)),
          0,
          null,
          this.#read,
        );
        if (bytesRead === 0) break;
        this.#read += bytesRead;
        this.#take(Buffer.concat([this.#rest, buffer.subarray(0, bytesRead)]));
      }
    } finally {
      await file.close();
    }
  }

  #take(bytes: Buffer): void {
    const whole = bytes.lastIndexOf(10) + 1;
    this.#rest = bytes.subarray(whole);
    for (const line of bytes.subarray(0, whole).toString("utf8").split("\n")) {
      const row = line.trim() === "" ? undefined : rowOf(line);
      if (row !== undefined && !this.#isFull) this.#isFull = !this.kept.add(row);
    }
  }
}

/** A file with few rows, stored without conversion. */
export class GrowingLines {
  readonly #file: GrowingFile<RowList>;

  constructor(path: string) {
    this.#file = new GrowingFile(path, new RowList());
  }

  /** Reads the file and returns all rows. */
  async read(): Promise<readonly RunFileRow[]> {
    return (await this.#file.read()).rows;
  }
}

function rowOf(line: string): RunFileRow | undefined {
  const value = parsed(line) ?? parsed(line.replace(/(?<=[:[,]\s*)(-?Infinity|NaN)(?=\s*[,}\]])/g, "null"));
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as RunFileRow) : undefined;
}

function parsed(line: string): JsonValue | undefined {
  try {
    return JSON.parse(line) as JsonValue;
  } catch {
    return undefined;
  }
}
