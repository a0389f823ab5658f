/**
 * Logs of the finished samples of sampling sessions, for clients that wait for all their samples in one long poll. A log is created from
 * the database at a client's first poll and drops the entries that the client has seen. It may be dropped at any time and is then created
 * again.
 */
import type { Clock } from "@tinklet/wire/clock";
import { seqsPerClient } from "../../store/tables/requests.ts";

/** The samples of one client of a sampling session. */
export interface CompletionTarget {
  readonly samplerId: string;
  /** 0 for the first client, else the number that it received when it joined the session. */
  readonly client: number;
}

/** A finished sample. */
export interface Completion {
  readonly id: number;
  readonly state: "done" | "failed";
  /** Bytes of its result. */
  readonly bytes: number;
}

/** A page of completions, and the cursor of the next page. */
export interface CompletionPage {
  readonly completions: readonly Completion[];
  readonly cursor: number;
}

export interface CompletionQuery {
  /** The caller; its logs are limited. */
  readonly tenant: string;
  readonly target: CompletionTarget;
  readonly after: number;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

interface CompletionLog {
  readonly tenant: string;
  /** The first cursor of this log. A lower cursor is from an earlier log, whose entries are unknown here. */
  readonly from: number;
  readonly events: (Completion & { readonly cursor: number })[];
  readonly waiters: Set<() => void>;
  dropped: boolean;
}

export interface CompletionsOptions {
  readonly clock: Clock;
  /** The finished samples in the database whose results were not retrieved. */
  readonly known: (target: CompletionTarget) => Completion[];
}

/** Maximum number of logs per tenant; the least recently polled is dropped. */
const maxLogs = 1000;
/** Maximum number of completions per page. */
const pageSize = 1000;
/** How long a page waits for further completions while many samples are unfinished. */
const gatherMs = 100;
/** A page is returned without waiting when it has this share of the unfinished samples: a few at once, of thousands some hundred. */
const enoughShare = 1 / 16;

/** The client that a sample's seq_id belongs to. */
export const clientOf = (seq: number | bigint | undefined): number =>
  seq === undefined ? 0 : Number(BigInt(seq) / seqsPerClient);

const keyOf = ({ samplerId, client }: CompletionTarget): string => `${samplerId} ${client}`;

export class Completions {
  readonly #options: CompletionsOptions;
  readonly #logs = new Map<string, CompletionLog>();
  /** The logs of each tenant, least recently polled first. */
  readonly #keysOf = new Map<string, Set<string>>();
  readonly #unfinished = new Map<string, number>();
  /** Cursor of the last event; starts above every cursor of an earlier process. */
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

  /** An accepted sample has finished. */
  end(target: CompletionTarget, completion: Completion): void {
    const key = keyOf(target);
    const left = (this.#unfinished.get(key) ?? 1) - 1;
    if (left === 0) this.#unfinished.delete(key);
    else this.#unfinished.set(key, left);
    this.note(target, completion);
  }

  /** Adds a finished sample to the log, or adds it again because it was sent again. */
  note(target: CompletionTarget, completion: Completion): void {
    const log = this.#logs.get(keyOf(target));
    if (log === undefined) return;
    log.events.push({ ...completion, cursor: ++this.#cursor });
    wake(log);
  }

  /** The finished samples after cursor `after`; waits for one for at most `timeoutMs`. */
  async next({ tenant, target, after: asked, timeoutMs, signal }: CompletionQuery): Promise<CompletionPage> {
    const { clock } = this.#options;
    // A cursor above all of this process is of an earlier one, whose clock was ahead: it says nothing about this log.
    const after = asked > this.#cursor ? 0 : asked;
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

  /** Ends all polls at shutdown. */
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

/** Resolves at the log's next event, after `ms`, or when `signal` is aborted. */
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
