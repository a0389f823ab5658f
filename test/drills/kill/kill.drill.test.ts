import { expect, test } from "vitest";
// @ts-expect-error a script without types
import { drill, plan, prepare } from "./drill.mjs";

test("ten seeded kills: every program finishes with what a calm run gives", async () => {
  const parts = await prepare();
  const calm = await drill(parts, { kills: [], steps: 5 });
  expect(calm.problem).toBeUndefined();
  for (let run = 0; run < 10; run++) {
    const { kills } = plan(42, run);
    // one kill each, early enough to fall into a short program
    const report = await drill(parts, { kills: [{ ...kills[0], after: kills[0].after % 8 }], steps: 5 });
    expect(report.problem, JSON.stringify(kills)).toBeUndefined();
    expect(report.result, JSON.stringify(kills)).toBe(calm.result);
  }
}, 180_000);
