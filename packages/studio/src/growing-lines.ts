/**
 * The lines of a JSONL file that another program is writing: reads on from the last whole line, begins anew when the file was replaced,
 * and holds a bounded number of bytes. NaN and Infinity, which Python writes, count as missing.
 */
import { open, stat } from "node:fs/promises";
import type { JsonValue } from "tinklet/wire";

type Row = Readonly<Record<string, JsonValue>>;

/** Bytes of one file that are read; of a longer one the rest is not shown. */
const maxBytes = 256 * 1024 * 1024;
const chunkBytes = 4 * 1024 * 1024;

export class GrowingLines {
  readonly path: string;
  #rows: Row[] = [];
  #read = 0;
  #rest: Buffer = Buffer.alloc(0);
  #inode = 0;
  #updatedAt = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(path: string) {
    this.path = path;
  }

  get rows(): readonly Row[] {
    return this.#rows;
  }

  /** When the file was last written. */
  get updatedAt(): number {
    return this.#updatedAt;
  }

  /** All rows that are there now. A file that is not there has none. */
  read(): Promise<readonly Row[]> {
    const turn = this.#turn.then(() => this.#readOn());
    this.#turn = turn.catch(() => {});
    return turn;
  }

  async #readOn(): Promise<readonly Row[]> {
    const found = await stat(this.path).catch(() => undefined);
    if (found === undefined || found.ino !== this.#inode || found.size < this.#read) {
      this.#rows = [];
      this.#read = 0;
      this.#rest = Buffer.alloc(0);
      this.#inode = found?.ino ?? 0;
    }
    if (found === undefined) return this.#rows;
    this.#updatedAt = Math.round(found.mtimeMs);
    const end = Math.min(found.size, maxBytes);
    if (end <= this.#read) return this.#rows;
    const file = await open(this.path, "r");
    try {
      while (this.#read < end) {
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
    return this.#rows;
  }

  #take(bytes: Buffer): void {
    const whole = bytes.lastIndexOf(10) + 1;
    this.#rest = bytes.subarray(whole);
    for (const line of bytes.subarray(0, whole).toString("utf8").split("\n")) {
      const row = line.trim() === "" ? undefined : rowOf(line);
      if (row !== undefined) this.#rows.push(row);
    }
  }
}

function rowOf(line: string): Row | undefined {
  const value = parsed(line) ?? parsed(line.replace(/(?<=[:[,]\s*)(-?Infinity|NaN)(?=\s*[,}\]])/g, "null"));
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Row) : undefined;
}

function parsed(line: string): JsonValue | undefined {
  try {
    return JSON.parse(line) as JsonValue;
  } catch {
    return undefined;
  }
}
