// All hostile programs, in one sandbox beside an honest program that is graded all the time.
import { existsSync } from "node:fs";
import { afterAll, expect, it, vi } from "vitest";
import { hostilePrograms, unknowable } from "../testing/hostile-programs.ts";
import { createSandbox } from "./sandbox.ts";

vi.setConfig({ testTimeout: 1_200_000 });
const sandbox = createSandbox({ threads: 2 });
const beside = createSandbox({ threads: 1 });
afterAll(() => Promise.all([sandbox.close(), beside.close()]));

it("500 hostile programs: none escapes, each ends, honest programs are graded meanwhile", async () => {
  const programs = hostilePrograms();
  expect(programs.length).toBeGreaterThanOrEqual(500);
  let isOver = false;
  const honest = (async () => {
    let graded = 0;
    for (; !isOver; graded++) {
      const { share } = await beside.grade("const f = (x) => 2 * x;", [{ call: "f", args: [3], expected: 6 }]);
      expect(share).toBe(1);
    }
    return graded;
  })();
  const counts: Record<string, number> = {};
  let slowestMs = 0;
  const waiting = [...programs];
  const grader = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const begun = performance.now();
      const graded = await sandbox.grade(next.source, unknowable);
      slowestMs = Math.max(slowestMs, performance.now() - begun);
      expect(graded.share, next.name).toBe(0);
      expect(JSON.stringify(graded).length, next.name).toBeLessThan(2_000);
      const how = graded.ended ?? graded.outcomes[0]?.outcome ?? "";
      counts[how] = (counts[how] ?? 0) + 1;
    }
  };
  await Promise.all([grader(), grader()]);
  isOver = true;
  expect(await honest).toBeGreaterThan(0);
  expect(existsSync("escaped")).toBe(false);
  console.log(programs.length, counts, `slowest ${Math.round(slowestMs)} ms`, `${process.memoryUsage().rss >> 20} MiB`);
});
