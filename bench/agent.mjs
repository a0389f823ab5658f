// `npm run bench -- agent [seeds]`: how much better the agent of examples/agent gets, and how long that takes, a process for each seed
// (five unless given, from 3 on, none left out; the settings were chosen on seed 2). Before: after the supervised warm-up. Medians with
// the spread.
import { execFileSync } from "node:child_process";
import { bundle } from "../test/fixtures/programs/bundle.mjs";
import { median, round, spread } from "./measure.mjs";

const firstSeed = 3;
const sorted = (values) => values.toSorted((a, b) => a - b);

export default async ({ args }) => {
  const count = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 5);
  const main = await bundle("examples/agent/main.ts");
  const runs = Array.from({ length: count }, (_, i) => {
    const seed = firstSeed + i;
    const text = execFileSync(process.execPath, [main, "--json", "--seed", String(seed)], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    const done = JSON.parse(text);
    console.error(`seed ${seed}: ${done.before} → ${done.after} in ${round(done.seconds.total, 0)} s`);
    return done;
  });
  const row = (name, of, { digits, unit, ...rest }) => {
    const values = sorted(runs.map(of));
    return { name, value: round(median(values), digits), unit, spread: spread(values, digits), ...rest };
  };
  return {
    note: `An AI SDK agent with a calculator on the bundled model: 36 steps of warm-up, 12 of reinforcement learning with 8 attempts at 16 tasks each; success at temperature 1 on 100 tasks that are not trained on. Seeds ${firstSeed} to ${firstSeed + count - 1}; the settings were chosen on seed 2. Wall times beside other work.`,
    rows: [
      row("tasks solved after the warm-up", ({ before }) => 100 * before, { digits: 0, unit: "%" }),
      row("tasks solved after training", ({ after }) => 100 * after, {
        digits: 0,
        unit: "%",
        target: "rises in every seed",
        note: runs.map(({ before, after }) => `${round(100 * before, 0)}→${round(100 * after, 0)}`).join(", "),
      }),
      row("warm-up", ({ seconds }) => seconds.warmUp, { digits: 0, unit: "s" }),
      row("reinforcement learning", ({ seconds }) => seconds.training, { digits: 0, unit: "s" }),
      row("the whole run, both measurements included", ({ seconds }) => seconds.total, { digits: 0, unit: "s" }),
      row("processor time of the whole run", ({ seconds }) => seconds.processor, { digits: 0, unit: "s" }),
    ],
    partial: count < 5,
  };
};
