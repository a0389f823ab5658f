/** Curves from wherever they come (the server's steps, a folder's metrics) in one form, smoothed and put on a common axis. */
import type { RunFolderResponse, StepColumns } from "tinklet/wire";
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

export function folderCurves(key: string, label: string, rows: RunFolderResponse["metrics"]): RunCurves {
  const names = new Set<string>();
  for (const row of rows)
    for (const [name, value] of Object.entries(row)) if (typeof value === "number") names.add(name);
  const column = (name: string) => rows.map((row) => (typeof row[name] === "number" ? row[name] : null));
  const step = rows.map((row, i) => (typeof row["step"] === "number" ? row["step"] : i));
  names.delete("step");
  const counted = ["num_tokens", "num_loss_tokens"].find((name) => names.has(name));
  let sum = 0;
  const tokens = counted === undefined ? undefined : column(counted).map((value) => (sum += value ?? 0));
  return {
    key,
    label,
    x: { step, ...(tokens === undefined ? {} : { tokens }) },
    y: new Map([...names].map((name) => [name, column(name)])),
  };
}

/** The prefix by which metrics are shown together. */
export const groupOf = (metric: string): string => (metric.includes("/") ? metric.slice(0, metric.indexOf("/")) : "");

/** An exponential mean; `weight` from 0 (as it is) to below 1. Begins without a bias towards zero. */
export function smooth(values: readonly (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return [...values];
  let mean = 0;
  let known = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    known = weight * known + (1 - weight);
    return mean / known;
  });
}

/** Curves of one metric as the chart takes them: a common x, and one column for each run. */
export function alignRuns(
  curves: readonly RunCurves[],
  how: { readonly metric: string; readonly axis: XAxis; readonly smoothing: number },
): uPlot.AlignedData {
  const tables = curves.map(({ x, y }): uPlot.AlignedData => {
    const values = y.get(how.metric) ?? [];
    const at = x[how.axis] ?? x.step ?? [];
    const smoothed = smooth(values, how.smoothing);
    return how.smoothing > 0 ? [[...at], smoothed, [...values]] : [[...at], smoothed];
  });
  const [only] = tables;
  if (only === undefined) return [[]];
  return tables.length === 1 ? only : uPlot.join(tables.map(monotone));
}

/** Joining needs x values that rise; of equal ones the last counts. */
function monotone(table: uPlot.AlignedData): uPlot.AlignedData {
  const x = table[0] as number[];
  const keep = x.map((value, i) => i === x.length - 1 || value < x[i + 1]!);
  if (keep.every(Boolean)) return table;
  return table.map((column) => [...(column as number[])].filter((_, i) => keep[i])) as unknown as uPlot.AlignedData;
}
