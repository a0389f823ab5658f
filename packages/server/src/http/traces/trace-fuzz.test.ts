import { expect, test } from "vitest";
import { fuzzTraces, traceFuzzLimits } from "../../testing/trace-fuzz.ts";

test("300 hostile exports and requests: no 5xx, nothing of another tenant, the other tenant is served, storage is bounded", async () => {
  const report = await fuzzTraces(300, 1);
  expect(report.failures).toEqual([]);
  expect(report.leaks).toEqual([]);
  expect(report.unserved).toEqual([]);
  expect(report.stored.spans).toBeGreaterThan(20);
  expect(report.stored.spans).toBeLessThanOrEqual(traceFuzzLimits.spansPerTenant.count);
  expect(report.stored.bytes).toBeLessThanOrEqual(traceFuzzLimits.spansPerTenant.bytes);
  for (const status of ["200", "400", "404", "413", "422"]) expect(report.statuses, status).toHaveProperty(status);
});
