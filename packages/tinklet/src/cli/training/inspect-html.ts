/** The HTML page of `inspect`: figures, and the examples as coloured tokens, in one file. */

import { markup } from "../plot/plot-svg.ts";
import { type Inspection, type ShownExample, someLines } from "./inspection.ts";

const count = (value: number) => value.toLocaleString("en-US");

export function inspectHtml(found: Inspection, shown: readonly ShownExample[], model: string): string {
  const facts: readonly (readonly [string, string])[] = [
    ["Examples", count(found.examples)],
    ["Tokens", count(found.tokens)],
    ["Learned", `${count(found.lossTokens)} (${((1 - found.maskedShare) * 100).toFixed(1)} %)`],
    ["Length", `${found.shortest} – ${found.median} – ${found.longest}`],
    [
      "Cut off",
      found.truncated.length === 0 ? "none" : `${found.truncated.length} (line ${someLines(found.truncated)})`,
    ],
    [
      "Nothing to learn",
      found.dropped.length === 0 ? "none" : `${found.dropped.length} (line ${someLines(found.dropped)})`,
    ],
    [
      "Repeated",
      found.duplicates.length === 0
        ? "none"
        : `${found.duplicates.length} (line ${someLines(found.duplicates.map(([line]) => line))})`,
    ],
  ];
  const examples = shown.map(({ line, tokens }) => {
    const spans = tokens.map(({ id, text, weight, cut }) => {
      const kind = cut ? "cut" : weight > 0 ? "on" : "off";
      const visible = markup(text).replaceAll("\n", "↵\n").replaceAll("\t", "→\t");
      return `<span class="${kind}" title="${id} · weight ${weight}${cut ? " · cut off" : ""}">${visible}</span>`;
    });
    const learned = tokens.filter(({ weight, cut }) => weight > 0 && !cut).length;
    return `<section><h2>Line ${line} <small>${tokens.length} tokens, ${learned} learned</small></h2><pre>${spans.join("")}</pre></section>`;
  });
  const left = found.examples - shown.length;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>${markup(found.file)}</title>
<style>
:root{color-scheme:light dark;--page:#f4f5f7;--card:#fff;--ink:#14181c;--soft:#5b646d;--edge:#dfe3e7;--on:#bfe6d2;--onink:#0b3d26;--off:#e9ecef;--offink:#525b64;--cut:#f6c9c4;--cutink:#7a1c12}
@media(prefers-color-scheme:dark){:root{--page:#14181c;--card:#1d2228;--ink:#e8ebee;--soft:#9aa4ae;--edge:#313840;--on:#1d5b3c;--onink:#d6f5e4;--off:#2b3138;--offink:#a9b2bb;--cut:#6b241c;--cutink:#ffd9d4}}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}main{max-width:920px;margin:32px auto;padding:0 16px}
h1{font-size:20px;margin:0 0 4px}p{margin:0 0 20px;color:var(--soft)}dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));gap:8px;margin:0 0 20px}
dl div{background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:8px 12px}dt{font-size:12px;color:var(--soft)}dd{margin:0;font-weight:600;overflow-wrap:anywhere}
section{background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:12px 16px;margin:0 0 12px}h2{font-size:14px;margin:0 0 8px}small{font-weight:400;color:var(--soft)}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.9 ui-monospace,Menlo,Consolas,monospace}
span{border-radius:3px;padding:2px 1px;box-shadow:inset 0 0 0 .5px var(--edge)}.on{background:var(--on);color:var(--onink)}.off{background:var(--off);color:var(--offink)}.cut{background:var(--cut);color:var(--cutink);text-decoration:line-through}
</style>
<main><h1>${markup(found.file)}</h1>
<p>Tokens of ${markup(model)}. <span class="on">learned</span> <span class="off">read only</span> <span class="cut">cut off</span> Point at a token for its id and weight.</p>
<dl>${facts.map(([name, value]) => `<div><dt>${name}</dt><dd>${markup(value)}</dd></div>`).join("")}</dl>
${examples.join("\n")}
${left > 0 ? `<p>${count(left)} more examples are not shown.</p>` : ""}</main></html>
`;
}
