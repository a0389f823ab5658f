/**
 * An open weight file; all reads of weight files go through this module. Every read is checked against the file size, so that a malicious
 * header cannot cause reads or allocations beyond it.
 */

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { WeightsError } from "../errors.ts";
import type { ByteSource } from "./byte-source.ts";

/** readSync reads at most 2 GiB per call; 256 MiB keeps single system calls short. */
const largestReadBytes = 256 * 1024 * 1024;

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

  /** Fills `into` from `position`. @throws WeightsError if the file is too short or closed. */
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
      if (count === 0) throw this.truncated(position, into.byteLength); // the file was truncated after it was opened
      done += count;
    }
  }

  truncated(position: number, length: number): WeightsError {
    return new WeightsError(
      `${this.path} ends at byte ${this.size}, but bytes ${position} to ${position + length} were requested`,
      { code: "truncated", file: this.path, hint: "the file is incomplete or damaged; download it again" },
    );
  }

  /** Idempotent. */
  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}

/** Reads a text file and checks its size before allocating. @throws WeightsError naming the file. */
export function readSmallText(path: string, largestBytes: number): string {
  const file = new WeightFile(path);
  try {
    if (file.size > largestBytes) {
      const message = `${path} must have at most ${largestBytes} bytes, got ${file.size}`;
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
