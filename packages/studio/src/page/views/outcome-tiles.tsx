/** Whether a run learns and how good it is, in a few figures, and what the diagnosis found. */
import { formatCount, formatDuration, formatNumber } from "../format.ts";
import { type Note, outcomeOf, type Summary, summaryOf } from "../outcome.ts";
import { Tile } from "../parts.tsx";
import { costOf, durationOf, type RunData, tokensOf } from "../run-figures.ts";
import type { RunCurves } from "../series.ts";
import { oneLine } from "../text.ts";

/** A change, with its sign. */
export function changeText({ first, last }: Pick<Summary, "first" | "last">): string {
  const change = last - first;
  return `${change > 0 ? "+" : change < 0 ? "−" : ""}${formatNumber(Math.abs(change))}`;
}

export function OutcomeTiles({ data, curves }: { readonly data: RunData; readonly curves: RunCurves }) {
  const outcome = outcomeOf(curves);
  const name = outcome?.test ?? outcome?.train;
  const isHigher = outcome?.isHigherBetter ?? false;
  const summary = name === undefined ? undefined : summaryOf(curves.y.get(name), isHigher);
  const training =
    outcome?.test === undefined || outcome.train === undefined
      ? undefined
      : summaryOf(curves.y.get(outcome.train), isHigher);
  const kind = outcome?.test === undefined ? (outcome?.kind ?? "") : `held-out ${outcome.kind}`;
  const score = data.folder?.folder.score;
  const steps = curves.x.step ?? [];
  const count = data.run?.run.steps ?? steps.length;
  return (
    <dl class="tiles" data-testid="tiles">
      {score === undefined ? null : (
        <Tile
          name="Score"
          value={`${formatNumber(score.before)} → ${formatNumber(score.after)}`}
          detail={oneLine(score.metric, 120)}
          mood={moodOf(score.after - score.before, score.better === "higher")}
        />
      )}
      {summary === undefined ? null : (
        <>
          <Tile
            name={`${data.run?.run.status === "training" ? "Current" : "Final"} ${kind}`}
            value={formatNumber(summary.last)}
            detail={training === undefined ? undefined : `${formatNumber(training.last)} on training data`}
          />
          <Tile
            name="Best"
            value={formatNumber(summary.best)}
            detail={summary.best === summary.last ? "at the end" : `at step ${formatCount(steps[summary.bestAt] ?? 0)}`}
          />
          <Tile
            name="Change"
            value={summary.count < 2 ? "–" : changeText(summary)}
            detail={`from ${formatNumber(summary.first)}`}
            mood={moodOf(summary.last - summary.first, isHigher)}
          />
        </>
      )}
      <Tile name="Duration" {...durationFigure(data, count)} />
      <Tile name="Cost" {...costFigure(data)} />
    </dl>
  );
}

/** Whether a change is an improvement. */
const moodOf = (change: number, isHigherBetter: boolean): "good" | "bad" | undefined =>
  change === 0 || Number.isNaN(change) ? undefined : change > 0 === isHigherBetter ? "good" : "bad";

function durationFigure(data: RunData, steps: number): { readonly value: string; readonly detail: string } {
  const duration = durationOf(data);
  const detail = `${formatCount(steps)} ${steps === 1 ? "step" : "steps"}`;
  if (duration === undefined) return { value: "–", detail };
  const { seconds, isExact } = duration;
  const each = steps > 0 && seconds > 0 ? `, ${formatDuration(seconds / steps)} each` : "";
  return { value: `${isExact ? "" : "about "}${formatDuration(seconds)}`, detail: `${detail}${each}` };
}

function costFigure(data: RunData): { readonly value: string; readonly detail: string | undefined } {
  const tokens = tokensOf(data);
  const cost = costOf(data);
  const parts =
    tokens === undefined
      ? []
      : [
          `${formatCount(tokens.train)} tokens trained`,
          ...(tokens.sample > 0 ? [`${formatCount(tokens.sample)} sampled`] : []),
          ...(tokens.evaluate > 0 ? [`${formatCount(tokens.evaluate)} evaluated`] : []),
        ];
  const detail = parts.length === 0 ? undefined : parts.join(", ");
  if (cost === undefined) return { value: "–", detail: detail ?? "the model has no known price" };
  if (cost.dollars === 0) return { value: "Free", detail };
  const dollars = cost.dollars < 0.01 ? "under $0.01" : `$${cost.dollars.toFixed(2)}`;
  return { value: dollars, detail: [detail, cost.asOf && `prices of ${cost.asOf}`].filter(Boolean).join("; ") };
}

/** What the diagnosis found, with the numbers that mark it in the chart. */
export function Notes({ notes }: { readonly notes: readonly Note[] }) {
  if (notes.length === 0) return null;
  return (
    <ol class="notes" aria-label="Diagnosis" data-testid="notes">
      {notes.map(({ code, message, remedy }, i) => (
        <li key={code}>
          <span class="note-number" aria-hidden="true">
            {i + 1}
          </span>
          <span>
            <strong>{message}</strong> {remedy}
          </span>
        </li>
      ))}
    </ol>
  );
}
