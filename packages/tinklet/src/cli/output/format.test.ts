import { expect, it } from "vitest";
import { formatTimestamp } from "./format.ts";

const [second, hour, day] = [1000, 3_600_000, 86_400_000];
const now = Date.UTC(2026, 10, 1);

it.each([
  ["7 days that were set a moment ago", 7 * day - 2 * second, "in 7 days"],
  ["an hour ago", 7 * day - hour, "in 7 days"],
  ["half a day ago", 6.5 * day, "in 6 days"],
  ["one hour", hour - second, "in 1 hour"],
  ["a moment", 30 * second, "in less than a minute"],
  ["what is over", -(2 * day - second), "1 day ago"],
  ["beyond a month", 40 * day, "2026-12-11"],
])("%s", (_, afterMs, text) => {
  expect(formatTimestamp(new Date(now + afterMs), now)).toBe(text);
});
