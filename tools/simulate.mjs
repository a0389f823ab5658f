// `npm run simulate -- [--seeds 300] [--seed K] [--from N] [--day] [--defect NAME] [--trace] [--coverage] [--jobs 2]`: runs the simulator over seeds, in
// processes of its own. A failure prints the seed, the end of its trace and the command that replays it; `--coverage` prints which branches of the
// queue and of the client's futures were reached. See docs/reports/simulate.md.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { branchMarks, printBranches } from "../test/drills/simulate/branches.mjs";
import { bundleSimulator } from "../test/drills/simulate/bundle.mjs";
import { defects } from "../test/drills/simulate/defects.mjs";
import { onceFailed } from "../test/drills/simulate/once-failed.mjs";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "300" },
    seed: { type: "string" },
    from: { type: "string", default: "1" },
    day: { type: "boolean", default: false },
    defect: { type: "string" },
    trace: { type: "boolean", default: false },
    coverage: { type: "boolean", default: false },
    jobs: { type: "string", default: String(availableParallelism()) },
  },
});

/**
 * Seeds of one process: it compiles the sources anew and is slow for its first twenty. Few where a defect is searched for, so that the
 * first seeds are searched first.
 */
const longestPiece = 500;
const pieceOfSearch = 50;
/** Room for short-lived objects: with Node's default a tenth of the time is spent on collecting them. */
const flags = ["--max-semi-space-size=64"];
/** Problems that are printed in full. */
const mostShown = 5;

const defect = values.defect === undefined ? undefined : defects.find(({ name }) => name === values.defect);
if (values.defect !== undefined && defect === undefined) {
  console.error(
    `--defect: there is no defect ${values.defect}; there are ${defects.map(({ name }) => name).join(", ")}`,
  );
  process.exit(2);
}
if (values.coverage && defect !== undefined) {
  console.error("--coverage: cannot be combined with --defect");
  process.exit(2);
}
const marks = values.coverage ? branchMarks() : undefined;
const reached = new Set();
const program = await bundleSimulator(defect, marks?.plugin);
const count = values.seed === undefined ? Number(values.seeds) : 1;
// Another thousand seeds each day, so that every run of the CI searches where none has searched.
const first = values.day ? 10_000 + Math.floor(Date.now() / 86_400_000) * 1000 : Number(values.seed ?? values.from);
const pieces = values.day && onceFailed.length > 0 ? [onceFailed.join(",")] : [];
const jobs = Number(values.jobs);
const pieceSize = defect === undefined ? Math.min(longestPiece, Math.ceil(count / jobs)) : pieceOfSearch;
for (let at = 0; at < count; at += pieceSize)
  pieces.push(`${first + at}-${first + Math.min(at + pieceSize, count) - 1}`);

const totals = { seeds: 0, calls: 0, events: 0, virtualMs: 0, cpuMs: 0, failed: 0 };
const failedSeeds = [];
const faults = {};
const started = Date.now();

function show({ seed, problems, trace }) {
  failedSeeds.push(seed);
  if (++totals.failed > mostShown) return;
  console.log(`\nseed ${seed} failed:`);
  for (const problem of problems) console.log(`  ${problem}`);
  if (defect === undefined) for (const line of trace.slice(-60)) console.log(`    ${line}`);
  const planted = defect === undefined ? "" : ` --defect ${defect.name}`;
  console.log(`replay it: npm run simulate -- --seed ${seed}${planted} --trace`);
}

async function worker() {
  for (let piece = pieces.shift(); piece !== undefined; piece = pieces.shift()) {
    const args = [program, piece, ...(values.trace ? ["--trace"] : defect === undefined ? [] : ["--first"])];
    const child = spawn(process.execPath, [...flags, ...args], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(child, "exit");
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.startsWith("{")) continue;
      const result = JSON.parse(line);
      if (result.arms !== undefined) {
        for (const arm of result.arms) reached.add(arm);
        continue;
      }
      totals.seeds++;
      totals.calls += result.calls;
      totals.events += result.events;
      totals.virtualMs += result.virtualMs;
      totals.cpuMs += result.cpuMs;
      for (const [name, times] of Object.entries(result.faults)) faults[name] = (faults[name] ?? 0) + times;
      if (result.problems.length > 0) show(result);
    }
    const [code] = await ended;
    if (code !== 0) {
      totals.failed++;
      console.log(`the process of the seeds ${piece} ended with ${code}`);
    }
    // With a planted defect the first seed that finds it is the answer.
    if (defect !== undefined && totals.failed > 0) pieces.length = 0;
  }
}

await Promise.all(Array.from({ length: Math.min(jobs, pieces.length) }, worker));
const seconds = (Date.now() - started) / 1000;
console.log(
  `\n${totals.seeds} seeds in ${seconds.toFixed(1)} s (${(totals.seeds / seconds).toFixed(1)} a second), ${totals.calls} calls, ${totals.events} events, ` +
    `${(totals.virtualMs / 3_600_000).toFixed(1)} hours of virtual time, ${(totals.cpuMs / totals.seeds).toFixed(0)} ms of processor time a seed; ${totals.failed} failed`,
);
console.log(
  Object.entries(faults)
    .sort()
    .map(([name, times]) => `${name} ${times}`)
    .join(", "),
);
if (failedSeeds.length > 0) console.log(`the seeds that failed: ${failedSeeds.sort((a, b) => a - b).join(", ")}`);
if (marks !== undefined) printBranches(marks.arms, reached);
process.exitCode = totals.failed === 0 && totals.seeds > 0 ? 0 : 1;
