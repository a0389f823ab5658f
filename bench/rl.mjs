// `npm run bench -- rl --base FOLDER [--repeats N] [--conversations 64] [--tiny] [--part groups|multi-turn|sharing|cold|peft|skyrl|recipe|quickstart]`: what reinforcement learning
// costs when prefixes are computed once, against a build of the engine that computes every copy (`TINKLET_BENCH_BASE` names its folder as
// well as `--base`: a checkout of 3e75717 in which `node tools/build.mjs` was run). Both sides get the same tokens, in turns, each in a
// process of its own. Medians with their spread; a ratio is the other build's time over ours, the median of neighbours. `--tiny`, with `--dry`, only shows that all of it runs.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "../test/fixtures/programs/bundle.mjs";
import { startSkyrl } from "../test/interop/skyrl/skyrl-server.mjs";
import { torchPython } from "../test/interop/torch/venv.mjs";
import { checkpoint } from "./engine/models.mjs";
import { startPeer } from "./engine/peer.mjs";
import { median, round, spread } from "./measure.mjs";
import { runRecipe } from "./rl/recipe.mjs";
import { conversations, distinctTokens, sharing } from "./rl/scenarios.mjs";

const planner = await bundle("bench/rl/planner.ts");

const option = (args, name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);

/** A positive whole number given as an option. */
const countOf = (args, name, fallback) => {
  const value = Number(option(args, name) ?? fallback);
  if (!Number.isInteger(value) || value < 1) throw new Error(`${name} must be a positive whole number`);
  return value;
};

/** The engine of a build over a model. */
const openSide = (root, build, folder) =>
  startPeer(process.execPath, [join(root, "bench/rl/side.mjs"), build, folder, String(cpus().length)]);

/** What is measured of both builds, neighbours in time. */
const alternate = async (repeats, measure) => {
  const results = { base: [], ours: [] };
  for (let turn = 1; turn <= repeats; turn++) {
    for (const name of ["base", "ours"]) results[name].push(await measure(name, turn));
  }
  return results;
};

/** The same commands on both sides in turns, once without counting (`warmUp`, where something shorter will do). */
const inTurns = async (sides, commandOf, { repeats, warmUp = commandOf(0) }) => {
  for (const name of ["base", "ours"]) await sides[name].ask(...warmUp);
  return alternate(repeats, (name, turn) => sides[name].ask(...commandOf(turn)));
};

const sorted = (values) => values.toSorted((a, b) => a - b);

/** A row of seconds with the ratio to the other build, of neighbours in time: the machine's pace changes in between. */
const compare = (name, { base, ours }, { of, target, note }) => {
  const ratios = sorted(base.map((result, i) => of(result) / of(ours[i])));
  const [theirs, own] = [sorted(base.map(of)), sorted(ours.map(of))];
  return {
    name,
    value: round(median(own), 2),
    unit: "s",
    spread: spread(own, 2),
    ratio: `${round(median(ratios), 2)} (${spread(ratios, 2)})`,
    target,
    note: `the other build ${round(median(theirs), 2)} s (${spread(theirs, 2)})${note ? `; ${note}` : ""}`,
  };
};

const training = (result) => result.training;
const sampling = (result) => result.sampling;
const step = (result) => result.training + result.sampling;

const parts = {
  async groups(sides, { repeats, tiny }) {
    const count = tiny ? 2 : 48;
    const results = await inTurns(sides, (seed) => ["groups", { count, answers: 8, seed }], { repeats });
    return [
      compare("48 prompts × 8 answers: training", results, { of: training, target: "≥ 2×" }),
      compare("48 prompts × 8 answers: sampling", results, { of: sampling }),
    ];
  },
  async "multi-turn"(sides, { repeats, count, tiny }) {
    const shape = { count, turns: tiny ? 2 : 10 };
    const results = await inTurns(sides, (seed) => ["multiTurn", { ...shape, seed }], {
      repeats: Math.min(3, repeats),
      warmUp: ["multiTurn", { count: tiny ? 1 : 4, turns: tiny ? 1 : 3, seed: 0 }],
    });
    const prompts = conversations({ ...shape, vocabSize: 4096, seed: 1 }).flatMap((turns) =>
      turns.map(({ prompt }) => prompt),
    );
    const distinct = distinctTokens(prompts);
    const prefilled = sorted(results.ours.map((result) => result.prefilled));
    return [
      {
        name: "multi-turn: prompt tokens prefilled over distinct ones",
        value: round(median(prefilled) / distinct, 2),
        unit: "×",
        target: "≤ 1.5",
        note: `${median(prefilled)} of ${prompts.reduce((sum, prompt) => sum + prompt.length, 0)}, ${distinct} distinct`,
      },
      compare("multi-turn: sampling", results, { of: sampling, target: "≥ 2.2×" }),
      compare("multi-turn: training", results, { of: training, target: "≥ 2.5×" }),
      compare("multi-turn: step", results, { of: step, target: "≥ 2.3×" }),
    ];
  },
  async sharing(sides, { repeats, tiny }) {
    const shape = { count: tiny ? 2 : 32, length: 496 };
    const shared = await inTurns(sides, (seed) => ["sharing", { ...shape, shared: 480, seed }], { repeats });
    // As `cold`: more and shorter turns, because what is looked for is smaller than what the machine's pace changes by.
    const few = { ...shape, count: Math.ceil(shape.count / 4) };
    const turns = repeats * (tiny ? 1 : 8);
    const apart = await inTurns(sides, (seed) => ["sharing", { ...few, shared: 0, seed }], { repeats: turns });
    const steps = sorted(apart.ours.map(training));
    const note = `${turns} turns`;
    return [
      compare("32 that share 480 of 496: training", shared, { of: training, target: "≥ 6×" }),
      compare("32 that share 480 of 496: sampling", shared, { of: sampling, target: "≥ 4×" }),
      compare("8 × 496 that share nothing: training", apart, { of: training, target: "≥ 0.99×", note }),
      compare("8 × 496 that share nothing: sampling", apart, { of: sampling, target: "≥ 0.8×", note }),
      planning("8 × 496 that share nothing", sharing({ ...few, shared: 0, vocabSize: 4096, seed: 1 }), median(steps)),
    ];
  },
  async cold(sides, { repeats, tiny }) {
    const rows = [];
    for (const [length, count, target] of [
      [60, 20, "≥ 0.98×"],
      [200, 10, "≥ 0.8×"],
      [484, 5, "≥ 0.8×"],
      [1000, 3, "≥ 0.8×"],
    ]) {
      // Turns of a few tenths of a second, and many: the machine's pace changes by a fifth within ten seconds.
      const turns = repeats * (tiny ? 1 : 12);
      const results = await inTurns(sides, (seed) => ["cold", { length, count: tiny ? 1 : count, seed }], {
        repeats: turns,
      });
      rows.push(
        compare(`${count} cold prompts of ${length}, one by one`, results, {
          of: sampling,
          target,
          note: `${turns} turns`,
        }),
      );
    }
    return rows;
  },
};

/** What the planner of training takes of a step. */
const planning = (name, sequences, stepSeconds) => {
  const told = execFileSync(process.execPath, [planner], { input: JSON.stringify(sequences) });
  const milliseconds = JSON.parse(told.toString());
  return {
    name: `${name}: the planner's own time`,
    value: round(median(milliseconds), 2),
    unit: "ms",
    spread: spread(milliseconds, 2),
    ratio: round(median(milliseconds) / 1000 / stepSeconds, 4),
    target: "≤ 0.01",
    note: "of a training step",
  };
};

/** The bundled model's shape, for a PyTorch model with random weights. */
const bundledShape = { vocab: 4096, width: 256, layers: 8, heads: 4, kvHeads: 2, headDim: 64, mlp: 704, qkNorm: true };

/** A training step over conversations, against PyTorch + transformers + PEFT at its best batch size. */
const peft = async (root, { repeats, tiny }) => {
  const python = torchPython();
  const folder = join(root, "packages/base-model");
  const shape = tiny ? { count: 1, turns: 4 } : { count: 8, turns: 10 };
  const batchOf = (seed) => ({
    data: conversations({ ...shape, vocabSize: 4096, seed })
      .flat()
      .map(({ prompt, datum }) => ({
        tokens: [...datum.tokens, datum.lossFnInputs.target_tokens.data.at(-1)],
        prompt: prompt.length,
        advantage: datum.lossFnInputs.advantages.data.at(-1),
      })),
  });
  const ours = await openSide(root, root, folder);
  const torch = await startPeer(python, [
    join(root, "bench/engine/torch_peer.py"),
    JSON.stringify(bundledShape),
    String(cpus().length),
  ]);
  const quarter = { data: batchOf(1).data.filter((_, i) => i % 4 === 0) };
  await torch.ask("policy", { ...quarter, batch: 8 }); // warms up
  const tried = [];
  for (const batch of [1, 2, 4, 8, 16]) {
    tried.push({ batch, seconds: (await torch.ask("policy", { ...quarter, batch })).seconds[0] });
  }
  const { batch } = tried.toSorted((a, b) => a.seconds - b.seconds)[0];
  const results = { base: [], ours: [] };
  for (let seed = 0; seed <= Math.min(3, repeats); seed++) {
    const own = await ours.ask("conversations", { ...shape, seed });
    const theirs = await torch.ask("policy", { ...batchOf(seed), batch });
    if (seed === 0) continue; // warms up
    results.ours.push(own);
    results.base.push({ training: theirs.seconds[0] });
  }
  await ours.quit();
  await torch.quit();
  const note = `the other is PyTorch + PEFT, padded, ${batch} sequences at a time (${tried.map((each) => `${each.batch}: ${round(each.seconds, 1)} s`).join(", ")} for a quarter of them)`;
  return [
    compare("8 conversations × 10 turns: training, against PEFT", results, { of: training, target: "≥ 4×", note }),
  ];
};

/** The model for a peer that computes in the type which the settings name: bfloat16 is emulated on a CPU, which would be no race. */
const inFloat32 = (model, copy) => {
  cpSync(model, copy, { recursive: true });
  const settings = JSON.parse(readFileSync(join(model, "config.json"), "utf8"));
  writeFileSync(join(copy, "config.json"), JSON.stringify({ ...settings, dtype: "float32" }));
  return copy;
};

/** A policy-gradient step through the API, against SkyRL's server. */
const skyrl = async (root, { repeats, tiny }) => {
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-skyrl-"));
  const model = join(root, "packages/base-model");
  const shape = { count: 1, turns: tiny ? 3 : 10 };
  const theirs = inFloat32(model, join(work, "model"));
  const side = await bundle("bench/rl/skyrl.ts");
  // Without it SkyRL pads all of them into one batch: for 80 data it wanted 68 GB.
  const backend = { train_micro_batch_size: 4 };
  const peer = await startSkyrl({ work, model: theirs, backend });
  try {
    const options = { model, rounds: Math.min(3, repeats), skyrl: { url: peer.url, model: theirs }, shape };
    const lines = execFileSync(process.execPath, [side, JSON.stringify(options)])
      .toString()
      .trim()
      .split("\n");
    const told = JSON.parse(lines.at(-1));
    const results = {
      base: told.skyrl.map((seconds) => ({ training: seconds })),
      ours: told.ours.map((seconds) => ({ training: seconds })),
    };
    const note = `the other is SkyRL 0.4.0 over JAX in float32, ${backend.train_micro_batch_size} sequences at a time; last log-probs of the first pass at most ${told.apart.toExponential(1)} apart`;
    return [
      compare(`a conversation of ${shape.turns} turns through the API: training, against SkyRL`, results, {
        of: training,
        target: "≥ 10×",
        note,
      }),
    ];
  } finally {
    peer.stop();
    rmSync(work, { recursive: true, force: true });
  }
};

/** The official cookbook's own times, a step on each build in turns. */
const recipe = async (root, builds, repeats) => {
  const results = await alternate(Math.min(3, repeats), (name) => runRecipe(root, builds[name]));
  return [
    compare("official multi-turn recipe: sampling", results, { of: sampling }),
    compare("official multi-turn recipe: the rest of the step", results, { of: training }),
    compare("official multi-turn recipe: step", results, { of: step }),
  ];
};

/** The quickstart by reward as a user runs it, start to end of the process. */
const quickstart = async (builds, repeats) => {
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-rl-"));
  try {
    const results = await alternate(Math.min(3, repeats), (name, seed) => {
      const folder = join(work, `${name}-${seed}`); // of its own: no run goes on from another's
      const places = ["--out", join(folder, "run"), "--data-dir", join(folder, "data")];
      const options = ["--rl", "--json", "--seed", String(seed), ...places];
      const command = join(builds[name], "packages/tinklet/bin/tinklet.mjs");
      const start = performance.now();
      execFileSync(process.execPath, [command, "quickstart", ...options], { stdio: "ignore" });
      return { training: (performance.now() - start) / 1000 };
    });
    return [compare("quickstart --rl, the whole process", results, { of: training })];
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
};

export default async ({ root, args }) => {
  const base = option(args, "--base") ?? process.env.TINKLET_BENCH_BASE;
  if (base === undefined || !existsSync(join(base, "packages/engine/dist/index.js"))) {
    throw new Error(
      "--base (or TINKLET_BENCH_BASE) must name a checkout of 3e75717 in which `node tools/build.mjs` was run",
    );
  }
  const tiny = args.includes("--tiny");
  if (tiny && !args.includes("--dry")) throw new Error("--tiny measures nothing: give --dry as well");
  const repeats = countOf(args, "--repeats", tiny ? 1 : 5);
  const count = countOf(args, "--conversations", tiny ? 2 : 64);
  const only = option(args, "--part");
  const known = [...Object.keys(parts), "peft", "skyrl", "recipe", "quickstart"];
  if (only !== undefined && !known.includes(only)) throw new Error(`--part must be one of ${known.join(", ")}`);
  const builds = { base, ours: root };
  const rows = [];
  for (const [model, folder, names] of [
    ["bundled", join(root, "packages/base-model"), ["groups", "multi-turn", "sharing", "cold"]],
    ["10M", checkpoint(root, "10M"), ["sharing", "cold"]],
  ]) {
    const wanted = names.filter((name) => only === undefined || only === name);
    if (wanted.length === 0) continue;
    const sides = {
      base: await openSide(root, base, folder),
      ours: await openSide(root, root, folder),
    };
    for (const name of wanted) {
      for (const row of await parts[name](sides, { repeats, count, tiny }))
        rows.push({ ...row, name: `${model}: ${row.name}`, part: name });
    }
    await sides.base.quit();
    await sides.ours.quit();
  }
  const others = {
    peft: () => peft(root, { repeats, tiny }),
    skyrl: () => skyrl(root, { repeats, tiny }),
    recipe: () => recipe(root, builds, repeats),
    quickstart: () => quickstart(builds, repeats),
  };
  for (const [part, measure] of Object.entries(others)) {
    if (only !== undefined && only !== part) continue;
    for (const row of await measure()) rows.push({ ...row, part });
  }
  return {
    rows,
    partial: only !== undefined,
    note: `Against 3e75717, which computes every copy of a shared prefix, in turns in one run; LoRA of rank 16 on all modules. Multi-turn: ${count} conversations of ten turns, every turn a datum of its own.`,
  };
};
