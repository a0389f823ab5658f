/** Runs the kit against the server of this repository: all cases pass, and at most five are not offered. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { formatReport, groups, type Report, runConformance } from "./index.ts";
import { spoken } from "./report.ts";
import { type KitServer, openKitServer } from "./testing/kit-server.ts";

let server: KitServer;
let report: Report;

beforeAll(async () => {
  server = await openKitServer();
  report = await runConformance({ ...server.options, fetch: server.fetch(), restart: () => server.restart() });
}, 300_000);
afterAll(() => server.close());

test("the kit has at least 120 cases, each with a unique id, a reason and the official behaviour", () => {
  const cases = groups.flatMap((group) => group.cases);
  expect(cases.length).toBeGreaterThanOrEqual(120);
  expect(new Set(cases.map(({ id }) => id)).size).toBe(cases.length);
  for (const { id, reason, official } of cases) expect([id, reason !== "", official !== ""]).toEqual([id, true, true]);
});

test("this repository's server passes", () => {
  const failed = report.groups.flatMap(({ cases }) => cases.filter(({ status }) => status === "fail"));
  expect(failed, formatReport(report)).toEqual([]);
});

test("this repository's server supports the newest release", () => {
  expect(spoken(report.releases)).toBe("Speaks 0.25 fully, 0.36 fully");
  expect(report.releases.length).toBeGreaterThan(8);
});

test("at most five cases are not offered, each with a reason", () => {
  const missing = report.groups.flatMap(({ cases }) => cases.filter(({ status }) => status === "not offered"));
  expect(missing.length, formatReport(report)).toBeLessThanOrEqual(5);
  for (const { message } of missing) expect(message).toMatch(/\S/);
  expect(report.totals.skipped).toBe(0);
});
