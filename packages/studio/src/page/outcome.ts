/** What a run is judged by: its reward or loss, with the held-out values where there are any, and which of its metrics say nothing. */
import { Diagnosis, type Finding } from "@tinklet/cookbook/figures";
import type { ChartLine, RunCurves, XAxis } from "./series.ts";

type Values = readonly (number | null)[];

/** Names of metrics that measure the success of training, most telling first, each with its names on held-out data. */
const measures = [
  { kind: "reward", train: ["env/all/reward/total", "reward"], test: ["test/env/all/reward/total"] },
  {
    kind: "loss",
    train: ["train_mean_nll", "loss", "dpo_loss", "loss:sum"],
    test: ["test/nll", "test/loss", "eval/loss"],
  },
  { kind: "accuracy", train: ["dpo/accuracy", "bt/accuracy"], test: ["test/accuracy"] },
  { kind: "KL to the teacher", train: ["teacher_kl"], test: [] },
] as const;

/** The metric by which a run is judged. */
export interface Outcome {
  readonly kind: (typeof measures)[number]["kind"];
  readonly isHigherBetter: boolean;
  /** Metric name on training data. */
  readonly train: string | undefined;
  /** Metric name on held-out data. */
  readonly test: string | undefined;
}

const hasValue = (values: Values | undefined): boolean => values?.some((value) => value !== null) ?? false;

/** @returns `undefined` if the run has no known measure */
export function outcomeOf({ y }: RunCurves): Outcome | undefined {
  for (const { kind, train, test } of measures) {
    const [onTraining, heldOut] = [train, test].map((names: readonly string[]) =>
      names.find((name) => hasValue(y.get(name))),
    );
    if (onTraining === undefined && heldOut === undefined) continue;
    return { kind, isHigherBetter: kind === "reward" || kind === "accuracy", train: onTraining, test: heldOut };
  }
  return undefined;
}

/** The everyday word for a metric: "held-out loss" for `test/nll`. */
export function wordOf(metric: string): string {
  for (const { kind, train, test } of measures) {
    if ((train as readonly string[]).includes(metric)) return kind;
    if ((test as readonly string[]).includes(metric)) return `held-out ${kind}`;
  }
  return metric;
}

/** First, last and best values of a metric. */
export interface Summary {
  readonly first: number;
  readonly last: number;
  readonly best: number;
  /** Row of the best value. */
  readonly bestAt: number;
  readonly count: number;
}

/** @returns `undefined` without a finite value */
export function summaryOf(values: Values | undefined, isHigherBetter: boolean): Summary | undefined {
  let found: Summary | undefined;
  for (const [at, value] of (values ?? []).entries()) {
    if (value === null || !Number.isFinite(value)) continue;
    if (found === undefined) found = { first: value, last: value, best: value, bestAt: at, count: 1 };
    else {
      // On a tie the later step wins, as for the checkpoint that is kept.
      const isBest = isHigherBetter ? value >= found.best : value <= found.best;
      found = { ...found, last: value, count: found.count + 1, ...(isBest ? { best: value, bestAt: at } : {}) };
    }
  }
  return found;
}

/** Lines of the chart of outcomes: for each run its values on training data and, dashed, on held-out data. */
export function outcomeLines(curves: readonly RunCurves[], kind: Outcome["kind"], axis: XAxis): ChartLine[] {
  return curves.flatMap((curve, colour): ChartLine[] => {
    const outcome = outcomeOf(curve);
    if (outcome?.kind !== kind) return [];
    const x = curve.x[axis] ?? curve.x.step ?? [];
    const line = (name: string | undefined, word: string, isSparse: boolean): ChartLine[] =>
      name === undefined
        ? []
        : [
            {
              key: `${curve.key} ${word}`,
              label: curves.length > 1 ? `${curve.label}, ${word}` : word,
              ...{ colour: isSparse && curves.length === 1 ? 1 : colour, isSparse, x, y: curve.y.get(name)! },
            },
          ];
    return [...line(outcome.train, "training", false), ...line(outcome.test, "held-out", true)];
  });
}

/** A defect that the diagnosis found, and the row at which it was found. */
export interface Note extends Finding {
  readonly row: number;
}

/** Maximum rows that are diagnosed; later ones say nothing new. */
const maxDiagnosed = 20_000;

/**
 * What the cookbook's diagnosis finds in the metrics of a run.
 *
 * @param isOver - whether the run has ended. A running one is not accused of a loss that does not fall until it is nearly done.
 */
export function notesOf({ x, y }: RunCurves, isOver: boolean): Note[] {
  const steps = x.step ?? [];
  const count = Math.min(steps.length, maxDiagnosed);
  const [firstStep = 0] = steps;
  const diagnosis = new Diagnosis();
  const notes: Note[] = [];
  const progress = y.get("progress");
  const names = [
    "train_mean_nll",
    "test/nll",
    "env/all/reward/total",
    "env/all/by_group/frac_mixed",
    "optim/kl_sample_train_v1",
  ];
  const columns = names.flatMap((name) => (y.has(name) ? [[name, y.get(name)!] as const] : []));
  const loss = y.get("loss");
  if (columns.length === 0 && loss !== undefined && !y.has("reward")) columns.push(["train_mean_nll", loss]);
  if (columns.length === 0) return [];
  // Each step once: a resumed run repeats steps, and a loop may write several lines of one.
  let last = Number.NEGATIVE_INFINITY;
  for (let row = 0; row < count; row++) {
    const step = steps[row]! - Math.min(1, firstStep);
    if (step <= last) continue;
    last = step;
    const share = progress?.[row];
    const total = share
      ? Math.round((step + 1) / share)
      : isOver
        ? steps.at(-1)! - Math.min(1, firstStep) + 1
        : Number.POSITIVE_INFINITY;
    const metrics = Object.fromEntries(columns.map(([name, values]) => [name, values[row] ?? undefined]));
    for (const finding of diagnosis.observe(step, total, metrics)) notes.push({ ...finding, row });
  }
  return notes;
}

/** Names that count or measure the progress of the run itself. */
const isCounter = (name: string): boolean =>
  /^(epoch|progress|step|batch|num_\w+|iteration)(:|\/|$)/.test(name) ||
  /(^|\/)(total_\w+_tokens|total_episodes|total_turns)$/.test(name);

/** Metrics in the order in which they help, by their prefix. */
const groupOrder = ["", "train", "test", "eval", "dpo", "bt", "env", "optim", "loss", "time", "counts"];

/** Metrics of a page, sorted into groups. */
export interface MetricGroups {
  readonly groups: readonly { readonly name: string; readonly metrics: readonly string[] }[];
  /** Metrics with one value in all runs and steps. */
  readonly constants: readonly { readonly name: string; readonly value: number }[];
}

/** @param skipped - metrics that are shown elsewhere */
export function groupMetrics(curves: readonly RunCurves[], skipped: ReadonlySet<string>): MetricGroups {
  const names = [...new Set(curves.flatMap(({ y }) => [...y.keys()]))].filter((name) => !skipped.has(name));
  const groups = new Map<string, string[]>();
  const constants: { name: string; value: number }[] = [];
  for (const name of names) {
    const only = constantOf(curves, name);
    if (only === "none") continue;
    if (only !== undefined) {
      constants.push({ name, value: only });
      continue;
    }
    const group = isCounter(name) ? "counts" : name.includes("/") ? name.slice(0, name.indexOf("/")) : "";
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  const rank = (name: string) => {
    const at = groupOrder.indexOf(name);
    return at < 0 ? groupOrder.length - 2.5 : at;
  };
  const sorted = [...groups].sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b));
  return { groups: sorted.map(([name, metrics]) => ({ name, metrics })), constants };
}

/** The value of a metric that never changes; `"none"` if it has no value, `undefined` if it changes. */
function constantOf(curves: readonly RunCurves[], name: string): number | "none" | undefined {
  let only: number | "none" = "none";
  for (const { y } of curves)
    for (const value of y.get(name) ?? []) {
      if (value === null) continue;
      if (only === "none") only = value;
      else if (value !== only) return undefined;
    }
  return only;
}
