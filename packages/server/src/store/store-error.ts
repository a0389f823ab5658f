/**
 * Errors of the data folder, each with a fix. This is the only file of the server that interprets error codes of SQLite and the file
 * system.
 */

import { type Hint, type HintPart, hintText } from "@tinklet/wire/errors";
import { localKey, type ServerRecord } from "@tinklet/wire/running-server";

/** `full` may end without a restart; the others need an operator. */
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
  /** The hint as data, for the command line, which shows its own names of options. */
  readonly hintParts: readonly HintPart[];

  constructor(code: StoreErrorCode, what: string, hint: Hint, cause?: unknown) {
    const parts = typeof hint === "string" ? [hint] : hint;
    // Logs are read by users of both, the command line and the API.
    const text = hintText(parts, () => "--data-dir, dataDir");
    super(`${what} ${text}`, cause === undefined ? undefined : { cause });
    this.code = code;
    this.what = what;
    this.hint = text;
    this.hintParts = parts;
    // The message contains them; Node prints enumerable properties of an uncaught error after the message.
    for (const name of ["what", "hint", "hintParts"]) Object.defineProperty(this, name, { enumerable: false });
  }

  /** The same error with the folder in its message. */
  of(folder: string): StoreError {
    return new StoreError(this.code, `${folder}: ${this.what}`, this.hintParts, this.cause);
  }
}

/** What every error of a folder that cannot be used may suggest. */
export const anotherFolder: readonly HintPart[] = ["choose another data folder (", { name: "dataDir" }, ")"];

/** The data folder is locked: names the process that uses it, and how to use the folder with it. */
export function lockedError(folder: string, owner: ServerRecord, cause: unknown): StoreError {
  const { program, pid, attach } = owner;
  if (attach !== undefined) {
    return new StoreError(
      "locked",
      `${folder}: tinklet serve (process ${pid}) uses the data folder, at ${attach.url}.`,
      [
        `Commands with --local and ServiceClient.local() use that server; other clients need TINKER_BASE_URL=${attach.url} and TINKER_API_KEY=${localKey}. To start another server, stop this one, or `,
        ...anotherFolder,
        ".",
      ],
      cause,
    );
  }
  const advice =
    program === "tinklet serve"
      ? "It is still starting: try again in a moment"
      : "Wait until it ends, or stop it. To use the folder from several programs, run `tinklet serve` first: commands with --local and ServiceClient.local() then use that server";
  return new StoreError(
    "locked",
    `${folder}: ${program} (process ${pid}) uses the data folder.`,
    [`${advice}; or `, ...anotherFolder, "."],
    cause,
  );
}

const meanings: readonly (readonly [pattern: RegExp, code: StoreErrorCode, what: string, hint: Hint])[] = [
  [
    /^(SQLITE_FULL|ENOSPC|EDQUOT)/,
    "full",
    "The disk that holds the data folder is full.",
    "Free some space; accepted requests then continue.",
  ],
  [
    /^(SQLITE_BUSY|SQLITE_LOCKED)/,
    "locked",
    "Another process uses the data folder.",
    ["Wait until it ends, or stop it; or ", ...anotherFolder, "."],
  ],
  [
    /^(SQLITE_CORRUPT|SQLITE_NOTADB)/,
    "corrupt",
    "The database in the data folder is damaged.",
    [
      "The folder was not changed. Restore the database from a backup, or ",
      ...anotherFolder,
      ": the checkpoints under adapters/ are complete folders that can be imported there.",
    ],
  ],
  [
    /^(SQLITE_READONLY|SQLITE_CANTOPEN|SQLITE_PERM|EACCES|EPERM|EROFS)/,
    "read_only",
    "The data folder cannot be written.",
    ["Make it writable for this user, or ", ...anotherFolder, "."],
  ],
];

/** Converts an error of SQLite or the file system to a {@link StoreError}; `undefined` for other errors. */
export function storeErrorFrom(error: unknown): StoreError | undefined {
  if (error instanceof StoreError) return error;
  if (!(error instanceof Error)) return undefined;
  const given: unknown = (error as { code?: unknown }).code;
  const text = codeOf(typeof given === "string" ? given : "", error.message);
  for (const [pattern, code, what, hint] of meanings) {
    if (pattern.test(text)) return new StoreError(code, what, hint, error);
  }
  if (/^(SQLITE_IOERR|EIO|EMFILE|ENFILE)/.test(text)) {
    return new StoreError(
      "io",
      `The data folder could not be read or written (${text}).`,
      "Check the disk and the system log.",
      error,
    );
  }
  return undefined;
}

/** The SQLite error code, derived from the message where the driver does not set it. */
function codeOf(given: string, message: string): string {
  if (given !== "") return given;
  if (/unable to open/i.test(message)) return "SQLITE_CANTOPEN";
  if (/disk image is malformed|not a database/.test(message)) return "SQLITE_CORRUPT";
  return /disk is full/.test(message) ? "SQLITE_FULL" : "";
}
