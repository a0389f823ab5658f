/** How long the planner of training takes for sequences given as JSON on stdin: prints milliseconds, sorted. */
import { readFileSync } from "node:fs";
import { planRuns } from "../../packages/engine/src/train/pack.ts";
import { planPieces } from "../../packages/engine/src/train/prefix-tree.ts";

const sequences = (JSON.parse(readFileSync(0, "utf8")) as number[][]).map((ids) => Int32Array.from(ids));
const times = Array.from({ length: 21 }, () => {
  const start = performance.now();
  const pieces = planPieces(sequences, { maxTokens: 1024, mostTokens: 4096 });
  planRuns(
    pieces.map(({ tokens }) => tokens),
    1024,
  );
  return performance.now() - start;
});
console.log(JSON.stringify(times.slice(1).sort((a, b) => a - b)));
