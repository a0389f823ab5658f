/**
 * One open weight file and the only place that reads bytes from it. Every read is checked against the size that the file has, so
 * that no header can make the process read, or allocate, what is not there.
 */

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { WeightsError } from "../errors.ts";

/** readSync takes at most 2 GiB at once; 256 MiB keeps single system calls short. */
const largestReadBytes = 256 * 1024 * 1024;

/** Bytes with a name and a known size; what is outside of them is never read. */
export interface ByteSource {
  /** For messages. */
  readonly path: string;
  readonly size: number;
  /** Fills `into` from `position`, which the caller has compared with `size`. */
  read(into: Uint8Array, position: number): void;
}

/** A file on disk. */
export class WeightFile implements ByteSource {
  readonly path: string;
  /** Size when opened, in bytes. */
  readonly size: number;
  #fd: number | undefined;

  constructor(path: string) {
    this.path = path;
    try {
      this.#fd = openSync(path, "r");
      const stat = fstatSync(this.#fd);
      if (!stat.isFile()) throw new Error("not a regular file");
      this.size = stat.size;
    } catch (cause) {
      this.close();
      throw new WeightsError(`cannot open ${path}: ${(cause as Error).message}`, {
        code: "unreadable_file",
        file: path,
        cause,
      });
    }
  }

  /** Fills `into` from `position`. @throws WeightsError when the file ends before that, or is closed. */
  read(into: Uint8Array, position: number): void {
    if (this.#fd === undefined) throw new WeightsError(`${this.path} is closed`, { code: "closed", file: this.path });
    if (position < 0 || position + into.byteLength > this.size) throw this.truncated(position, into.byteLength);
    let done = 0;
    while (done < into.byteLength) {
      const length = Math.min(into.byteLength - done, largestReadBytes);
      let count: number;
      try {
        count = readSync(this.#fd, into, done, length, position + done);
      } catch (cause) {
        const message = `cannot read ${this.path}: ${(cause as Error).message}`;
        throw new WeightsError(message, { code: "unreadable_file", file: this.path, cause });
      }
      if (count === 0) throw this.truncated(position, into.byteLength); // it was cut short after it was opened
      done += count;
    }
  }

  truncated(position: number, length: number): WeightsError {
    return new WeightsError(
      `${this.path} ends at byte ${this.size}, but bytes ${position} to ${position + length} are needed`,
      { code: "truncated", file: this.path, hint: "the file is incomplete or damaged; fetch it again" },
    );
  }

  /** Idempotent. */
  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}

/** Reads a text file whose size is bounded before anything is allocated. @throws WeightsError naming the file. */
export function readSmallText(path: string, largestBytes: number): string {
  const file = new WeightFile(path);
  try {
    if (file.size > largestBytes) {
      const message = `${path} has ${file.size} bytes, more than the ${largestBytes} that such a file may have`;
      throw new WeightsError(message, { code: "too_large", file: path });
    }
    const bytes = new Uint8Array(file.size);
    file.read(bytes, 0);
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    if (cause instanceof WeightsError) throw cause;
    throw new WeightsError(`${path} is not UTF-8 text`, { code: "bad_text", file: path, cause });
  } finally {
    file.close();
  }
}
