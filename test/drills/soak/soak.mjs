// The soak drill: one server with the real engine on the bundled model, 20 clients of every kind (soak-clients.ts), and a server that
// is stopped and killed now and then. In the end every accepted request must have been answered once and rightly, and what was used
// must be given back: descriptors, heap, disk.
//
//   node test/drills/soak/soak.mjs [--minutes 15] [--seed 1] [--log FILE]
//
// Ends with 1 when anything is not as it must be. Linux only.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import Libsql from "libsql";
import { bundle } from "../../fixtures/programs/bundle.mjs";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : process.argv[at + 1];
};
const minutes = Number(option("minutes", 15));
const seed = Number(option("seed", 1));
/** Seconds between two ends of the server, at least and at most. */
const peace = { least: 20, most: 50 };
const limits = { turnMs: 100, heap: 1.1, folder: 1.1 };
const keys = ["tml-soak-one", "tml-soak-two"];
const keyFile = keys.map((key, i) => `tenant-${i} sha256:${createHash("sha256").update(key).digest("hex")}`).join("\n");

const work = mkdtempSync(join(tmpdir(), "tinklet-soak-"));
const dataDir = join(work, "data");
const serverFile = await bundle("test/drills/soak/soak-main.ts");
const unhandled = [];
const turns = { turnMs: 0, turnWithStealMs: 0, turnWithWaitMs: 0, turnCpuMs: 0 };
const noteTurns = (message) => {
  for (const name of Object.keys(turns)) turns[name] = Math.max(turns[name], message[name] ?? 0);
};

let draws = (seed * 2654435761) >>> 0;
const draw = () => {
  draws = (Math.imul(draws, 1664525) + 1013904223) >>> 0;
  return draws / 2 ** 32;
};

/** Processes of this drill that still run: none outlives it. */
const children = new Set();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** A server process that can be asked how it is. */
const start = async (folder, port) => {
  const child = spawn(
    process.execPath,
    ["--expose-gc", serverFile, JSON.stringify({ dataDir: folder, port, keys: keyFile })],
    { stdio: ["ignore", "inherit", "inherit", "ipc"] },
  );
  const exited = once(child, "exit");
  children.add(child);
  exited.then(() => children.delete(child));
  const waiting = new Map();
  child.on("message", (message) => {
    if (message.type === "unhandled") unhandled.push(message.error);
    if (message.type === "stopped" || message.type === "state") noteTurns(message);
    waiting.get(message.type)?.(message);
  });
  const next = (type) => new Promise((resolve) => waiting.set(type, resolve));
  const listening = await Promise.race([next("listening"), exited.then(() => undefined)]);
  if (listening === undefined) throw new Error("the server did not start");
  return {
    url: listening.url,
    exited,
    end: (signal) => {
      child.kill(signal);
      return exited;
    },
    state: () => {
      const answer = next("state");
      child.send("state");
      return answer;
    },
  };
};

/** Bytes of the files in a folder. The server works while we look: what is gone by then counts nothing. */
const sizeOf = (folder) => {
  let entries;
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (error.code === "ENOENT") return 0;
    throw error;
  }
  let bytes = 0;
  for (const entry of entries) {
    const path = join(folder, entry.name);
    bytes += entry.isDirectory() ? sizeOf(path) : (statSync(path, { throwIfNoEntry: false })?.size ?? 0);
  }
  return bytes;
};

/** Bytes of a folder in which nothing was ever done. */
const emptyFolder = async () => {
  const folder = join(work, "empty");
  await (await start(folder, 0)).end("SIGTERM");
  return sizeOf(folder);
};

const problems = [];
const must = (holds, what) => {
  if (!holds) problems.push(what);
};

const emptyBytes = await emptyFolder();
let server = await start(dataDir, 0);
const { port } = new URL(server.url);
const atStart = await server.state();
const seconds = Math.round(minutes * 60);
const clients = spawn(
  process.execPath,
  [await bundle("test/drills/soak/soak-clients.ts"), server.url, String(seconds), String(seed), keys.join(",")],
  { stdio: ["ignore", "pipe", "inherit"] },
);
children.add(clients);
const gone = once(clients, "exit").then(() => children.delete(clients));
const lines = createInterface({ input: clients.stdout })[Symbol.asyncIterator]();
const line = async () => (await lines.next()).value;
const started = Date.now();
must((await line()) === "calm", "the calm run failed");
console.log(`calm run done after ${Math.round((Date.now() - started) / 1000)} s; now ${seconds} s of trouble`);

// ---- trouble
const ends = { SIGTERM: 0, SIGKILL: 0 };
const from = Date.now();
let over = false;
const finished = line().then((text) => {
  over = true;
  return text;
});
let afterFirstQuarter;
let peakBytes = 0;
while (!over) {
  const wait = 1000 * (peace.least + draw() * (peace.most - peace.least));
  const timer = new Promise((resolve) => setTimeout(resolve, wait).unref());
  await Promise.race([timer, finished]);
  if (over || Date.now() - from > seconds * 1000 - 10_000) {
    await finished;
    break;
  }
  const state = await server.state();
  if (afterFirstQuarter === undefined && Date.now() - from >= seconds * 250) afterFirstQuarter = state;
  peakBytes = Math.max(peakBytes, sizeOf(dataDir));
  const signal = ends.SIGTERM < ends.SIGKILL ? "SIGTERM" : "SIGKILL";
  ends[signal]++;
  const [code, by] = await server.end(signal);
  must(signal === "SIGKILL" ? by === "SIGKILL" : code === 0, `the server ended with ${code ?? by} after ${signal}`);
  server = await start(dataDir, Number(port));
}
afterFirstQuarter ??= await server.state();
const report = JSON.parse((await line()) ?? '{"wrong":["the clients died"],"lost":[],"counts":{},"accepted":0}');
await gone;

// ---- what is left
const busy = await server.state();
await endAll();
const atEnd = await server.state();
peakBytes = Math.max(peakBytes, sizeOf(dataDir));
await server.end("SIGTERM");
const db = new Libsql(join(dataDir, "tinklet.db"));
const rows = Object.fromEntries(
  db
    .prepare("SELECT state, COUNT(*) AS n FROM requests GROUP BY state")
    .all()
    .map(({ state, n }) => [state, n]),
);
db.close();
const removed = Number(
  execFileSync(process.execPath, [await bundle("test/drills/soak/delete-sessions-main.ts"), dataDir]),
);
const leftBytes = sizeOf(dataDir);
rmSync(work, { recursive: true, force: true });

/** Ends every session and deletes every checkpoint, each as its owner, over connections that are closed at once. */
async function endAll() {
  for (const key of keys) {
    const ask = async (method, path, body) => {
      const answer = await fetch(`${server.url}/api/v1/${path}`, {
        method,
        headers: { "x-api-key": key, connection: "close", ...(body ? { "content-type": "application/json" } : {}) },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      const text = await answer.text();
      if (answer.status >= 300) problems.push(`${method} ${path}: ${answer.status} ${text.slice(0, 200)}`);
      return text === "" ? {} : JSON.parse(text);
    };
    for (;;) {
      const { checkpoints } = await ask("GET", "checkpoints?limit=100");
      if (!(checkpoints?.length > 0)) break;
      for (const { tinker_path: path } of checkpoints) {
        const [, run, kind, name] = /^tinker:\/\/([^/]+)\/([^/]+)\/(.+)$/.exec(path);
        await ask("DELETE", `training_runs/${run}/checkpoints/${kind}/${encodeURIComponent(name)}`);
      }
      if (problems.length > 5) return;
    }
    for (let offset = 0; ; offset += 100) {
      const { sessions: ids } = await ask("GET", `sessions?limit=100&offset=${offset}`);
      if (!(ids?.length > 0)) break;
      for (const id of ids) {
        await ask("POST", `sessions/${encodeURIComponent(id)}/finish`, { reason: { type: "success" } });
      }
    }
  }
}

must(report.wrong.length === 0, `${report.wrong.length} wrong answers`);
must(report.lost.length === 0, `${report.lost.length} requests lost`);
must(unhandled.length === 0, `${unhandled.length} unhandled rejections in the server`);
must((rows.pending ?? 0) === 0, `${rows.pending} requests left pending`);
const more = surplus(atEnd.descriptors, atStart.descriptors);
must(more.length === 0, `descriptors that were not open at the start: ${more.join(", ")}`);
must(atEnd.heapBytes <= limits.heap * afterFirstQuarter.heapBytes, "the heap has grown");
must(leftBytes <= limits.folder * emptyBytes, `the folder holds ${leftBytes} bytes, an empty one ${emptyBytes}`);
must(turns.turnMs <= limits.turnMs, `a turn of the event loop took ${turns.turnMs.toFixed(0)} ms`);

/** What of the first list is not in the second. */
function surplus(now, before) {
  const left = [...before];
  return now.filter((each) => {
    const at = left.indexOf(each);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
const log = `# Soak drill

\`npm run drill -- soak --minutes ${minutes} --seed ${seed}\` · ${new Date().toISOString().slice(0, 10)} · ${cpus().length} × ${cpus()[0]?.model} · Node ${process.version}

One server with the real engine on the bundled model; ${report.counts.clients ?? 0} clients; stopped ${ends.SIGTERM} times, killed ${ends.SIGKILL} times.

| | |
|---|---|
| wrong answers | ${report.wrong.length} |
| requests lost | ${report.lost.length} |
| requests accepted from clients that speak directly, each answered | ${report.accepted} |
| unhandled rejections in the server | ${unhandled.length} |
| descriptors at the start, after the clients, after their sessions ended | ${atStart.descriptors.length}, ${busy.descriptors.length}, ${atEnd.descriptors.length} |
| heap after two collections: first quarter, end, after the sessions ended | ${megabytes(afterFirstQuarter.heapBytes)}, ${megabytes(busy.heapBytes)}, ${megabytes(atEnd.heapBytes)} |
| folder: empty, largest, after deletion of ${removed} sessions | ${megabytes(emptyBytes)}, ${megabytes(peakBytes)}, ${megabytes(leftBytes)} |
| longest turn of the event loop, the wait for a core taken off | ${turns.turnMs.toFixed(0)} ms |
| the same with what the hypervisor took, and with the wait in the run queue, too | ${turns.turnWithStealMs.toFixed(0)} ms, ${turns.turnWithWaitMs.toFixed(0)} ms |
| most that a turn was on a core | ${turns.turnCpuMs.toFixed(0)} ms |

| what the clients did | times |
|---|---|
${Object.entries(report.counts)
  .filter(([what]) => what !== "clients")
  .sort((a, b) => b[1] - a[1])
  .map(([what, times]) => `| ${what} | ${times} |`)
  .join("\n")}
${problems.length === 0 ? "" : `\n## Problems\n\n${[...problems, ...[...report.wrong, ...report.lost, ...unhandled].slice(0, 40)].map((problem) => `- ${problem}`).join("\n")}\n`}`;
console.log(log);
const file = option("log");
if (file !== undefined) writeFileSync(file, log);
process.exitCode = problems.length === 0 ? 0 : 1;
