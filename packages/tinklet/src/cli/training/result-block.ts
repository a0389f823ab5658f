/** The result block that ends `train`: loss before and after, the best checkpoint, answers, time, tokens, cost, and the next commands. */
import type { AnswerPair, CheckpointRecord, MetricsRow } from "@tinklet/cookbook";
import { counted, formatCount, formatDuration } from "../output/format.ts";
import type { Output } from "../output/output.ts";

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
  /** Test file, for the next command. */
  readonly testFile?: string | undefined;
}

/** Losses on the held-out data, per token. */
export interface HeldOutLoss {
  readonly before: number;
  readonly after: number;
  readonly best: {
    /** Number of steps that the best weights were trained for; 0: not trained. */
    readonly step: number;
    readonly loss: number;
    readonly checkpoint: string | undefined;
    readonly path: string | undefined;
  };
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
  const saved = checkpoints.findLast(
    ({ name, batch, final, sampler_path: path }) =>
      path !== undefined &&
      (final === true ? step === last.step : /^best(-\d+)?$/.test(name) ? batch === step : Number(name) === step),
  );
  const best = { step, loss, checkpoint: saved?.name, path: saved?.sampler_path };
  return { before: first.loss, after: last.loss, best };
}

/** What `--from` takes for the best weights of a run. */
export function bestReference(folder: string, loss: HeldOutLoss | undefined): string {
  const name = loss?.best.checkpoint;
  if (loss === undefined || name === undefined || loss.best.loss === loss.after) return folder;
  return `${folder}:${name}`;
}

/** The facts of the block, one line each. */
export function resultFacts(finished: Finished): string[] {
  const { rows, checkpoints, heldOut, seconds, cost, studioUrl, folder } = finished;
  const loss = heldOutLoss(rows, checkpoints);
  const steps = rows.filter((row) => row["train_mean_nll"] !== undefined);
  const tokens = steps.reduce((sum, row) => sum + (row["num_tokens"] ?? 0), 0);
  const facts: (readonly [label: string, text: string] | undefined)[] = [
    ["Result", loss === undefined ? trainingLoss(steps) : comparison(loss, heldOut)],
    loss === undefined ? undefined : ["Best", bestText(loss, steps.length, folder)],
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
  return facts.flatMap((fact) => (fact === undefined ? [] : [`${fact[0].padEnd(9)} ${fact[1]}`]));
}

/** The next commands. */
export function nextCommands(finished: Finished): string[] {
  const { folder, rows, checkpoints, isLocal, testFile } = finished;
  const local = isLocal ? " --local" : "";
  const from = shellWord(bestReference(folder, heldOutLoss(rows, checkpoints)));
  return [
    `  npx tinklet chat${local} --from ${from}`,
    testFile === undefined
      ? `  npx tinklet studio ${shellWord(folder)}`
      : `  npx tinklet eval ${shellWord(testFile)}${local} --from ${from} --base`,
    `  npx tinklet export ${from}${local} --format gguf --out model.gguf`,
  ];
}

/** The word as a shell reads it. */
export const shellWord = (text: string) => (/^[\w./:@=+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Prints answers before and after training. */
export function showAnswers(answers: readonly AnswerPair[], source: string, output: Output): void {
  if (answers.length === 0) return;
  output.line(`\nAnswers to ${source}:`);
  for (const { question, before, after } of answers) {
    output.line(`  ${output.style(oneLineOf(question), "dim")}`);
    if (before !== undefined) output.line(`    before  ${oneLineOf(before)}`);
    output.line(`    after   ${oneLineOf(after)}`);
  }
}

function oneLineOf(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 160 ? `${line.slice(0, 159)}…` : line;
}

const figure = (loss: number) => loss.toFixed(3);
const perplexity = (loss: number) => Math.exp(loss).toPrecision(3);

function comparison({ before, after }: HeldOutLoss, heldOut: number): string {
  return `loss per token ${figure(before)} → ${figure(after)}, perplexity ${perplexity(before)} → ${perplexity(after)}, on ${counted(heldOut, "held-out example")}`;
}

/** Rises of the loss per token below the larger of these are noise: 0.01, or 2 % of the loss. */
const leastRise = 0.01;
const leastShare = 0.02;

function bestText(held: HeldOutLoss, steps: number, folder: string): string {
  const { step, loss, checkpoint } = held.best;
  const at = `loss per token ${figure(loss)} ${step === 0 ? "before training" : `after ${counted(step, "step")} of ${steps}`}`;
  if (loss === held.after) return `${at}: the last weights, ${folder}`;
  if (step === 0)
    return `${at}. Training made it worse: choose a lower learning rate, or look at the data (npx tinklet inspect).`;
  const saved = checkpoint === undefined ? "no checkpoint was saved there" : `kept as ${bestReference(folder, held)}`;
  if (held.after - loss < Math.max(leastRise, loss * leastShare))
    return `${at}, ${saved}. The last weights are as good.`;
  return `${at}, ${saved}. It rose after that, which is overfitting: train fewer steps, or use that checkpoint.`;
}

function trainingLoss(steps: readonly MetricsRow[]): string {
  const losses = steps.map((row) => row["train_mean_nll"] ?? Number.NaN);
  const [first, last] = [losses[0], losses.at(-1)];
  if (first === undefined || last === undefined) return "no step was trained";
  return `training loss per token ${figure(first)} → ${figure(last)}; nothing was held out, so it says nothing about new data (--test-share)`;
}
