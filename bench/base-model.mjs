// `npm run bench -- base-model [seeds]`: what the bundled model promises. Quickstart LoRA, the climb of reinforcement
// learning, the cost of loading it, its size on disk. Medians over seeds (five unless given), with the spread; a row's
// target is the promise. `--part sft|rl|load` runs one part alone.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const spread = (values, digits) => `${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)}`;
const row = (name, values, digits, unit, rest) => ({
  name,
  value: Number(median(values).toFixed(digits)),
  unit,
  spread: spread(values, digits),
  ...rest,
});

/** Wall time, with the CPU time of all threads beside it: on a busy machine only the latter can be compared. */
const timed = (name, runs, target) => {
  const seconds = runs.map((run) => run.seconds);
  const cpu = median(runs.map((run) => run.cpuSeconds)).toFixed(1);
  return row(name, seconds, 1, "s", { target, note: `${cpu} s of CPU on all threads` });
};

export default async ({ root, args }) => {
  const parts = args.includes("--part") ? [args[args.indexOf("--part") + 1]] : ["sft", "rl", "load"];
  const seeds = Array.from({ length: Number(args.find((arg) => /^\d+$/.test(arg)) ?? 5) }, (_, i) => i + 1);
  const rows = [];
  const { openEngine } = await import("@tinklet/engine");
  const { datasets, modelPath } = await import("@tinklet/base-model");
  const { climb, fineTune, perplexity } = await import("./base-model/recipes.mjs");
  const general = JSON.parse(readFileSync(join(root, "tools/pretrain/heldout.json"), "utf8"));
  const texts = [...general.stories.slice(0, 20), ...general.prose.slice(0, 10), ...general.dialogues.slice(0, 10)];
  const engine = await openEngine(modelPath);

  if (parts.includes("sft")) {
    const runs = [];
    for (const seed of seeds) runs.push(await fineTune(engine, { ...datasets.pirate, seed }));
    const cuts = runs.map(({ before, after }) => 100 * (1 - after / before));
    rows.push(row("quickstart LoRA r16: held-out loss cut by", cuts, 1, "%", { target: "≥ 25" }));
    rows.push(timed("quickstart LoRA r16: training time", runs, "≤ 40"));
  }
  if (parts.includes("rl")) {
    const before = await perplexity(engine, null, texts);
    const runs = [];
    const risen = [];
    for (const seed of seeds) {
      runs.push(await climb(engine, { ...datasets.arithmetic, seed }));
      risen.push(100 * ((await perplexity(engine, runs.at(-1).adapterId, texts)) / before - 1));
    }
    const gains = runs.map((run) => run.after / run.before);
    const note = `success ${runs.map((run) => `${run.before.toFixed(3)}→${run.after.toFixed(3)}`).join(", ")}`;
    rows.push(row("two-digit addition by policy gradient: success times", gains, 2, "×", { target: "≥ 2", note }));
    rows.push(timed("two-digit addition by policy gradient: time", runs, "≤ 90"));
    rows.push(row("perplexity of general text after it: rise", risen, 2, "%", { target: "≤ 10" }));
  }
  await engine.close();
  if (parts.includes("load")) {
    const firstToken = join(root, "bench/base-model/first-token.mjs");
    const times = seeds.map(() => Number(execFileSync(process.execPath, [firstToken], { encoding: "utf8" })));
    rows.push(row("load to first sampled token, CPU of all threads", times, 0, "ms", { target: "≤ 500" }));
    const pack = execFileSync("npm", ["pack", "--dry-run", "--json", "./packages/base-model"], {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [{ unpackedSize }] = JSON.parse(pack);
    rows.push({ name: "package on disk", value: Number((unpackedSize / 1e6).toFixed(2)), unit: "MB", target: "≤ 16" });
  }
  return { rows };
};
