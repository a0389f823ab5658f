/** The charts of a view with shared controls: axis, smoothing, scale, zoom. Metrics are grouped by prefix. */
import { useState } from "preact/hooks";
import { Chart, runColour } from "./chart.tsx";
import { Choice, Notice } from "./parts.tsx";
import { groupOf, type RunCurves, type XAxis } from "./series.ts";

/** Charts of a group that are shown initially. */
const firstCharts = 12;

export function Charts({ curves }: { readonly curves: readonly RunCurves[] }) {
  const [axis, setAxis] = useState<XAxis>("step");
  const [smoothing, setSmoothing] = useState(0);
  const [isLog, setLog] = useState(false);
  const [zoom, setZoom] = useState<readonly [number, number]>();
  const metrics = [...new Set(curves.flatMap(({ y }) => [...y.keys()]))].filter((name) =>
    curves.some(({ y }) => y.get(name)?.some((value) => value !== null)),
  );
  if (metrics.length === 0) {
    return (
      <Notice kind="empty" title="No steps yet.">
        <p>The curve starts with the first optimizer step and updates automatically.</p>
      </Notice>
    );
  }
  const groups = [...new Set(metrics.map(groupOf))];
  const axes = (["step", "time", "tokens"] as const).filter((name) => curves.some(({ x }) => x[name] !== undefined));
  const words = { step: "Step", time: "Time", tokens: "Tokens" };
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
      {groups.map((group) => (
        <Group
          key={group}
          name={group}
          metrics={metrics.filter((metric) => groupOf(metric) === group)}
          {...{ curves, axis, smoothing, isLog, zoom, onZoom: setZoom }}
        />
      ))}
    </div>
  );
}

type GroupProps = Omit<Parameters<typeof Chart>[0], "metric" | "height"> & {
  readonly name: string;
  readonly metrics: readonly string[];
};

function Group({ name, metrics, ...chart }: GroupProps) {
  const [count, setCount] = useState(firstCharts);
  const charts = (
    <>
      <div class="charts">
        {metrics.slice(0, count).map((metric, i) => (
          <Chart key={metric} metric={metric} height={name === "" && i === 0 ? 300 : 200} {...chart} />
        ))}
      </div>
      {metrics.length > count ? (
        <button type="button" onClick={() => setCount(metrics.length)}>
          Show {metrics.length - count} more
        </button>
      ) : null}
    </>
  );
  if (name === "") return charts;
  return (
    <details class="panel" open>
      <summary>
        {name} ({metrics.length})
      </summary>
      {charts}
    </details>
  );
}
