/** The charts of a view with shared controls: axis, smoothing, scale, zoom. The outcome comes first, then the other metrics by prefix. */
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Chart, type ChartMark, type ChartProps, runColour } from "./chart.tsx";
import { formatNumber } from "./format.ts";
import { groupMetrics, type Note, type Outcome, outcomeLines, outcomeOf, summaryOf } from "./outcome.ts";
import { Choice, Notice } from "./parts.tsx";
import { linesOf, type RunCurves, type XAxis } from "./series.ts";
import { oneLine } from "./text.ts";

/** Charts of a group that are shown initially. */
const firstCharts = 12;
/** Steps from which a curve is smoothed initially. */
const smoothedFrom = 40;
const words = { step: "Step", time: "Time", tokens: "Tokens" };

export function Charts(props: {
  readonly curves: readonly RunCurves[];
  /** What the diagnosis found in the first run. */
  readonly notes?: readonly Note[];
  /** Shown below the outcome. */
  readonly children?: ComponentChildren;
}) {
  const { curves, notes = [] } = props;
  const [axis, setAxis] = useState<XAxis>("step");
  const [chosenSmoothing, setSmoothing] = useState<number>();
  const [isLog, setLog] = useState(false);
  const [zoom, setZoom] = useState<readonly [number, number]>();
  const kinds = useMemo(() => [...new Set(curves.flatMap((one) => outcomeOf(one)?.kind ?? []))], [curves]);
  const { groups, constants } = useMemo(() => {
    const shown = curves.flatMap((one) => {
      const { train, test } = outcomeOf(one) ?? {};
      return [train, test].filter((name) => name !== undefined);
    });
    return groupMetrics(curves, new Set(shown));
  }, [curves]);
  if (kinds.length === 0 && groups.length === 0 && constants.length === 0) {
    return (
      <Notice kind="empty" title="No steps yet.">
        <p>The curve starts with the first optimizer step and updates automatically.</p>
      </Notice>
    );
  }
  const steps = Math.max(0, ...curves.map(({ x }) => x.step?.length ?? 0));
  const smoothing = chosenSmoothing ?? (steps >= smoothedFrom ? 0.6 : 0);
  const axes = (["step", "time", "tokens"] as const).filter((name) => curves.some(({ x }) => x[name] !== undefined));
  const shared: Shared = { axis, smoothing, isLog, zoom, onZoom: setZoom };
  return (
    <div data-testid="charts" data-points={curves[0]?.x.step?.length ?? 0}>
      <div class="row controls">
        {axes.length < 2 ? null : (
          <Choice
            label="Horizontal axis"
            value={axis}
            options={axes.map((name) => [name, words[name]] as const)}
            onChange={(value) => {
              setZoom(undefined);
              setAxis(value);
            }}
          />
        )}
        <label class="slider">
          Smoothing
          <input
            type="range"
            min="0"
            max="0.99"
            step="0.01"
            value={smoothing}
            onInput={(event) => setSmoothing(Number(event.currentTarget.value))}
          />
          <output>{smoothing.toFixed(2)}</output>
        </label>
        <label>
          <input type="checkbox" checked={isLog} onChange={(event) => setLog(event.currentTarget.checked)} /> Log scale
        </label>
        <button type="button" disabled={zoom === undefined} onClick={() => setZoom(undefined)}>
          Show all
        </button>
      </div>
      {curves.length < 2 ? null : (
        <ul class="legend" aria-label="Runs in the charts">
          {curves.map(({ key, label }, i) => (
            <li key={key}>
              <span class="swatch" style={{ background: runColour(i) }} aria-hidden="true" /> {label}
            </li>
          ))}
        </ul>
      )}
      {kinds.map((kind, i) => (
        <OutcomeChart key={kind} kind={kind} curves={curves} notes={i === 0 ? notes : []} {...shared} />
      ))}
      {props.children}
      {groups.map(({ name, metrics }) => (
        <Group key={name} name={name} metrics={metrics} curves={curves} {...shared} />
      ))}
      {constants.length === 0 ? null : (
        <details class="panel">
          <summary>Unchanged ({constants.length})</summary>
          <dl class="constants">
            {constants.slice(0, 500).map(({ name, value }) => (
              <div key={name}>
                <dt>{oneLine(name, 80)}</dt>
                <dd>{formatNumber(value)}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </div>
  );
}

type Shared = Pick<ChartProps, "axis" | "smoothing" | "isLog" | "zoom" | "onZoom">;
interface RunsProps extends Shared {
  readonly curves: readonly RunCurves[];
}

/** The runs' losses or rewards, on training data and held-out data, with the best step and what the diagnosis found. */
function OutcomeChart({
  kind,
  notes,
  curves,
  ...shared
}: RunsProps & { readonly kind: Outcome["kind"]; readonly notes: readonly Note[] }) {
  const { axis } = shared;
  const lines = useMemo(() => outcomeLines(curves, kind, axis), [curves, kind, axis]);
  const marks = useMemo((): ChartMark[] => {
    const best = curves.slice(0, 6).flatMap((curve): ChartMark[] => bestMark(curve, kind, axis));
    const x = curves[0]?.x[axis] ?? curves[0]?.x.step ?? [];
    return [...best, ...notes.map(({ row }, i): ChartMark => ({ x: x[row] ?? 0, label: `${i + 1}`, kind: "note" }))];
  }, [curves, kind, axis, notes]);
  return (
    <div class="outcome">
      <Chart name={kind} lines={lines} marks={marks} height={320} {...shared} />
      <ul class="legend" aria-label={`Lines of ${kind}`}>
        {lines.map(({ key, label, colour, isSparse }) => (
          <li key={key}>
            <span
              class={`swatch ${isSparse ? "swatch-dashed" : ""}`}
              style={{ color: runColour(colour) }}
              aria-hidden="true"
            />{" "}
            {label}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The best step of a run: on held-out data where there are evaluations. */
function bestMark(curve: RunCurves, kind: Outcome["kind"], axis: XAxis): ChartMark[] {
  const outcome = outcomeOf(curve);
  const name = outcome?.test ?? outcome?.train;
  if (outcome?.kind !== kind || name === undefined) return [];
  const best = summaryOf(curve.y.get(name), outcome.isHigherBetter);
  const x = (curve.x[axis] ?? curve.x.step)?.[best?.bestAt ?? -1];
  return best === undefined || best.count < 2 || x === undefined
    ? []
    : [{ x, y: best.best, label: "best", kind: "best" }];
}

function Group({ name, metrics, ...runs }: RunsProps & { readonly name: string; readonly metrics: readonly string[] }) {
  const [count, setCount] = useState(firstCharts);
  const [isOpen, setOpen] = useState(name !== "counts" && name !== "time");
  return (
    <details class="panel" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {oneLine(name === "" ? "Other metrics" : name === "counts" ? "Counts and progress" : name, 60)} (
        {metrics.length})
      </summary>
      {isOpen ? (
        <div class="charts">
          {metrics.slice(0, count).map((metric) => (
            <MetricChart key={metric} metric={metric} {...runs} />
          ))}
        </div>
      ) : null}
      {isOpen && metrics.length > count ? (
        <button type="button" onClick={() => setCount(metrics.length)}>
          Show {metrics.length - count} more
        </button>
      ) : null}
    </details>
  );
}

function MetricChart({ metric, curves, ...shared }: RunsProps & { readonly metric: string }) {
  const { axis } = shared;
  const lines = useMemo(() => linesOf(curves, metric, axis), [curves, metric, axis]);
  return <Chart name={oneLine(metric, 80)} lines={lines} height={200} {...shared} />;
}
