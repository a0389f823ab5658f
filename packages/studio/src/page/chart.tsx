/**
 * A chart of one metric of one or several runs: zooms by dragging or with the keyboard, shows values under the pointer, and provides a text
 * description and a table for screen readers.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { formatCount, formatDuration, formatNumber, timeMark, timeSteps } from "./format.ts";
import { alignRuns, type RunCurves, type XAxis } from "./series.ts";

export interface ChartProps {
  readonly metric: string;
  readonly curves: readonly RunCurves[];
  readonly axis: XAxis;
  readonly smoothing: number;
  readonly isLog: boolean;
  readonly height?: number;
  /** Shared by all charts of a page. */
  readonly zoom: readonly [number, number] | undefined;
  readonly onZoom: (zoom: readonly [number, number] | undefined) => void;
}

const axisNames = { step: "step", time: "seconds since the first step", tokens: "tokens" } as const;
/** Maximum rows of a chart's table. */
const tableRows = 20;

/** The colours of up to six runs, defined in the style sheet. */
export const runColour = (index: number): string => cssValue(`--run-${(index % 6) + 1}`);
const cssValue = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const xText = (axis: XAxis, value: number): string =>
  axis === "time" ? formatDuration(value) : axis === "tokens" ? formatCount(value) : formatNumber(value);

function optionsOf(props: ChartProps, width: number, onSelect: (from: number, to: number) => void): uPlot.Options {
  const { curves, axis, smoothing, isLog } = props;
  const [ink, line] = [cssValue("--ink-soft"), cssValue("--line")];
  const font = "12px system-ui, sans-serif";
  const axes = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  return {
    width,
    height: props.height ?? 240,
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 }, y: false },
    scales: { x: { time: false }, y: { distr: isLog ? 3 : 1 } },
    axes: [
      {
        ...axes,
        ...(axis === "time" ? { incrs: timeSteps } : {}),
        values: (_, ticks) => ticks.map((tick) => (axis === "time" ? timeMark(tick) : xText(axis, tick))),
      },
      { ...axes, size: 64, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : formatNumber(tick))) },
    ],
    series: [
      {},
      ...curves.flatMap((_, i): uPlot.Series[] => {
        const stroke = runColour(i);
        const main = { stroke, width: 2, spanGaps: true, points: { show: false } };
        return smoothing > 0 ? [main, { ...main, width: 1, alpha: 0.25 }] : [main];
      }),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          onSelect(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

export function Chart(props: ChartProps) {
  const { metric, curves, axis, smoothing, isLog, zoom, onZoom, height = 240 } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [isTableOpen, setTableOpen] = useState(false);
  const [pointed, setPointed] = useState<{ readonly x: number; readonly ys: readonly (number | null)[] }>();
  const data = useMemo(() => alignRuns(curves, { metric, axis, smoothing }), [curves, metric, axis, smoothing]);
  const words = useMemo(() => described(metric, curves, axis), [curves, metric, axis]);
  const latest = useRef({ data, onZoom });
  latest.current = { data, onZoom };
  const theme = document.documentElement.dataset["theme"] ?? "";
  // A change of these values requires a new uPlot instance; other changes only redraw.
  const shape = [...curves.map(({ key }) => key), axis, smoothing > 0, isLog, theme, height].join(" ");

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const options = optionsOf(props, element.clientWidth, (from, to) => latest.current.onZoom([from, to]));
    const perRun = smoothing > 0 ? 2 : 1;
    options.hooks!.setCursor = [
      (drawn) => {
        const at = drawn.cursor.idx;
        if (at === null || at === undefined) return setPointed(undefined);
        const ys = curves.map((_, i) => nearest(drawn.data[1 + i * perRun] as (number | null)[], at));
        setPointed({ x: drawn.data[0][at]!, ys });
      },
    ];
    const made = new uPlot(options, latest.current.data, element);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape]);

  useEffect(() => {
    const drawn = plot.current;
    if (drawn === undefined) return;
    drawn.batch(() => {
      if (drawn.data !== data || zoom === undefined) drawn.setData(data, zoom === undefined);
      if (zoom !== undefined) drawn.setScale("x", { min: zoom[0], max: zoom[1] });
    });
  }, [shape, data, zoom?.[0], zoom?.[1]]);

  const onKey = (event: KeyboardEvent) => {
    const drawn = plot.current;
    const [min, max] = [drawn?.scales["x"]?.min, drawn?.scales["x"]?.max];
    if (min === undefined || max === undefined || min === null || max === null) return;
    const width = max - min;
    const moves: Record<string, readonly [number, number] | undefined> = {
      ArrowLeft: [min - width / 4, max - width / 4],
      ArrowRight: [min + width / 4, max + width / 4],
      "+": [min + width / 4, max - width / 4],
      "-": [min - width / 2, max + width / 2],
      "0": undefined,
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    onZoom(moves[event.key]);
  };
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-name">{metric}</span>
        <span class="chart-pointed" aria-hidden="true">
          {pointed === undefined
            ? ""
            : `${xText(axis, pointed.x)}: ${pointed.ys.map((y) => formatNumber(y)).join(" · ")}`}
        </span>
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard zooms it */}
      <div class="plot" ref={box} role="img" tabIndex={0} aria-label={words} onKeyDown={onKey} />
      <details class="chart-table" onToggle={(event) => setTableOpen(event.currentTarget.open)}>
        <summary>{metric} as a table</summary>
        {isTableOpen ? <DataTable data={data} curves={curves} axis={axis} perRun={smoothing > 0 ? 2 : 1} /> : null}
      </details>
    </figure>
  );
}

/** The value at an index, or the last one before it. */
function nearest(values: readonly (number | null)[] | undefined, at: number): number | null {
  for (let i = at; i >= 0 && i > at - 50; i--) {
    const value = values?.[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/** A text description of a chart. */
function described(metric: string, curves: readonly RunCurves[], axis: XAxis): string {
  const parts = curves.map(({ label, y }) => {
    let [count, low, high, last] = [0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN];
    for (const value of y.get(metric) ?? []) {
      if (value === null || !Number.isFinite(value)) continue;
      count++;
      low = Math.min(low, value);
      high = Math.max(high, value);
      last = value;
    }
    if (count === 0) return `${label}: nothing yet`;
    return `${label}: ${count} points, from ${formatNumber(low)} to ${formatNumber(high)}, last ${formatNumber(last)}`;
  });
  return `${metric} by ${axisNames[axis]}. ${parts.join(". ")}. Arrow keys move, plus and minus zoom, 0 shows all.`;
}

function DataTable(props: {
  readonly data: uPlot.AlignedData;
  readonly curves: readonly RunCurves[];
  readonly axis: XAxis;
  readonly perRun: number;
}) {
  const { data, curves, axis, perRun } = props;
  const x = data[0];
  const every = Math.max(1, Math.ceil(x.length / tableRows));
  const rows = Array.from({ length: Math.ceil(x.length / every) }, (_, i) => i * every);
  if (x.length > 0 && rows.at(-1) !== x.length - 1) rows.push(x.length - 1);
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">{axis}</th>
            {curves.map(({ key, label }) => (
              <th key={key} scope="col">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((i) => (
            <tr key={i}>
              <td>{xText(axis, x[i]!)}</td>
              {curves.map(({ key }, run) => (
                <td key={key}>{formatNumber(data[1 + run * perRun]?.[i] as number | null)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
