/**
 * `grammar-fuzz-main [SCHEMAS] [SEED]`: a long fuzz run on the bundled model's vocabulary. Prints a report as JSON and then the failures;
 * exits with 1 if there are any. Needs `--expose-gc`.
 */
import { bundledModelFolder, loadTokenizer } from "@tinklet/models";
import { createFuzzer, mostAtOnce } from "./grammar-fuzz.ts";

/** Limits per schema. A schema above them is measured again, because other processes or the garbage collector may have used the time. */
const limits = { sliceMs: 250, totalMs: 2000, heldBytes: 64 * 1024 * 1024, steps: mostAtOnce };

const [schemas = 20_000, seed = 1] = process.argv.slice(2).map(Number);
const fuzzer = createFuzzer(await loadTokenizer(bundledModelFolder()));
const usedBytes = (): number => {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};
const heldBytes = (): number => {
  globalThis.gc?.();
  return usedBytes();
};

const most = { sliceMs: 0, totalMs: 0, compileSteps: 0, decodeSteps: 0, sliceSteps: 0, grammarBytes: 0, heldBytes: 0 };
const keys = Object.keys(most) as (keyof typeof most)[];
const ends: Record<string, number> = {};
const failures: string[] = [];
let totalMs = 0;
let tokens = 0;
const first = heldBytes();
for (let each = seed; each < seed + schemas; each++) {
  let outcome = fuzzer.run(each, usedBytes);
  const { sliceMs, heldBytes: held } = outcome;
  if (sliceMs > limits.sliceMs || outcome.totalMs > limits.totalMs || held > limits.heldBytes) {
    outcome = fuzzer.run(each, heldBytes);
  }
  totalMs += outcome.totalMs;
  tokens += outcome.tokens;
  ends[outcome.end] = (ends[outcome.end] ?? 0) + 1;
  for (const key of keys) most[key] = Math.round(Math.max(most[key], outcome[key]));
  const wrong = [
    outcome.failure,
    outcome.sliceMs > limits.sliceMs && `a slice took ${Math.round(outcome.sliceMs)} ms`,
    outcome.totalMs > limits.totalMs && `it took ${Math.round(outcome.totalMs)} ms`,
    outcome.heldBytes > limits.heldBytes && `it holds ${outcome.heldBytes} bytes`,
    outcome.sliceSteps > limits.steps && `a slice had ${Math.round(outcome.sliceSteps)} steps`,
  ];
  for (const problem of wrong) if (typeof problem === "string") failures.push(`schema ${each}: ${problem}`);
}
const report = {
  schemas,
  seed,
  ends,
  tokens,
  most,
  meanMs: Number((totalMs / schemas).toFixed(2)),
  keptBytes: fuzzer.keptBytes,
  heldGrowthBytes: heldBytes() - first,
  residentBytes: process.memoryUsage.rss(),
  failures: failures.length,
};
console.log(JSON.stringify(report, null, 1));
for (const failure of failures.slice(0, 20)) console.log(failure);
process.exitCode = failures.length === 0 ? 0 : 1;
