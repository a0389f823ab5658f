import { describe, expect, it } from "vitest";
import { defaultRetryPolicy, nextDelayMs, pollBackoffMs, retryAfterMs, shouldRetryHeader } from "./retry.ts";

const attempted = { retries: 0, elapsedMs: 0, random: 0 };

describe("nextDelayMs", () => {
  it("M-802: doubles from half a second to a minute", () => {
    const delays = Array.from({ length: 10 }, (_, retries) =>
      nextDelayMs(defaultRetryPolicy, { ...attempted, retries }),
    );
    expect(delays).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  });

  it("takes up to a quarter off at random", () => {
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, random: 1 })).toBe(375);
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, retries: 3, random: 0.5 })).toBe(3500);
  });

  it("M-703: ends with the attempt budget, and with the window, whichever comes first", () => {
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, retries: 10 })).toBeUndefined();
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, retries: 9 })).toBe(60_000);
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, elapsedMs: 300_000 })).toBeUndefined();
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, elapsedMs: 299_999 })).toBe(1);
    expect(nextDelayMs({ ...defaultRetryPolicy, maxRetries: 0 }, attempted)).toBeUndefined();
  });

  it("M-802: obeys a server's wish up to a minute, and not beyond", () => {
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, retryAfterMs: 7, random: 1 })).toBe(7);
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, retryAfterMs: 60_000 })).toBe(60_000);
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, retryAfterMs: 60_001 })).toBe(500);
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, retryAfterMs: 0 })).toBe(500);
  });

  it("never waits beyond the window's end", () => {
    expect(nextDelayMs(defaultRetryPolicy, { ...attempted, elapsedMs: 299_000, retryAfterMs: 5000 })).toBe(1000);
  });
});

it("M-504: polls back off 1, 2, 4, 8, 16, 30, 30 … s", () => {
  expect([0, 1, 2, 3, 4, 5, 6, 20].map(pollBackoffMs)).toEqual([
    1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000,
  ]);
});

describe("retryAfterMs", () => {
  const headers = (values: Record<string, string>) => (name: string) => values[name];
  const now = Date.UTC(2026, 0, 1);

  it("M-802: prefers milliseconds, then seconds, then a date, then the body", () => {
    expect(retryAfterMs(headers({ "retry-after-ms": "150", "retry-after": "9" }), undefined, now)).toBe(150);
    expect(retryAfterMs(headers({ "retry-after": "1.5" }), { retry_after: 9 }, now)).toBe(1500);
    expect(retryAfterMs(headers({ "retry-after": "Thu, 01 Jan 2026 00:00:30 GMT" }), undefined, now)).toBe(30_000);
    expect(retryAfterMs(headers({}), { retry_after_ms: 20, retry_after: 9 }, now)).toBe(20);
    expect(retryAfterMs(headers({}), { retry_after: "2" }, now)).toBe(2000);
  });

  it("takes a date in the past as no wait", () => {
    expect(retryAfterMs(headers({ "retry-after": "Wed, 31 Dec 2025 23:00:00 GMT" }), undefined, now)).toBe(0);
  });

  it("ignores nonsense", () => {
    for (const value of ["", " ", "soon", "-5", "NaN", "Infinity"]) {
      expect(retryAfterMs(headers({ "retry-after-ms": value }), undefined, now), value).toBeUndefined();
      expect(retryAfterMs(headers({}), { retry_after_ms: value }, now), value).toBeUndefined();
    }
    expect(retryAfterMs(headers({ "retry-after": "soon" }), null, now)).toBeUndefined();
    expect(retryAfterMs(headers({}), "text", now)).toBeUndefined();
    expect(retryAfterMs(headers({}), { retry_after: true }, now)).toBeUndefined();
  });
});

it("M-802: x-should-retry says yes, no or nothing", () => {
  expect([shouldRetryHeader("true"), shouldRetryHeader("TRUE")]).toEqual([true, true]);
  expect([shouldRetryHeader("false"), shouldRetryHeader("False")]).toEqual([false, false]);
  expect([shouldRetryHeader(undefined), shouldRetryHeader("maybe"), shouldRetryHeader("")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
