import { expect, test } from "vitest";
import { fuzz } from "./testing/fuzz.ts";

test("5,000 fuzzed requests: no 5xx, none hangs, a third reaches the queue", async () => {
  const report = await fuzz(5000, 1);
  expect(report.failures).toEqual([]);
  expect(report.hanging).toEqual([]);
  expect(report.queued / report.requests).toBeGreaterThan(0.3);
}, 120_000);
