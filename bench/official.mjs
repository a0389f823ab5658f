// `npm run bench -- official [--recipe NAME,NAME] [--seeds 3] [--tiny]`: the official cookbook's training loops and ours on the same server
// (ours, with the bundled model), with the same data, seed and settings, in turns, each client in a process of its own. Three figures of
// each recipe: the CPU that the client process used, from its start to its end; the time from start to end; and the metrics side by
// side. `sft` and `dpo` leave nothing to chance: their curves must be the same to 1e-4 in every step. The others sample: the mean of
// the last quarter of the steps is compared over the seeds, and may differ by two standard errors. `--tiny`, with `--dry`, only shows
// that all of it runs. CPU seconds hold on a busy machine, times only on a quiet one.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { cookbookPython, cookbookRelease } from "../test/interop/venv.mjs";
import { median, round, spread } from "./measure.mjs";

const option = (args, name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);

/** What is trained: the settings of both sides, the data of a seed, and the metric that is compared. */
const recipes = {
  sft: {
    settings: { steps: 60, batchSize: 8, learningRate: 2e-3 },
    data: (sums) =>
      sums.map(({ a, b }) => ({
        messages: [
          { role: "user", content: `What is ${a} + ${b}?` },
          { role: "assistant", content: `${a} + ${b} = ${a + b}.` },
        ],
      })),
    metric: "train_mean_nll",
    exact: true,
  },
  dpo: {
    settings: { steps: 25, batchSize: 8, learningRate: 1e-3 },
    data: (sums) =>
      sums.map(({ a, b }) => ({
        comparison: {
          prompt_conversation: [{ role: "user", content: `What is ${a} + ${b}?` }],
          completion_A: [{ role: "assistant", content: `The sum of ${a} and ${b} is ${a + b}.` }],
          completion_B: [{ role: "assistant", content: String(a + b) }],
        },
        label: "A",
      })),
    metric: { official: "dpo_loss", ours: "loss" },
    exact: true,
  },
  "math-rl": {
    settings: { steps: 12, groups: 32, groupSize: 8, maxTokens: 6, learningRate: 1.5e-3 },
    data: problems,
    metric: "env/all/reward/total",
  },
  "on-policy-distillation": {
    settings: { steps: 12, groups: 32, groupSize: 4, maxTokens: 6, learningRate: 1.5e-3 },
    data: problems,
    metric: "teacher_kl",
    taught: true,
  },
};
/** How far apart curves that leave nothing to chance may be: the logged log-probabilities are float32, and a step amplifies what they lose. */
const tolerance = 1e-4;

function problems(sums) {
  return sums.map(({ a, b }) => ({ question: `What is ${a} + ${b}?`, answer: String(a + b) }));
}

/** Sums of a seed, all different. */
function sumsOf(count, seed, seededRandom) {
  const random = seededRandom(1000 + seed);
  const made = new Map();
  while (made.size < count) {
    const [a, b] = [Math.floor(random() * 90) + 10, Math.floor(random() * 90) + 10];
    made.set(`${a} ${b}`, { a, b });
  }
  return [...made.values()];
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const sorted = (values) => values.toSorted((a, b) => a - b);

/** The logged values of a metric, by step. */
function curve(folder, metric) {
  const rows = readFileSync(join(folder, "metrics.jsonl"), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line))
    .filter((row) => typeof row[metric] === "number");
  return rows.toSorted((a, b) => a.step - b.step).map((row) => row[metric]);
}

/** Runs a client to its end; its own account of what it used. */
function client(command, args, out) {
  const done = spawnSync(command, args, {
    encoding: "utf8",
    maxBuffer: 256 << 20,
    env: { ...process.env, HF_HUB_OFFLINE: "1", TINKER_API_KEY: "tml-local", TINKER_TELEMETRY: "0" },
  });
  if (done.status !== 0) throw new Error(`${args.join(" ")}:\n${`${done.stdout}\n${done.stderr}`.slice(-4000)}`);
  return JSON.parse(readFileSync(out, "utf8"));
}

/** Our server as a user starts it, with the bundled model under the name of its folder, from which the official side reads the tokenizer. */
async function startServer(root, work, model) {
  const args = ["serve", "--port", "0", "--model", model, "--no-studio", "--json", "--data-dir", join(work, "data")];
  const server = spawn(process.execPath, [join(root, "packages/tinklet/bin/tinklet.mjs"), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: server.stdout });
  for await (const line of lines) {
    const { url, models } = JSON.parse(line);
    if (url === undefined) continue;
    lines.close();
    server.stdout.resume();
    const stop = async () => {
      const gone = once(server, "exit");
      server.kill("SIGTERM");
      await gone;
    };
    return { url, name: models[0], stop };
  }
  throw new Error("the server ended before it said where it is");
}

export default async function official({ root, args, keep }) {
  const tiny = args.includes("--tiny");
  const seeds = Number(option(args, "--seeds") ?? (tiny ? 1 : 3));
  const names = option(args, "--recipe")?.split(",") ?? Object.keys(recipes);
  const unknown = names.filter((name) => !Object.hasOwn(recipes, name));
  if (unknown.length > 0)
    throw new Error(`there is no recipe ${unknown.join(", ")}; there are: ${Object.keys(recipes).join(", ")}`);
  const python = cookbookPython();
  const { seededRandom } = await import(pathToFileURL(join(root, "packages/cookbook/dist/index.js")));
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-official-"));
  const model = join(root, "packages/base-model");
  const server = await startServer(root, work, model);
  const script = join(root, "bench/official/official.py");
  const sides = {
    official: (spec, out) => client(python, [script, "run", spec, out], out),
    ours: (spec, out) => client(process.execPath, [join(root, "bench/official/ours.mjs"), spec, out], out),
  };

  /** One run of one side. */
  const runSide = (side, recipe, spec) => {
    const folder = join(work, `${recipe}-${spec.seed}-${side}`);
    mkdirSync(folder, { recursive: true });
    const [specFile, out] = [join(folder, "spec.json"), join(folder, "used.json")];
    writeFileSync(specFile, JSON.stringify({ ...spec, recipe, folder: join(folder, "log") }));
    const figures = sides[side](specFile, out);
    console.error(
      `${recipe}, seed ${spec.seed}, ${side}: ${round(figures.cpuSeconds, 1)} s of CPU, ${round(figures.seconds, 1)} s`,
    );
    return { ...figures, log: join(folder, "log") };
  };

  const note = `The official cookbook ${cookbookRelease} (Python) and ours, each client a process of its own, on the same local server with the bundled model; ${seeds} seeds, in turns.`;
  const rows = [];
  try {
    for (const name of names) {
      const { settings: full, data, taught, metric, exact } = recipes[name];
      const settings = tiny ? { ...full, steps: 2, ...(full.groups ? { groups: 4 } : {}) } : full;
      const perStep = settings.batchSize ?? settings.groups;
      const runs = { official: [], ours: [] };
      for (let seed = 0; seed < seeds; seed++) {
        const count = settings.steps * perStep;
        const file = join(work, `${name}-${seed}.jsonl`);
        writeFileSync(
          file,
          data(sumsOf(count, seed, seededRandom))
            .map((row) => `${JSON.stringify(row)}\n`)
            .join(""),
        );
        const spec = {
          url: server.url,
          model: server.name,
          renderer: "qwen3_instruct",
          rank: 16,
          seed,
          data: file,
          ...settings,
        };
        if (settings.batchSize !== undefined)
          spec.order = JSON.parse(
            spawnSync(python, [script, "order", name, String(count), String(seed)], { encoding: "utf8" }).stdout,
          );
        if (taught)
          spec.teacher = await teacherOf({
            root,
            work,
            server,
            seed,
            sums: sumsOf(3 * count, seed + 500, seededRandom),
          });
        // Who comes first changes from seed to seed: the server keeps what it has computed of prompts.
        const turns = seed % 2 === 0 ? ["official", "ours"] : ["ours", "official"];
        for (const side of turns) runs[side].push(runSide(side, name, spec));
      }
      rows.push(...rowsOf(name, { runs, metric, exact }).map((row) => (tiny ? row : { ...row, part: name })));
      if (!tiny) keep({ rows: rows.filter(({ part }) => part === name), partial: true, note });
    }
  } finally {
    await server.stop();
    if (args.includes("--keep")) console.error(`left in ${work}`);
    else rmSync(work, { recursive: true, force: true });
  }
  return { rows, partial: true, note };
}

/** Weights that know sums: what the student is to learn. The same for both sides of a seed. */
async function teacherOf({ root, work, server, seed, sums }) {
  const spec = {
    ...server,
    recipe: "sft",
    model: server.name,
    seed,
    rank: 16,
    steps: 90,
    batchSize: 16,
    learningRate: 2e-3,
  };
  const folder = join(work, `teacher-${seed}`);
  mkdirSync(folder, { recursive: true });
  const data = join(folder, "data.jsonl");
  const answers = problems(sums).map(({ question, answer }) => ({
    messages: [
      { role: "user", content: question },
      { role: "assistant", content: answer },
    ],
  }));
  writeFileSync(data, answers.map((row) => `${JSON.stringify(row)}\n`).join(""));
  const [specFile, out] = [join(folder, "spec.json"), join(folder, "used.json")];
  const order = answers.map((_, at) => at);
  writeFileSync(specFile, JSON.stringify({ ...spec, data, order, folder: join(folder, "log") }));
  client(process.execPath, [join(root, "bench/official/ours.mjs"), specFile, out], out);
  const checkpoints = readFileSync(join(folder, "log", "checkpoints.jsonl"), "utf8")
    .trim()
    .split("\n");
  return JSON.parse(checkpoints.at(-1)).sampler_path;
}

/** CPU, time and metrics of a recipe. */
function rowsOf(name, { runs, metric, exact }) {
  const of = (side, key) => runs[side].map((run) => run[key]);
  const ratios = (key, less) =>
    sorted(
      runs.ours.map(
        (run, i) => (runs.official[i][key] - (less ? runs.official[i][less] : 0)) / (run[key] - (less ? run[less] : 0)),
      ),
    );
  const compared = (what, key, { target, importKey }) => {
    const [own, theirs] = [sorted(of("ours", key)), sorted(of("official", key))];
    const training = ratios(key, importKey);
    return {
      name: `${name}: ${what}`,
      value: round(median(own), 2),
      unit: "s",
      spread: spread(own, 2),
      ratio: `${round(median(ratios(key)), 2)} (${spread(ratios(key), 2)})`,
      target,
      note: `official ${round(median(theirs), 2)} s (${spread(theirs, 2)}); without what importing takes ${round(median(training), 2)} times ours (${spread(training, 2)})`,
    };
  };
  return [
    compared("CPU of the client", "cpuSeconds", { target: "≥ 3 times ours", importKey: "importCpuSeconds" }),
    compared("start to end", "seconds", { target: "≥ 1 times ours", importKey: "importSeconds" }),
    { name: `${name}: metrics`, unit: "", ...(exact ? sameCurves(runs, metric) : sameLevel(runs, metric)) },
  ];
}

const curvesOf = (runs, metric) =>
  ["official", "ours"].map((side) => runs[side].map(({ log }) => curve(log, metric[side] ?? metric)));

/** Curves that must be the same. */
function sameCurves(runs, metric) {
  const [theirs, own] = curvesOf(runs, metric);
  if (own.some((values, i) => values.length === 0 || values.length !== theirs[i].length))
    throw new Error(
      `the sides logged ${theirs.map(({ length }) => length)} and ${own.map(({ length }) => length)} steps`,
    );
  const apart = own.flatMap((values, i) => values.map((value, step) => Math.abs(value - theirs[i][step])));
  const most = Math.max(...apart);
  const ends = (curves) =>
    `${round(mean(curves.map((values) => values[0])), 4)} → ${round(mean(curves.map((values) => values.at(-1))), 4)}`;
  return {
    value: ends(own),
    ratio: `${most.toExponential(1)} apart at most`,
    target: `≤ ${tolerance} in every step`,
    note: `${metric.ours ?? metric}; official ${ends(theirs)}; ${most <= tolerance ? "the same" : "not the same"} in ${apart.length} steps`,
  };
}

/** Levels that may differ by chance. */
function sameLevel(runs, metric) {
  const [theirs, own] = curvesOf(runs, metric).map((curves) =>
    curves.map((values) => mean(values.slice(-Math.max(1, Math.floor(values.length / 4))))),
  );
  const [firstTheirs, firstOwn] = curvesOf(runs, metric).map((curves) => mean(curves.map((values) => values[0])));
  const error = (values) =>
    Math.sqrt(
      values.reduce((sum, value) => sum + (value - mean(values)) ** 2, 0) /
        Math.max(values.length - 1, 1) /
        values.length,
    );
  const difference = mean(own) - mean(theirs);
  const noise = Math.hypot(error(own), error(theirs));
  const all = (values) => values.map((value) => round(value, 3)).join(", ");
  return {
    value: `${round(firstOwn, 3)} → ${round(mean(own), 3)}`,
    spread: all(own),
    ratio: `${round(difference, 3)}: ${round(Math.abs(difference) / noise, 1)} standard errors`,
    target: "≤ 2 standard errors apart",
    note: `${metric.ours ?? metric}, mean of the last quarter of the steps; official ${round(firstTheirs, 3)} → ${round(mean(theirs), 3)} (${all(theirs)})`,
  };
}
