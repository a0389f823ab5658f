// `npm run bench -- cookbook [--seeds 5] [--recipe NAME] [--max-steps N]`: every recipe of the cookbook on the bundled model: its metric
// before and after, as the mean over the seeds with its standard error and spread, and the wall time of a run. An improvement counts
// where the mean of the differences is more than three of their standard errors.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { median, round } from "./measure.mjs";

const option = (args, name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);

/** One run of a recipe with a service of its own. */
async function once({ root, name, seed, maxSteps }) {
  const entry = (path) => import(pathToFileURL(join(root, "packages", path)));
  const { ServiceClient } = await entry("tinklet/dist/index.js");
  const { runRecipe } = await entry("cookbook/dist/index.js");
  const { default: recipe } = await entry(`cookbook/dist/recipes/${name}.js`);
  const folder = mkdtempSync(join(tmpdir(), `tinklet-recipe-${name}-`));
  const service = await ServiceClient.local({ dataDir: join(folder, "data") });
  try {
    const baseModel = "tinklet/base";
    const tokenizer = await (await service.createSamplingClient({ baseModel })).getTokenizer();
    const since = performance.now();
    const result = await runRecipe(recipe, { service, baseModel, tokenizer, folder, seed, maxSteps });
    return { ...result, seconds: (performance.now() - since) / 1000 };
  } finally {
    await service.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const errorOf = (values) => {
  const centre = mean(values);
  const variance = values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / Math.max(values.length - 1, 1);
  return Math.sqrt(variance / values.length);
};

export default async function cookbook({ root, args }) {
  const seeds = Number(option(args, "--seeds") ?? 5);
  const only = option(args, "--recipe");
  const maxSteps = option(args, "--max-steps") === undefined ? undefined : Number(option(args, "--max-steps"));
  const names = readdirSync(join(root, "packages/cookbook/recipes"))
    .map((file) => file.replace(/\.ts$/, ""))
    .filter((name) => only === undefined || name === only);
  if (names.length === 0) throw new Error(`there is no recipe ${only}`);
  const rows = [];
  for (const name of names) {
    const runs = [];
    for (let seed = 0; seed < seeds; seed++) {
      runs.push(await once({ root, name, seed, maxSteps }));
      const { before, after, seconds } = runs.at(-1);
      console.error(`${name}, seed ${seed}: ${round(before, 3)} → ${round(after, 3)} in ${round(seconds, 0)} s`);
    }
    const sign = runs[0].better === "lower" ? -1 : 1;
    const gains = runs.map(({ before, after }) => sign * (after - before));
    const error = errorOf(gains);
    const range = (key) =>
      `${round(Math.min(...runs.map((run) => run[key])), 3)} to ${round(Math.max(...runs.map((run) => run[key])), 3)}`;
    rows.push({
      name,
      value: `${round(mean(runs.map(({ before }) => before)), 3)} → ${round(mean(runs.map(({ after }) => after)), 3)}`,
      unit: "",
      spread: `before ${range("before")}, after ${range("after")}`,
      ratio:
        seeds < 2
          ? undefined
          : error === 0
            ? `${round(mean(gains), 3)}, no spread`
            : `${round(mean(gains) / error, 1)} standard errors`,
      target: "≥ 3 standard errors, ≤ 180 s",
      note: `${runs[0].metric}; ${round(median(runs.map(({ seconds }) => seconds).sort((a, b) => a - b)), 0)} s`,
    });
  }
  const partial = seeds < 5 || only !== undefined || maxSteps !== undefined;
  return { rows, partial, note: `${seeds} seeds each, one after the other, on the bundled model.` };
}
