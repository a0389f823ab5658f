// `npm run bench -- rl --base FOLDER [--repeats N] [--part groups|multi-turn|sharing|cold|quickstart]`: what reinforcement learning
// costs when prefixes are computed once, against a build of the engine that computes every copy (`TINKLET_BENCH_BASE` names its folder as
// well as `--base`: a checkout of 3e75717 in which `node tools/build.mjs` was run). Both sides get the same tokens, in turns, each in a
// process of its own. Medians with their spread; a ratio is the other build's median over ours.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { checkpoint } from "./engine/models.mjs";
import { median, round, spread } from "./measure.mjs";
import { conversations, distinctTokens } from "./rl/scenarios.mjs";

const option = (args, name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);

/** A side: `ask` sends a command and waits for its answer. */
const openSide = async (root, build, folder) => {
  const threads = String(cpus().length);
  const child = spawn(process.execPath, [join(root, "bench/rl/side.mjs"), build, folder, threads], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the engine of ${build} has ended`);
    return JSON.parse(value);
  };
  await answer();
  const ask = (command) => {
    child.stdin.write(`${JSON.stringify(command)}\n`);
    return answer();
  };
  const close = async () => {
    child.stdin.end(`${JSON.stringify({ do: "quit" })}\n`);
    await new Promise((resolve) => child.once("exit", resolve));
  };
  return { ask, close };
};

/** The same commands on both sides in turns, once without counting. */
const inTurns = async (sides, commandOf, repeats) => {
  const results = { base: [], ours: [] };
  for (let i = 0; i <= repeats; i++) {
    for (const name of ["base", "ours"]) {
      const result = await sides[name].ask(commandOf(i));
      if (i > 0) results[name].push(result);
    }
  }
  return results;
};

const sorted = (values) => values.toSorted((a, b) => a - b);

/** A row of seconds with the ratio to the other build. */
const compare = (name, { base, ours }, { of, target, note }) => {
  const [theirs, own] = [sorted(base.map(of)), sorted(ours.map(of))];
  const ratios = sorted(theirs.map((seconds, i) => seconds / own[i]));
  return {
    name,
    value: round(median(own), 2),
    unit: "s",
    spread: spread(own, 2),
    ratio: `${round(median(theirs) / median(own), 2)} (${spread(ratios, 2)})`,
    target,
    note: `the other build ${round(median(theirs), 2)} s (${spread(theirs, 2)})${note ? `; ${note}` : ""}`,
  };
};

const training = (result) => result.training;
const sampling = (result) => result.sampling;
const step = (result) => result.training + result.sampling;

const parts = {
  async groups(sides, repeats) {
    const results = await inTurns(sides, (seed) => ({ do: "groups", count: 48, answers: 8, seed }), repeats);
    return [
      compare("48 prompts × 8 answers: training", results, { of: training, target: "≥ 2×" }),
      compare("48 prompts × 8 answers: sampling", results, { of: sampling }),
    ];
  },
  async "multi-turn"(sides, repeats) {
    const command = { do: "multiTurn", count: 64, turns: 10 };
    const results = await inTurns(sides, (seed) => ({ ...command, seed }), Math.min(3, repeats));
    const prompts = conversations({ ...command, vocabSize: 4096, seed: 1 }).flatMap((turns) =>
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
  async sharing(sides, repeats) {
    const command = { do: "sharing", count: 32, length: 496 };
    const shared = await inTurns(sides, (seed) => ({ ...command, shared: 480, seed }), repeats);
    const apart = await inTurns(sides, (seed) => ({ ...command, shared: 0, seed }), repeats);
    return [
      compare("32 that share 480 of 496: training", shared, { of: training, target: "≥ 6×" }),
      compare("32 that share 480 of 496: sampling", shared, { of: sampling, target: "≥ 4×" }),
      compare("32 × 496 that share nothing: training", apart, { of: training, target: "≥ 0.99×" }),
      compare("32 × 496 that share nothing: sampling", apart, { of: sampling, target: "≥ 0.8×" }),
    ];
  },
  async cold(sides, repeats) {
    const rows = [];
    for (const [length, target] of [
      [60, "≥ 0.98×"],
      [200, "≥ 0.8×"],
      [484, "≥ 0.8×"],
      [1000, "≥ 0.8×"],
    ]) {
      const results = await inTurns(sides, (seed) => ({ do: "cold", length, count: 20, seed }), repeats);
      rows.push(compare(`20 cold prompts of ${length}, one by one`, results, { of: sampling, target }));
    }
    return rows;
  },
};

/** The quickstart by reward as a user runs it, start to end of the process. */
const quickstart = (builds, repeats) => {
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-rl-"));
  const results = { base: [], ours: [] };
  try {
    for (let seed = 1; seed <= Math.min(3, repeats); seed++) {
      for (const name of ["base", "ours"]) {
        const options = [
          "--rl",
          "--json",
          "--seed",
          String(seed),
          "--out",
          join(work, "run"),
          "--data-dir",
          join(work, "data"),
        ];
        const start = performance.now();
        execFileSync(
          process.execPath,
          [join(builds[name], "packages/tinklet/bin/tinklet.mjs"), "quickstart", ...options],
          {
            stdio: "ignore",
          },
        );
        results[name].push({ training: (performance.now() - start) / 1000 });
      }
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return [compare("quickstart --rl, the whole process", results, { of: training })];
};

export default async ({ root, args }) => {
  const base = option(args, "--base") ?? process.env.TINKLET_BENCH_BASE;
  if (base === undefined || !existsSync(join(base, "packages/engine/dist/index.js"))) {
    throw new Error(
      "--base (or TINKLET_BENCH_BASE) must name a checkout of 3e75717 in which `node tools/build.mjs` was run",
    );
  }
  const repeats = Number(option(args, "--repeats") ?? 5);
  const only = option(args, "--part");
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
      for (const row of await parts[name](sides, repeats)) rows.push({ ...row, name: `${model}: ${row.name}` });
    }
    await sides.base.close();
    await sides.ours.close();
  }
  if (only === undefined || only === "quickstart") rows.push(...quickstart(builds, repeats));
  return {
    rows,
    partial: only !== undefined,
    note: "Against 3e75717, which computes every copy of a shared prefix, in turns in one run; LoRA of rank 16 on all modules. Multi-turn: 64 conversations of ten turns, every turn a datum of its own.",
  };
};
