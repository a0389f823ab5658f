/**
 * What can go wrong with the data folder, in words a person can act on. Owns the mapping from SQLite's and the file system's
 * codes to ours; nothing else in the server looks at such codes.
 */

/** `full` may pass by itself; the others need a person. */
export type StoreErrorCode =
  | "full"
  | "read_only"
  | "locked"
  | "corrupt"
  | "lost_commits"
  | "no_database"
  | "too_new"
  | "io";

/** A failure of the data folder. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly code: StoreErrorCode;
  /** What happened. */
  readonly what: string;
  /** What to do about it. */
  readonly hint: string;

  constructor(code: StoreErrorCode, what: string, hint: string, cause?: unknown) {
    super(`${what} ${hint}`, cause === undefined ? undefined : { cause });
    this.code = code;
    this.what = what;
    this.hint = hint;
  }

  /** The same, said of this folder. */
  of(folder: string): StoreError {
    return new StoreError(this.code, `${folder}: ${this.what}`, this.hint, this.cause);
  }
}

const meanings: readonly (readonly [pattern: RegExp, code: StoreErrorCode, what: string, hint: string])[] = [
  [
    /^(SQLITE_FULL|ENOSPC|EDQUOT)/,
    "full",
    "The disk that holds the data folder is full.",
    "Free some space; the work that was accepted goes on by itself.",
  ],
  [
    /^(SQLITE_BUSY|SQLITE_LOCKED)/,
    "locked",
    "Another server is using the data folder (a program or command that trains locally is one, too).",
    "Wait for it or stop it; to work beside it, start `tinklet serve` once and set TINKER_BASE_URL; or take another data folder (--data-dir, dataDir).",
  ],
  [
    /^(SQLITE_CORRUPT|SQLITE_NOTADB)/,
    "corrupt",
    "The database in the data folder is damaged.",
    "Nothing was changed. Keep the folder, restore the database from a backup, or start with another data folder (--data-dir, dataDir): the checkpoints under adapters/ are whole folders and can be imported again.",
  ],
  [
    /^(SQLITE_READONLY|SQLITE_CANTOPEN|SQLITE_PERM|EACCES|EPERM|EROFS)/,
    "read_only",
    "The data folder cannot be written.",
    "Make it writable for this user, or choose another data folder (--data-dir, dataDir).",
  ],
];

/** A failure as a {@link StoreError}; `undefined` when it is none of the disk's. */
export function storeErrorFrom(error: unknown): StoreError | undefined {
  if (error instanceof StoreError) return error;
  if (!(error instanceof Error)) return undefined;
  const given: unknown = (error as { code?: unknown }).code;
  const text = codeOf(typeof given === "string" ? given : "", error.message);
  for (const [pattern, code, what, hint] of meanings) {
    if (pattern.test(text)) return new StoreError(code, what, hint, error);
  }
  if (/^(SQLITE_IOERR|EIO|EMFILE|ENFILE)/.test(text)) {
    return new StoreError("io", `The data folder failed (${text}).`, "Look at the disk and the system's log.", error);
  }
  return undefined;
}

/** SQLite's name for a failure; the driver leaves it out of some. */
function codeOf(given: string, message: string): string {
  if (given !== "") return given;
  if (/unable to open/i.test(message)) return "SQLITE_CANTOPEN";
  if (/disk image is malformed|not a database/.test(message)) return "SQLITE_CORRUPT";
  return /disk is full/.test(message) ? "SQLITE_FULL" : "";
}
