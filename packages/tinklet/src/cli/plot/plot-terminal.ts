/** Plots for the terminal in braille characters, each with two columns and four rows of dots. */
import type { Style } from "../output/output.ts";

/** A curve. */
export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface PlotOptions {
  /** Width in characters, including the axis. @defaultValue 72 */
  readonly width?: number;
  /** Height in lines, without the legend. @defaultValue 14 */
  readonly height?: number;
  readonly style?: (text: string, ...styles: Style[]) => string;
  readonly xLabel?: string;
}

/** One colour per curve, in order. */
const colours: readonly Style[] = ["cyan", "yellow", "green", "magenta", "blue", "red"];
const marks = ["─", "╌", "·", "═", "┄", "≈"];

/** Bits of a braille character, by column and row. */
const dots = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
] as const;

/**
 * Draws curves. Points that are not finite are skipped; several curves get a legend.
 */
export function terminalPlot(series: readonly Series[], options: PlotOptions = {}): string {
  const { width = 72, height = 14, style = (text: string) => text, xLabel = "step" } = options;
  const drawn = series
    .map(({ name, points }) => ({ name, points: points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)) }))
    .filter(({ points }) => points.length > 0);
  if (drawn.length === 0) return "(nothing to plot)";
  const [xMin, xMax] = range(
    drawn.flatMap(({ points }) => points.map(([x]) => x)),
    1,
  );
  const [yMin, yMax] = range(drawn.flatMap(({ points }) => points.map(([, y]) => y)));
  const labels = [yMax, (yMin + yMax) / 2, yMin].map(tick);
  const margin = Math.max(...labels.map((label) => label.length)) + 2;
  const columns = Math.max(8, width - margin);
  const cells = Array.from({ length: height }, () => new Uint8Array(columns));
  const owners = Array.from({ length: height }, () => new Int8Array(columns).fill(-1));
  drawn.forEach(({ points }, index) => {
    const dotted = points.map(([x, y]): [number, number] => [
      Math.round(((x - xMin) / (xMax - xMin)) * (columns * 2 - 1)),
      Math.round((1 - (y - yMin) / (yMax - yMin)) * (height * 4 - 1)),
    ]);
    dotted.forEach((to, at) => {
      for (const [x, y] of line(dotted[Math.max(at - 1, 0)] as [number, number], to)) {
        const row = cells[y >> 2] as Uint8Array;
        row[x >> 1] = (row[x >> 1] as number) | (dots[x & 1]?.[y & 3] as number);
        (owners[y >> 2] as Int8Array)[x >> 1] = index;
      }
    });
  });
  const lines = cells.map((row, at) => {
    const label =
      at === 0 ? labels[0] : at === height - 1 ? labels[2] : at === Math.floor((height - 1) / 2) ? labels[1] : "";
    const text = [...row].map((bits, column) => {
      const owner = owners[at]?.[column] ?? -1;
      return owner < 0 ? " " : style(String.fromCharCode(0x2800 + bits), colours[owner % colours.length] as Style);
    });
    return `${style((label ?? "").padStart(margin - 2), "dim")} ${style("│", "dim")}${text.join("").trimEnd()}`;
  });
  const ends = [tick(xMin), `${xLabel} ${tick(xMax)}`] as const;
  const gap = Math.max(1, columns - ends[0].length - ends[1].length);
  lines.push(style(`${" ".repeat(margin - 1)}└${"─".repeat(columns)}`, "dim"));
  lines.push(style(`${" ".repeat(margin)}${ends[0]}${" ".repeat(gap)}${ends[1]}`, "dim"));
  if (drawn.length > 1) {
    const legend = drawn.map(
      ({ name }, at) => `${style(marks[at % marks.length] as string, colours[at % colours.length] as Style)} ${name}`,
    );
    lines.push(`${" ".repeat(margin)}${legend.join("   ")}`);
  }
  return lines.join("\n");
}

/**
 * Minimum and maximum, widened if they are equal.
 *
 * @param unit - for counts: a single value is widened by this unit, upwards only
 */
export function range(values: readonly number[], unit?: number): [number, number] {
  const [least, most] = values.reduce(
    ([a, b], value) => [Math.min(a, value), Math.max(b, value)],
    [Infinity, -Infinity],
  );
  if (least < most) return [least, most];
  if (unit !== undefined) return [least, least + unit];
  const room = Math.max(Math.abs(least), 1) * 0.05;
  return [least - room, most + room];
}

/** The label of a number on an axis. */
export function tick(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1);
  if (Number.isInteger(value)) return String(value);
  return String(Number(value.toFixed(size >= 100 ? 0 : size >= 1 ? 2 : 3)));
}

/** The dots of a line (Bresenham). */
function* line([x, y]: readonly [number, number], [toX, toY]: readonly [number, number]): Generator<[number, number]> {
  const [dx, dy] = [Math.abs(toX - x), -Math.abs(toY - y)];
  let error = dx + dy;
  let [atX, atY] = [x, y];
  for (;;) {
    yield [atX, atY];
    if (atX === toX && atY === toY) return;
    const twice = 2 * error;
    if (twice >= dy) {
      error += dy;
      atX += toX > atX ? 1 : -1;
    }
    if (twice <= dx) {
      error += dx;
      atY += toY > atY ? 1 : -1;
    }
  }
}
