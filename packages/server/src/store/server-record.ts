/**
 * Writes the record of the process that uses a data folder, and proves to clients that this process wrote it. The record is written only
 * while the process holds the folder's database lock, so a later server may overwrite any record it finds.
 */
import { createHmac } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { entropy } from "@tinklet/wire/entropy";
import {
  type AttachRecord,
  parseServerRecord,
  recordFile,
  release,
  type ServerRecord,
} from "@tinklet/wire/running-server";

/** A new secret for one run of `tinklet serve`; also a valid API key. */
export const newSecret = (): string => `tml-local-${Buffer.from(entropy.bytes(32)).toString("base64url")}`;

/** The response to a challenge. */
export const proofOf = (secret: string, challenge: string): string =>
  createHmac("sha256", secret).update(`tinklet-attach\0${challenge}`).digest("hex");

/** Writes the record of this process atomically, readable by its owner only. */
export async function writeRecord(dataDir: string, attach?: AttachRecord): Promise<void> {
  const record: ServerRecord = {
    pid: process.pid,
    program: programName(process.argv),
    release,
    ...(attach === undefined ? {} : { attach }),
  };
  const scratch = join(dataDir, `${recordFile}.${process.pid}`);
  await rm(scratch, { force: true }); // a process with the same id may have crashed while it wrote
  try {
    await writeFile(scratch, JSON.stringify(record), { mode: 0o600, flag: "wx" });
    await rename(scratch, join(dataDir, recordFile));
  } catch (error) {
    await rm(scratch, { force: true }).catch(() => {});
    throw error;
  }
}

/** Removes the record; called before the folder's lock is released. */
export const removeRecord = (dataDir: string): Promise<void> => rm(join(dataDir, recordFile), { force: true });

/** The record in a data folder; `undefined` when there is none that this user can read. */
export async function readRecord(dataDir: string): Promise<ServerRecord | undefined> {
  const text = await readFile(join(dataDir, recordFile), "utf8").catch(() => undefined);
  return text === undefined ? undefined : parseServerRecord(text);
}

/** `tinklet train` for the command line, else the file name of the program. Arguments are left out, because they may be secrets. */
export function programName([, script = "", command = ""]: readonly string[]): string {
  const name = basename(script);
  if (!/^tinklet(\.mjs)?$/.test(name)) return name === "" ? "a program" : name;
  return /^[a-z][a-z-]*$/.test(command) ? `tinklet ${command}` : "tinklet";
}
