/** `simulate-main FIRST COUNT [--trace]`: runs seeds one after the other and prints one line of JSON for each. */
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compressZstd, decompressZstd } from "@tinklet/wire";
import { replaceResponse } from "./plain-response.ts";
import { simulate } from "./simulation.ts";

const [list = "1", flag] = process.argv.slice(2);
// Errors are made by the thousand, and a trace says more than a stack.
Error.stackTraceLimit = process.env["SIM_STACKS"] === undefined ? 2 : 12;
replaceResponse();
const memory = "/dev/shm";
const root = fs.mkdtempSync(join(fs.existsSync(memory) ? memory : tmpdir(), "tinklet-simulate-"));
// Compiled once, before the first seed: how long it takes must not change a trace.
await decompressZstd(await compressZstd(new Uint8Array(10)), { maxBytes: 100 });
try {
  for (const seed of list.split(",").flatMap(range)) {
    const started = process.cpuUsage();
    const result = await simulate(
      seed,
      join(root, `seed${seed}`),
      flag === "--trace" ? (line) => process.stderr.write(`${line}\n`) : undefined,
    );
    const { user, system } = process.cpuUsage(started);
    const trace = result.problems.length > 0 ? result.trace : [];
    process.stdout.write(`${JSON.stringify({ ...result, trace, cpuMs: Math.round((user + system) / 1000) })}\n`);
    if (flag === "--first" && result.problems.length > 0) break;
  }
  // Filled where branches are marked.
  const { __arms: arms } = globalThis as { __arms?: Uint8Array };
  const reached = [...(arms ?? []).keys()].filter((arm) => arms![arm] === 1);
  if (arms !== undefined) process.stdout.write(`${JSON.stringify({ arms: reached })}\n`);
} finally {
  fs.rmSync(root, { recursive: true, force: true });
}

/** `5` or `5-9`. */
function range(text: string): number[] {
  const [first, last = first] = text.split("-").map(Number);
  return Array.from({ length: last! - first! + 1 }, (_, i) => first! + i);
}
