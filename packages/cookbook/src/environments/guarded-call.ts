/** Calls of an environment that may throw, hang or answer late: each ends in time, with a failure that says which it was. */
import type { Clock } from "@tinklet/sdk";
import type { EpisodeFailure } from "./env.ts";

/** An environment's failure. Caught by the rollout; seen by callers only with the strategy `fail`. */
export class EnvironmentError extends Error {
  override readonly name = "EnvironmentError";
  readonly failure: EpisodeFailure;
  constructor(failure: EpisodeFailure) {
    const where = failure.env < 0 ? failure.group : `${failure.group}, environment ${failure.env}`;
    super(`${where}: ${failure.message}`, { cause: failure.cause });
    this.failure = failure;
  }
}

/** Where a call belongs, for its failure. */
export interface CallPlace {
  readonly group: string;
  readonly env: number;
  /** Name of the function that is called. */
  readonly call: string;
}

export interface GuardOptions {
  readonly timeLimitMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Calls a function of an environment. A result or failure after the time limit is ignored.
 *
 * @throws {@link EnvironmentError}; the signal's reason when aborted.
 */
export async function guardedCall<T>(
  place: CallPlace,
  options: GuardOptions,
  run: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const { timeLimitMs, clock, signal } = options;
  signal?.throwIfAborted();
  const own = new AbortController();
  const failed = (kind: EpisodeFailure["kind"], message: string, cause?: unknown) =>
    new EnvironmentError({ group: place.group, env: place.env, kind, message: `${place.call} ${message}`, cause });
  let release = () => {};
  const ended = new Promise<never>((_, reject) => {
    const cancel = clock.timer(timeLimitMs, () => reject(failed("timed_out", `took more than ${timeLimitMs} ms`)));
    const abort = () => setImmediate(() => reject(signal?.reason)); // a failure in the same tick is reported first
    signal?.addEventListener("abort", abort, { once: true });
    release = () => {
      cancel();
      signal?.removeEventListener("abort", abort);
    };
  });
  ended.catch(() => {});
  try {
    const called = (async () => run(own.signal))().catch((cause: unknown) => {
      if (cause instanceof EnvironmentError) throw cause;
      throw failed(
        "threw",
        `threw ${cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)}`,
        cause,
      );
    });
    called.catch(() => {}); // a failure after the time limit is ignored
    return await Promise.race([called, ended]);
  } catch (error) {
    own.abort(error);
    throw error;
  } finally {
    release();
  }
}
