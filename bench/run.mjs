// `npm run bench -- NAME [--dry] [arguments]`: builds, runs bench/NAME.mjs (a default export that returns rows), prints them, keeps
// them in bench/results/NAME.json and writes bench/RESULTS.md anew from all that was kept; with `--dry` they are only printed. A run that
// calls itself `partial` replaces the rows of its own `part`s; one whose rows have none is not kept. Times mean nothing on shared
// machines: a row is a ratio against a peer or a limit of the machine measured in the same run, with its spread.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "..");
const results = join(here, "results");
const [name, ...args] = process.argv.slice(2);
const benches = readdirSync(here)
  .filter((file) => file.endsWith(".mjs") && !["run.mjs", "measure.mjs"].includes(file))
  .map((file) => file.slice(0, -4));

if (name === undefined || !benches.includes(name)) {
  console.error(`usage: npm run bench -- ${benches.join("|")} [arguments]`);
  process.exit(2);
}

execFileSync(process.execPath, [join(root, "tools/build.mjs")], { stdio: "inherit" });
const { default: bench } = await import(new URL(`${name}.mjs`, import.meta.url));
const measured = await bench({ root, args, keep });
for (const row of measured.rows) console.log(line(row));
if (!keep(measured)) console.error("not kept");

/**
 * Keeps rows, unless they are not to be; a long bench calls it as it goes, so that an interruption loses little. `machine` is given for rows that were
 * measured on another one.
 */
function keep({ rows, note, partial, machine: measuredOn }) {
  const parts = new Set(rows.map(({ part }) => part));
  if (args.includes("--dry") || (partial && parts.has(undefined))) return false;
  mkdirSync(results, { recursive: true });
  const file = join(results, `${name}.json`);
  const date = new Date().toISOString().slice(0, 10);
  const earlier = partial && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : { rows: [] };
  const others = earlier.rows
    .filter(({ part }) => !parts.has(part))
    .map((row) => ({ ...row, date: row.date ?? earlier.date }));
  const machine =
    measuredOn ??
    `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;
  const own = rows.map((row) => (partial ? { ...row, date } : row));
  writeFileSync(file, `${JSON.stringify({ name, date, machine, note, rows: [...others, ...own] }, null, 2)}\n`);
  writeFileSync(join(here, "RESULTS.md"), page());
  return true;
}

function line({ name: label, value, unit, spread, ratio, target, note: why }) {
  const parts = [`${label}: ${value} ${unit}`];
  if (spread !== undefined) parts.push(`(${spread})`);
  if (ratio !== undefined) parts.push(`ratio ${ratio}`);
  if (target !== undefined) parts.push(`[target ${target}]`);
  if (why !== undefined) parts.push(`- ${why}`);
  return parts.join(" ");
}

/** When the rows were measured: a day, or the first and the last where parts were run apart. */
function datesOf({ date: latest, rows: measured }) {
  const days = [...new Set(measured.map((row) => row.date ?? latest))].sort();
  return days.length > 1 ? `${days[0]} to ${days.at(-1)}` : latest;
}

function page() {
  const sections = readdirSync(results)
    .filter((file) => file.endsWith(".json"))
    .sort()
    .map((file) => JSON.parse(readFileSync(join(results, file), "utf8")))
    .map(
      (run) => `## ${run.name}

\`npm run bench -- ${run.name}\` · ${datesOf(run)} · ${run.machine}${run.note ? `\n\n${run.note}` : ""}

| what | value | spread | ratio | target | remark |
|---|---|---|---|---|---|
${run.rows
  .map(
    (row) =>
      `| ${row.name} | ${row.value} ${row.unit} | ${row.spread ?? ""} | ${row.ratio ?? ""} | ${row.target ?? ""} | ${row.note ?? ""} |`,
  )
  .join("\n")}
`,
    );
  return `# Bench results

Written by \`npm run bench\`; do not edit. The machines are shared and noisy, so only ratios measured side by side in one run
mean anything; values are medians, the spread is the lowest and highest of the repeats.

${sections.join("\n")}`;
}
