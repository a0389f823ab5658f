// Turns what a program printed (standard input) into a picture of a terminal (standard output):
//   node tools/quickstart.mjs 2>&1 | node tools/terminal-svg.mjs "npm run quickstart" > docs/pictures/quickstart.svg
import { readFileSync } from "node:fs";

const [command = ""] = process.argv.slice(2);
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
const text = readFileSync(0, "utf8").replace(/\u001b\[[0-9;]*m/g, "");
const lines = [`$ ${command}`, ...text.trimEnd().split("\n")];
const [lineHeight, charWidth, pad] = [18, 8.43, 16];
const width = Math.ceil(Math.max(...lines.map((line) => line.length)) * charWidth + 2 * pad);
const height = lines.length * lineHeight + 2 * pad;
const rows = lines.map((line, i) => {
  const colour = i === 0 ? "#7ee787" : /^(Before|After|Training)/.test(line) ? "#79c0ff" : "#e6edf3";
  return `<text x="${pad}" y="${pad + (i + 0.8) * lineHeight}" fill="${colour}" xml:space="preserve">${escaped(line)}</text>`;
});
console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14">
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
${rows.join("\n")}
</svg>`);
