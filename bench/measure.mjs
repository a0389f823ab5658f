// Medians with spread, and CPU time of child processes: what the benches share.
import { spawnSync } from "node:child_process";

/** Runs `body` `repeats` times after `warmup` runs; milliseconds, sorted. */
export function times(body, { repeats = 9, warmup = 2 } = {}) {
  for (let i = 0; i < warmup; i++) body();
  const all = [];
  for (let i = 0; i < repeats; i++) {
    globalThis.gc?.();
    const start = performance.now();
    body();
    all.push(performance.now() - start);
  }
  return all.sort((a, b) => a - b);
}

export const median = (sorted) => sorted[Math.floor(sorted.length / 2)];
export const round = (value, digits = 2) => Number(value.toFixed(digits));
export const spread = (sorted, digits = 2) => `${round(sorted[0], digits)}–${round(sorted.at(-1), digits)}`;

/** CPU milliseconds (user and system) that a command used, as the shell counts them: to the millisecond. */
export function cpuMs(command, args) {
  const run = spawnSync(
    "bash",
    ["-c", `TIMEFORMAT='%U %S'; time ${quote(command)} ${args.map(quote).join(" ")} > /dev/null 2>&1`],
    { encoding: "utf8" },
  );
  const [user, system] = run.stderr.trim().split("\n").at(-1).split(" ").map(Number);
  return (user + system) * 1000;
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
