/** The figures of one run: its duration, tokens and cost, from the server's steps, the run folder, or both. */
import { priceOf, trainingCost } from "@tinklet/cookbook/figures";
import type { RunFolderResponse, RunStepsResponse, StepColumns } from "@tinklet/wire";
import { spansOf } from "./run-rows.ts";
import { folderCurves, type RunCurves, stepCurves } from "./series.ts";

/** A run with what is known of it. At least one of both is present. */
export interface RunData {
  readonly key: string;
  readonly name: string;
  readonly run: RunStepsResponse | undefined;
  readonly folder: RunFolderResponse | undefined;
}

/** The curves of a run. Its folder knows more metrics than the server; the server knows the time of each step. */
export function curvesOf({ key, name, run, folder }: RunData): RunCurves {
  const isRecorded = folder !== undefined && (folder.folder.rows > 0 || run === undefined);
  if (!isRecorded) return stepCurves(key, name, run!.steps);
  const curves = folderCurves(key, name, folder.metrics, folder.folder.rows);
  const time = curves.x.time === undefined && run !== undefined ? timeOf(curves.x.step ?? [], run.steps) : undefined;
  return time === undefined ? curves : { ...curves, x: { ...curves.x, time } };
}

/**
 * Seconds since the first step of each row of a folder. The folder counts steps from 0, the server from 1.
 *
 * @returns `undefined` if the server does not know each step: it has only the last part of a run that was resumed
 */
function timeOf(step: readonly number[], steps: StepColumns): readonly number[] | undefined {
  const [begin] = steps.time;
  if (begin === undefined || step[0] !== 0 || steps.step[0] !== 1) return undefined;
  const times: number[] = [];
  let at = 0;
  for (const one of step) {
    while (at < steps.step.length - 1 && steps.step[at]! < one + 1) at++;
    times.push((steps.time[at]! - begin) / 1000);
  }
  return times;
}

/** Pauses longer than this are not part of a run's duration: it was stopped and resumed. */
const longestPauseMs = 30 * 60_000;

/** Seconds from the first step to the last, without long pauses; `isExact` is false where steps were not measured. */
export function durationOf({
  run,
  folder,
}: RunData): { readonly seconds: number; readonly isExact: boolean } | undefined {
  if (run !== undefined && run.steps.time.length > 0) {
    const { time, queueMs, computeMs } = run.steps;
    let total = queueMs[0]! + computeMs[0]!;
    for (let i = 1; i < time.length; i++) total += Math.min(longestPauseMs, Math.max(0, time[i]! - time[i - 1]!));
    return { seconds: total / 1000, isExact: true };
  }
  if (folder === undefined) return undefined;
  if (folder.result?.seconds !== undefined) return { seconds: folder.result.seconds, isExact: true };
  const recorded = folder.metrics["time/total"];
  if (recorded !== undefined)
    return { seconds: recorded.reduce<number>((sum, value) => sum + (value ?? 0), 0), isExact: true };
  const lengths = folder.timing.flatMap((row) => {
    const spans = spansOf(row);
    return spans.length === 0
      ? []
      : [Math.max(...spans.map(({ end }) => end)) - Math.min(...spans.map(({ start }) => start))];
  });
  if (lengths.length === 0) return undefined;
  const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  return { seconds: mean * folder.folder.rows, isExact: lengths.length >= folder.folder.rows };
}

/** Tokens by what they were used for. */
export function tokensOf({ run, folder }: RunData): { train: number; evaluate: number; sample: number } | undefined {
  if (folder?.spending !== undefined) return folder.spending;
  if (run !== undefined) return { train: run.run.tokens, evaluate: 0, sample: 0 };
  return undefined;
}

/**
 * US dollars that a run cost.
 *
 * @returns 0 for a run of this server, which charges nothing; `undefined` if the model has no known price
 */
export function costOf(data: RunData): { readonly dollars: number; readonly asOf?: string } | undefined {
  if (data.run !== undefined) return { dollars: 0 };
  if (data.folder?.result?.cost !== undefined) return { dollars: data.folder.result.cost };
  const price = data.folder?.folder.model === undefined ? undefined : priceOf(data.folder.folder.model);
  const tokens = tokensOf(data);
  return price === undefined || tokens === undefined
    ? undefined
    : { dollars: trainingCost(price, tokens), asOf: price.asOf };
}
