/** In place of `node:fs/promises` in the server's modules: every call is an event of the disk. */
import fs from "node:fs";
import { dirname } from "node:path";
import { checkRoom, operation } from "./disk.ts";
import { closeSync, openSync } from "./disk-fs.ts";

const named =
  <A extends unknown[], T>(label: string, call: (path: string, ...rest: A) => T, writes = false) =>
  (path: string, ...rest: A): Promise<T> =>
    operation(path, label, (volume) => {
      if (writes) checkRoom(volume);
      return call(path, ...rest);
    });

export const mkdir = named(
  "mkdir",
  fs.mkdirSync as (path: string, options?: fs.MakeDirectoryOptions) => string | undefined,
  true,
);
export const mkdtemp = named("mkdtemp", (path: string) => fs.mkdtempSync(path), true);
export const readdir = named("readdir", fs.readdirSync as (path: string, options?: never) => string[]);
export const stat = named("stat", (path: string) => fs.statSync(path));
export const lstat = named("lstat", (path: string) => fs.lstatSync(path));
export const readFile = named("readFile", (path: string, encoding?: BufferEncoding) => fs.readFileSync(path, encoding));
export const chmod = named("chmod", (path: string, mode: number) => fs.chmodSync(path, mode));
export const rm = named("rm", (path: string, options?: fs.RmOptions) => fs.rmSync(path, options));
export const writeFile = named(
  "writeFile",
  (path: string, data: string | Uint8Array) => fs.writeFileSync(path, data),
  true,
);

export const rename = (from: string, to: string): Promise<void> =>
  operation(from, "rename", (volume) => {
    fs.renameSync(from, to);
    volume.unsyncedRenames.set(to, from);
    for (const path of [...volume.unsyncedFiles]) {
      if (!path.startsWith(`${from}/`)) continue;
      volume.unsyncedFiles.delete(path);
      volume.unsyncedFiles.add(to + path.slice(from.length));
    }
  });

export const open = (path: string, flags: string, mode?: number) =>
  operation(path, "open", () => {
    const descriptor = openSync(path, flags, mode);
    const isFolder = fs.fstatSync(descriptor).isDirectory();
    return {
      write: (bytes: Uint8Array, offset: number, length: number) =>
        operation(path, "write", (volume) => {
          checkRoom(volume);
          volume.unsyncedFiles.add(path);
          return { bytesWritten: fs.writeSync(descriptor, bytes, offset, length) };
        }),
      read: (bytes: Uint8Array, offset: number, length: number, position: number) =>
        operation(path, "read", () => ({ bytesRead: fs.readSync(descriptor, bytes, offset, length, position) })),
      stat: () => operation(path, "stat", () => fs.fstatSync(descriptor)),
      sync: () =>
        operation(path, "sync", (volume) => {
          volume.unsyncedFiles.delete(path);
          if (!isFolder) return;
          for (const to of [...volume.unsyncedRenames.keys()])
            if (dirname(to) === path) volume.unsyncedRenames.delete(to);
        }),
      close: () => operation(path, "close", () => closeSync(descriptor)),
    };
  });
