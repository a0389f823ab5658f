// `npm run bench -- growth [--repeats N] [--axis NAME] [--tiny]`: how the cost of training and sampling grows, on the 10M shape with random weights:
// context 256 … 4,096, 1 … 64 sequences, rank 4 … 128, 1 … 32 adapters at once. Every point is a process of its own. What is told is time and
// peak memory per token, and how far each is above a line through its neighbours (where only one side has any, through the two nearest).
// The pictures (what training and sampling take, in time and in memory) are drawn from what is kept in bench/results/growth.json and this run's
// rows, each as soon as it has all of its axes. `--tiny`, with `--dry`, takes three points of each axis and draws into a folder of its own.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "../test/fixtures/programs/bundle.mjs";
import { checkpoint, SHAPES } from "./engine/models.mjs";
import { median, round, spread } from "./measure.mjs";

const doublings = (from, to) => Array.from({ length: Math.log2(to / from) + 1 }, (_, i) => from * 2 ** i);
const usual = { sequences: 4, length: 256, new: 32, rank: 16, adapters: 1 };

/** `perToken`: cost of training per token is a line (attention looks back at every token); else cost in all is (a fixed part and one for each). */
const axes = {
  context: { values: doublings(256, 4096), perToken: true, point: (length) => ({ ...usual, sequences: 1, length }) },
  sequences: { values: doublings(1, 64), point: (sequences) => ({ ...usual, sequences, length: 128 }) },
  rank: { values: doublings(4, 128), point: (rank) => ({ ...usual, rank }) },
  adapters: {
    values: doublings(1, 32),
    point: (adapters) => ({ ...usual, sequences: 32, length: 64, new: 16, adapters }),
  },
};

/** What a line through the neighbours of a point says about it. */
const expected = (points, index) => {
  const others = points.map((point, i) => ({ ...point, away: Math.abs(i - index), before: i < index }));
  const inner = index > 0 && index < points.length - 1;
  const [a, b] = others.filter(({ away }) => away > 0 && away <= (inner ? 1 : 2)).toSorted((p, q) => p.x - q.x);
  return a.y + ((points[index].x - a.x) * (b.y - a.y)) / (b.x - a.x);
};

/** How far each point is above its neighbours' line. */
const ratios = (axis, measured, of) => {
  const points = measured.map((result) => ({
    x: result.value,
    y: axis.perToken ? of(result) / result.tokens : of(result),
  }));
  return points.map(({ y }, i) => {
    const line = expected(points, i);
    return line > 0 ? y / line : Number.NaN; // a falling line may end below zero: nothing to compare with
  });
};

const measure = (root, folder, given) => {
  const told = execFileSync(process.execPath, [join(root, "bench/growth/point.mjs"), folder, JSON.stringify(given)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(told.toString().trim().split("\n").at(-1));
};

const secondsOf = ({ seconds }) => median(seconds);
const bytesOf = ({ bytes }) => bytes;

const rowsOf = (what, axisName, measured) => {
  const name = `${what}, ${axisName}`;
  // Sampling has a fixed part (the tokens that are drawn), and keeps so many bytes for each token: what it takes in all is a line.
  const axis = { ...axes[axisName], ...(what === "sample" ? { perToken: false } : {}) };
  const time = ratios(axis, measured, secondsOf);
  const memory = ratios(axis, measured, bytesOf);
  return measured.map((result, i) => ({
    name: `${name} ${result.value}`,
    part: name,
    perToken: { microseconds: (1e6 * secondsOf(result)) / result.tokens, bytes: result.bytes / result.tokens },
    value: round((1e6 * secondsOf(result)) / result.tokens, 1),
    unit: "µs per token",
    spread: spread(
      result.seconds.map((each) => (1e6 * each) / result.tokens),
      1,
    ),
    ratio: `${round(time[i], 2)} of its neighbours' line`,
    target: "≤ 1.3",
    note: `peak memory ${round(result.bytes / 1e6, 0)} MB beyond the open engine's, ${round(result.bytes / result.tokens / 1e3, 1)} kB per token, ${round(memory[i], 2)} of its neighbours' line`,
  }));
};

/** Rows that were kept by earlier runs of other axes. */
const keptRows = (root) => {
  const file = join(root, "bench/results/growth.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).rows : [];
};

const pictures = [
  { name: "time", title: "Time per token", of: ({ microseconds }) => microseconds },
  { name: "memory", title: "Peak memory per token", of: ({ bytes }) => bytes },
];

/** One picture for each of training and sampling: cost per token relative to the middle of each axis, so that all of them fit. */
const draw = async (rows, folder) => {
  const plot = await bundle("bench/growth/plot.ts");
  for (const what of ["train", "sample"]) {
    const series = Object.keys(axes).map((axis) => ({
      name: axis,
      own: rows.filter(({ part }) => part === `${what}, ${axis}`).map(({ perToken }) => perToken),
    }));
    if (series.some(({ own }) => own.length === 0)) continue;
    for (const { name, title, of } of pictures) {
      const lines = series.map(({ name: axis, own }) => {
        const values = own.map(of);
        const middle = median(values.toSorted((a, b) => a - b));
        return { name: axis, points: values.map((value, i) => [i, value / middle]) };
      });
      const file = join(folder, `growth-${what}-${name}.svg`);
      execFileSync(process.execPath, [
        plot,
        file,
        `${title}, ${what}`,
        "relative to the middle",
        JSON.stringify(lines),
      ]);
      console.error(`drew ${file}`);
    }
  }
};

export default async ({ root, args }) => {
  const option = (name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
  const tiny = args.includes("--tiny");
  if (tiny && !args.includes("--dry")) throw new Error("--tiny measures nothing: give --dry as well");
  const repeats = Number(option("--repeats") ?? (tiny ? 1 : 3));
  if (!Number.isInteger(repeats) || repeats < 1) throw new Error("--repeats must be a positive whole number");
  const only = option("--axis");
  if (only !== undefined && !(only in axes)) throw new Error(`--axis must be one of ${Object.keys(axes).join(", ")}`);
  const folder = checkpoint(root, "10M-8k", { ...SHAPES["10M"], context: 8192 });
  const rows = [];
  for (const what of ["train", "sample"]) {
    for (const [name, axis] of Object.entries(axes).filter(([each]) => only === undefined || only === each)) {
      const measured = (tiny ? axis.values.slice(0, 3) : axis.values).map((value) => {
        console.error(`measuring ${what}, ${name} ${value}`);
        return { value, ...measure(root, folder, { do: what, ...axis.point(value), repeats }) };
      });
      rows.push(...rowsOf(what, name, measured));
    }
  }
  const own = new Set(rows.map(({ part }) => part));
  const earlier = tiny ? [] : keptRows(root).filter(({ part }) => !own.has(part));
  const target = args.includes("--dry") ? mkdtempSync(join(tmpdir(), "tinklet-growth-")) : join(root, "docs/pictures");
  await draw([...earlier, ...rows], target);
  return {
    rows,
    partial: only !== undefined,
    note: "10M shape, random weights, LoRA of rank 16 on the linears of attention and MLP unless the row says otherwise. Context: one sequence. Sequences: of 128 tokens, 32 of them sampled. Rank: 4 × 256. Adapters: 32 sequences of 64, shared among them. Pictures: docs/engine.md.",
  };
};
