/**
 * Which samples of a sampling session are over, for clients that ask for all of them in one long poll. A log is begun when a client first asks, from
 * what the database knows, and forgets what the client has seen; it is only a convenience, and may be dropped and begun again at any time.
 */
import type { Clock } from "@tinklet/wire/clock";
import { seqsPerClient } from "../../store/tables/requests.ts";

/** The samples of one client of a sampling session. */
export interface CompletionTarget {
  readonly samplerId: string;
  /** 0, or the number that a process got when it joined the session. */
  readonly client: number;
}

/** A sample that is over. */
export interface Completion {
  readonly id: number;
  readonly state: "done" | "failed";
  /** Bytes of its result. */
  readonly bytes: number;
}

/** A page of completions and where the next one begins. */
export interface CompletionPage {
  readonly completions: readonly Completion[];
  readonly cursor: number;
}

export interface CompletionQuery {
  /** Who asks: the log counts among this tenant's. */
  readonly tenant: string;
  readonly target: CompletionTarget;
  readonly after: number;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

interface CompletionLog {
  readonly tenant: string;
  /** A cursor from before the log does not say what was seen. */
  readonly from: number;
  readonly events: (Completion & { readonly cursor: number })[];
  readonly waiters: Set<() => void>;
  dropped: boolean;
}

export interface CompletionsOptions {
  readonly clock: Clock;
  /** What the database knows to be over. */
  readonly known: (target: CompletionTarget) => Completion[];
}

/** Logs of one tenant kept at once; the one asked for longest ago goes first. */
const maxLogs = 1000;
/** Completions in one answer. */
const pageSize = 1000;
/** How long an answer waits for company while many samples are unfinished. */
const gatherMs = 100;
/** The share of the unfinished samples that is company enough: a few samples are answered at once, thousands some hundred at a time. */
const enoughShare = 1 / 16;

/** The client that a sample's number belongs to. */
export const clientOf = (seq: number | bigint | undefined): number =>
  seq === undefined ? 0 : Number(BigInt(seq) / seqsPerClient);

const keyOf = ({ samplerId, client }: CompletionTarget): string => `${samplerId} ${client}`;

export class Completions {
  readonly #options: CompletionsOptions;
  readonly #logs = new Map<string, CompletionLog>();
  /** The logs of each tenant, in the order of their last use. */
  readonly #keysOf = new Map<string, Set<string>>();
  readonly #unfinished = new Map<string, number>();
  /** Grows by one per event, and begins above what any earlier process has handed out. */
  #cursor: number;
  #closed = false;

  constructor(options: CompletionsOptions) {
    this.#options = options;
    this.#cursor = Math.floor(options.clock.now()) * 1000;
  }

  /** A sample was accepted. */
  begin(target: CompletionTarget): void {
    const key = keyOf(target);
    this.#unfinished.set(key, (this.#unfinished.get(key) ?? 0) + 1);
  }

  /** A sample that had begun is over. */
  end(target: CompletionTarget, completion: Completion): void {
    const key = keyOf(target);
    const left = (this.#unfinished.get(key) ?? 1) - 1;
    if (left === 0) this.#unfinished.delete(key);
    else this.#unfinished.set(key, left);
    this.note(target, completion);
  }

  /** A sample is over, or is asked for again: the next answer says so. */
  note(target: CompletionTarget, completion: Completion): void {
    const log = this.#logs.get(keyOf(target));
    if (log === undefined) return;
    log.events.push({ ...completion, cursor: ++this.#cursor });
    wake(log);
  }

  /** What is over and was not seen; waits for some until the time is up. */
  async next({ tenant, target, after, timeoutMs, signal }: CompletionQuery): Promise<CompletionPage> {
    const { clock } = this.#options;
    const log = this.#open(tenant, target, after);
    const unseen = log.events.findIndex(({ cursor }) => cursor > after);
    log.events.splice(0, unseen < 0 ? log.events.length : unseen);
    const until = clock.monotonic() + timeoutMs;
    let gatherUntil: number | undefined;
    while (!this.#closed && !log.dropped && signal?.aborted !== true) {
      const now = clock.monotonic();
      const { length } = log.events;
      if (length > 0) gatherUntil ??= now + gatherMs;
      const left = Math.min(until, gatherUntil ?? until) - now;
      const enough = Math.min(pageSize, (this.#unfinished.get(keyOf(target)) ?? 0) * enoughShare);
      if ((length > 0 && length >= enough) || left <= 0) break;
      await woken(clock, log, left, signal);
    }
    const completions = log.events.slice(0, pageSize);
    return { completions, cursor: completions.at(-1)?.cursor ?? Math.max(after, log.from) };
  }

  /** Lets every poll go: the server is shutting down. */
  close(): void {
    this.#closed = true;
    for (const log of this.#logs.values()) wake(log);
  }

  #open(tenant: string, target: CompletionTarget, after: number): CompletionLog {
    const key = keyOf(target);
    let log = this.#logs.get(key);
    if (log !== undefined && after < log.from) {
      this.#drop(key, log);
      log = undefined;
    }
    if (log === undefined) {
      const from = ++this.#cursor;
      const events = this.#options.known(target).map((each) => ({ ...each, cursor: ++this.#cursor }));
      log = { tenant, from, events, waiters: new Set(), dropped: false };
      this.#logs.set(key, log);
    }
    const keys = this.#keysOf.get(tenant) ?? new Set();
    this.#keysOf.set(tenant, keys);
    keys.delete(key);
    keys.add(key);
    const [oldest] = keys;
    if (keys.size > maxLogs) this.#drop(oldest!, this.#logs.get(oldest!)!);
    return log;
  }

  #drop(key: string, log: CompletionLog): void {
    this.#logs.delete(key);
    const keys = this.#keysOf.get(log.tenant);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysOf.delete(log.tenant);
    log.dropped = true;
    wake(log);
  }
}

const wake = ({ waiters }: CompletionLog): void => {
  for (const done of [...waiters]) done();
};

/** Resolves at the log's next event, after a time, or when the caller has gone. */
function woken(clock: Clock, log: CompletionLog, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      signal?.removeEventListener("abort", done);
      log.waiters.delete(done);
      resolve();
    };
    const cancel = clock.timer(ms, done);
    signal?.addEventListener("abort", done, { once: true });
    log.waiters.add(done);
  });
}
