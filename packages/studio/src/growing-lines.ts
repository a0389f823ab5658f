/**
 * The lines of a JSONL file that another program is writing: reads on from the last whole line, begins anew when the file was replaced,
 * and reads a bounded number of bytes. NaN and Infinity, which Python writes, count as missing. Where the rows go is the keeper's business.
 */
import { open, stat } from "node:fs/promises";
import type { JsonValue, RunFileRow } from "@tinklet/wire";

/** Bytes of one file that are read; of a longer one the rest is not shown. */
const maxBytes = 256 * 1024 * 1024;
/** Parsed in one go: a file that is read for the first time must not keep others waiting. */
const chunkBytes = 512 * 1024;

/** What takes the rows of a file. */
export interface RowKeeper {
  /** Takes a row. @returns false when it can hold no more: the rest of the file is not read. */
  add(row: RunFileRow): boolean;
  /** Forgets all rows: the file begins anew. */
  clear(): void;
}

/** Rows as they are. */
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

/** A file whose rows go to a keeper. */
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

  /** When the file was last written. */
  get updatedAt(): number {
    return this.#updatedAt;
  }

  /** Reads what is there now. A file that is not there has no rows. */
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

/** A file of a few rows, kept as they are. */
export class GrowingLines {
  readonly #file: GrowingFile<RowList>;

  constructor(path: string) {
    this.#file = new GrowingFile(path, new RowList());
  }

  /** All rows that are there now. */
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
