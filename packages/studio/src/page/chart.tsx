/**
 * A chart of one or several lines: zooms by dragging or with the keyboard, shows values under the pointer, marks points and steps, and
 * provides a text description and a table for screen readers. Knows nothing of runs, so that other pages can use it.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { formatCount, formatDuration, formatNumber, timeMark, timeSteps } from "./format.ts";
import { alignLines, type ChartLine, isSmoothed, type XAxis } from "./series.ts";

/** Something to see at a place of the chart. */
export interface ChartMark {
  readonly x: number;
  /** A ring at this value; without it a vertical line. */
  readonly y?: number;
  /** A few characters. */
  readonly label: string;
  readonly kind: "best" | "note";
}

export interface ChartProps {
  readonly name: string;
  readonly lines: readonly ChartLine[];
  readonly axis: XAxis;
  readonly smoothing: number;
  readonly isLog: boolean;
  readonly height?: number;
  readonly marks?: readonly ChartMark[];
  /** Shared by all charts of a page. */
  readonly zoom: readonly [number, number] | undefined;
  readonly onZoom: (zoom: readonly [number, number] | undefined) => void;
}

const axisNames = { step: "step", time: "seconds since the first step", tokens: "tokens" } as const;
/** Maximum rows of a chart's table. */
const tableRows = 20;
/** Distances between two ticks of an axis of whole numbers. */
const wholeSteps = Array.from({ length: 13 }, (_, i) => [1, 2, 5].map((digit) => digit * 10 ** i)).flat();

/** The colours of up to six runs, defined in the style sheet. */
export const runColour = (index: number): string => cssValue(`--run-${(index % 6) + 1}`);
const cssValue = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const xText = (axis: XAxis, value: number): string => (axis === "time" ? formatDuration(value) : formatCount(value));

/** Index of each line's first column in the aligned data. */
function columnsOf(lines: readonly ChartLine[], smoothing: number): readonly number[] {
  let next = 1;
  return lines.map((line) => {
    const at = next;
    next += isSmoothed(line, smoothing) ? 2 : 1;
    return at;
  });
}

function optionsOf(props: ChartProps, width: number, onSelect: (from: number, to: number) => void): uPlot.Options {
  const { lines, axis, smoothing, isLog } = props;
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
        incrs: axis === "time" ? timeSteps : wholeSteps,
        values: (_, ticks) => ticks.map((tick) => (axis === "time" ? timeMark(tick) : formatCount(tick))),
      },
      { ...axes, size: 64, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : formatNumber(tick))) },
    ],
    series: [
      {},
      ...lines.flatMap((one): uPlot.Series[] => {
        const stroke = runColour(one.colour);
        const main = { stroke, width: 2, spanGaps: true, points: { show: false } };
        if (one.isSparse === true) return [{ ...main, dash: [6, 4], points: { show: true, size: 6, fill: stroke } }];
        return isSmoothed(one, smoothing) ? [main, { ...main, width: 1, alpha: 0.3 }] : [main];
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

/** Draws the marks over the lines. */
function drawMarks(plot: uPlot, marks: readonly ChartMark[]): void {
  const { ctx, bbox } = plot;
  const dot = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `600 ${11 * dot}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  for (const { x, y, label, kind } of marks) {
    const left = plot.valToPos(x, "x", true);
    const colour = cssValue(kind === "best" ? "--ink" : "--warn-ink");
    ctx.strokeStyle = colour;
    ctx.fillStyle = colour;
    ctx.lineWidth = 1.5 * dot;
    ctx.beginPath();
    if (y === undefined) {
      ctx.setLineDash([4 * dot, 4 * dot]);
      ctx.moveTo(left, bbox.top + 18 * dot);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.beginPath();
      ctx.arc(left, bbox.top + 9 * dot, 8 * dot, 0, 2 * Math.PI);
      ctx.fill();
      ctx.fillStyle = cssValue("--surface");
      ctx.textAlign = "center";
      ctx.fillText(label, left, bbox.top + 9.5 * dot);
    } else {
      const top = plot.valToPos(y, "y", true);
      ctx.arc(left, top, 6 * dot, 0, 2 * Math.PI);
      ctx.stroke();
      const isRight = left > bbox.left + bbox.width * 0.75;
      ctx.textAlign = isRight ? "right" : "left";
      const isLow = top > bbox.top + bbox.height - 20 * dot;
      ctx.fillText(label, left + (isRight ? -10 : 10) * dot, top + (isLow ? -12 : 12) * dot);
    }
  }
  ctx.restore();
}

export function Chart(props: ChartProps) {
  const { name, lines, axis, smoothing, isLog, zoom, onZoom, height = 240, marks = [] } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [isTableOpen, setTableOpen] = useState(false);
  const [pointed, setPointed] = useState<{ readonly x: number; readonly ys: readonly (number | null)[] }>();
  const data = useMemo(() => alignLines(lines, smoothing), [lines, smoothing]);
  const words = useMemo(() => described(name, lines, axis), [name, lines, axis]);
  const latest = useRef({ data, onZoom, marks });
  latest.current = { data, onZoom, marks };
  const theme = document.documentElement.dataset["theme"] ?? "";
  // A change of these values requires a new uPlot instance; other changes only redraw.
  const shape = [...lines.map(({ key, colour }) => `${key} ${colour}`), axis, smoothing > 0, isLog, theme, height].join(
    " ",
  );
  const marked = marks.map(({ x, y, label }) => `${x} ${y} ${label}`).join();

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const options = optionsOf(props, element.clientWidth, (from, to) => latest.current.onZoom([from, to]));
    const columns = columnsOf(lines, smoothing);
    options.hooks!.draw = [(drawn) => drawMarks(drawn, latest.current.marks)];
    options.hooks!.setCursor = [
      (drawn) => {
        const at = drawn.cursor.idx;
        if (at === null || at === undefined) return setPointed(undefined);
        const ys = columns.map((column) => nearest(drawn.data[column] as (number | null)[], at));
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
  }, [shape, data, marked, zoom?.[0], zoom?.[1]]);

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
        <span class="chart-name">{name}</span>
        <span class="chart-pointed" aria-hidden="true">
          {pointed === undefined
            ? ""
            : `${xText(axis, pointed.x)}: ${pointed.ys.map((y) => formatNumber(y)).join(" · ")}`}
        </span>
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard zooms it */}
      <div class="plot" ref={box} role="img" tabIndex={0} aria-label={words} onKeyDown={onKey} />
      <details class="chart-table" onToggle={(event) => setTableOpen(event.currentTarget.open)}>
        <summary>{name} as a table</summary>
        {isTableOpen ? <DataTable data={data} lines={lines} axis={axis} columns={columnsOf(lines, smoothing)} /> : null}
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
function described(name: string, lines: readonly ChartLine[], axis: XAxis): string {
  const parts = lines.map(({ label, y }) => {
    let [count, low, high, last] = [0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN];
    for (const value of y) {
      if (value === null || !Number.isFinite(value)) continue;
      count++;
      low = Math.min(low, value);
      high = Math.max(high, value);
      last = value;
    }
    if (count === 0) return `${label}: nothing yet`;
    return `${label}: ${count} points, from ${formatNumber(low)} to ${formatNumber(high)}, last ${formatNumber(last)}`;
  });
  return `${name} by ${axisNames[axis]}. ${parts.join(". ")}. Arrow keys move, plus and minus zoom, 0 shows all.`;
}

function DataTable(props: {
  readonly data: uPlot.AlignedData;
  readonly lines: readonly ChartLine[];
  readonly axis: XAxis;
  readonly columns: readonly number[];
}) {
  const { data, lines, axis, columns } = props;
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
            {lines.map(({ key, label }) => (
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
              {lines.map(({ key }, at) => (
                <td key={key}>{formatNumber(data[columns[at]!]?.[i] as number | null)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
