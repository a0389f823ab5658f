/**
 * The committed reports of what each package offers: a change of the public surface shows in a change of the report.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const { folder, surfaceReports } = (await import("./surface.mjs" as string)) as {
  folder: string;
  surfaceReports: () => Map<string, string>;
};

it("every package's public names and types are those of its report (node test/package/surface.mjs --write)", () => {
  const reports = surfaceReports();
  expect(readdirSync(folder).sort()).toEqual([...reports.keys()].sort());
  for (const [file, text] of reports) expect(text, file).toBe(readFileSync(join(folder, file), "utf8"));
  const atRunTime = Number(/: (\d+) names at run time/.exec(reports.get("tinklet.txt")!)?.[1]);
  expect(atRunTime).toBeLessThanOrEqual(75);
}, 300_000);
