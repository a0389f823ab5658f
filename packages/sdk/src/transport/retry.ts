/**
 * Retry policy as pure functions: the delay before the next attempt, or none. The caller waits and sends.
 */

/** Retry limits of one logical call. */
export interface RetryPolicy {
  /** Attempts after the first one. */
  readonly maxRetries: number;
  /** No attempt starts later than this after the first attempt. */
  readonly windowMs: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
  /** Maximum fraction subtracted from a delay at random, so that clients do not retry simultaneously. */
  readonly jitter: number;
}

export const defaultRetryPolicy: RetryPolicy = {
  maxRetries: 10,
  windowMs: 300_000,
  baseDelayMs: 500,
  maxDelayMs: 60_000,
  jitter: 0.25,
};

/** Retry window while the server has never responded (dead or wrong URL). */
export const firstContactWindowMs = 15_000;

/** The same if the connection is refused: long enough for a restart of the server. */
export const refusedWindowMs = 3_000;

/** Longest `Retry-After` that is honoured; for longer ones the usual delay is used. */
const longestRetryAfterMs = 60_000;

/** State after a failed attempt. */
export interface Attempted {
  /** Retries already taken. */
  readonly retries: number;
  readonly elapsedMs: number;
  readonly retryAfterMs?: number | undefined;
  /** In [0, 1). */
  readonly random: number;
}

/** The delay before the next attempt, or `undefined` when no attempts or no time remain. */
export function nextDelayMs(policy: RetryPolicy, attempted: Attempted): number | undefined {
  const { retries, elapsedMs, retryAfterMs, random } = attempted;
  if (retries >= policy.maxRetries || elapsedMs >= policy.windowMs) return undefined;
  const asked = retryAfterMs !== undefined && retryAfterMs > 0 && retryAfterMs <= longestRetryAfterMs;
  const delay = asked
    ? retryAfterMs
    : Math.min(policy.baseDelayMs * 2 ** retries, policy.maxDelayMs) * (1 - policy.jitter * random);
  return Math.min(delay, policy.windowMs - elapsedMs);
}

/** The delay of the poll loop after the n-th consecutive failure: 1, 2, 4, 8, 16, 30, 30 … s. */
export function pollBackoffMs(failures: number): number {
  return Math.min(2 ** failures, 30) * 1000;
}

/** The wait that `retry-after-ms`, `retry-after` (seconds or a date) or the body requests, in milliseconds. */
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

/** `x-should-retry`: true and false override the status; other values are ignored. */
export function shouldRetryHeader(value: string | undefined): boolean | undefined {
  const word = value?.toLowerCase();
  return word === "true" ? true : word === "false" ? false : undefined;
}
