/** Runs the program and the conformance kit against a server; a JSON argument says where, the report goes to a file. */
import { writeFileSync } from "node:fs";
import { formatReport, runConformance } from "../../../packages/conformance/src/index.ts";
import { newerCalls } from "./newer-calls.ts";
import { trainAndSample } from "./program.ts";

interface Options {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly baseModel?: string;
  readonly only?: readonly string[];
  readonly deadlineMs?: number;
  /** Where the report goes as JSON. */
  readonly json?: string;
}

const options = JSON.parse(process.argv[2] ?? "{}") as Options;
try {
  console.log("program", JSON.stringify(await trainAndSample(options)));
} catch (error) {
  console.log("program FAILED", String(error), (error as { hint?: string }).hint ?? "");
}
console.log("newer calls", JSON.stringify(await newerCalls(options).catch(String), null, 1));
const report = await runConformance({
  ...options,
  onCase: ({ id, status, ms }) => console.error(`${status.padEnd(11)} ${id} (${ms} ms)`),
});
console.log(formatReport(report));
if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, null, 1)}\n`);
// Peers are described, not judged: only a run that could not be made fails.
