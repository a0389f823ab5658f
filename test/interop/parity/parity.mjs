// `npm run parity`: proves that the wire layer agrees with the official Python SDK. Makes an environment for each release
// named in versions.mjs, records again what that release does, fails on any byte that differs from the committed
// fixtures, then runs the TypeScript comparison in test/integration/parity against them and says how much was compared.
//
//   npm run parity                 check
//   npm run parity -- --update     write the fixtures instead of comparing with them (then read the diff)
//   npm run parity -- --no-record  skip Python: compare our code with the committed fixtures only
//   npm run parity -- --release X  install release X (0.38.0, or "latest"), record it, and print what it has over the newest one of
//                                  versions.mjs, as Markdown (--out FILE: into a file). Changes no fixture.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ensureVenv } from "../venv.mjs";
import { libraries, oracles } from "../versions.mjs";
import { render, whatIsNew } from "./new-in.mjs";
import { difference, releaseVersion, renderRelease } from "./release.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..", "..");
const fixtures = join(root, "test", "fixtures");
const update = process.argv.includes("--update");
/** Fewer compared values than this is a failure, whatever the tests say. */
const LEAST_VALUES = 400;
const record = !process.argv.includes("--no-record");

const read = (file) => (existsSync(file) ? readFileSync(file, "utf8") : "");
const folderOf = (version) => `tinker-${version}`;

/** Runs record.py with one release; the hash seed is left random, so that an order that depends on it shows. */
function recordInto(folder, oracle) {
  const python = ensureVenv(oracle.name, oracle.packages);
  const done = spawnSync(python, ["-B", join(here, "record.py"), folder], { stdio: "inherit" });
  if (done.status !== 0) throw new Error(`record.py failed with tinker ${oracle.version}`);
  const made = readdirSync(folder);
  if (!made.includes(folderOf(oracle.version))) {
    throw new Error(`expected tinker ${oracle.version}, but ${made.join(", ")} was recorded`);
  }
}

/** Compares one file with its committed twin, or writes it with --update. Returns the number of differing entries. */
function settle(name, recorded) {
  const target = join(fixtures, name);
  const committed = read(target);
  if (committed === recorded) return 0;
  if (update) {
    writeFileSync(target, recorded);
    console.log(`${name}: written`);
    return 0;
  }
  const entries = difference(committed, recorded);
  console.error(`${name}: ${entries.length || "order or header"} differ from the committed fixture`);
  for (const entry of entries.slice(0, 20)) console.error(`  ${entry}`);
  if (entries.length > 20) console.error(`  and ${entries.length - 20} more`);
  return entries.length || 1;
}

function recordAgain() {
  let differences = 0;
  const scratch = mkdtempSync(join(tmpdir(), "parity-"));
  try {
    for (const oracle of oracles) {
      recordInto(scratch, oracle);
      const folder = folderOf(oracle.version);
      const recorded = readdirSync(join(scratch, folder));
      const committed = existsSync(join(fixtures, folder)) ? readdirSync(join(fixtures, folder)) : [];
      for (const stale of committed.filter((file) => !recorded.includes(file))) {
        console.error(`${folder}/${stale}: no longer recorded`);
        differences++;
      }
      if (update) mkdirSync(join(fixtures, folder), { recursive: true });
      for (const file of recorded) differences += settle(`${folder}/${file}`, read(join(scratch, folder, file)));
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return differences;
}

const fixture = (version, name) => JSON.parse(read(join(fixtures, folderOf(version), `${name}.json`)));

/** How much a release's fixtures hold. */
function count(version) {
  const lists = ["requests", "training", "responses", "results"].map((name) => fixture(version, name).values.length);
  const { tinker: _, ...derived } = fixture(version, "derived");
  const small = Object.values(derived).reduce((sum, list) => sum + list.length, 0);
  const values = lists.reduce((sum, n) => sum + n, 0);
  const { types } = fixture(version, "schemas");
  return { types: types.length, publicTypes: types.filter((type) => type.public).length, values, small };
}

/**
 * Runs the TypeScript side. It reports what it compared by appending lines of JSON to the file named in PARITY_REPORT:
 * `{ "version": "0.25.0", "types": 101, "values": 2300 }`.
 */
function compare() {
  const folder = join(root, "test", "integration", "parity");
  const tests = existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith(".test.ts")) : [];
  if (tests.length === 0) {
    console.error("test/integration/parity/*.test.ts: missing, so nothing of ours was compared");
    return false;
  }
  const scratch = mkdtempSync(join(tmpdir(), "parity-report-"));
  const report = join(scratch, "report.jsonl");
  try {
    const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
    const done = spawnSync(process.execPath, [vitest, "run", "test/integration/parity"], {
      cwd: root,
      stdio: "inherit",
      env: { ...process.env, PARITY_REPORT: report },
    });
    const lines = read(report)
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line));
    for (const { version } of oracles) {
      const total = { types: 0, values: 0 };
      for (const line of lines.filter((entry) => entry.version === version)) {
        total.types += line.types ?? 0;
        total.values += line.values ?? 0;
      }
      const recorded = count(version);
      console.log(
        `tinker ${version}: ${total.types} of ${recorded.types} types and ` +
          `${total.values} of ${recorded.values} values compared with our wire layer`,
      );
      // A comparison that quietly shrinks proves nothing: every public type of the release we follow, and enough
      // values of each. The newest release may hold types that docs/PARITY.md explains instead.
      const least = version === oracles[0].version ? recorded.publicTypes : 1;
      if (total.types < least || total.values < LEAST_VALUES) {
        console.error(`tinker ${version}: at least ${least} types and ${LEAST_VALUES} values must be compared`);
        return false;
      }
    }
    return done.status === 0;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Runs a Python program of this folder, or a module, in an environment, and returns what it printed. */
function printed(python, args) {
  const done = spawnSync(python, ["-B", ...args], { encoding: "utf8", cwd: here, maxBuffer: 64 << 20 });
  if (done.status !== 0)
    throw new Error(`${args.join(" ")} failed:\n${done.stderr.trim().split("\n").slice(-10).join("\n")}`);
  return done.stdout;
}

/** Source files of the newer release that differ, with the number of lines added and removed. */
function changedSources(before, after) {
  const folder = (python) =>
    printed(python, ["-c", "import tinker, os; print(os.path.dirname(tinker.__file__))"]).trim();
  const [from, to] = [folder(before), folder(after)];
  const args = ["diff", "--no-index", "--no-renames", "--numstat", "--", from, to];
  const done = spawnSync("git", args, { encoding: "utf8", maxBuffer: 64 << 20 });
  if (done.error) throw done.error;
  return done.stdout
    .split("\n")
    .map((line) => line.split("\t"))
    .filter(([, , path = ""]) => path.endsWith(".py"))
    .map(([added, removed, path]) => {
      const name = path.replace(/^.*?=> /, "").replaceAll(/[{}]/g, "");
      return `${name.slice(name.lastIndexOf("/tinker/") + 1)} +${added} -${removed}`;
    });
}

/** Installs a release, records it, and compares it with the newest one that we follow. */
function report(wanted, out) {
  const newest = oracles.at(-1);
  const before = ensureVenv(newest.name, newest.packages);
  const version =
    wanted === "latest"
      ? releaseVersion(/\(([^)]+)\)/.exec(printed(before, ["-m", "pip", "index", "versions", "tinker"]))?.[1])
      : releaseVersion(wanted);
  if (version === newest.version) return console.log(`tinker ${version} is the release that is followed already.`);
  const oracle = { name: `tinker-${version}`, version, packages: [`tinker==${version}`, ...libraries] };
  const after = ensureVenv(oracle.name, oracle.packages);
  const scratch = mkdtempSync(join(tmpdir(), "parity-"));
  try {
    recordInto(scratch, oracle);
    const recording = (folder, python) => ({
      version: folder.split("-").at(-1),
      files: Object.fromEntries(
        readdirSync(folder).map((file) => [file.replace(/\.json$/, ""), read(join(folder, file))]),
      ),
      signatures: JSON.parse(printed(python, ["signatures.py"])),
    });
    const older = recording(join(fixtures, folderOf(newest.version)), before);
    const newer = { ...recording(join(scratch, folderOf(version)), after), sources: changedSources(before, after) };
    const text = `${renderRelease(older, newer)}\n`;
    if (out === undefined) process.stdout.write(`\n${text}`);
    else writeFileSync(out, text);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

const { values: options } = parseArgs({
  options: {
    update: { type: "boolean" },
    "no-record": { type: "boolean" },
    release: { type: "string" },
    out: { type: "string" },
  },
});
if (options.release !== undefined) {
  report(options.release, options.out);
  process.exit();
}

let differences = record ? recordAgain() : 0;
const [oldest, newest] = oracles.map(({ version }) => ({
  version,
  schemas: fixture(version, "schemas"),
  proto: fixture(version, "proto"),
}));
differences += settle(`new-in-${newest.version}.json`, render(whatIsNew(oldest, newest)));
for (const { version } of oracles) {
  const { types, values, small } = count(version);
  console.log(`tinker ${version}: ${types} types, ${values} values and ${small} function results recorded`);
}
const agrees = update || compare();
if (differences > 0) console.error(`${differences} differences between the fixtures and a new recording`);
process.exitCode = differences === 0 && agrees ? 0 : 1;
