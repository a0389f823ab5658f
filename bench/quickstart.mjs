// `npm run bench -- quickstart [seeds]`: what the README's first command promises, measured as a user runs it: `tinklet quickstart
// --json --seed N`, by examples and by reward, a process for each. Medians over seeds (five unless given, 1 to N, none left out)
// with the spread. `--part sft|rl|start` runs one part alone; `start` is the CPU of `--help` and `version` against an empty process.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cpuMs, median, round, spread } from "./measure.mjs";

const sorted = (values) => values.toSorted((a, b) => a - b);
const row = (name, values, digits, unit, rest) => {
  const all = sorted(values);
  return { name, value: round(median(all), digits), unit, spread: spread(all, digits), ...rest };
};

export default async ({ root, args }) => {
  const tinklet = join(root, "packages/tinklet/bin/tinklet.mjs");
  const parts = args.includes("--part") ? [args[args.indexOf("--part") + 1]] : ["sft", "rl", "start"];
  const seeds = Array.from({ length: Number(args.find((arg) => /^\d+$/.test(arg)) ?? 5) }, (_, i) => i + 1);
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-quickstart-"));
  /** The last line of a run, with the seconds from the start of the process to its end beside those it tells itself. */
  const run = (seed, ...more) => {
    const options = ["--json", "--seed", String(seed), "--out", join(work, "run"), "--data-dir", join(work, "data")];
    const start = performance.now();
    const text = execFileSync(process.execPath, [tinklet, "quickstart", ...options, ...more], {
      encoding: "utf8",
      maxBuffer: 2 ** 26,
      stdio: ["ignore", "pipe", "ignore"],
    });
    const done = JSON.parse(text.trimEnd().split("\n").at(-1));
    return { ...done, wholeSeconds: (performance.now() - start) / 1000 };
  };
  const rows = [];
  try {
    if (parts.includes("sft")) {
      const runs = seeds.map((seed) => run(seed));
      const whole = round(median(sorted(runs.map(({ wholeSeconds }) => wholeSeconds))), 1);
      rows.push(
        row(
          "by examples: start to the after-text",
          runs.map(({ seconds }) => seconds),
          1,
          "s",
          {
            target: "≤ 60",
            note: `the whole process ${whole} s`,
          },
        ),
        row(
          "by examples: held-out loss cut by",
          runs.map((one) => 100 * (1 - one.nll_after / one.nll_before)),
          1,
          "%",
          {
            target: "≥ 25",
            note: runs.map((one) => `${one.nll_before.toFixed(2)}→${one.nll_after.toFixed(2)}`).join(", "),
          },
        ),
      );
    }
    if (parts.includes("rl")) {
      const runs = seeds.map((seed) => run(seed, "--rl"));
      rows.push(
        row(
          "by reward: mean reward times",
          runs.map((one) => one.reward_after / one.reward_before),
          2,
          "×",
          {
            target: "≥ 2",
            note: runs.map((one) => `${one.reward_before.toFixed(3)}→${one.reward_after.toFixed(3)}`).join(", "),
          },
        ),
        row(
          "by reward: time",
          runs.map(({ seconds }) => seconds),
          1,
          "s",
          { target: "≤ 90" },
        ),
      );
    }
    if (parts.includes("start")) {
      // Side by side, in turns: only the ratio means anything.
      const commands = { empty: ["-e", ""], "--help": [tinklet, "--help"], version: [tinklet, "version"] };
      const times = Object.fromEntries(Object.keys(commands).map((name) => [name, []]));
      for (let i = 0; i < 22; i++) {
        for (const [name, given] of Object.entries(commands)) {
          const ms = cpuMs(process.execPath, given);
          if (i >= 2) times[name].push(ms);
        }
      }
      const empty = median(sorted(times.empty));
      for (const name of ["--help", "version"]) {
        const own = median(sorted(times[name]));
        const ratio = `${round(own / empty)}× an empty Node process (${round(empty, 0)} ms)`;
        rows.push(row(`tinklet ${name}`, times[name], 0, "ms of CPU", { ratio, target: "≤ 1.5×" }));
      }
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return { rows };
};
