// What a user gets from the registry: `npm run check:package -- [tarballs] [consumer] [installed] [runtimes]`, all of them when none
// is named. The packages are packed once, from what `npm run build` left. Every check prints a line; the exit code is 1 if one failed.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pack } from "../../tools/pack.mjs";
import { checkConsumer } from "./consumer.mjs";
import { checkInstalled } from "./installed.mjs";
import { createReport } from "./report.mjs";
import { checkRuntimes } from "./runtimes.mjs";
import { checkTarballs } from "./tarballs.mjs";

const suites = {
  tarballs: checkTarballs,
  consumer: checkConsumer,
  installed: checkInstalled,
  runtimes: checkRuntimes,
};
const named = process.argv.slice(2);
const unknown = named.filter((name) => !(name in suites));
if (unknown.length > 0) {
  console.error(`no such suite: ${unknown.join(", ")}; there are ${Object.keys(suites).join(", ")}`);
  process.exit(2);
}

const report = createReport();
const work = mkdtempSync(join(tmpdir(), "tinklet-package-"));
try {
  let packages;
  await report.check("every package packs", async () => {
    packages = await pack(work);
  });
  if (packages !== undefined)
    for (const [name, suite] of Object.entries(suites))
      if (named.length === 0 || named.includes(name)) await suite(report, packages, work);
} finally {
  rmSync(work, { recursive: true, force: true });
}
const { passed, failed, skipped } = report.counts;
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed === 0 ? 0 : 1;
