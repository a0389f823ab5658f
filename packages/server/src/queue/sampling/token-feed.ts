/**
 * Tokens of samples that are being drawn, for clients that asked to see them come. A view beside the result and never instead of
 * it: kept in memory, forgotten freely. A sample that starts again (the engine died) draws the same tokens of each sequence, perhaps in
 * another order between them: those that are here already are left out, so that readers go on where they were.
 */
import type { Clock } from "@tinklet/wire/clock";

/** A token, which of the request's samples it belongs to, and its log-probability; null where that is not finite. */
export type FedToken = readonly [index: number, token: number, logprob?: number | null];

export function fedToken(drawn: {
  readonly index: number;
  readonly token: number;
  readonly logprob: number;
}): FedToken {
  return [drawn.index, drawn.token, Number.isFinite(drawn.logprob) ? drawn.logprob : null];
}

interface Feed {
  /** Only ever added to: readers know their place in it. */
  readonly tokens: FedToken[];
  /** How many tokens of each sequence are here, and how many were drawn since it last began. */
  readonly known: Map<number, number>;
  readonly drawn: Map<number, number>;
  done: boolean;
  readonly waiters: Set<() => void>;
}

/** What is kept at most; the oldest feed goes first. */
export interface FeedLimits {
  readonly feeds: number;
  /** Of all feeds together; a token is some hundred bytes. */
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
    this.#feeds.set(id, { tokens: [], known: new Map(), drawn: new Map(), done: false, waiters: new Set() });
    this.#trim();
  }

  /** Begins a sample, for the first time or again. */
  begin(id: number): void {
    this.#feeds.get(id)?.drawn.clear();
  }

  add(id: number, token: FedToken): void {
    const feed = this.#feeds.get(id);
    if (feed === undefined) return;
    const [index] = token;
    const drawn = (feed.drawn.get(index) ?? 0) + 1;
    feed.drawn.set(index, drawn);
    if (drawn <= (feed.known.get(index) ?? 0)) return; // from before it began again
    feed.known.set(index, drawn);
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

  /**
   * The tokens from the `after`-th on, waiting for one at most `timeoutMs`; none when there is no such feed (any more).
   */
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

  /** Lets every reader go: the server is shutting down. */
  close(): void {
    for (const feed of this.#feeds.values()) wake(feed);
    this.#feeds.clear();
    this.#tokens = 0;
  }
}

function wake({ waiters }: Feed): void {
  for (const ready of [...waiters]) ready();
}
