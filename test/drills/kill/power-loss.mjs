// Takes back what was never synced, from the journal that faultfs.c kept: the newest first, so that each write finds the file as it
// left it. What was synced (a file's content by its own fsync, an entry by its folder's) stays.
import {
  closeSync,
  existsSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

/** @returns how many operations were taken back */
export function powerLoss(journal) {
  if (!existsSync(journal)) return 0;
  const bytes = readFileSync(journal);
  const records = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(10, at);
    if (end < 0) break;
    const match = /^([WCRSD]) (-?\d+) (\d+) (-?\d+) ([^\t]+)(?:\t(.+))?$/.exec(bytes.toString("utf8", at, end));
    if (match === null) throw new Error(`the journal is damaged at ${at}`);
    const [, kind, offset, length, size, path, second] = match;
    const data = bytes.subarray(end + 1, end + 1 + Number(length));
    records.push({ kind, offset: Number(offset), size: Number(size), path, second, data });
    at = end + 1 + Number(length);
  }
  // walk back: a sync makes what lies before it durable
  const syncedFiles = new Set();
  const syncedFolders = new Set();
  let undone = 0;
  for (const record of records.reverse()) {
    const { kind, path, second } = record;
    if (kind === "S") syncedFiles.add(path);
    else if (kind === "D") syncedFolders.add(path.replace(/\/$/, ""));
    else if (kind === "W" && !syncedFiles.has(path)) {
      if (!existsSync(path)) continue; // removed since, or taken back with its creation
      const file = openSync(path, "r+");
      writeSync(file, record.data, 0, record.data.length, record.offset);
      ftruncateSync(file, record.size);
      closeSync(file);
      undone++;
    } else if (kind === "C" && !syncedFolders.has(dirname(path)) && existsSync(path) && statSync(path).isFile()) {
      rmSync(path);
      undone++;
    } else if (kind === "R" && !syncedFolders.has(dirname(second)) && existsSync(second)) {
      rmSync(path, { recursive: true, force: true });
      renameSync(second, path);
      undone++;
    }
  }
  rmSync(journal);
  return undone;
}
