// The mission checklist: the promised behaviours, each with an id, and the tests that prove them. A test of a behaviour starts its title with
// the id (`it("M-204: …")`). `npm run mission` exits 1 if an id has no test, or if a test names an id that is not listed here;
// `npm run mission -- --print` prints the behaviours in the words of their tests.
import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** The heading of each hundred of ids, and the ids. To give up a behaviour, remove its id here and in the tests. */
const sections = {
  "Enums and small values": [101, 102, 103, 104, 105, 106, 107],
  "Requests (client to server)": [201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 211, 212, 213, 214],
  Data: [301, 302, 303, 304, 305, 306, 307, 308, 309, 310],
  "Responses (server to client)": [401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414],
  Futures: [501, 502, 503, 504, 505, 506],
  "Training client": [601, 602, 603, 604, 605, 606],
  "Sampling client": [701, 702, 703, 704],
  "HTTP, authentication, errors": [801, 802, 803, 804, 805, 806, 807, 808],
  "Telemetry, development, documentation": [901, 902, 903, 904, 905, 906],
};
const ids = Object.values(sections).flat();

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
  return found;
}

function print(found) {
  for (const [section, members] of Object.entries(sections)) {
    console.log(`\n## ${section}`);
    for (const id of members) {
      const { sentences, files } = found.get(`M-${id}`) ?? { sentences: [], files: [] };
      const names = [...files].map((file) => basename(file));
      console.log(`M-${id} (${names.join(", ")})\n${[...sentences].map((sentence) => `  ${sentence}`).join("\n")}`);
    }
  }
}

const found = rows();
const lost = ids.filter((id) => !found.has(`M-${id}`));
const unlisted = [...found.keys()].filter((id) => !ids.includes(Number(id.slice(2))));
if (process.argv.includes("--print")) print(found);
if (lost.length > 0) console.error(`No test names ${lost.map((id) => `M-${id}`).join(", ")}.`);
if (unlisted.length > 0) console.error(`tools/mission.mjs does not list ${unlisted.join(", ")}.`);
if (lost.length + unlisted.length > 0) process.exitCode = 1;
else console.log(`${ids.length} behaviours, each with a test`);
