/** In place of `node:fs` in the server's modules. Synchronous calls act at once; those with a callback are events of the disk. */
import fs from "node:fs";
import { Readable } from "node:stream";
import { checkRoom, logFile, markFile, operation, type Volume, volumeOf } from "./disk.ts";

export const { constants, existsSync } = fs;

const paths = new Map<number, string>();
const pathOf = (descriptor: number): string => paths.get(descriptor) ?? "(closed)";

export function openSync(path: string, flags: string | number, mode?: number): number {
  const volume = volumeOf(path);
  const descriptor = fs.openSync(path, flags, mode);
  volume.open.add(descriptor);
  paths.set(descriptor, path);
  return descriptor;
}

export function closeSync(descriptor: number): void {
  const volume = volumeOf(pathOf(descriptor));
  volume.open.delete(descriptor);
  paths.delete(descriptor);
  fs.closeSync(descriptor);
}

/** Closes what a dead incarnation had open. */
export function closeAll({ open }: Volume): void {
  for (const descriptor of open) {
    fs.closeSync(descriptor);
    paths.delete(descriptor);
  }
  open.clear();
}

export function writeSync(descriptor: number, ...rest: unknown[]): number {
  checkRoom(volumeOf(pathOf(descriptor)));
  return (fs.writeSync as (...all: unknown[]) => number)(descriptor, ...rest);
}

export function ftruncateSync(descriptor: number, length?: number): void {
  volumeOf(pathOf(descriptor));
  fs.ftruncateSync(descriptor, length);
}
export function fdatasyncSync(descriptor: number): void {
  volumeOf(pathOf(descriptor));
}
export const { fstatSync, readSync, copyFileSync, realpathSync } = fs;
export const readFileSync = ((path: string, options: never) => {
  volumeOf(path);
  return fs.readFileSync(path, options);
}) as typeof fs.readFileSync;
export function rmSync(path: string, options?: fs.RmOptions): void {
  volumeOf(path);
  fs.rmSync(path, options);
}

type Callback<T = void> = (error: Error | null, value?: T) => void;

/** What a sync makes durable is what had been written when it began. */
export function fdatasync(descriptor: number, done: Callback): void {
  const path = pathOf(descriptor);
  const { size } = fs.fstatSync(descriptor);
  const mark = path.endsWith("-mark") ? fs.readFileSync(path) : undefined;
  operation(path, "fdatasync", (volume) => {
    if (volume.syncsFail) throw Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO" });
    if (path === logFile(volume.folder)) volume.syncedLogBytes = Math.max(volume.syncedLogBytes, size);
    if (path === markFile(volume.folder)) volume.syncedMark = mark;
  }).then(
    () => done(null),
    (error: Error) => done(error),
  );
}

export function fstat(descriptor: number, done: Callback<fs.Stats>): void {
  operation(pathOf(descriptor), "fstat", () => fs.fstatSync(descriptor)).then(
    (stats) => done(null, stats),
    (error: Error) => done(error),
  );
}

export function createReadStream(path: string): Readable {
  return Readable.from(
    (async function* () {
      yield await operation(path, "read", () => fs.readFileSync(path));
    })(),
  );
}
