/** The simulator itself: a seed always gives the same trace, and the seeds that once found a defect find none. */
import { spawn } from "node:child_process";
import { describe, expect, it } from "vitest";
import type { SeedResult } from "./simulation.ts";

const { bundleSimulator } = (await import("./bundle.mjs" as string)) as { bundleSimulator: () => Promise<string> };
const { onceFailed } = (await import("./once-failed.mjs" as string)) as { onceFailed: readonly number[] };

/** Runs seeds in a process of their own. */
async function run(program: string, seeds: string): Promise<readonly SeedResult[]> {
  const child = spawn(process.execPath, [program, seeds], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const part of child.stdout) text += String(part);
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as SeedResult);
}

describe("the simulator", () => {
  it("gives the same trace for the same seed, whatever ran before it", async () => {
    const program = await bundleSimulator();
    const [one, other] = await Promise.all([run(program, "11,12,13"), run(program, "13,12,11")]);
    const digests = (results: readonly SeedResult[]) => new Map(results.map(({ seed, digest }) => [seed, digest]));
    expect(digests(one).size).toBe(3);
    expect(digests(other)).toEqual(digests(one));
    expect(new Set(digests(one).values()).size).toBe(3);
  });

  it("finds nothing wrong with the seeds that once failed", async () => {
    const results = await run(await bundleSimulator(), onceFailed.join(","));
    expect(results.map(({ seed, problems }) => ({ seed, problems }))).toEqual(
      onceFailed.map((seed) => ({ seed, problems: [] })),
    );
    for (const { calls, faults } of results) {
      expect(calls).toBeGreaterThanOrEqual(50);
      expect(Object.values(faults).reduce((all, times) => all + times, 0)).toBeGreaterThan(0);
    }
  });
});
