/**
 * Marks of the requests that this process is running, for the next start to find should the process crash, run out of memory, or be
 * killed because a request never ended. A mark is a write of eight bytes that is not synced: it outlives the process,
 * which is what it is for, and costs microseconds. A power failure may lose it; that is not the fault of a request.
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
  /** Ids of the requests that were running when the last process ended without {@link clear}. Forgets them; to be called once, at the start. */
  takeInterrupted(): readonly number[];
  /** A request begins. Idempotent. */
  begin(id: number): void;
  /** It is over, or waits again. Idempotent. */
  end(id: number): void;
  /** The process ends in order: nothing of it is at fault. */
  clear(): void;
}

export const marksFile = "running";

/** Bytes of a mark: the id as a big-endian integer, 0 where there is none. */
const markBytes = 8;
/** Requests that are marked at once; more than run at once. */
const mostMarks = 4096;

/** @param dataDir - `undefined`: nothing outlives the process. */
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
      // A full disk: the request runs without a mark.
    }
  };
  return {
    takeInterrupted() {
      if (file === undefined || descriptor !== undefined) return [];
      let bytes: Buffer;
      try {
        descriptor = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
        bytes = Buffer.alloc(Math.min(fstatSync(descriptor).size, mostMarks * markBytes));
        readSync(descriptor, bytes, 0, bytes.length, 0);
        // Before they are counted: should this process end in between, they count once too little, never twice.
        ftruncateSync(descriptor);
        fdatasyncSync(descriptor);
      } catch {
        return []; // a full disk: requests run without marks
      }
      const ids = new Set<number>();
      for (let at = 0; at + markBytes <= bytes.length; at += markBytes) {
        const id = bytes.readBigUInt64BE(at);
        if (id > 0n && id <= BigInt(Number.MAX_SAFE_INTEGER)) ids.add(Number(id));
      }
      return [...ids];
    },
    begin(id) {
      if (slots.has(id) || slots.size >= mostMarks) return;
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
