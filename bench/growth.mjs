// `npm run bench -- growth [--repeats N] [--axis NAME]`: how the cost of training and sampling grows, on the 10M shape with random weights:
// context 256 … 4,096, 1 … 64 sequences, rank 4 … 128, 1 … 32 adapters at once. Every point is a process of its own. What is told is time and
// peak memory per token, and how far each is above a line through its neighbours (where only one side has any, through the two nearest).
// A whole run also draws four pictures: what training and sampling take, in time and in memory.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { bundle } from "../test/server/bundle.mjs";
import { checkpoint, SHAPES } from "./engine/models.mjs";
import { median, round, spread } from "./measure.mjs";

const doublings = (from, to) => Array.from({ length: Math.log2(to / from) + 1 }, (_, i) => from * 2 ** i);
const usual = { sequences: 4, length: 256, new: 32, rank: 16, adapters: 1 };

/** `perToken`: cost per token is a line (attention looks back at every token); else cost in all is (a fixed part and one for each). */
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

const rowsOf = (name, axis, measured) => {
  const time = ratios(axis, measured, secondsOf);
  const memory = ratios(axis, measured, bytesOf);
  return measured.map((result, i) => ({
    name: `${name} ${result.value}`,
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

/** Cost per token relative to the series' middle: the shapes of all of them in one picture. */
const seriesOf = (series, of) =>
  series.map(({ name, measured }) => {
    const perToken = measured.map((result) => of(result) / result.tokens);
    const middle = median(perToken.toSorted((a, b) => a - b));
    return { name, points: perToken.map((value, i) => [i, value / middle]) };
  });

export default async ({ root, args }) => {
  const option = (name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
  const repeats = Number(option("--repeats") ?? 3);
  const only = option("--axis");
  const folder = checkpoint(root, "10M-8k", { ...SHAPES["10M"], context: 8192 });
  const rows = [];
  const series = [];
  for (const what of ["train", "sample"]) {
    for (const [name, axis] of Object.entries(axes).filter(([each]) => only === undefined || only === each)) {
      const measured = axis.values.map((value) => {
        console.error(`measuring ${what}, ${name} ${value}`);
        return { value, ...measure(root, folder, { do: what, ...axis.point(value), repeats }) };
      });
      series.push({ name: `${what}: ${name}`, measured });
      rows.push(...rowsOf(`${what}, ${name}`, axis, measured));
    }
  }
  if (only === undefined) {
    const plot = await bundle("bench/growth/plot.ts");
    for (const [file, title, of] of [
      ["growth-time.svg", "Time per token", secondsOf],
      ["growth-memory.svg", "Peak memory per token", bytesOf],
    ]) {
      for (const what of ["train", "sample"]) {
        const own = series.filter(({ name }) => name.startsWith(what));
        const target = join(root, "docs/pictures", file.replace("growth", `growth-${what}`));
        const data = JSON.stringify(seriesOf(own, of));
        execFileSync(process.execPath, [plot, target, `${title}, ${what}`, "relative to the middle", data]);
      }
    }
  }
  return {
    rows,
    partial: only !== undefined,
    note: "10M shape, random weights, LoRA of rank 16 on the linears of attention and MLP unless the row says otherwise. Context: one sequence. Sequences: of 128 tokens, 32 of them sampled. Rank: 4 × 256. Adapters: 32 sequences of 64, shared among them.",
  };
};
