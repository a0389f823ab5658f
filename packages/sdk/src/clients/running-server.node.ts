/**
 * Finds a `tinklet serve` that uses a data folder, so that `ServiceClient.local()` and `--local` use it instead of opening the folder a
 * second time. See docs/decisions/0022-attach.md.
 */
import { type Clock, systemClock } from "@tinklet/wire/clock";
import { randomHex } from "@tinklet/wire/entropy";
import { TinkerError } from "@tinklet/wire/errors";
import {
  type AttachRecord,
  challengeHeader,
  parseServerRecord,
  proofHeader,
  type RecordedModel,
  recordFile,
  release,
  type ServerRecord,
} from "@tinklet/wire/running-server";
import { nodeBuiltin } from "../node-builtin.ts";
import type { FetchLike } from "../transport/exchange.ts";

/** Time limit of the check that the recorded server runs. */
const checkMs = 3_000;

/** What the caller needs of the server; an option that is not given is not compared. */
export interface AttachOptions {
  /** Models: folders, files or Hub ids, or `name=path`. */
  readonly models?: readonly string[] | undefined;
  readonly strict?: boolean | undefined;
}

/** A server to use. */
export interface FoundServer {
  readonly url: string;
  readonly apiKey: string;
  readonly hasStudio: boolean;
}

/**
 * The `tinklet serve` that uses this data folder.
 *
 * @returns `undefined` when none runs: no record, a record of another user, or a record of a server that has ended
 * @throws {@link TinkerError} with code `attach_mismatch` when the server has another release or other options
 */
export async function findRunningServer(
  dataDir: string,
  options: AttachOptions = {},
  { fetch: send = fetch, clock = systemClock() }: { readonly fetch?: FetchLike; readonly clock?: Clock } = {},
): Promise<FoundServer | undefined> {
  const record = readOwnRecord(dataDir);
  const attach = record?.attach;
  if (record === undefined || attach === undefined || !(await isRunning(attach, send, clock))) return undefined;
  checkMatch(dataDir, record, attach, options);
  return { url: attach.url, apiKey: attach.secret, hasStudio: attach.studio };
}

/** What uses a data folder. */
export type FolderUse =
  /** No process, as far as the record says. */
  | { readonly state: "none" }
  /** A `tinklet serve` that proved itself. */
  | ({ readonly state: "running" } & Pick<ServerRecord, "pid" | "release"> & AttachRecord)
  /** A server inside another program. */
  | { readonly state: "embedded"; readonly pid: number; readonly program: string }
  /** A process with the recorded id exists and does not answer: the server starts or ends, or the id has another process now. */
  | { readonly state: "silent"; readonly pid: number; readonly program: string }
  /** The recorded process has ended without removing its record. */
  | { readonly state: "ended"; readonly pid: number; readonly program: string }
  /** The record belongs to another user, or other users can read it. */
  | { readonly state: "foreign" };

/** Reads the record of a data folder and asks the server, of any release, to prove itself. */
export async function folderUse(
  dataDir: string,
  { fetch: send = fetch, clock = systemClock() }: { readonly fetch?: FetchLike; readonly clock?: Clock } = {},
): Promise<FolderUse> {
  const { existsSync } = nodeBuiltin<typeof import("node:fs")>("node:fs");
  const { join } = nodeBuiltin<typeof import("node:path")>("node:path");
  const file = join(dataDir, recordFile);
  if (!existsSync(file)) return { state: "none" };
  if (!isOwn(file)) return { state: "foreign" };
  const record = readOwnRecord(dataDir);
  if (record === undefined) return { state: "none" }; // cut off by a crash, or removed in this moment
  const { pid, program, release: found, attach } = record;
  if (attach !== undefined && (await isRunning(attach, send, clock)))
    return { state: "running", pid, release: found, ...attach };
  if (!isProcessRunning(pid)) return { state: "ended", pid, program };
  return { state: attach === undefined ? "embedded" : "silent", pid, program };
}

/** Whether a process with this id runs. One that has ended and waits for its parent (a zombie) does not. */
export function isProcessRunning(pid: number): boolean {
  const { readFileSync } = nodeBuiltin<typeof import("node:fs")>("node:fs");
  try {
    process.kill(pid, 0);
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === "EPERM"; // of another user
  }
  try {
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true; // not Linux
  }
}

/** Whether this user owns a file that no other user can read. */
function isOwn(file: string): boolean {
  const { statSync } = nodeBuiltin<typeof import("node:fs")>("node:fs");
  try {
    const { uid, mode } = statSync(file);
    const user = process.getuid?.(); // Windows has no user ids; there the folder's permissions apply
    return user === undefined || (uid === user && (mode & 0o077) === 0);
  } catch {
    return false;
  }
}

/** The record, if this user wrote it and no other user can read it. */
function readOwnRecord(dataDir: string): ServerRecord | undefined {
  const { readFileSync } = nodeBuiltin<typeof import("node:fs")>("node:fs");
  const { join } = nodeBuiltin<typeof import("node:path")>("node:path");
  const file = join(dataDir, recordFile);
  try {
    return !isOwn(file) ? undefined : parseServerRecord(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * Whether the server that wrote the record answers at its address. The key is not sent before the proof, because after a crash another
 * user's process may listen on the same port.
 */
async function isRunning({ url, secret }: AttachRecord, send: FetchLike, clock: Clock): Promise<boolean> {
  const { createHmac, timingSafeEqual } = nodeBuiltin<typeof import("node:crypto")>("node:crypto");
  const challenge = randomHex(16);
  const controller = new AbortController();
  const cancel = clock.timer(checkMs, () => controller.abort());
  try {
    const { signal } = controller;
    const answer = await send(`${url}/healthz`, {
      headers: { [challengeHeader]: challenge },
      redirect: "error",
      signal,
    });
    await answer.body?.cancel();
    const expected = createHmac("sha256", secret).update(`tinklet-attach\0${challenge}`).digest();
    const proof = Buffer.from(answer.headers.get(proofHeader) ?? "", "hex");
    return answer.status !== 503 && proof.length === expected.length && timingSafeEqual(proof, expected);
  } catch {
    return false;
  } finally {
    cancel();
  }
}

function checkMatch(
  dataDir: string,
  { pid, release: found }: ServerRecord,
  { url, models, strict }: AttachRecord,
  wanted: AttachOptions,
): void {
  const where = `tinklet serve at ${url} (process ${pid}) uses the data folder ${dataDir}`;
  if (found !== release) {
    throw mismatch(`${where}: its release is ${found}, this is ${release}.`, "Use the same release, stop it");
  }
  if (wanted.strict !== undefined && wanted.strict !== strict) {
    const flag = wanted.strict ? "with --strict" : "without --strict";
    throw mismatch(`${where}: its option strict is ${strict}, requested is ${wanted.strict}.`, `Restart it ${flag}`);
  }
  const missing = (wanted.models ?? []).filter((text) => !models.some((model) => isModel(text, model)));
  if (missing.length > 0) {
    const has = models.map(({ name }) => name).join(", ");
    throw mismatch(
      `${where}: its models are ${has}, requested is ${missing.join(", ")}.`,
      "Restart it with --model for each model",
    );
  }
}

function isModel(text: string, { name, source }: RecordedModel): boolean {
  const { existsSync, realpathSync } = nodeBuiltin<typeof import("node:fs")>("node:fs");
  const real = (path: string) => (existsSync(path) ? realpathSync(path) : path);
  const equals = existsSync(text) ? -1 : text.indexOf("=");
  // A client asks for the model by its name, so a path without a name matches only if the server uses the path as the name.
  if (text === name) return !existsSync(text) || real(text) === source;
  return equals > 0 && text.slice(0, equals) === name && real(text.slice(equals + 1)) === source;
}

const mismatch = (message: string, fix: string): TinkerError =>
  new TinkerError(message, {
    code: "attach_mismatch",
    hint: [`${fix}, or choose another data folder (`, { name: "dataDir" }, ")."],
  });
