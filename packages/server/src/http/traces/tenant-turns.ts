/** Runs the tasks of each tenant one after the other, so that a thread that serves several tenants alternates between them. */
import { Refusal } from "../../queue/refusal.ts";

export class TenantTurns {
  readonly #most: number;
  readonly #tenants = new Map<string, { last: Promise<unknown>; count: number }>();

  /** @param most - tasks of one tenant, the running one included */
  constructor(most: number) {
    this.#most = most;
  }

  /** @throws {@link Refusal} 429 when the tenant has too many waiting tasks */
  run<T>(tenant: string, task: () => Promise<T>): Promise<T> {
    const turns = this.#tenants.get(tenant) ?? { last: Promise.resolve(), count: 0 };
    if (turns.count >= this.#most) {
      const problem = `There are ${turns.count} requests for traces of this key already; the limit is ${this.#most}. Send it again later.`;
      return Promise.reject(new Refusal(429, "too_many_trace_requests", problem, { retryAfterSeconds: 1 }));
    }
    this.#tenants.set(tenant, turns);
    turns.count++;
    const done = turns.last.then(task).finally(() => {
      turns.count--;
      if (turns.count === 0) this.#tenants.delete(tenant);
    });
    turns.last = done.catch(() => {});
    return done;
  }
}
