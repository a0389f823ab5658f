/**
 * When to send again, as pure functions: how long to wait before the next attempt, or that there is none. Waiting and
 * sending belong to the caller.
 */

/** One attempt budget and one window for one logical call. */
export interface RetryPolicy {
  /** Attempts after the first one. */
  readonly maxRetries: number;
  /** No attempt starts later than this after the first one. */
  readonly windowMs: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
  /** The share of a delay that may be taken off at random, so that clients do not come back all at once. */
  readonly jitter: number;
}

export const defaultRetryPolicy: RetryPolicy = {
  maxRetries: 10,
  windowMs: 300_000,
  baseDelayMs: 500,
  maxDelayMs: 60_000,
  jitter: 0.25,
};

/** How long a dead or wrong URL is tried, as long as the server has never answered. */
export const firstContactWindowMs = 15_000;

/** The same where the machine answers that nothing listens there: enough for a server that is being restarted. */
export const refusedWindowMs = 3_000;

/** A server's wish to wait is obeyed up to this; beyond it the usual delay is used. */
const longestRetryAfterMs = 60_000;

/** What is known after a failed attempt. */
export interface Attempted {
  /** Retries already taken. */
  readonly retries: number;
  readonly elapsedMs: number;
  readonly retryAfterMs?: number | undefined;
  /** In [0, 1). */
  readonly random: number;
}

/** The wait before the next attempt, or `undefined` when budget or window is spent. */
export function nextDelayMs(policy: RetryPolicy, attempted: Attempted): number | undefined {
  const { retries, elapsedMs, retryAfterMs, random } = attempted;
  if (retries >= policy.maxRetries || elapsedMs >= policy.windowMs) return undefined;
  const asked = retryAfterMs !== undefined && retryAfterMs > 0 && retryAfterMs <= longestRetryAfterMs;
  const delay = asked
    ? retryAfterMs
    : Math.min(policy.baseDelayMs * 2 ** retries, policy.maxDelayMs) * (1 - policy.jitter * random);
  return Math.min(delay, policy.windowMs - elapsedMs);
}

/** The wait of the poll loop after the n-th failure in a row: 1, 2, 4, 8, 16, 30, 30 … s. */
export function pollBackoffMs(failures: number): number {
  return Math.min(2 ** failures, 30) * 1000;
}

/** What `retry-after-ms`, `retry-after` (seconds or a date) or the body asks for, in milliseconds. */
export function retryAfterMs(
  header: (name: string) => string | undefined,
  body: unknown,
  nowMs: number,
): number | undefined {
  const milliseconds = numeric(header("retry-after-ms"));
  if (milliseconds !== undefined) return milliseconds;
  const after = header("retry-after");
  const seconds = numeric(after);
  if (seconds !== undefined) return seconds * 1000;
  const date = after === undefined ? Number.NaN : Date.parse(after);
  if (!Number.isNaN(date)) return Math.max(date - nowMs, 0);
  const fields = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const bodyMs = numeric(fields["retry_after_ms"]);
  if (bodyMs !== undefined) return bodyMs;
  const bodySeconds = numeric(fields["retry_after"]);
  return bodySeconds === undefined ? undefined : bodySeconds * 1000;
}

function numeric(value: unknown): number | undefined {
  if (typeof value !== "number" && (typeof value !== "string" || value.trim() === "")) return undefined;
  const number = Number(value);
  return Number.isFinite(number) && number >= 0 ? number : undefined;
}

/** `x-should-retry`: true and false overrule the status; anything else says nothing. */
export function shouldRetryHeader(value: string | undefined): boolean | undefined {
  const word = value?.toLowerCase();
  return word === "true" ? true : word === "false" ? false : undefined;
}
