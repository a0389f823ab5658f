/**
 * Token feeds: the tokens of running samples, for clients that stream them. Feeds are kept in memory only and may be dropped at any time;
 * the result of the sample is complete without them. When a sample runs again because the engine died, each sequence repeats the same
 * tokens, perhaps interleaved differently: known tokens are skipped, so that readers continue at their position.
 */
import type { Clock } from "@tinklet/wire/clock";

/** The index of the sequence, a token, and its log-prob; null if that is not finite. */
export type FedToken = readonly [index: number, token: number, logprob?: number | null];

export function fedToken({
  index,
  token,
  logprob,
}: {
  readonly index: number;
  readonly token: number;
  readonly logprob: number;
}): FedToken {
  return [index, token, Number.isFinite(logprob) ? logprob : null];
}

interface Feed {
  /** Append-only, because readers keep an index into it. */
  readonly tokens: FedToken[];
  /** Number of tokens of each sequence in `tokens`. */
  readonly known: Map<number, number>;
  /** Number of tokens of each sequence that were decoded since the sample last started. */
  readonly decoded: Map<number, number>;
  done: boolean;
  readonly waiters: Set<() => void>;
}

/** Above these limits the oldest feed is dropped. */
export interface FeedLimits {
  readonly feeds: number;
  /** Tokens of all feeds together; a token takes about a hundred bytes. */
  readonly tokens: number;
}

const defaultLimits: FeedLimits = { feeds: 256, tokens: 500_000 };

export class TokenFeeds {
  readonly #clock: Clock;
  readonly #limits: FeedLimits;
  readonly #feeds = new Map<number, Feed>();
  #tokens = 0;

  constructor(clock: Clock, limits = defaultLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  open(id: number): void {
    this.#feeds.set(id, { tokens: [], known: new Map(), decoded: new Map(), done: false, waiters: new Set() });
    this.#trim();
  }

  /** The sample starts, for the first time or again. */
  begin(id: number): void {
    this.#feeds.get(id)?.decoded.clear();
  }

  add(id: number, token: FedToken): void {
    const feed = this.#feeds.get(id);
    if (feed === undefined) return;
    const [index] = token;
    const decoded = (feed.decoded.get(index) ?? 0) + 1;
    feed.decoded.set(index, decoded);
    if (decoded <= (feed.known.get(index) ?? 0)) return; // known from an earlier run of the sample
    feed.known.set(index, decoded);
    feed.tokens.push(token);
    this.#tokens++;
    wake(feed);
    this.#trim();
  }

  #trim(): void {
    for (const [old, feed] of this.#feeds) {
      if (this.#feeds.size <= this.#limits.feeds && this.#tokens <= this.#limits.tokens) return;
      this.#feeds.delete(old);
      this.#tokens -= feed.tokens.length;
      wake(feed);
    }
  }

  end(id: number): void {
    const feed = this.#feeds.get(id);
    if (feed === undefined) return;
    feed.done = true;
    wake(feed);
  }

  /** The tokens from index `after`; waits at most `timeoutMs` for one. `undefined` when the feed is unknown or was dropped. */
  async read(
    id: number,
    after: number,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<{ readonly tokens: readonly FedToken[]; readonly done: boolean } | undefined> {
    const feed = this.#feeds.get(id);
    if (feed === undefined) return undefined;
    if (feed.tokens.length <= after && !feed.done && signal?.aborted !== true) {
      await new Promise<void>((resolve) => {
        const ready = () => {
          cancel();
          signal?.removeEventListener("abort", ready);
          feed.waiters.delete(ready);
          resolve();
        };
        const cancel = this.#clock.timer(timeoutMs, ready);
        signal?.addEventListener("abort", ready, { once: true });
        feed.waiters.add(ready);
      });
    }
    return { tokens: feed.tokens.slice(after), done: feed.done };
  }

  /** Ends all reads at shutdown. */
  close(): void {
    for (const feed of this.#feeds.values()) wake(feed);
    this.#feeds.clear();
    this.#tokens = 0;
  }
}

function wake({ waiters }: Feed): void {
  for (const ready of [...waiters]) ready();
}
