/**
 * Requests under which the process has died before. They run alone, one after the other and before anything else, so that the one at fault
 * is found and those that merely ran beside it are not taken for it.
 */
import { type Job, UserError } from "./job.ts";

/** How often a request that was pending at a start may be begun again and not end, before it is not begun any more. */
const mostDeaths = 3;

export class Suspects {
  /** In the order in which they were accepted. */
  readonly #jobs = new Set<Job>();

  /** Looks at a request that was pending at the start. */
  consider(job: Job): void {
    if (job.deaths > 0 && job.deaths < mostDeaths) this.#jobs.add(job);
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

/** @throws {@link UserError} for a request under which the process died too often. */
export function checkDeaths({ deaths }: Job): void {
  if (deaths < mostDeaths) return;
  throw new UserError(
    `The server died ${deaths} times while it ran this request, and does not run it again. It may need more memory than there is: send less at once (fewer data, shorter sequences, a smaller rank).`,
  );
}
