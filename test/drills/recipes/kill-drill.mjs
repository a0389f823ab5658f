// The recipes' kill drill: four recipes are killed (SIGKILL) at requests drawn from a seed and started again until they end. What they
// recorded must be what an undisturbed run records, byte for byte: metrics.jsonl of every stage, and result.json.
//
//   node test/drills/recipes/kill-drill.mjs [--kills 50] [--seed 1] [--steps 5] [--real] [--log FILE]
//
// --real takes the real engine on the bundled model instead of the fake one. The log is written as it goes.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";

export const recipes = ["sft", "math-rl", "dpo", "on-policy-distillation"];
const model = join(root, "packages", "base-model");
const saveEvery = 2;

/** A small generator, so that a drill is known by its seed. */
function random(seed) {
  let state = seed >>> 0;
  const draw = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  for (let i = 0; i < 3; i++) draw();
  return draw;
}

/** Starts the server; recipes are killed, it is not. */
export async function prepare({ isReal = false } = {}) {
  const [server, program] = [
    await bundle("test/drills/recipes/kill-drill-server-main.ts"),
    await bundle("test/drills/recipes/kill-drill-main.ts"),
  ];
  const folder = mkdtempSync(join(tmpdir(), "tinklet-recipe-drill-"));
  const options = { model, isReal, dataDir: join(folder, "data") };
  const process_ = spawn(process.execPath, [server, JSON.stringify(options)], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(process_, "exit");
  const url = await Promise.race([
    once(createInterface({ input: process_.stdout }), "line").then(([line]) => line),
    exited.then(([code]) => Promise.reject(new Error(`the server ended (${code})`))),
  ]);
  const close = async () => {
    process_.kill("SIGTERM");
    await exited;
    rmSync(folder, { recursive: true, force: true });
  };
  return { program, folder, url, close };
}

/** Starts a recipe in a folder once. @returns what it says in the end, or undefined when it was killed */
async function start(parts, options) {
  const { url, program } = parts;
  const own = spawn(process.execPath, [program, JSON.stringify({ url, model, saveEvery, ...options })], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [output, complaints] = ["", ""];
  own.stdout.on("data", (chunk) => {
    output += chunk;
  });
  own.stderr.on("data", (chunk) => {
    complaints += chunk;
  });
  const [code, signal] = await once(own, "close");
  if (signal === "SIGKILL" && options.kill !== undefined) return undefined;
  if (code !== 0) throw new Error(`${options.recipe} ended with ${code ?? signal}: ${complaints.slice(-800)}`);
  return JSON.parse(output);
}

/** What a run recorded: its metrics by stage, and its result. */
function recorded(folder) {
  const stages = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const metrics = stages.map(({ name }) => [name, readFileSync(join(folder, name, "metrics.jsonl"), "utf8")]);
  return JSON.stringify({ metrics, result: readFileSync(join(folder, "result.json"), "utf8") });
}

/** An undisturbed run: what it recorded, and how many requests it made. */
export async function calmRun(parts, recipe, maxSteps) {
  const folder = join(parts.folder, `${recipe}-calm`);
  const { requests } = await start(parts, { recipe, folder, maxSteps });
  return { recipe, maxSteps, requests, files: recorded(folder) };
}

/** One run that is killed until it ends, or `most` times. @returns the kills, and whether its files are those of the calm run */
export async function killedRun(parts, calm, { name, draw, most }) {
  const { recipe, maxSteps, requests } = calm;
  const folder = join(parts.folder, name);
  const kills = [];
  for (let ended; ended === undefined; ) {
    const request = 1 + Math.floor(draw() * requests);
    const when = draw() < 0.5 ? "before" : "after";
    const kill = kills.length < most ? { request, when } : undefined;
    ended = await start(parts, { recipe, folder, maxSteps, ...(kill && { kill }) });
    if (ended === undefined) kills.push(`${when} ${request}`);
  }
  const same = recorded(folder) === calm.files;
  if (same) rmSync(folder, { recursive: true });
  return { kills, same };
}

async function main() {
  const option = (name, otherwise) => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? otherwise : process.argv[at + 1];
  };
  const [wanted, seed, steps] = [Number(option("kills", 50)), Number(option("seed", 1)), Number(option("steps", 5))];
  const isReal = process.argv.includes("--real");
  const file = option("log");
  const parts = await prepare({ isReal });
  const lines = [
    `# recipes killed: ${wanted} kills, seed ${seed}, ${steps} steps a stage, a checkpoint every ${saveEvery}, ${isReal ? "real" : "fake"} engine`,
  ];
  const say = (line) => {
    lines.push(line);
    console.log(line);
    if (file !== undefined) writeFileSync(file, `${lines.join("\n")}\n`);
  };
  let [total, runs, different] = [0, 0, 0];
  try {
    for (const [at, recipe] of recipes.entries()) {
      const calm = await calmRun(parts, recipe, steps);
      say(`${recipe}: ${calm.requests} requests undisturbed`);
      const draw = random(seed * 7919 + at * 104729);
      const quota = Math.round((wanted * (at + 1)) / recipes.length); // so many kills after this recipe
      for (let run = 0; total < quota; run++) {
        const name = `${recipe}-${run}`;
        const { kills, same } = await killedRun(parts, calm, { name, draw, most: Math.min(4, quota - total) });
        total += kills.length;
        runs += 1;
        if (!same) different += 1;
        say(`${recipe} run ${run} ${same ? "same" : "DIFFERENT"} kills=${kills.join(", ") || "none"}`);
      }
    }
    say(`${recipes.length} recipes, ${runs} runs, ${total} kills, ${different} runs different`);
  } finally {
    await parts.close();
  }
  process.exitCode = different > 0 ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
