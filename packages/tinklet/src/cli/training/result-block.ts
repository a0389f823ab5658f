/** The result block that ends `train`: loss before and after, the best checkpoint, time, tokens, cost, and the next commands. */
import type { CheckpointRecord, MetricsRow } from "@tinklet/cookbook";
import { counted, formatCount, formatDuration } from "../output/format.ts";

/** A finished run. */
export interface Finished {
  readonly folder: string;
  readonly rows: readonly MetricsRow[];
  readonly checkpoints: readonly CheckpointRecord[];
  /** Number of held-out examples. */
  readonly heldOut: number;
  /** Duration of this process's part of the run; absent if it trained no step. */
  readonly seconds?: number | undefined;
  /** Text for the cost, if a price is known. */
  readonly cost?: string | undefined;
  /** Link to the run in the studio of a running server. */
  readonly studioUrl?: string | undefined;
  readonly isLocal: boolean;
}

/** Losses on the held-out data, per token. */
export interface HeldOutLoss {
  readonly before: number;
  readonly after: number;
  readonly best: { readonly step: number; readonly loss: number; readonly checkpoint: string | undefined };
}

/** @returns `undefined` if the run was not evaluated at least twice */
export function heldOutLoss(
  rows: readonly MetricsRow[],
  checkpoints: readonly CheckpointRecord[],
): HeldOutLoss | undefined {
  const points = rows.flatMap(({ step, "test/nll": loss }) => (typeof loss === "number" ? [{ step, loss }] : []));
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || first === last) return undefined;
  // On a tie the later step wins: it is the one that is saved.
  const { step, loss } = points.reduce((best, point) => (point.loss <= best.loss ? point : best));
  const checkpoint =
    step === last.step ? checkpoints.at(-1)?.name : checkpoints.find(({ name }) => Number(name) === step)?.name;
  return { before: first.loss, after: last.loss, best: { step, loss, checkpoint } };
}

/** The lines of the block. */
export function resultBlock(finished: Finished): string[] {
  const { folder, rows, checkpoints, heldOut, seconds, cost, studioUrl } = finished;
  const local = finished.isLocal ? " --local" : "";
  const loss = heldOutLoss(rows, checkpoints);
  const steps = rows.filter((row) => row["train_mean_nll"] !== undefined);
  const tokens = steps.reduce((sum, row) => sum + (row["num_tokens"] ?? 0), 0);
  const from = loss?.best.checkpoint === undefined ? folder : `${folder}:${loss.best.checkpoint}`;
  const isFinalBest = loss === undefined || loss.best.loss === loss.after;
  const facts: (readonly [label: string, text: string] | undefined)[] = [
    ["Result", loss === undefined ? trainingLoss(steps) : comparison(loss, heldOut)],
    isFinalBest ? undefined : ["Best", bestText(loss.best)],
    [
      "Training",
      [
        counted(steps.length, "step"),
        `${formatCount(tokens)} tokens`,
        ...(seconds === undefined ? [] : [formatDuration(seconds)]),
      ].join(", "),
    ],
    cost === undefined ? undefined : ["Cost", cost],
    studioUrl === undefined ? undefined : ["Studio", studioUrl],
  ];
  return [
    ...facts.flatMap((fact) => (fact === undefined ? [] : [`${fact[0].padEnd(9)} ${fact[1]}`])),
    "",
    `  npx tinklet chat${local} --from ${isFinalBest ? folder : from}`,
    `  npx tinklet studio ${folder}`,
    `  npx tinklet export ${isFinalBest ? folder : from}${local} --format gguf --out model.gguf`,
  ];
}

const figure = (loss: number) => loss.toFixed(3);
const perplexity = (loss: number) => Math.exp(loss).toPrecision(3);

function comparison({ before, after }: HeldOutLoss, heldOut: number): string {
  return `loss per token ${figure(before)} → ${figure(after)}, perplexity ${perplexity(before)} → ${perplexity(after)}, on ${counted(heldOut, "held-out example")}`;
}

function bestText({ step, loss, checkpoint }: HeldOutLoss["best"]): string {
  const saved =
    checkpoint === undefined
      ? "no checkpoint was saved there: set --save-every to --eval-every"
      : `checkpoint ${checkpoint}`;
  return `loss per token ${figure(loss)} at step ${step} (${saved}). It rose after that, which is overfitting: train fewer steps, or use that checkpoint.`;
}

function trainingLoss(steps: readonly MetricsRow[]): string {
  const losses = steps.map((row) => row["train_mean_nll"] ?? Number.NaN);
  const [first, last] = [losses[0], losses.at(-1)];
  if (first === undefined || last === undefined) return "no step was trained";
  return `training loss per token ${figure(first)} → ${figure(last)}; nothing was held out, so it says nothing about new data (--test-share)`;
}
