/** Converts the server's steps and a folder's metrics to curves, selects the lines of a chart from them, smooths and aligns these. */
import type { RunFolderResponse, StepColumns } from "@tinklet/wire";
import uPlot from "uplot";

export type XAxis = "step" | "time" | "tokens";

/** The curves of one run. */
export interface RunCurves {
  readonly key: string;
  readonly label: string;
  /** X values by axis; an axis that a run does not have is absent. */
  readonly x: Readonly<Partial<Record<XAxis, readonly number[]>>>;
  /** Y values by metric. */
  readonly y: ReadonlyMap<string, readonly (number | null)[]>;
}

export function stepCurves(key: string, label: string, steps: StepColumns): RunCurves {
  const [begin = 0] = steps.time;
  return {
    key,
    label,
    x: { step: steps.step, time: steps.time.map((time) => (time - begin) / 1000), tokens: steps.tokens },
    y: new Map<string, readonly (number | null)[]>([
      ["loss", steps.loss],
      ["gradient norm", steps.gradientNorm],
      ["learning rate", steps.learningRate],
      ["time/compute seconds", steps.computeMs.map((ms) => ms / 1000)],
      ["time/queue seconds", steps.queueMs.map((ms) => ms / 1000)],
    ]),
  };
}

const columnNames = [
  "id",
  "step",
  "time",
  "tokens",
  "loss",
  "gradientNorm",
  "learningRate",
  "queueMs",
  "computeMs",
] as const satisfies readonly (keyof StepColumns)[];

/** Maximum steps of one run in the page, which bounds its memory. At the limit every other step is dropped; the server does so at its own limit, 50,000. */
const maxSteps = 100_000;

/** Appends later steps to columns; steps that are already present are skipped. */
export function joinColumns(before: StepColumns, later: StepColumns, most = maxSteps): StepColumns {
  const last = before.id.at(-1) ?? 0;
  const from = later.id.findIndex((id) => id > last);
  if (from < 0) return before;
  const count = before.id.length + later.id.length - from;
  return Object.fromEntries(
    columnNames.map((name) => {
      const joined = [...before[name], ...later[name].slice(from)];
      return [name, count > most ? joined.filter((_, i) => (count - 1 - i) % 2 === 0) : joined];
    }),
  ) as unknown as StepColumns;
}

type Columns = RunFolderResponse["metrics"];

/** Appends later rows to columns; a metric that is absent from one of them is padded with null. */
export function joinMetrics(before: Columns, beforeRows: number, later: Columns, laterRows: number): Columns {
  const names = new Set([...Object.keys(before), ...Object.keys(later)]);
  const missing = (count: number) => new Array<null>(count).fill(null);
  return Object.fromEntries(
    [...names].map((name) => {
      const first = before[name] ?? missing(beforeRows);
      return [name, first.concat(later[name] ?? missing(laterRows))];
    }),
  );
}

export function folderCurves(key: string, label: string, columns: Columns, rows: number): RunCurves {
  const { step: stepColumn, ...metrics } = columns;
  const step = Array.from({ length: rows }, (_, i) => stepColumn?.[i] ?? i);
  // Field names of the supervised loop, or prompt and completion tokens of rollouts.
  const counted = metrics["num_tokens"] ?? metrics["num_loss_tokens"] ?? metrics["env/all/total_ac_tokens"];
  const read = metrics["num_tokens"] === undefined ? metrics["env/all/total_ob_tokens"] : undefined;
  const tokens = counted && sums(counted.map((value, i) => (value ?? 0) + (read?.[i] ?? 0)));
  const time = metrics["time/total"] && sums(metrics["time/total"]);
  return {
    key,
    label,
    x: { step, ...(time === undefined ? {} : { time }), ...(tokens === undefined ? {} : { tokens }) },
    y: new Map(Object.entries(metrics)),
  };
}

function sums(values: readonly (number | null)[]): readonly number[] {
  let sum = 0;
  return values.map((value) => (sum += value ?? 0));
}

/** Exponential moving average with bias correction; `weight` is at least 0 (no smoothing) and below 1. */
export function smooth(values: readonly (number | null)[], weight: number): readonly (number | null)[] {
  if (weight <= 0) return values;
  let mean = 0;
  let known = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    known = weight * known + (1 - weight);
    return mean / known;
  });
}

/** One line of a chart. */
export interface ChartLine {
  readonly key: string;
  readonly label: string;
  /** Index of the colour of its run. */
  readonly colour: number;
  /** Values of few steps, such as evaluations: drawn dashed with a mark at each, and not smoothed. @defaultValue false */
  readonly isSparse?: boolean;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
}

/** The lines of one metric: one for each run that has it. */
export const linesOf = (curves: readonly RunCurves[], metric: string, axis: XAxis): ChartLine[] =>
  curves.flatMap(({ key, label, x, y }, colour): ChartLine[] => {
    const values = y.get(metric);
    return values === undefined ? [] : [{ key, label, colour, x: x[axis] ?? x.step ?? [], y: values }];
  });

/** Whether a line is drawn twice: smoothed, and its raw values. */
export const isSmoothed = (line: ChartLine, smoothing: number): boolean => smoothing > 0 && line.isSparse !== true;

/**
 * The data of a chart for uPlot: a common x, and for each line one column, or two (smoothed and raw) if it is smoothed. Callers must not
 * modify the result.
 */
export function alignLines(lines: readonly ChartLine[], smoothing: number): uPlot.AlignedData {
  const tables = lines.map((line): uPlot.AlignedData => {
    const [x, y] = increasing(line.x, line.y);
    return (isSmoothed(line, smoothing) ? [x, smooth(y, smoothing), y] : [x, y]) as unknown as uPlot.AlignedData;
  });
  const [first] = tables;
  if (first === undefined) return [[]];
  // Lines with equal x values need no join, which would build a map of every value.
  if (tables.every(([x]) => isEqual(x, first[0])))
    return [first[0], ...tables.flatMap(([, ...columns]) => columns)] as uPlot.AlignedData;
  return uPlot.join(tables);
}

const isEqual = (a: ArrayLike<number>, b: ArrayLike<number>): boolean => {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
};

/**
 * Returns the curve with increasing x values, as uPlot requires. A run that was resumed from an earlier checkpoint repeats steps, and some
 * loops write a step's metrics in several lines; the last value of each step is used.
 */
function increasing<T extends number | null>(x: readonly number[], y: readonly T[]): [readonly number[], readonly T[]] {
  let i = 1;
  while (i < x.length && x[i - 1]! < x[i]!) i++;
  if (i >= x.length) return [x, y];
  const kept: number[] = [];
  let next = Number.POSITIVE_INFINITY;
  for (let at = Math.min(x.length, y.length) - 1; at >= 0; at--) {
    if (y[at] === null || !(x[at]! < next)) continue;
    kept.push(at);
    next = x[at]!;
  }
  kept.reverse();
  return [kept.map((at) => x[at]!), kept.map((at) => y[at]!)];
}
