/**
 * Requests that were running when an earlier process crashed, ran out of memory, or was killed because one of them never ended. They run alone, one after the other and before anything else, so that the one at fault is found and those that merely ran beside it
 * are not taken for it. One under which it happens again is not run any more.
 */
import { type Job, UserError } from "../job.ts";

/** How often a process may end while it runs a request, before the request is not run any more. */
const mostDeaths = 2;

/** Whether a request is not run any more. */
export const isGivenUp = ({ deaths }: Job): boolean => deaths >= mostDeaths;

export class CrashQuarantine {
  /** In the order in which they were accepted. */
  readonly #jobs = new Set<Job>();

  /** Looks at a request that was pending at the start. */
  consider(job: Job): void {
    if (job.deaths > 0 && !isGivenUp(job)) this.#jobs.add(job);
  }

  /** The one that runs now, while there are any. */
  get first(): Job | undefined {
    const [first] = this.#jobs;
    return first;
  }

  /** It is over. Returns whether it was one. */
  cleared(job: Job): boolean {
    return this.#jobs.delete(job);
  }

  /** Whether it may begin now: while there are suspects, only the first, and what its model has before it. */
  mayStart(job: Job): boolean {
    const { first } = this;
    return first === undefined || first === job || (job.modelId !== undefined && job.modelId === first.modelId);
  }
}

/** @throws {@link UserError} for a request under which the process ended too often. */
export function checkDeaths(job: Job): void {
  if (!isGivenUp(job)) return;
  throw new UserError(
    `The server crashed or was killed ${job.deaths} times while it ran this request; the limit is ${mostDeaths}, and it is not run again. If it took too much memory or time, send less at once: fewer data, shorter sequences, a smaller rank.`,
  );
}
