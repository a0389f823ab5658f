// Records a program on a real terminal and writes what was seen, with its timing, as an animated SVG that needs no script and no
// font of its own (standard output):
//   node tools/terminal-svg.mjs [--speed 2] [--columns 84] [--title TEXT] -- npm run quickstart > recording.svg
// Silences are cut to a second and a half. Where nothing moves (reduced motion, printing) the last screen stands still.
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    speed: { type: "string", default: "1" },
    columns: { type: "string", default: "84" },
    title: { type: "string" },
  },
});
const [columns, speed] = [Number(values.columns), Number(values.speed)];
const longestSilence = 1.5;
/** How long the last screen stands before it begins again, in seconds. */
const rest = 8;

const quoted = positionals.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
/** Classes of the styles that a terminal sets by number. */
const styleNames = { 1: "b", 2: "d", 31: "r", 32: "g", 33: "y", 34: "l", 35: "m", 36: "c", 90: "d", 96: "c" };

const screen = new (class Screen {
  /** Lines of cells, from the first line ever printed on; a cell is a character and its style. */
  lines = [[]];
  row = 0;
  column = 0;
  style = "";
  changed = new Set();

  write(text) {
    for (const [part, code, final] of text.replaceAll("\x1b", "␛").matchAll(/␛\[([0-9;?]*)([a-zA-Z])|[\s\S]/gu)) {
      if (final !== undefined) this.control(code, final);
      else if (part === "\n") this.feed();
      else if (part === "\r") this.column = 0;
      else if (part >= " ") this.put(part);
    }
  }
  put(character) {
    const line = this.lines[this.row];
    while (line.length < this.column) line.push([" ", ""]);
    line[this.column++] = [character, this.style];
    this.changed.add(this.row);
  }
  feed() {
    this.row += 1;
    if (this.row === this.lines.length) this.lines.push([]);
    this.changed.add(this.row);
  }
  control(code, final) {
    const line = this.lines[this.row];
    if (final === "m") {
      const names = code.split(";").flatMap((one) => styleNames[one] ?? []);
      this.style =
        names.length === 0 ? "" : [...new Set([...this.style.split(" ").filter(Boolean), ...names])].join(" ");
    } else if (final === "G") this.column = Number(code || 1) - 1;
    else if (final === "K") line.splice(code === "2" ? 0 : this.column);
    else if (final === "J") line.splice(this.column);
    if ("KJ".includes(final)) this.changed.add(this.row);
  }
})();

/** Versions of each line: from when, in seconds of the recording, and what it looked like. */
const versions = [];
let now = 0;
function remember() {
  for (const at of screen.changed) {
    versions[at] ??= [];
    const own = versions[at];
    const cells = screen.lines[at].map((cell) => [...cell]);
    const last = own.at(-1);
    // What was seen for less than a tenth of a second is not drawn.
    if (last !== undefined && now - last.from < 0.1) last.cells = cells;
    else own.push({ from: now, cells });
  }
  screen.changed.clear();
}

screen.write(`\x1b[32m$\x1b[0m \x1b[1m${values.title ?? positionals.join(" ")}\x1b[0m\r\n`);
remember();
const child = spawn("script", ["-qefc", `stty cols ${columns} rows 50; exec ${quoted}`, "/dev/null"], {
  stdio: ["ignore", "pipe", "inherit"],
  env: { ...process.env, TERM: "xterm-256color" },
});
let before = performance.now();
child.stdout.setEncoding("utf8").on("data", (text) => {
  const at = performance.now();
  now += Math.min((at - before) / 1000 / speed, longestSilence);
  before = at;
  process.stderr.write(text);
  screen.write(text);
  remember();
});
const code = await new Promise((resolve) => child.on("close", resolve));
if (code !== 0) throw new Error(`the program ended with ${code}`);
const total = now + rest;
/** Every line has its place: nothing scrolls. */
const rows = versions.findLastIndex((own) => own?.at(-1)?.cells.length > 0) + 1;

const [lineHeight, charWidth, pad, bar] = [19, 8.43, 18, 34];
const width = Math.ceil(columns * charWidth + 2 * pad);
const height = rows * lineHeight + 2 * pad + bar;
const percent = (seconds) => `${((seconds / total) * 100).toFixed(2)}%`;
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const isBraille = (character) => character >= "\u2800" && character <= "\u28ff";
const spans = (cells) => {
  const groups = [];
  for (const [cell, style] of cells) {
    const character = isBraille(cell) ? " " : cell;
    if (groups.at(-1)?.style === style) groups.at(-1).text += character;
    else groups.push({ style, text: character });
  }
  // Braille is drawn, not written: fonts give it widths of their own.
  return groups
    .map(({ style, text }) => (style === "" ? escaped(text) : `<tspan class="${style}">${escaped(text)}</tspan>`))
    .join("");
};

/** The dots of a line's braille characters as one path for each style; bits of a character count down its two columns. */
const dotOrder = [0, 1, 2, 6, 3, 4, 5, 7];
const dots = (cells, row) => {
  const paths = new Map();
  cells.forEach(([character, style], column) => {
    if (!isBraille(character)) return;
    const bits = character.charCodeAt(0) - 0x2800;
    dotOrder.forEach((bit, at) => {
      if (((bits >> bit) & 1) === 0) return;
      const x = (column + (at < 4 ? 0.25 : 0.75)) * charWidth;
      const y = pad + bar + (row + 0.125 + (at % 4) * 0.25) * lineHeight;
      paths.set(style, `${paths.get(style) ?? ""}M${x.toFixed(1)} ${y.toFixed(1)}h.01`);
    });
  });
  return [...paths].map(([style, path]) => `<path class="${style} p" d="${path}"/>`).join("");
};

const frames = new Map();
/** A rule that shows an element from one moment to another; the same moments share one. */
const shownBetween = (from, to) => {
  const key = `${percent(from)} ${to === undefined ? "" : percent(to)}`;
  if (!frames.has(key)) {
    const name = `k${frames.size}`;
    const start = from === 0 ? "" : "0%{visibility:hidden}";
    const end = to === undefined ? "" : `${percent(to)}{visibility:hidden}`;
    frames.set(key, { name, rule: `@keyframes ${name}{${start}${percent(from)}{visibility:visible}${end}}` });
  }
  return frames.get(key).name;
};
const texts = versions.flatMap((own, row) =>
  own.flatMap(({ from, cells }, at) => {
    if (cells.every(([character]) => character === " ")) return [];
    const to = own[at + 1]?.from;
    const y = (pad + bar + (row + 0.75) * lineHeight).toFixed(1);
    const name = shownBetween(from, to);
    const kind = to === undefined ? "t" : "x t";
    return `<g class="${kind}" style="animation-name:${name}"><text y="${y}">${spans(cells)}</text>${dots(cells, row)}</g>`;
  }),
);
console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="ui-monospace,SFMono-Regular,'DejaVu Sans Mono',Menlo,Consolas,monospace" font-size="14" role="img" aria-label="Recording of a terminal: ${escaped(positionals.join(" "))}">
<style>
text{white-space:pre}.t{fill:#e6edf3;animation:${total.toFixed(2)}s step-end infinite}.x{visibility:hidden}
.p{fill:none;stroke-width:2.2;stroke-linecap:round}.c.p{stroke:#56d4dd}.y.p{stroke:#e3b341}.g.p{stroke:#7ee787}
.b{font-weight:bold}.d{fill:#8b949e}.r{fill:#ff7b72}.g{fill:#7ee787}.y{fill:#e3b341}.l{fill:#79c0ff}.m{fill:#d2a8ff}.c{fill:#56d4dd}
${[...frames.values()].map(({ rule }) => rule).join("\n")}
@media (prefers-reduced-motion:reduce){.t{animation:none}}
</style>
<rect width="100%" height="100%" rx="10" fill="#0d1117"/>
<path d="M0 10a10 10 0 0 1 10-10h${width - 20}a10 10 0 0 1 10 10v${bar - 10}h-${width}z" fill="#161b22"/>
<circle cx="20" cy="${bar / 2}" r="6" fill="#ff5f57"/><circle cx="40" cy="${bar / 2}" r="6" fill="#febc2e"/><circle cx="60" cy="${bar / 2}" r="6" fill="#28c840"/>
<g transform="translate(${pad} 0)">
${texts.join("\n")}
</g>
</svg>`);
