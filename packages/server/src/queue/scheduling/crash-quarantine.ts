/**
 * Requests that were running when an earlier process crashed, ran out of memory, or was killed because a request hung. After the restart
 * they run one at a time, before all other requests, so that a second crash identifies the request that caused it. That request then
 * fails and is not run again.
 */
import { type Job, UserError } from "../job.ts";

/** Crashes while a request was running after which it is not run again. */
const maxDeaths = 2;

/** Whether a request has reached the limit of crashes and fails instead of running. */
export const isGivenUp = ({ deaths }: Job): boolean => deaths >= maxDeaths;

export class CrashQuarantine {
  /** In order of acceptance. */
  readonly #jobs = new Set<Job>();

  /** Adds a request that was pending at the start of the server, if a crash interrupted it. */
  consider(job: Job): void {
    if (job.deaths > 0 && !isGivenUp(job)) this.#jobs.add(job);
  }

  /** The quarantined request that may run now; `undefined` when the quarantine is empty. */
  get first(): Job | undefined {
    const [first] = this.#jobs;
    return first;
  }

  /** Removes a finished request; returns whether it was quarantined. */
  cleared(job: Job): boolean {
    return this.#jobs.delete(job);
  }

  /** Whether a request may start: while the quarantine is not empty, only its first request and requests of the same model. */
  mayStart(job: Job): boolean {
    const { first } = this;
    return first === undefined || first === job || (job.modelId !== undefined && job.modelId === first.modelId);
  }
}

/** @throws {@link UserError} when the process crashed too often while it ran this request. */
export function checkDeaths(job: Job): void {
  if (!isGivenUp(job)) return;
  throw new UserError(
    `The server crashed or was killed ${job.deaths} times while it ran this request; the limit is ${maxDeaths}, and it is not run again. If it took too much memory or time, send less at once: fewer data, shorter sequences, a smaller rank.`,
  );
}
