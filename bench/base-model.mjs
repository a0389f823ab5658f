// `npm run bench -- base-model [seeds]`: what the bundled model promises. Quickstart LoRA, the climb of reinforcement
// learning, the cost of loading it, its size on disk. Medians over seeds (five unless given), with the spread; a row's
// target is the promise. `--part sft|rl|load` runs one part alone; fewer seeds or parts are printed, not kept.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { median, round, spread } from "./measure.mjs";

const PARTS = ["sft", "rl", "load"];
const SEEDS = 5;

const row = (name, values, digits, unit, rest) => {
  const sorted = [...values].sort((a, b) => a - b);
  return { name, value: round(median(sorted), digits), unit, spread: spread(sorted, digits), ...rest };
};

/** Wall time, with the CPU time of all threads beside it: on a busy machine only the latter can be compared. */
const timed = (name, runs, target) => {
  const seconds = runs.map((run) => run.seconds);
  const cpu = median(runs.map((run) => run.cpuSeconds).sort((a, b) => a - b)).toFixed(1);
  return row(name, seconds, 1, "s", { target, note: `${cpu} s of CPU on all threads` });
};

/** What a run has given, on stderr as it goes: five seeds take minutes. */
const report = (part, seed, { before, after, seconds, cpuSeconds }, rise) => {
  const times = `${seconds.toFixed(1)} s, ${cpuSeconds.toFixed(1)} s of CPU`;
  const change = `${before.toFixed(3)} → ${after.toFixed(3)}`;
  console.error(`${part}, seed ${seed}: ${change}, ${times}, general perplexity ${rise.toFixed(2)} % up`);
};

const chosen = (args) => {
  const at = args.indexOf("--part");
  const parts = at < 0 ? PARTS : [args[at + 1]];
  if (!PARTS.includes(parts[0])) throw new Error(`--part takes one of ${PARTS.join(", ")}`);
  const count = Number(args.find((arg) => /^[1-9]\d*$/.test(arg)) ?? SEEDS);
  return { parts, seeds: Array.from({ length: count }, (_, i) => i + 1) };
};

/** Rows about training: both recipes, each over all seeds, on one engine. */
const training = async (root, parts, seeds) => {
  const { openEngine } = await import("@tinklet/engine");
  const { datasets, modelPath } = await import("@tinklet/base-model");
  const { climb, fineTune, perplexity } = await import("./base-model/recipes.mjs");
  const general = JSON.parse(readFileSync(join(root, "tools/pretrain/heldout.json"), "utf8"));
  const texts = [...general.stories.slice(0, 20), ...general.prose.slice(0, 10), ...general.dialogues.slice(0, 10)];
  const engine = await openEngine(modelPath);
  try {
    const base = await perplexity(engine, null, texts);
    const overSeeds = async (part, recipe, data) => {
      const runs = [];
      for (const seed of seeds) {
        const run = await recipe(engine, { ...data, seed });
        const rise = 100 * ((await perplexity(engine, run.adapterId, texts)) / base - 1);
        await engine.deleteAdapter(run.adapterId);
        report(part, seed, run, rise);
        runs.push({ ...run, rise });
      }
      return runs;
    };
    const rows = [];
    if (parts.includes("sft")) {
      const runs = await overSeeds("sft", fineTune, datasets.pirate);
      const cuts = runs.map(({ before, after }) => 100 * (1 - after / before));
      const rises = runs.map(({ rise }) => rise);
      rows.push(row("quickstart LoRA r16: held-out loss cut by", cuts, 1, "%", { target: "≥ 25" }));
      rows.push(timed("quickstart LoRA r16: training time", runs, "≤ 40"));
      rows.push(row("quickstart LoRA r16: perplexity of general text, rise", rises, 1, "%"));
    }
    if (parts.includes("rl")) {
      const runs = await overSeeds("rl", climb, datasets.arithmetic);
      const gains = runs.map(({ before, after }) => after / before);
      const rises = runs.map(({ rise }) => rise);
      const note = `success ${runs.map((run) => `${run.before.toFixed(3)}→${run.after.toFixed(3)}`).join(", ")}`;
      rows.push(row("two-digit addition by policy gradient: success times", gains, 2, "×", { target: "≥ 2", note }));
      rows.push(timed("two-digit addition by policy gradient: time", runs, "≤ 90"));
      rows.push(row("perplexity of general text after it: rise", rises, 2, "%", { target: "≤ 10" }));
    }
    return rows;
  } finally {
    await engine.close();
  }
};

/** Rows about the files: from a cold process to the first token, and the size of the package. */
const loading = (root, seeds) => {
  const firstToken = join(root, "bench/base-model/first-token.mjs");
  const times = seeds.map(() => Number(execFileSync(process.execPath, [firstToken], { encoding: "utf8" })));
  const pack = execFileSync("npm", ["pack", "--dry-run", "--json", "./packages/base-model"], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [{ unpackedSize }] = JSON.parse(pack);
  return [
    row("load to first sampled token, CPU of all threads", times, 0, "ms", { target: "≤ 500" }),
    { name: "package on disk", value: round(unpackedSize / 1e6), unit: "MB", target: "≤ 16" },
  ];
};

export default async ({ root, args }) => {
  const { parts, seeds } = chosen(args);
  const rows = parts.some((part) => part !== "load") ? await training(root, parts, seeds) : [];
  if (parts.includes("load")) rows.push(...loading(root, seeds));
  return {
    note: `Medians and spreads of seeds 1 to ${seeds.length}; times are wall time on all cores, training and sampling alone.`,
    rows,
    partial: parts.length < PARTS.length || seeds.length < SEEDS,
  };
};
