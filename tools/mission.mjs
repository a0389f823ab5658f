// Lists the rows of docs/mission.md that no test names in its title. `npm run mission -- M-1 M-2` looks at those rows
// only; exits 1 if a row has no test, or only skipped ones.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const wanted = process.argv.slice(2);
const rows = Array.from(
  readFileSync(`${root}docs/mission.md`, "utf8").matchAll(/^\| (M-\d{3}) \| (.*) \|$/gm),
  (match) => ({
    id: match[1],
    text: match[2],
  }),
).filter(({ id }) => wanted.length === 0 || wanted.some((prefix) => id.startsWith(prefix)));

function* testFiles(folder) {
  for (const name of readdirSync(folder)) {
    if (name === "node_modules" || name === "dist" || name.startsWith(".")) continue;
    const path = `${folder}/${name}`;
    if (statSync(path).isDirectory()) yield* testFiles(path);
    else if (/\.test\.(ts|mjs)$|_test\.py$/.test(name)) yield path;
  }
}

const titles = new Map();
for (const file of [...testFiles(`${root}packages`), ...testFiles(`${root}test`)]) {
  const source = readFileSync(file, "utf8");
  // a title is the first text of it, test or describe, with or without .each(…)
  for (const match of source.matchAll(
    /\b(it|test|describe)(\.\w+)*(?:\([^`"']*\))?\(\s*(["'`])((?:(?!\3)[^\\]|\\.)*)\3/g,
  )) {
    if (/\.(skip|todo)\b/.test(match[0])) continue;
    for (const id of match[4].match(/M-\d{3}/g) ?? [])
      titles.set(id, [...(titles.get(id) ?? []), file.slice(root.length)]);
  }
}

const missing = rows.filter(({ id }) => !titles.has(id));
console.log(`${rows.length - missing.length} of ${rows.length} rows have a test`);
for (const { id, text } of missing) console.log(`  ${id} has none: ${text.slice(0, 100)}`);
process.exitCode = missing.length === 0 ? 0 : 1;
