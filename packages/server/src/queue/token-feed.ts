/**
 * Tokens of samples that are being drawn, for clients that asked to see them come. A view beside the result and never instead of
 * it: kept in memory, forgotten freely. A sample that starts again (the engine died) draws the same tokens, so readers go on
 * where they were.
 */
import type { Clock } from "tinklet";

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
  tokens: FedToken[];
  done: boolean;
  readonly waiters: Set<() => void>;
}

/** Feeds kept at most; the oldest goes first. */
const mostFeeds = 256;

export class TokenFeeds {
  readonly #clock: Clock;
  readonly #feeds = new Map<number, Feed>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  open(id: number): void {
    this.#feeds.set(id, { tokens: [], done: false, waiters: new Set() });
    for (const [old, feed] of this.#feeds) {
      if (this.#feeds.size <= mostFeeds) break;
      this.#feeds.delete(old);
      wake(feed);
    }
  }

  /** Begins a sample, for the first time or again. */
  begin(id: number): void {
    const feed = this.#feeds.get(id);
    if (feed !== undefined) feed.tokens = [];
  }

  add(id: number, token: FedToken): void {
    const feed = this.#feeds.get(id);
    if (feed === undefined) return;
    feed.tokens.push(token);
    wake(feed);
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
  }
}

function wake({ waiters }: Feed): void {
  for (const ready of [...waiters]) ready();
}
