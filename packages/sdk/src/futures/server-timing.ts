/**
 * Where a request's time went, as a server tells it beside the result: the standard `Server-Timing` header with the entries
 * `queue` and `compute`. A header, because a result's bytes must be the same whenever its request runs.
 */

/** Where a request's time went, in milliseconds. */
export interface ServerTiming {
  /** From the request's acceptance until the server turned to it. */
  readonly queueMs: number | undefined;
  /** From there to its result. */
  readonly computeMs: number | undefined;
}

/** What the header tells, for example `queue;dur=12.5, compute;dur=80`; `undefined` when it has neither entry. */
export function parseServerTiming(header: string | undefined): ServerTiming | undefined {
  if (header === undefined) return undefined;
  const durations = new Map<string, number>();
  for (const entry of header.split(",")) {
    const [name = "", ...parameters] = entry.split(";").map((part) => part.trim());
    for (const parameter of parameters) {
      const ms = /^dur=(\d+(?:\.\d+)?)$/i.exec(parameter)?.[1];
      if (ms !== undefined) durations.set(name.toLowerCase(), Number(ms));
    }
  }
  const timing = { queueMs: durations.get("queue"), computeMs: durations.get("compute") };
  return timing.queueMs === undefined && timing.computeMs === undefined ? undefined : timing;
}

/**
 * The time of several requests that one call became: until the server turned to the first of them, and all computing
 * together.
 */
export function togetherTiming(timings: readonly ServerTiming[]): ServerTiming {
  const known = (values: readonly (number | undefined)[]) => values.filter((value) => value !== undefined);
  const queued = known(timings.map(({ queueMs }) => queueMs));
  const computed = known(timings.map(({ computeMs }) => computeMs));
  return {
    queueMs: queued.length === 0 ? undefined : Math.min(...queued),
    computeMs: computed.length === 0 ? undefined : computed.reduce((sum, ms) => sum + ms, 0),
  };
}
