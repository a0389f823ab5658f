/**
 * Marks of the requests that this process is running. If the process crashes, runs out of memory, or is killed because a request hangs, the
 * next start finds them. A mark is an eight-byte write without sync, which takes microseconds and outlives the process. A power failure may
 * lose marks, but is not caused by a request.
 */
import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

export interface RunningMarks {
  /** Ids of the requests that were running when the last process ended without {@link clear}. Deletes the marks; call once, at the start. */
  takeInterrupted(): readonly number[];
  /** A request starts. Idempotent. */
  begin(id: number): void;
  /** A request has finished or waits again. Idempotent. */
  end(id: number): void;
  /** Deletes the marks at an orderly end of the process. */
  clear(): void;
}

export const marksFile = "running";

/** Bytes of a mark: the id as a big-endian integer, or 0. */
const markBytes = 8;
/** Maximum number of marks; more than the number of requests that run at once. */
const maxMarks = 4096;

/** @param dataDir - `undefined` for a store in memory, which has no marks. */
export function createRunningMarks(dataDir: string | undefined): RunningMarks {
  const file = dataDir === undefined ? undefined : join(dataDir, marksFile);
  let descriptor: number | undefined;
  const slots = new Map<number, number>();
  const free: number[] = [];
  const write = (slot: number, id: number): void => {
    if (descriptor === undefined) return;
    const mark = Buffer.alloc(markBytes);
    mark.writeBigUInt64BE(BigInt(id));
    try {
      writeSync(descriptor, mark, 0, markBytes, slot * markBytes);
    } catch {
      // full disk: the request runs without a mark
    }
  };
  return {
    takeInterrupted() {
      if (file === undefined || descriptor !== undefined) return [];
      let bytes: Buffer;
      try {
        descriptor = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
        bytes = Buffer.alloc(Math.min(fstatSync(descriptor).size, maxMarks * markBytes));
        readSync(descriptor, bytes, 0, bytes.length, 0);
        // Deleted before they are counted: after a crash in between, a request is counted once too few, never twice.
        ftruncateSync(descriptor);
        fdatasyncSync(descriptor);
      } catch {
        return []; // full disk: requests run without marks
      }
      const ids = new Set<number>();
      for (let at = 0; at + markBytes <= bytes.length; at += markBytes) {
        const id = bytes.readBigUInt64BE(at);
        if (id > 0n && id <= BigInt(Number.MAX_SAFE_INTEGER)) ids.add(Number(id));
      }
      return [...ids];
    },
    begin(id) {
      if (slots.has(id) || slots.size >= maxMarks) return;
      const slot = free.pop() ?? slots.size;
      slots.set(id, slot);
      write(slot, id);
    },
    end(id) {
      const slot = slots.get(id);
      if (slot === undefined) return;
      slots.delete(id);
      free.push(slot);
      write(slot, 0);
    },
    clear() {
      if (file === undefined || descriptor === undefined) return;
      closeSync(descriptor);
      descriptor = undefined;
      rmSync(file, { force: true });
      slots.clear();
      free.length = 0;
    },
  };
}
