/** Curves from wherever they come (the server's steps, a folder's metrics) in one form, smoothed and put on a common axis. */
import type { RunFolderResponse, StepColumns } from "@tinklet/wire";
import uPlot from "uplot";

export type XAxis = "step" | "time" | "tokens";

/** The curves of one run. */
export interface RunCurves {
  readonly key: string;
  readonly label: string;
  /** By axis; an axis that a run does not have is absent. */
  readonly x: Readonly<Partial<Record<XAxis, readonly number[]>>>;
  /** By metric. */
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

/** Steps of one run that a page holds; then every other one goes, as on the server. A page that stays open for days does not grow. */
const maxSteps = 100_000;

/** Columns with later ones behind them; what is there already is left out. */
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

/** Columns with later ones behind them; a metric that is new, or that ended, is missing in between. */
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
  const { step: given, ...metrics } = columns;
  const step = Array.from({ length: rows }, (_, i) => given?.[i] ?? i);
  // By the names of the supervised loop, or of rollouts: read and written.
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

/** The prefix by which metrics are shown together. */
export const groupOf = (metric: string): string => (metric.includes("/") ? metric.slice(0, metric.indexOf("/")) : "");

/** An exponential mean; `weight` from 0 (as it is) to below 1. Begins without a bias towards zero. */
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

/** Curves of one metric as the chart takes them: a common x, and one column for each run. Nothing of it may be changed. */
export function alignRuns(
  curves: readonly RunCurves[],
  how: { readonly metric: string; readonly axis: XAxis; readonly smoothing: number },
): uPlot.AlignedData {
  const tables = curves.map(({ x, y }): uPlot.AlignedData => {
    const [at, values] = rising(x[how.axis] ?? x.step ?? [], y.get(how.metric) ?? []);
    const smoothed = smooth(values, how.smoothing);
    return (how.smoothing > 0 ? [at, smoothed, values] : [at, smoothed]) as unknown as uPlot.AlignedData;
  });
  const [only] = tables;
  if (only === undefined) return [[]];
  if (tables.length === 1) return only;
  const [first] = tables;
  // Runs of the same length by step share their x: joining would build a table of every value.
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
 * A curve whose x values rise, as charts need them. A run that went on from an earlier checkpoint repeats steps, and some loops write a
 * step's metrics in several lines: the last value of a step counts.
 */
function rising<T extends number | null>(x: readonly number[], y: readonly T[]): [readonly number[], readonly T[]] {
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
