/** Accepted requests: their ids, their results until clients have polled them, and the tokens of running samples. */
import { Futures, Refusal, type Settled, TokenFeeds } from "@tinklet/server/portable";
import { stringifyJson } from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";
import { randomHex } from "@tinklet/wire/entropy";
import { type Failure, failureOf } from "./failures.ts";

/** The bytes of a finished request. */
export type Outcome = Pick<Settled, "body" | "type">;

export const jsonOutcome = (body: object): Outcome => ({
  body: new TextEncoder().encode(stringifyJson(body)),
  type: "json",
});

/** The time that a poll waits; the client then asks again. */
const pollMs = 30_000;

interface Pending {
  readonly sessionId: string;
  readonly cancel: ((reason: unknown) => void) | undefined;
}

export type PollResult =
  | { readonly kind: "pending" }
  | { readonly kind: "expired" }
  | ({ readonly kind: "done" } & Outcome);

export class Requests {
  /** Ids of another load of the page are unknown here. */
  readonly #prefix = `req-${randomHex(6)}-`;
  readonly #futures: Futures;
  readonly #pending = new Map<number, Pending>();
  readonly feeds: TokenFeeds;
  #last = 0;

  constructor(clock: Clock) {
    this.#futures = new Futures(clock);
    this.feeds = new TokenFeeds(clock);
  }

  idOf(number: number): string {
    return `${this.#prefix}${number}`;
  }

  /** @throws {@link Refusal} 404 */
  numberOf(id: string): number {
    const number = id.startsWith(this.#prefix) ? Number(id.slice(this.#prefix.length)) : Number.NaN;
    if (Number.isSafeInteger(number) && number > 0 && number <= this.#last) return number;
    throw new Refusal(404, "unknown_request", `There is no request ${JSON.stringify(id.slice(0, 200))} of this page.`);
  }

  /** A new request. @param cancel - stops it; absent for requests that cannot be stopped */
  accept(sessionId: string, cancel?: Pending["cancel"]): number {
    this.#pending.set(++this.#last, { sessionId, cancel });
    return this.#last;
  }

  /** Stores the end of a request and answers its polls. */
  end(number: number, outcome: Outcome): void {
    this.feeds.end(number);
    this.#pending.delete(number);
    this.#futures.settle(number, { tenant: "", ...outcome });
  }

  fail(number: number, error: unknown): void {
    const { error: message, category }: Failure = failureOf(error);
    this.end(number, jsonOutcome({ error: message, category }));
  }

  /** Runs the work of a request and stores its end. */
  async run(number: number, work: () => Promise<Outcome>): Promise<void> {
    try {
      this.end(number, await work());
    } catch (error) {
      this.fail(number, error);
    }
  }

  cancel(number: number, reason: unknown): void {
    this.#pending.get(number)?.cancel?.(reason);
  }

  /** Stops the samples of a session. */
  cancelOf(sessionId: string, reason: unknown): void {
    for (const pending of [...this.#pending.values()]) if (pending.sessionId === sessionId) pending.cancel?.(reason);
  }

  /** Waits for a result for at most 30 s. */
  async poll(number: number, signal: AbortSignal | undefined): Promise<PollResult> {
    if (this.#pending.has(number)) await this.#futures.wait(number, pollMs, signal);
    const settled = this.#futures.recent(number);
    if (settled !== undefined) return { kind: "done", body: settled.body, type: settled.type };
    return { kind: this.#pending.has(number) ? "pending" : "expired" };
  }

  tokens(number: number, after: number, signal: AbortSignal | undefined) {
    return this.feeds.read(number, after, pollMs, signal);
  }

  close(): void {
    this.#futures.close();
    this.feeds.close();
  }
}
