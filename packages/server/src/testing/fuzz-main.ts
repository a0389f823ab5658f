/** `fuzz-main REQUESTS SEED`: a long fuzz run. Prints its report; the exit status is 1 if it found a problem. */
import { fuzz } from "./fuzz.ts";

const [requests = 100_000, seed = 1] = process.argv.slice(2).map(Number);
const report = await fuzz(requests, seed);
console.log(JSON.stringify({ ...report, failures: report.failures.length }, null, 1));
for (const failure of report.failures.slice(0, 10)) console.log(failure);
process.exitCode =
  report.failures.length === 0 && report.hanging.length === 0 && report.queued / requests > 0.3 ? 0 : 1;
