/** The whole drill, on every run of the suite; `node test/drills/weights/drill.mjs 5000 2` runs more of it, or other cases. */

import { expect, test } from "vitest";
import { runDrill } from "./drill.ts";

test("spoiled weight files are refused by a typed error or load unspoiled", async () => {
  const report = await runDrill(500, 1);
  expect(report.failures).toEqual([]);
  expect(report.cases).toBe(500);
  // Both outcomes must occur, or the drill checks nothing.
  expect(report.loaded).toBeGreaterThan(20);
  expect(Object.keys(report.refused).length).toBeGreaterThan(6);
});
