/** Plots as a self-contained SVG, and as an HTML page that shows the values under the pointer. */
import { range, type Series, tick } from "./plot-terminal.ts";

export interface PictureOptions {
  readonly title: string;
  readonly yLabel: string;
  readonly xLabel?: string;
}

const size = { width: 880, height: 480 };
const box = { left: 84, top: 52, right: 24, bottom: 84 };
/** Distinguishable with colour blindness (after Okabe and Ito). */
const pictureColours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/** The plot area in pixels, and the range of its axes. */
interface Frame {
  readonly x: (value: number) => number;
  readonly y: (value: number) => number;
  readonly xTicks: readonly number[];
  readonly yTicks: readonly number[];
}

function frameOf(series: readonly Series[]): Frame {
  const [xMin, xMax] = range(
    series.flatMap(({ points }) => points.map(([x]) => x)),
    1,
  );
  const yTicks = niceTicks(...range(series.flatMap(({ points }) => points.map(([, y]) => y))));
  const [yMin, yMax] = [yTicks[0] as number, yTicks.at(-1) as number];
  const [inner, tall] = [size.width - box.left - box.right, size.height - box.top - box.bottom];
  return {
    x: (value) => box.left + ((value - xMin) / (xMax - xMin)) * inner,
    y: (value) => box.top + (1 - (value - yMin) / (yMax - yMin)) * tall,
    xTicks: niceTicks(xMin, xMax).filter((value) => value >= xMin && value <= xMax && Number.isInteger(value)),
    yTicks,
  };
}

/** About five round numbers within a range. */
function niceTicks(least: number, most: number): number[] {
  const rough = (most - least) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const first = Math.floor(least / step + 1e-9);
  const last = Math.ceil(most / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

/** The SVG, with its own background for light and dark pages. */
export function svgPlot(series: readonly Series[], options: PictureOptions): string {
  const shown = finite(series);
  const { x, y, xTicks, yTicks } = frameOf(shown);
  const bottom = size.height - box.bottom;
  const grid = yTicks.map(
    (value) =>
      `<line x1="${box.left}" x2="${size.width - box.right}" y1="${n(y(value))}" y2="${n(y(value))}" stroke="#e3e6ea"/>` +
      `<text x="${box.left - 10}" y="${n(y(value) + 4)}" text-anchor="end">${tick(value)}</text>`,
  );
  const foot = xTicks.map(
    (value) =>
      `<line x1="${n(x(value))}" x2="${n(x(value))}" y1="${bottom}" y2="${bottom + 5}" stroke="#8a929b"/>` +
      `<text x="${n(x(value))}" y="${bottom + 20}" text-anchor="middle">${tick(value)}</text>`,
  );
  const curves = shown.map(({ points }, at) => {
    const colour = pictureColours[at % pictureColours.length];
    const path = points.map(([px, py], i) => `${i === 0 ? "M" : "L"}${n(x(px))} ${n(y(py))}`).join("");
    const single =
      points.length === 1
        ? points.map(([px, py]) => `<circle cx="${n(x(px))}" cy="${n(y(py))}" r="3" fill="${colour}"/>`)
        : [];
    return `<path d="${path}" fill="none" stroke="${colour}" stroke-width="2" stroke-linejoin="round"/>${single.join("")}`;
  });
  let offset = box.left;
  const legend = shown.map(({ name }, at) => {
    const colour = pictureColours[at % pictureColours.length];
    const entry = `<rect x="${offset}" y="${size.height - 26}" width="18" height="4" rx="2" fill="${colour}"/><text x="${offset + 24}" y="${size.height - 20}">${markup(name)}</text>`;
    offset += 48 + name.length * 7;
    return entry;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" width="${size.width}" height="${size.height}" role="img" aria-label="${markup(options.title)}" font-family="system-ui, sans-serif" font-size="12" fill="#3c434a">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="${box.left}" y="28" font-size="16" font-weight="600" fill="#14181c">${markup(options.title)}</text>
${grid.join("\n")}
<line x1="${box.left}" x2="${size.width - box.right}" y1="${bottom}" y2="${bottom}" stroke="#8a929b"/>
${foot.join("\n")}
<text x="${(box.left + size.width - box.right) / 2}" y="${bottom + 38}" text-anchor="middle">${markup(options.xLabel ?? "step")}</text>
<text transform="translate(20 ${(box.top + bottom) / 2}) rotate(-90)" text-anchor="middle">${markup(options.yLabel)}</text>
${curves.join("\n")}
${legend.join("\n")}
</svg>
`;
}

/** An HTML page with the SVG; the pointer shows the values of the nearest step. */
export function htmlPlot(series: readonly Series[], options: PictureOptions): string {
  const shown = finite(series);
  const { x } = frameOf(shown);
  const data = shown.map(({ name, points }) => ({
    name,
    points: points.map(([px, py]) => [px, py, Number(n(x(px)))]),
  }));
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>${markup(options.title)}</title>
<style>body{margin:0;background:#f4f5f7;font:14px system-ui,sans-serif;color:#14181c}main{max-width:960px;margin:32px auto;padding:0 16px}
figure{margin:0;background:#fff;border:1px solid #dfe3e7;border-radius:8px;overflow:hidden;position:relative}svg{display:block;width:100%;height:auto}
#tip{position:absolute;top:8px;right:12px;background:#14181ce6;color:#fff;border-radius:6px;padding:8px 10px;font-size:12px;white-space:pre;visibility:hidden}</style>
<main><figure>${svgPlot(series, options)}<div id="tip"></div></figure></main>
<script>const series=${JSON.stringify(data).replaceAll("<", "\\u003c")},svg=document.querySelector("svg"),tip=document.getElementById("tip");
svg.onpointermove=e=>{const at=(e.clientX-svg.getBoundingClientRect().left)*${size.width}/svg.clientWidth;
tip.textContent=series.map(s=>{const p=s.points.reduce((a,b)=>Math.abs(b[2]-at)<Math.abs(a[2]-at)?b:a);return s.name+"  "+p[0]+": "+p[1].toPrecision(5)}).join("\\n");tip.style.visibility="visible"};
svg.onpointerleave=()=>{tip.style.visibility="hidden"};</script></html>
`;
}

const finite = (series: readonly Series[]): Series[] =>
  series
    .map(({ name, points }) => ({ name, points: points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)) }))
    .filter(({ points }) => points.length > 0);

const n = (value: number): string => value.toFixed(1).replace(/\.0$/, "");

/** Escapes text for HTML and SVG. */
export const markup = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
