// `npm run bench -- cookbook [--seeds 5] [--recipe NAME,NAME] [--max-steps N] [--anew]`: every recipe of the cookbook on the bundled model: its
// metric before and after, as the mean over the seeds with its spread, and the time of a run. An improvement counts where the mean of the
// differences is more than three of their standard errors. CPU time stands beside wall time: on a machine that does other things too, wall
// time says little, and 360 s of CPU are the most that fit into 180 s on two cores. Rows are kept recipe by recipe, and until then each
// seed's run under node_modules/.cache, so that an interrupted bench of the same build goes on; `--anew` begins again.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { median, round } from "./measure.mjs";

const option = (args, name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);

/** One run of a recipe with a service of its own. */
async function once({ root, name, seed, maxSteps }) {
  const entry = (path) => import(pathToFileURL(join(root, "packages", path)));
  const { ServiceClient } = await entry("sdk/dist/index.js");
  const { runRecipe } = await entry("cookbook/dist/index.js");
  const { default: recipe } = await entry(`cookbook/dist/recipes/${name}.js`);
  const folder = mkdtempSync(join(tmpdir(), `tinklet-recipe-${name}-`));
  const service = await ServiceClient.local({ dataDir: join(folder, "data") });
  try {
    const baseModel = "tinklet/base";
    const tokenizer = await (await service.createSamplingClient({ baseModel })).getTokenizer();
    const [since, used] = [performance.now(), process.cpuUsage()]; // the engine's threads are in this process
    const result = await runRecipe(recipe, { service, baseModel, tokenizer, folder, seed, maxSteps });
    if (result.stopped !== undefined) throw new Error(`${name}, seed ${seed}: stopped: ${result.stopped}`);
    const { user, system } = process.cpuUsage(used);
    return { ...result, seconds: (performance.now() - since) / 1000, cpuSeconds: (user + system) / 1e6 };
  } finally {
    await service.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs that are done, by recipe, seed, steps and what was run; a run is of use only to the build that it measured. */
function doneRuns(root, anew) {
  const folder = join(root, "node_modules/.cache/tinklet");
  const file = join(folder, "cookbook-runs.json");
  const known = !anew && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  const keyOf = ({ name, seed, maxSteps }) => {
    const hash = createHash("sha256");
    const dist = (of) => readdirSync(join(root, "packages", of, "dist")).filter((path) => path.endsWith(".js"));
    const files = ["cookbook", "engine"].flatMap((of) => dist(of).map((path) => `${of}/dist/${path}`)).sort();
    for (const path of [...files, `cookbook/dist/recipes/${name}.js`])
      hash.update(readFileSync(join(root, "packages", path)));
    return `${name}, seed ${seed}, ${maxSteps ?? "all"} steps, ${hash.digest("hex").slice(0, 16)}`;
  };
  return async (run, measure) => {
    const key = keyOf(run);
    if (known[key] === undefined) {
      const { metric, better, before, after, seconds, cpuSeconds } = await measure();
      known[key] = { metric, better, before, after, seconds, cpuSeconds };
      mkdirSync(folder, { recursive: true });
      writeFileSync(file, `${JSON.stringify(known, null, 2)}\n`);
    }
    return known[key];
  };
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const errorOf = (values) => {
  const centre = mean(values);
  const variance = values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / Math.max(values.length - 1, 1);
  return Math.sqrt(variance / values.length);
};

export default async function cookbook({ root, args, keep }) {
  const seeds = Number(option(args, "--seeds") ?? 5);
  const only = option(args, "--recipe")?.split(",");
  const maxSteps = option(args, "--max-steps") === undefined ? undefined : Number(option(args, "--max-steps"));
  const all = readdirSync(join(root, "packages/cookbook/recipes")).map((file) => file.replace(/\.ts$/, ""));
  const names = only ?? all;
  const unknown = names.filter((name) => !all.includes(name));
  if (unknown.length > 0) throw new Error(`there is no recipe ${unknown.join(", ")}; there are: ${all.join(", ")}`);
  const isWhole = seeds >= 5 && maxSteps === undefined; // of a recipe; fewer seeds or steps show nothing
  const note = `${seeds} seeds each, one after the other, on the bundled model.`;
  const knownOr = doneRuns(root, args.includes("--anew"));
  const rows = [];
  for (const name of names) {
    const runs = [];
    for (let seed = 0; seed < seeds; seed++) {
      runs.push(await knownOr({ name, seed, maxSteps }, () => once({ root, name, seed, maxSteps })));
      const { before, after, seconds, cpuSeconds } = runs.at(-1);
      const took = `${round(seconds, 0)} s, ${round(cpuSeconds, 0)} s of CPU`;
      console.error(`${name}, seed ${seed}: ${round(before, 3)} → ${round(after, 3)} in ${took}`);
    }
    rows.push({ ...rowOf(name, runs), ...(isWhole ? { part: name } : {}) });
    keep({ rows: rows.slice(-1), partial: true, note });
  }
  return { rows, partial: true, note };
}

/** The runs of a recipe, one per seed, in a line. */
function rowOf(name, runs) {
  const { metric, better } = runs[0];
  const gains = runs.map(({ before, after }) => (better === "lower" ? before - after : after - before));
  const error = errorOf(gains);
  const of = (key) => runs.map((run) => run[key]).sort((a, b) => a - b);
  const centre = (key) => round(mean(of(key)), 3);
  const range = (key) => `${round(of(key)[0], 3)} to ${round(of(key).at(-1), 3)}`;
  const inErrors =
    error === 0 ? `${round(mean(gains), 3)}, no spread` : `${round(mean(gains) / error, 1)} standard errors`;
  return {
    name,
    value: `${centre("before")} → ${centre("after")}`,
    unit: "",
    spread: `before ${range("before")}, after ${range("after")}`,
    ...(runs.length < 2 ? {} : { ratio: inErrors }),
    target: "≥ 3 standard errors, ≤ 180 s",
    note: `${metric}; median ${round(median(of("seconds")), 0)} s, ${round(median(of("cpuSeconds")), 0)} s of CPU`,
  };
}
