/** Converts the server's steps and a folder's metrics to curves, smooths them and aligns them on a common axis. */
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

/** The prefix by which metrics are grouped. */
export const groupOf = (metric: string): string => (metric.includes("/") ? metric.slice(0, metric.indexOf("/")) : "");

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

/** The data of one metric for uPlot: a common x and one column per run. Callers must not modify the result. */
export function alignRuns(
  curves: readonly RunCurves[],
  options: { readonly metric: string; readonly axis: XAxis; readonly smoothing: number },
): uPlot.AlignedData {
  const tables = curves.map(({ x, y }): uPlot.AlignedData => {
    const [at, values] = increasing(x[options.axis] ?? x.step ?? [], y.get(options.metric) ?? []);
    const smoothed = smooth(values, options.smoothing);
    return (options.smoothing > 0 ? [at, smoothed, values] : [at, smoothed]) as unknown as uPlot.AlignedData;
  });
  const [only] = tables;
  if (only === undefined) return [[]];
  if (tables.length === 1) return only;
  const [first] = tables;
  // Runs with equal x values need no join, which would build a map of every value.
  if (tables.every(([x]) => isEqual(x, first![0])))
    return [first![0], ...tables.flatMap(([, ...columns]) => columns)] as uPlot.AlignedData;
  return uPlot.join(tables);
}

const isEqual = (a: ArrayLike<number>, b: ArrayLike<number>): boolean => {
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
