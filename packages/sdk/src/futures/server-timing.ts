/**
 * Reads the time that a request spent on the server from the standard `Server-Timing` header, entries `queue` and `compute`. It is a
 * header because a result's bytes must not depend on timing.
 */

/** The time that a request spent on the server, in milliseconds. */
export interface ServerTiming {
  /** From acceptance to the start of processing. */
  readonly queueMs: number | undefined;
  /** From the start of processing to the result. */
  readonly computeMs: number | undefined;
}

/** Parses the header, for example `queue;dur=12.5, compute;dur=80`; `undefined` without either entry. */
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
 * The timing of a call that became several requests: the shortest queue time, and the sum of the compute times.
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
