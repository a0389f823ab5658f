// The drill over spoiled weight files: `node test/drills/weights/drill.mjs [cases] [seed]`. The suite runs the first 500 cases of seed 1.
// Runs the cases in a child process, so that even a crash of the process is seen and counted.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { importSource } from "../../fixtures/programs/import-source.mjs";

const [cases = "500", seed = "1", inside] = process.argv.slice(2);
if (inside === undefined) {
  const child = spawnSync(process.execPath, [fileURLToPath(import.meta.url), cases, seed, "inside"], {
    stdio: "inherit",
  });
  if (child.signal) console.error(`the process was ended by ${child.signal}: a crash`);
  process.exit(child.status ?? 1);
}
const { runDrill } = await importSource("test/drills/weights/drill.ts");
const { failures, refused, loaded, cases: run } = await runDrill(Number(cases), Number(seed));
const total = Object.values(refused).reduce((sum, count) => sum + count, 0);
console.log(
  `${run} spoiled files (seed ${seed}): ${total} refused, ${loaded} loaded with every untouched value equal, ${failures.length} failures, 0 crashes`,
);
console.table(refused);
for (const failure of failures) console.error(failure);
process.exit(failures.length === 0 ? 0 : 1);
