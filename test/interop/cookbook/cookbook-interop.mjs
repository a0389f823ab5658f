// The official tinker-cookbook, unmodified, on our server with the bundled model: its supervised recipe on a local JSONL file of
// sums, and its arithmetic reinforcement-learning recipe, configured by their own arguments alone, without the model hub. The loss
// must fall, the reward must rise, and a second run in the same log folder must resume from the checkpoints of the first. Before them,
// what both cookbooks' algorithms make of the same data, what they learn of the same conversations, and runs of ours read by the official
// readers of run folders. `algorithms`, `masks`, `ours`, `supervised` or `reinforcement` runs one of them; `--keep` keeps the log folders and
// prints their path.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { showOfficialRun } from "../studio/official.mjs";
import { cookbookPython } from "../venv.mjs";
import { compareAlgorithms } from "./algorithms.mjs";
import { compareMasks } from "./masks.mjs";

const work = mkdtempSync(join(tmpdir(), "tinklet-cookbook-"));
const model = join(root, "packages", "base-model"); // the recipes load the tokenizer from the model's name
const python = cookbookPython();

const server = spawn(
  process.execPath,
  [
    await bundle("test/fixtures/programs/serve-main.ts"),
    JSON.stringify({ models: [model], dataDir: join(work, "data") }),
  ],
  { stdio: ["ignore", "pipe", "inherit"] },
);
const [url] = await once(createInterface({ input: server.stdout }), "line");

let failed = false;
const say = (ok, what, seen) => {
  console.log(`${ok ? "ok    " : "FAILED"} ${what}: ${seen}`);
  failed ||= !ok;
};

/** Runs a recipe to its end; returns what it logged. */
function recipe(module, options) {
  const given = { base_url: url, model_name: model, renderer_name: "qwen3_instruct", ...options };
  const parts = Object.entries(given).map(([key, value]) => `${key}=${value}`);
  const started = Date.now();
  const done = spawnSync(python, ["-m", `tinker_cookbook.recipes.${module}`, ...parts], {
    encoding: "utf8",
    maxBuffer: 256 << 20,
    timeout: 1_800_000,
    env: { ...process.env, HF_HUB_OFFLINE: "1", TINKER_API_KEY: "tml-local", TINKER_TELEMETRY: "0" },
  });
  const told = `${done.stdout}\n${done.stderr}`;
  const seconds = Math.round((Date.now() - started) / 1000);
  say(
    done.status === 0,
    `${module} ${parts.slice(3).join(" ")}`,
    done.status === 0 ? `${seconds} s` : told.slice(-3000),
  );
  return told;
}

const lines = (file) =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const shown = (values) => values.map((value) => value.toFixed(2)).join(" ");

/** One value per step, in the order of the steps. */
function series(folder, metric) {
  const rows = lines(join(folder, "metrics.jsonl")).filter((row) => typeof row[metric] === "number");
  return rows.sort((a, b) => a.step - b.step).map((row) => ({ step: row.step, value: row[metric] }));
}

/** Runs of our own recipes, as the official cookbook's readers of run folders see them. */
function ours() {
  const folder = join(work, "ours");
  const kinds = { sft: "sl", "math-rl": "rl", dpo: "dpo" };
  for (const name of Object.keys(kinds)) {
    const out = join(work, "recipes", name);
    const command = join(root, "packages/tinklet/bin/tinklet.mjs");
    const given = ["--base-url", url, "--model", model, "--max-steps", "3", "--seed", "1", "--out", out];
    const done = spawnSync(process.execPath, [command, "recipe", "run", name, ...given], {
      encoding: "utf8",
      env: { ...process.env, TINKER_API_KEY: "tml-local" },
    });
    say(done.status === 0, `our ${name}`, done.status === 0 ? "3 steps" : done.stderr.slice(-2000));
    const stage = readdirSync(out).find((entry) => existsSync(join(out, entry, "metrics.jsonl")));
    mkdirSync(folder, { recursive: true });
    renameSync(join(out, stage), join(folder, name));
  }
  const read = spawnSync(python, [join(root, "test/interop/cookbook/read_runs.py"), folder], {
    encoding: "utf8",
    maxBuffer: 64 << 20,
  });
  if (read.status !== 0) return say(false, "the official readers open our runs", read.stderr.slice(-2000));
  const { runs, swept } = JSON.parse(read.stdout);
  const found = runs.map(({ id }) => id).sort();
  say(isDeepStrictEqual(found, Object.keys(kinds).sort()), "the official registry finds our runs", found.join(" "));
  for (const { id, ...run } of runs) {
    const own = (file) => lines(join(folder, id, file));
    const of = {
      type: kinds[id],
      config: JSON.parse(readFileSync(join(folder, id, "config.json"), "utf8")),
      metrics: own("metrics.jsonl"),
      checkpoints: own("checkpoints.jsonl"),
      last: own("checkpoints.jsonl").at(-1),
      spans: own("timing_spans.jsonl").map(({ spans }) => spans.length),
    };
    for (const [what, wanted] of Object.entries(of))
      say(
        isDeepStrictEqual(run[what], wanted),
        `the official readers: ${what} of our ${id}`,
        JSON.stringify(run[what]).slice(0, 80),
      );
    if (id !== "math-rl") continue;
    const rollouts = Object.fromEntries(
      [0, 1, 2].map((at) => [at, own(`iteration_00000${at}/train_rollout_summaries.jsonl`)]),
    );
    say(isDeepStrictEqual(run.rollouts, rollouts), "the official readers: our rollouts", `${run.iterations} steps`);
    const isPlaced = Object.values(run.single).every((one) => one.group_idx === 0 && one.traj_idx === 1);
    say(isPlaced, "the official readers: one of our rollouts by its place", run.single[0].total_reward);
  }
  const names = swept.map((path) => path.split("/").at(-1));
  say(isDeepStrictEqual(names, Object.keys(kinds).sort()), "the official sweep collects our runs", names.join(" "));
}

/** The studio shows what the recipe wrote. */
async function shownInStudio(folder, what) {
  const seen = await showOfficialRun(folder, what).catch((error) => error);
  say(typeof seen === "string", "the studio shows the run", seen instanceof Error ? seen.stack : seen);
}

/** Steps that appear once each, from 0 on: a run that resumed neither repeats nor skips. */
function isWhole(rows) {
  return rows.every(({ step }, i) => step === i);
}

function supervised() {
  const folder = join(work, "supervised");
  const options = {
    dataset: join(model, "data", "arithmetic", "train.jsonl"),
    log_path: folder,
    lora_rank: 16,
    batch_size: 100,
    max_length: 256,
    learning_rate: 2e-3,
    save_every: 5,
    eval_every: 0,
    infrequent_eval_every: 0,
    behavior_if_log_dir_exists: "resume",
  };
  recipe("chat_sl.train", { ...options, num_epochs: 1 });
  const first = series(folder, "train_mean_nll").map(({ value }) => value);
  say(mean(first.slice(-3)) < 0.8 * mean(first.slice(0, 3)), "supervised: the loss falls", shown(first));
  const saved = lines(join(folder, "checkpoints.jsonl"));
  say(saved.length >= 2, "supervised: checkpoints", saved.map(({ name }) => name).join(" "));
  recipe("chat_sl.train", { ...options, num_epochs: 2 });
  const rows = series(folder, "train_mean_nll");
  const second = rows.slice(first.length).map(({ value }) => value);
  const goesOn = isWhole(rows) && second.length === first.length && second[0] < mean(first.slice(0, 3));
  say(goesOn, "supervised: the second epoch resumes where the first ended", shown(second));
}

/**
 * How far apart two means of rewards must be before it is no accident. A reward lies in [-0.1, 1] and is nearly 0 or 1, and the
 * answers to one question resemble each other, so a whole group counts as a single draw: that overstates the noise.
 */
function twoSigma(rewards, groups) {
  const p = Math.min(Math.max(mean(rewards), 0.05), 0.95);
  return 2 * Math.sqrt((2 * p * (1 - p)) / groups);
}

function reinforcement() {
  const folder = join(work, "reinforcement");
  const steps = 20;
  const groups = 48;
  const options = {
    env: "arithmetic",
    log_path: folder,
    lora_rank: 16,
    group_size: 8,
    groups_per_batch: groups,
    learning_rate: 1e-3,
    max_tokens: 5,
    save_every: 10,
    eval_every: 0,
    behavior_if_log_dir_exists: "resume",
  };
  recipe("math_rl.train", { ...options, max_steps: steps });
  const first = series(folder, "env/all/reward/total").map(({ value }) => value);
  const quarter = steps / 4;
  const [begin, end] = [mean(first.slice(0, quarter)), mean(first.slice(-quarter))];
  const needed = twoSigma(first, quarter * groups);
  say(
    first.length === steps && end - begin > needed,
    `reinforcement: the reward rises, ${begin.toFixed(3)} → ${end.toFixed(3)} (by more than ${needed.toFixed(3)})`,
    shown(first),
  );
  recipe("math_rl.train", { ...options, max_steps: steps + 2 });
  const rows = series(folder, "env/all/reward/total");
  const second = rows.slice(first.length).map(({ value }) => value);
  say(
    isWhole(rows) && second.length === 2 && mean(second) > begin,
    "reinforcement: two more steps, resumed from the checkpoint",
    shown(second),
  );
}

try {
  const parts = {
    algorithms: () => compareAlgorithms(python, say),
    masks: () => compareMasks(python, say),
    ours,
    async supervised() {
      supervised();
      await shownInStudio(join(work, "supervised"), { metric: "train_mean_nll" });
    },
    async reinforcement() {
      reinforcement();
      await shownInStudio(join(work, "reinforcement"), { metric: "env/all/reward/total", rollouts: true });
    },
  };
  const wanted = Object.keys(parts).filter((part) => process.argv.includes(part));
  for (const [name, part] of Object.entries(parts)) if (wanted.length === 0 || wanted.includes(name)) await part();
} finally {
  const gone = once(server, "exit");
  server.kill("SIGTERM");
  await gone;
  if (process.argv.includes("--keep")) console.log(`left in ${work}`);
  else rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
