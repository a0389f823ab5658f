/** `trace-fuzz-main REQUESTS SEED`: a long attack on the routes of traces. Prints its report; the exit status is 1 if it found a problem. */
import { fuzzTraces, traceFuzzLimits } from "./trace-fuzz.ts";

/** Memory that may be held after the last request: arenas of the allocator and the side threads, independent of the number of requests. */
const mostGrowthBytes = 400 * 2 ** 20;

const [requests = 20_000, seed = 1] = process.argv.slice(2).map(Number);
const report = await fuzzTraces(requests, seed);
const problems = [...report.failures, ...report.leaks, ...report.unserved];
console.log(
  JSON.stringify(
    { ...report, failures: report.failures.length, leaks: report.leaks.length, unserved: report.unserved.length },
    null,
    1,
  ),
);
for (const problem of problems.slice(0, 10)) console.log(problem);
const isBounded =
  report.stored.bytes <= traceFuzzLimits.spansPerTenant.bytes && report.memoryGrowthBytes < mostGrowthBytes;
process.exitCode = problems.length === 0 && isBounded ? 0 : 1;
