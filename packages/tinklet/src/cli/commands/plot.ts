/** `plot`: the metrics of runs, in the terminal or as SVG or HTML. */
import { basename, extname, resolve } from "node:path";
import type { MetricsRow } from "@tinklet/cookbook";
import type { Command } from "../command.ts";
import { writeWhole } from "../files.ts";
import { CliError } from "../output/explain.ts";
import { UsageError } from "../parse.ts";
import { type Series, terminalPlot } from "../plot/plot-terminal.ts";

/** Default metrics: the first group of which any run has values. */
const usual = [["train_mean_nll", "test/nll"], ["env/all/reward/total"], ["loss:sum"]];

export const plot: Command = {
  usage: "plot RUN_FOLDER... [--metric NAME,NAME] [--out FILE.svg|html]",
  about: "Plots the metrics of one or several runs (metrics.jsonl, also the Python cookbook's).",
  arguments: ["RUN_FOLDER", "MORE..."],
  options: {
    metric: { type: "string", short: "m", value: "NAMES", about: "which metrics, by comma (default: loss, or reward)" },
    out: { type: "string", short: "o", value: "FILE", about: "write a file instead: .svg or .html" },
    smooth: { type: "string", value: "N", about: "running mean over N steps" },
  },
  examples: ["plot runs/pirate", "plot runs/a runs/b --metric test/nll --out compare.svg"],
  async run(input, { output }) {
    const { RunFolder } = await import("@tinklet/cookbook");
    const smooth = input.integer("smooth", 1) ?? 1;
    const runs = await Promise.all(
      input.positionals.map(async (folder) => ({ folder, rows: await RunFolder.at(folder).readMetrics() })),
    );
    for (const { folder, rows } of runs) {
      if (rows.length === 0)
        throw new CliError(`${folder} has no metrics.jsonl, or an empty one.`, { hint: "Give the folder of a run." });
    }
    const metrics =
      input
        .text("metric")
        ?.split(",")
        .map((name) => name.trim()) ?? usualMetrics(runs.flatMap(({ rows }) => rows));
    const names = distinctNames(input.positionals);
    const series = runs.flatMap(({ rows }, at) =>
      metrics.map((metric) => ({
        name: runs.length === 1 ? metric : metrics.length === 1 ? (names[at] as string) : `${names[at]} ${metric}`,
        points: smoothed(points(rows, metric), smooth),
      })),
    );
    if (series.every(({ points: found }) => found.length === 0)) {
      const known = [...new Set(runs.flatMap(({ rows }) => rows.flatMap((row) => Object.keys(row))))].filter(
        (key) => key !== "step",
      );
      throw new CliError(`No run has the metric ${metrics.join(", ")}.`, {
        hint: `There are: ${known.toSorted().join(", ")}.`,
      });
    }
    const file = input.text("out");
    if (file !== undefined) {
      const title = runs.length === 1 ? (names[0] as string) : names.join(" · ");
      await writePicture(file, series, { title, yLabel: metrics.join(", ") });
      output.note(`Wrote ${file}`);
    }
    if (output.isJson) output.result({ json: { series }, columns: [], rows: [] });
    else if (file === undefined) {
      const style = output.style.bind(output);
      output.line(terminalPlot(series, { width: Math.min(output.width, 100), style }));
      if (series.length === 1) output.line(output.style(`${metrics[0]}`, "dim"));
    }
    return 0;
  },
};

function usualMetrics(rows: readonly MetricsRow[]): readonly string[] {
  const has = (name: string) => rows.some((row) => row[name] !== undefined);
  return usual.find((group) => group.some(has))?.filter(has) ?? ["loss:sum"];
}

const points = (rows: readonly MetricsRow[], metric: string): [number, number][] =>
  rows.flatMap((row): [number, number][] => (typeof row[metric] === "number" ? [[row.step, row[metric]]] : []));

function smoothed(all: readonly [number, number][], window: number): [number, number][] {
  return all.map(([x], at) => {
    const part = all.slice(Math.max(0, at - window + 1), at + 1);
    return [x, part.reduce((sum, [, y]) => sum + y, 0) / part.length];
  });
}

/** The last parts of the paths, or the whole paths if those are not unique. */
function distinctNames(folders: readonly string[]): string[] {
  const names = folders.map((folder) => basename(resolve(folder)));
  return new Set(names).size === names.length ? names : [...folders];
}

async function writePicture(
  file: string,
  series: readonly Series[],
  options: { title: string; yLabel: string },
): Promise<void> {
  const kind = extname(file).toLowerCase();
  if (kind === ".svg") return writeWhole(file, (await import("../plot/plot-svg.ts")).svgPlot(series, options));
  if (kind === ".html") return writeWhole(file, (await import("../plot/plot-svg.ts")).htmlPlot(series, options));
  throw new UsageError(`--out must end in .svg or .html, not "${kind}"`);
}
