// The kill drill: a program trains, saves, loads and samples while the server is killed under it (SIGKILL, at a named instant of a
// request's life), loses everything it had not synced (faultfs.c), and is started again. Every program must end by itself with what
// a calm run gives: the same results, the same adapters byte for byte, every request exactly once, nothing left pending.
//
//   node test/drills/kill/drill.mjs [--runs 200] [--seed 1] [--steps 12] [--log FILE] [--at-most N] [--jobs N] [--model FOLDER] [--lie]
//
// The log is written as it goes. If it holds runs of the same drill already, only the others are run; --at-most ends it after so
// many. --jobs runs so many at once. --model takes the real engine on a model's folder instead of the fake one. --lie makes syncing a lie; then the drill must find losses, and exits with 0 only if it does.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import Libsql from "libsql";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { powerLoss } from "./power-loss.mjs";

/** Where a kill may fall, by phase; and how often the point is passed before it does, at most. */
const points = {
  accept: [
    ["accept.before", 40],
    ["accept.after", 40],
    ["commit.before", 60],
    ["commit.after", 60],
  ],
  execute: [
    ["execute.before", 40],
    ["execute.after", 40],
  ],
  snapshot: [
    ["snapshot.exported", 6],
    ["snapshot.before-commit", 6],
    ["files.before-sync", 12],
  ],
  save: [
    ["save.before", 6],
    ["save.written", 6],
    ["files.before-rename", 8],
    ["files.after-rename", 8],
  ],
  reply: [["reply", 90]],
};
export const phases = Object.keys(points);

/** A small generator, so that a run is known by its seed. */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Compiles the file layer; `undefined` where there is no compiler or no LD_PRELOAD. */
export function buildFaultLayer() {
  if (process.platform !== "linux") return undefined;
  const library = join(root, "node_modules", ".cache", "tinklet", "faultfs.so");
  const source = fileURLToPath(new URL("./faultfs.c", import.meta.url));
  const done = spawnSync("cc", ["-shared", "-fPIC", "-O2", "-o", library, source, "-ldl", "-lpthread"]);
  return done.status === 0 ? library : undefined;
}

export async function prepare() {
  const [server, program] = [
    await bundle("test/fixtures/programs/fake-main.ts"),
    await bundle("test/drills/kill/drill-program.ts"),
  ];
  return { server, program, library: buildFaultLayer() };
}

/** Runs the program once, with the given kills. */
export async function drill(parts, { kills, steps, model, lie = false }) {
  const folder = mkdtempSync(join(tmpdir(), "tinklet-drill-"));
  const dataDir = join(folder, "data");
  const journal = join(folder, "journal");
  const report = { kills: [], undone: 0, restarts: 0 };
  let port = 0;
  let server;
  let stopping = false;
  let listens;
  const listening = new Promise((resolve) => {
    listens = resolve;
  });
  const start = async (kill) => {
    const limits = { snapshotWorthMs: 0, snapshotOverhead: 1e9 };
    const options = { dataDir, port, limits, ...(model ? { model } : {}), ...(kill ? { kill } : {}) };
    const faults = parts.library
      ? { LD_PRELOAD: parts.library, FAULTFS_ROOT: dataDir, FAULTFS_LOG: journal, ...(lie ? { FAULTFS_LIE: "1" } : {}) }
      : {};
    server = spawn(process.execPath, [parts.server, JSON.stringify(options)], {
      env: { ...process.env, ...faults },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let errors = "";
    server.stderr.on("data", (chunk) => {
      errors += chunk;
    });
    const exited = once(server, "exit");
    const line = once(createInterface({ input: server.stdout }), "line").then(([url]) => url);
    const url = await Promise.race([line, exited.then(() => undefined)]);
    if (url !== undefined) {
      port = Number(new URL(url).port);
      listens();
    }
    void exited.then(async ([code, signal]) => {
      if (stopping) return;
      if (signal !== "SIGKILL") {
        report.problem ??= `the server ended by itself (${code}, ${signal}): ${errors.slice(-500)}`;
        program?.kill("SIGKILL");
        listens();
        return;
      }
      report.kills.push(kill.point);
      if (parts.library) report.undone += powerLoss(journal);
      report.restarts++;
      await start(remaining.shift());
    });
  };
  const remaining = [...kills];
  let program;
  try {
    void start(remaining.shift());
    await listening; // a server that is killed while it starts comes back
    program = spawn(process.execPath, [parts.program, `http://127.0.0.1:${port}`, String(steps)], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    let complaints = "";
    program.stdout.on("data", (chunk) => {
      output += chunk;
    });
    program.stderr.on("data", (chunk) => {
      complaints += chunk;
    });
    const timer = setTimeout(() => program.kill("SIGKILL"), 120_000);
    const [code] = await once(program, "exit");
    clearTimeout(timer);
    if (code !== 0) report.problem ??= `the program did not finish (${code}): ${complaints.slice(-800)}`;
    stopping = true;
    const gone = once(server, "exit");
    server.kill("SIGTERM");
    await gone;
    if (report.problem === undefined) Object.assign(report, inspect(dataDir, JSON.parse(output)));
  } finally {
    stopping = true;
    server?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
  return report;
}

/** What the folder holds in the end. */
function inspect(dataDir, { seen, models }) {
  const db = new Libsql(join(dataDir, "tinklet.db"));
  const pending = db.prepare("SELECT COUNT(*) AS n FROM requests WHERE state = 'pending'").get().n;
  const failed = db.prepare("SELECT COUNT(*) AS n FROM requests WHERE state = 'failed'").get().n;
  const orders = models.map((model) => {
    const rows = db.prepare("SELECT seq, position FROM requests WHERE model_id = ? ORDER BY position").all(model);
    return rows.map(({ seq, position }) => `${seq}@${position}`).join(" ");
  });
  const adapters = models.map((model) => {
    const { files_id: id } = db
      .prepare("SELECT files_id FROM checkpoints WHERE run_id = ? AND name = 'final'")
      .get(model);
    return createHash("sha256")
      .update(readFileSync(join(dataDir, "adapters", id, "adapter_model.safetensors")))
      .digest("hex");
  });
  db.close();
  return { result: JSON.stringify({ seen, pending, failed, orders, adapters }) };
}

/** The kills of a run, from its number. */
export function plan(seed, run) {
  const draw = random(seed * 7919 + run * 104729);
  for (let i = 0; i < 3; i++) draw();
  const phase = phases[run % phases.length];
  const count = 1 + Math.floor(draw() * 3);
  return {
    phase,
    kills: Array.from({ length: count }, (_, i) => {
      const choices = points[i === 0 ? phase : phases[Math.floor(draw() * phases.length)]];
      const [point, most] = choices[Math.floor(draw() * choices.length)];
      return { point, after: Math.floor(draw() * (i === 0 ? most : most / 2)) };
    }),
  };
}

/** The line of one run, and back. Every count of the summary comes from these lines. */
const lineOf = (run, phase, report, same) =>
  `run ${run} ${same ? "same" : "DIFFERENT"} phase=${phase} kills=${report.kills.join(",") || "none"} undone=${report.undone}${same ? "" : ` ${report.problem ?? report.result}`}`.replaceAll(
    "\n",
    " ",
  );
function readLine(line) {
  const match = /^run (\d+) (same|DIFFERENT) phase=\w+ kills=(\S+) undone=(\d+)/.exec(line);
  if (match === null) return undefined;
  const kills = match[3] === "none" ? [] : match[3].split(",");
  return { run: Number(match[1]), same: match[2] === "same", kills, undone: Number(match[4]) };
}
const inOrder = (done) => [...done].sort(([a], [b]) => a - b).map(([, line]) => line);

function summaryOf(lines) {
  const runs = lines.map(readLine).filter((run) => run !== undefined);
  const perPhase = phases.map((phase) => {
    const at = new Set(points[phase].map(([point]) => point));
    return [phase, runs.flatMap(({ kills }) => kills).filter((point) => at.has(point)).length];
  });
  const bad = runs.filter(({ same }) => !same).length;
  const total = perPhase.reduce((sum, [, count]) => sum + count, 0);
  const undone = runs.reduce((sum, run) => sum + run.undone, 0);
  const text = `${runs.length} runs, ${total} kills (${perPhase
    .map(([phase, count]) => `${phase} ${count}`)
    .join(", ")}), ${undone} unsynced operations dropped, ${bad} runs different`;
  return { text, bad };
}

async function main() {
  const option = (name, otherwise) => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? otherwise : process.argv[at + 1];
  };
  const [runs, seed, steps] = [Number(option("runs", 200)), Number(option("seed", 1)), Number(option("steps", 12))];
  const lie = process.argv.includes("--lie");
  const model = option("model");
  const parts = await prepare();
  if (parts.library === undefined) console.log("No C compiler: unsynced writes are not taken back.");
  const calm = await drill(parts, { kills: [], steps, model });
  if (calm.problem !== undefined) throw new Error(calm.problem);
  const head = [
    `# kill drill: ${runs} runs, seed ${seed}, ${steps} steps, ${model ? "real engine, " : ""}unsynced writes ${parts.library ? "dropped" : "kept"}`,
    `calm ${calm.result}`,
  ];
  const file = option("log");
  const before = file !== undefined && existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : [];
  const goesOn = head.every((line, i) => before[i] === line);
  const done = new Map();
  for (const line of goesOn ? before : []) {
    const run = readLine(line)?.run;
    if (run !== undefined) done.set(run, line);
  }
  const missing = Array.from({ length: runs }, (_, run) => run).filter((run) => !done.has(run));
  const wanted = missing.slice(0, Number(option("at-most", runs)));
  const jobs = Number(option("jobs", 1));
  const one = async (run) => {
    const { phase, kills } = plan(seed, run);
    const report = await drill(parts, { kills, steps, model, lie });
    return lineOf(run, phase, report, report.problem === undefined && report.result === calm.result);
  };
  for (let at = 0; at < wanted.length; at += jobs) {
    const batch = wanted.slice(at, at + jobs);
    const finished = await Promise.all(batch.map(one));
    for (const [i, line] of finished.entries()) {
      done.set(batch[i], line);
      if (!readLine(line).same || batch[i] % 10 === 0) console.log(line.slice(0, 600));
    }
    if (file !== undefined) writeFileSync(file, `${[...head, ...inOrder(done)].join("\n")}\n`);
  }
  const lines = inOrder(done);
  const { text, bad } = summaryOf(lines);
  console.log(text);
  if (file !== undefined) {
    writeFileSync(file, `${[...head, ...lines, ...(lines.length === runs ? [text] : [])].join("\n")}\n`);
  }
  process.exitCode = bad > 0 === lie ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
