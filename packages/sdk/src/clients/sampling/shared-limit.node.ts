/**
 * A limit of concurrent samples that the processes of one machine keep together. The first process listens on a local socket and grants
 * slots; the others connect to it. The operating system closes the sockets of a process that ends in any way, which frees its slots; if
 * the listening process ends, another one takes over. Node only, loaded when the option `sharedLimits` is used.
 * docs/decisions/0025-shared-limit.md has the reasons.
 */

import type { Server, Socket } from "node:net";
import { onAbort } from "@tinklet/wire/abort";
import { systemClock } from "@tinklet/wire/clock";
import { entropy, randomHex } from "@tinklet/wire/entropy";
import { InvalidInputError, TinkerError } from "@tinklet/wire/errors";
import { describe } from "@tinklet/wire/options";
import { nodeBuiltin } from "../../node-builtin.ts";
import type { Release } from "../../transport/byte-budget.ts";

const { createHash } = nodeBuiltin<typeof import("node:crypto")>("node:crypto");
const { lstatSync, mkdirSync, renameSync, rmdirSync, statSync, unlinkSync } =
  nodeBuiltin<typeof import("node:fs")>("node:fs");
const net = nodeBuiltin<typeof import("node:net")>("node:net");
const { tmpdir, userInfo } = nodeBuiltin<typeof import("node:os")>("node:os");
const { dirname, join } = nodeBuiltin<typeof import("node:path")>("node:path");

/** Sockets and processes are outside of a client's clock. `background` does not keep the process alive. */
const background = systemClock();
const waiting = systemClock({ ref: true });

/** Longest path of a socket, in bytes, on the strictest system (macOS). */
const longestPath = 103;
/** A process that takes over waits so long for the others to report the slots they hold. */
const takeoverMs = 300;
/** A lock of an election that is older than this is left over from a killed process. */
const staleLockMs = 5_000;
const retryMs = 50;
/** How often the listening process checks that the socket's file is still its own. */
const ownershipMs = 2_000;
/** Bounds of what a peer may send. */
const longestLine = 100;
const largestNumber = 1_000_000;

/** Windows has pipes without a file: they end with their process, and only their user may connect. */
const isPipe = process.platform === "win32";

/** Limits that all processes of a machine keep together. */
export interface SharedLimits {
  /** Maximum number of samples between submission and result, over all processes; the lowest value of the connected processes counts. */
  readonly maxSamples: number;
  /**
   * Folder of the socket, which only this user may read. Processes share a limit if they have the same folder, server and key.
   * @defaultValue a folder of the user in the system's temporary folder
   */
  readonly folder?: string | undefined;
}

/** What identifies the account. */
interface Account {
  readonly baseUrl: string;
  readonly credential: string;
}

/** Times in milliseconds; shorter in tests. */
interface Timing {
  readonly takeoverMs: number;
  readonly ownershipMs: number;
}

/** @throws {@link InvalidInputError} or {@link TinkerError} when the socket cannot be used. */
export async function openSharedLimit(
  limits: SharedLimits,
  account: Account,
  options: Partial<Timing> = {},
): Promise<SharedLimit> {
  const { maxSamples } = limits;
  if (!Number.isSafeInteger(maxSamples) || maxSamples < 1 || maxSamples > largestNumber)
    throw new InvalidInputError(
      "sharedLimits.maxSamples",
      `(or TINKLET_SHARED_SAMPLES) must be an integer from 1 to ${largestNumber}, got ${describe(maxSamples)}`,
    );
  const limit = new SharedLimit(socketPath(limits.folder, account), maxSamples, {
    takeoverMs,
    ownershipMs,
    ...options,
  });
  await limit.connect();
  return limit;
}

/** The socket's path. The name contains a hash, because it is visible to other programs. */
function socketPath(folder: string | undefined, { baseUrl, credential }: Account): string {
  const name = createHash("sha256").update(`${baseUrl}\n${credential}`).digest("hex").slice(0, 16);
  if (isPipe) return `\\\\.\\pipe\\tinklet-${userInfo().username}-${name}`;
  const chosen = folder ?? join(tmpdir(), `tinklet-limits-${process.getuid?.() ?? "user"}`);
  const path = join(chosen, `${name}.sock`);
  if (Buffer.byteLength(path) > longestPath)
    throw new InvalidInputError(
      "sharedLimits.folder",
      `makes a socket's path of ${Buffer.byteLength(path)} bytes, the limit is ${longestPath}`,
      { hint: folderHint },
    );
  return path;
}

const folderHint = "Set sharedLimits.folder to a short path of a folder that belongs to you.";

/** Makes the folder of the socket, if it does not exist: cleaners of temporary folders remove it. @throws {@link TinkerError} */
function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = statSync(folder);
  if (lstatSync(folder).isSymbolicLink() || uid !== process.getuid?.() || (mode & 0o077) !== 0)
    throw new TinkerError(`${folder} must be a folder of this user with mode 700.`, {
      code: "shared_limit",
      hint: folderHint,
    });
}

/** The error for a socket, lock or folder that cannot be used: another attempt would fail in the same way. */
function unusable(path: string, cause: unknown): TinkerError {
  if (cause instanceof TinkerError) return cause;
  return new TinkerError(`The shared limit cannot use ${path}: ${(cause as Error).message}`, {
    code: "shared_limit",
    hint: folderHint,
    cause,
  });
}

const closed = () =>
  new TinkerError("The client was closed while the call waited for a shared slot.", { code: "closed" });

/** A call that waits for a slot. */
interface Waiter {
  enter(): void;
  fail(error: Error): void;
}

/** One process's part of a shared limit. */
export class SharedLimit {
  readonly #path: string;
  readonly #limit: number;
  readonly #timing: Timing;
  readonly #waiters = new Set<Waiter>();
  #held = 0;
  #socket: Socket | undefined;
  #desk: Desk | undefined;
  #connecting: Promise<void> | undefined;
  #wasConnected = false;
  #closed = false;

  constructor(path: string, limit: number, timing: Timing) {
    this.#path = path;
    this.#limit = limit;
    this.#timing = timing;
  }

  /** Slots that this process holds. */
  get held(): number {
    return this.#held;
  }

  /** Calls of this process that wait for a slot. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /** Whether this process grants the slots. */
  get isListening(): boolean {
    return this.#desk !== undefined;
  }

  /**
   * Waits for a slot. An aborted call leaves the queue.
   *
   * @throws {@link TinkerError} when the socket cannot be used, or the limit is closed
   */
  acquire(signal?: AbortSignal): Promise<Release> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#closed) return Promise.reject(closed());
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        enter: () => {
          forget();
          let isHeld = true;
          resolve(() => {
            if (!isHeld) return;
            isHeld = false;
            this.#release();
          });
        },
        fail: (error) => {
          forget();
          reject(error);
        },
      };
      const forget = onAbort(signal, () => {
        this.#waiters.delete(waiter); // its slot is given back when it comes
        this.#keepAlive();
        reject(signal?.reason);
      });
      this.#waiters.add(waiter);
      this.#keepAlive();
      if (this.#socket === undefined) this.#reconnect();
      else this.#send("w 1");
    });
  }

  /** Connects again. If that is impossible, the calls that wait fail, and the next call tries again. */
  #reconnect(): void {
    this.connect().catch((error: Error) => this.#failAll(error));
  }

  #failAll(error: Error): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    this.#keepAlive();
    for (const waiter of waiters) waiter.fail(error);
  }

  #release(): void {
    this.#held--;
    this.#send("r 1");
  }

  #granted(count: number): void {
    for (let i = 0; i < count; i++) {
      this.#held++;
      const [first] = this.#waiters;
      if (first === undefined) {
        this.#release(); // of a call that was aborted
        continue;
      }
      this.#waiters.delete(first);
      first.enter();
    }
    this.#keepAlive();
  }

  #send(line: string): void {
    // Without a connection nothing is lost: the greeting of the next one tells the whole state.
    this.#socket?.write(`${line}\n`);
  }

  /** A call that waits keeps the process alive; an idle connection does not. */
  #keepAlive(): void {
    if (this.#waiters.size > 0) this.#socket?.ref();
    else this.#socket?.unref();
  }

  /** Connects to the process that grants slots, or becomes it. */
  connect(): Promise<void> {
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #connect(): Promise<void> {
    while (!this.#closed) {
      const socket = await this.#attempt();
      if (socket === undefined) {
        await waiting.sleep(retryMs * (0.5 + entropy.fraction()));
        continue;
      }
      if (this.#closed) socket.destroy();
      else this.#use(socket);
      return;
    }
  }

  /** A connection to the process that listens; nothing: try again. @throws {@link TinkerError} if trying again is of no use */
  async #attempt(): Promise<Socket | undefined> {
    try {
      if (!isPipe) makeFolder(dirname(this.#path)); // before each connection: the folder of another user may have taken its place
      const found = await dial(this.#path);
      if (found === "absent") return await this.#elect();
      return found === "busy" ? undefined : found;
    } catch (cause) {
      throw unusable(this.#path, cause);
    }
  }

  #use(socket: Socket): void {
    this.#socket = socket;
    this.#wasConnected = true;
    eachLine(socket, (kind, [count = 0]) => {
      if (kind === "g") this.#granted(count);
    });
    socket.on("close", () => {
      this.#socket = undefined;
      // The listening process has ended.
      if (!this.#closed) this.#reconnect();
    });
    this.#send(`h ${this.#limit} ${this.#held} ${this.#waiters.size}`);
    this.#keepAlive();
  }

  /** Listens, if no process does. Returns a connection to the one that does then, or nothing: try again. */
  async #elect(): Promise<Socket | undefined> {
    const lock = `${this.#path}.lock`;
    if (!isPipe && !takeLock(lock)) return undefined;
    try {
      const other = await dial(this.#path);
      if (other !== "absent") return other === "busy" ? undefined : other;
      const desk = new Desk(
        this.#path,
        { ...this.#timing, takeoverMs: this.#wasConnected ? this.#timing.takeoverMs : 0 },
        () => {
          if (this.#desk === desk) this.#desk = undefined;
        },
      );
      if (!(await desk.listen())) return undefined;
      this.#desk = desk;
      if (this.#closed) desk.close();
      const own = await dial(this.#path);
      return typeof own === "string" ? undefined : own;
    } finally {
      if (!isPipe) remove(() => rmdirSync(lock));
    }
  }

  close(): void {
    this.#closed = true;
    this.#socket?.destroy();
    this.#desk?.close();
    this.#failAll(closed());
  }
}

/** A connected process, as the listening one knows it. */
interface Peer {
  readonly socket: Socket;
  limit: number;
  held: number;
  wants: number;
}

/** Grants slots in turns, one process after the other. */
class Desk {
  readonly #path: string;
  readonly #server: Server;
  readonly #peers = new Set<Peer>();
  readonly #onClose: () => void;
  readonly #ownershipMs: number;
  #opensAtMs: number;
  /** Identity of the socket's file; `undefined` until this process listens. */
  #file: string | undefined;

  /** @param onClose - called when it closes, also by itself */
  constructor(path: string, { takeoverMs: graceMs, ownershipMs: everyMs }: Timing, onClose: () => void) {
    this.#ownershipMs = everyMs;
    this.#path = path;
    this.#onClose = onClose;
    this.#opensAtMs = background.monotonic() + graceMs;
    this.#server = net.createServer((socket) => this.#serve(socket));
    this.#server.unref();
    if (graceMs > 0) background.timer(graceMs + 1, () => this.#deal());
  }

  /**
   * Listens under a name of its own, which is then renamed over the shared one: Node deletes the file that a socket was bound to when it
   * closes, and by then the shared name may be another process's.
   *
   * @returns whether it listens; false if another process was faster.
   */
  async listen(): Promise<boolean> {
    const bound = isPipe ? this.#path : this.#path.replace(/\.sock$/, `.${randomHex(2)}`);
    const isListening = await new Promise<boolean>((resolve, reject) => {
      this.#server.once("error", (error: NodeJS.ErrnoException) => {
        if (error.code === "EADDRINUSE") resolve(false);
        else reject(error);
      });
      this.#server.listen(bound, () => resolve(true));
    });
    if (!isListening || isPipe) return isListening;
    try {
      renameSync(bound, this.#path);
    } catch (error) {
      this.#server.close();
      throw error;
    }
    this.#file = identity(this.#path);
    this.#guard();
    return true;
  }

  /** Steps down if another process has replaced the socket's file: two desks would grant twice as many slots. */
  #guard(): void {
    let cancel = () => {};
    const check = () => {
      if (identity(this.#path) === this.#file) cancel = background.timer(this.#ownershipMs, check);
      else this.close();
    };
    cancel = background.timer(this.#ownershipMs, check);
    this.#server.on("close", () => cancel());
  }

  #serve(socket: Socket): void {
    socket.unref();
    const peer: Peer = { socket, limit: Number.POSITIVE_INFINITY, held: 0, wants: 0 };
    this.#peers.add(peer);
    socket.on("close", () => {
      this.#peers.delete(peer);
      this.#deal();
    });
    eachLine(socket, (kind, [first = 0, second = 0, third = 0]) => {
      if (kind === "h") [peer.limit, peer.held, peer.wants] = [first, second, third];
      else if (kind === "w") peer.wants += first;
      else if (kind === "r") peer.held = Math.max(0, peer.held - first);
      this.#deal();
    });
  }

  #deal(): void {
    if (background.monotonic() < this.#opensAtMs) return;
    let limit = Number.POSITIVE_INFINITY;
    let held = 0;
    for (const peer of this.#peers) {
      limit = Math.min(limit, peer.limit);
      held += peer.held;
    }
    if (limit === Number.POSITIVE_INFINITY) return;
    const grants = new Map<Peer, number>();
    for (let isDealt = true; isDealt && held < limit; ) {
      isDealt = false;
      for (const peer of this.#peers) {
        if (peer.wants === 0 || held >= limit) continue;
        peer.wants--;
        peer.held++;
        held++;
        grants.set(peer, (grants.get(peer) ?? 0) + 1);
        isDealt = true;
        // Goes to the end of the line.
        this.#peers.delete(peer);
        this.#peers.add(peer);
        break;
      }
    }
    for (const [{ socket }, count] of grants) socket.write(`g ${count}\n`);
  }

  close(): void {
    if (this.#file !== undefined && identity(this.#path) === this.#file) remove(() => unlinkSync(this.#path));
    this.#file = undefined;
    this.#server.close();
    for (const { socket } of this.#peers) socket.destroy();
    this.#onClose();
  }
}

/** Errors of a connection to a path where no process listens. */
const absentCodes = new Set(["ENOENT", "ECONNREFUSED", "ENOTSOCK"]);
/** Errors that pass: a full queue of connections, too many open files, a listener that ends in this moment. */
const busyCodes = new Set(["EAGAIN", "EBUSY", "ECONNRESET", "EMFILE", "ENFILE"]);

/** A connection to the listening process; `absent` if no process listens. */
function dial(path: string): Promise<Socket | "absent" | "busy"> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(path);
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (absentCodes.has(error.code ?? "")) resolve("absent");
      else if (busyCodes.has(error.code ?? "")) resolve("busy");
      else reject(error);
    });
    socket.once("connect", () => {
      socket.on("error", () => {}); // followed by "close"
      resolve(socket);
    });
  });
}

/** Reads lines of a word and up to three numbers. A peer that sends anything else is disconnected. */
function eachLine(socket: Socket, read: (kind: string, numbers: readonly number[]) => void): void {
  let rest = "";
  socket.setEncoding("latin1");
  socket.on("error", () => {});
  socket.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() as string;
    for (const line of [...lines, ...(rest.length > longestLine ? [rest] : [])]) {
      const [kind, ...numbers] = line.split(" ");
      const values = numbers.map(Number);
      const isBad = values.length > 3 || values.some((n) => !Number.isSafeInteger(n) || n < 0 || n > largestNumber);
      if (kind === undefined || !/^[ghwr]$/.test(kind) || isBad) return void socket.destroy();
      read(kind, values);
    }
  });
}

/** Takes the lock of an election: a folder. One that is left over from a killed process is removed, also if the clock was set back. */
function takeLock(lock: string): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    remove(() => {
      if (Math.abs(background.now() - statSync(lock).mtimeMs) > staleLockMs) rmdirSync(lock);
    });
    return false;
  }
}

function remove(run: () => void): void {
  try {
    run();
  } catch {
    // It is gone already.
  }
}

/** Identifies a file; with its time, because file systems give the number of a deleted file to the next one. */
function identity(path: string): string | undefined {
  try {
    const { dev, ino, mtimeNs } = statSync(path, { bigint: true });
    return `${dev}:${ino}:${mtimeNs}`;
  } catch {
    return undefined;
  }
}
