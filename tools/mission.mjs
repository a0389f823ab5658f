// Generates docs/mission.md: the behaviours that are promised, in the words of the tests that prove them. A test whose title starts with an
// id (`it("M-204: …")`) is listed in that id's row. `npm run mission` exits 1 if the page is not current; `npm run mission -- --write` writes it.
// An id that is on the page and that no test names any longer is an error in both cases: to give up a behaviour, delete its row first.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const page = `${root}docs/mission.md`;

/** The heading of each hundred of ids. */
const sections = {
  1: "Enums and small values",
  2: "Requests (client to server)",
  3: "Data",
  4: "Responses (server to client)",
  5: "Futures",
  6: "Training client",
  7: "Sampling client",
  8: "HTTP, authentication, errors",
  9: "Telemetry, development, documentation",
};

function* testFiles(folder) {
  for (const entry of readdirSync(`${root}${folder}`, { withFileTypes: true })) {
    if (entry.name === "node_modules" || entry.name === "dist" || entry.name.startsWith(".")) continue;
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) yield* testFiles(path);
    else if (/\.test\.(ts|mjs)$|_test\.py$/.test(entry.name)) yield path;
  }
}

/** Titles of tests and groups, with their indentation: the first string literal of `it`, `test` or `describe`, also with `.each(…)`. */
function titles(source) {
  const call = /^([ \t]*)(it|test|describe)((?:\.\w+)*)(?:\([^`"']*\))?\(\s*(["'`])((?:(?!\4)[^\\]|\\.)*)\4/gm;
  return [...source.matchAll(call)]
    .filter(([, , , modifiers]) => !/\.(skip|todo)\b/.test(modifiers))
    .map(([, indent, kind, , , text]) => ({ depth: indent.length, kind, text: text.replace(/\\(.)/g, "$1") }));
}

/** The sentence of a title: no ids, and nothing in the place of what `.each` inserts. */
const sentenceOf = (title) =>
  title
    .replace(/M-\d{3}[:,]? */g, "")
    .replace(/:? ?%\w/g, "")
    .trim();

/** For each id, the sentences of its tests; a test inside a group gets the group's title in front. */
function rows() {
  const found = new Map();
  for (const file of ["packages", "test", "examples"].flatMap((folder) => [...testFiles(folder)])) {
    let groups = [];
    for (const { depth, kind, text } of titles(readFileSync(`${root}${file}`, "utf8"))) {
      groups = groups.filter((group) => group.depth < depth);
      const group = groups.at(-1);
      if (kind === "describe") groups.push({ depth, text: sentenceOf(text) });
      for (const id of text.match(/M-\d{3}/g) ?? []) {
        const own = sentenceOf(text);
        const sentence = [group?.text ?? "", own].filter((part) => part !== "").join(": ");
        const row = found.get(id) ?? { sentences: new Set(), files: new Set() };
        if (sentence !== "") row.sentences.add(sentence);
        row.files.add(file);
        found.set(id, row);
      }
    }
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function render(found) {
  const lines = [
    "# Mission checklist",
    "",
    "Every behaviour that this project promises, as one row, in the words of the tests that prove it. The wire format of the official Python SDK",
    "is the reference; where it leaves a choice, the more defensive reading applies. Names in `snake_case` are those of the wire, names in",
    "`camelCase` those of the TypeScript API.",
    "",
    "This page is generated from the titles of the tests (`npm run mission -- --write`). `npm run mission` fails when the page is not current or a",
    "row has lost its tests.",
  ];
  let section;
  for (const [id, { sentences, files }] of found) {
    if (id[2] !== section) {
      section = id[2];
      lines.push("", `## M-${section}xx · ${sections[section]}`, "", "| id | behaviour | tests |", "|---|---|---|");
    }
    const behaviour = [...sentences].map((sentence) => sentence.replaceAll("|", "\\|")).join("<br>");
    lines.push(`| ${id} | ${behaviour} | ${[...files].map((file) => `\`${basename(file)}\``).join(", ")} |`);
  }
  return `${lines.join("\n")}\n`;
}

const current = readFileSync(page, "utf8");
const found = rows();
const lost = [...current.matchAll(/^\| (M-\d{3}) \|/gm)].map(([, id]) => id).filter((id) => !found.has(id));
const wanted = render(found);
if (lost.length > 0) {
  console.error(`No test names ${lost.join(", ")}. Restore the tests, or delete the rows from docs/mission.md.`);
  process.exitCode = 1;
} else if (process.argv.includes("--write")) {
  writeFileSync(page, wanted);
  console.log(`docs/mission.md: ${found.size} rows`);
} else if (current === wanted) {
  console.log(`${found.size} rows, each with a test; docs/mission.md is current`);
} else {
  console.error("docs/mission.md is not current: run `npm run mission -- --write`");
  process.exitCode = 1;
}
