// Samples per CPU-second of this SDK, of the official Python SDK and of undici without an SDK against the same stub in the same run,
// alternating; and the heap that a waiting call takes, and the connections that a client with small pools opens.
import { execFile, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { ensureVenv } from "../test/interop/venv.mjs";
import { oracles } from "../test/interop/versions.mjs";
import { median, round, spread } from "./measure.mjs";

const run = promisify(execFile);
const file = (name) => fileURLToPath(new URL(`client/${name}`, import.meta.url));

/** Runs `body` with the URL of a fresh stub. @param way - `one-poll` where all samples are asked for by one poll */
async function withStub(sampleMs, body, way = "") {
  const child = fork(file("stub.mjs"), [String(sampleMs), way], { stdio: ["ignore", "pipe", "inherit", "ipc"] });
  try {
    const url = await new Promise((resolve) => child.stdout.once("data", (line) => resolve(String(line).trim())));
    const result = await body(url);
    const asked = new Promise((resolve) => child.once("message", resolve));
    child.send("count");
    return { ...result, ...(await asked) };
  } finally {
    child.kill();
  }
}

const json = async (command, args) => JSON.parse((await run(command, args)).stdout.trim().split("\n").at(-1));
const sorted = (values) => values.sort((a, b) => a - b);

/** Pools far smaller than the 2,000 calls at once, so that the limit is what holds the sockets down. */
const smallPools = { session: 2, train: 1, sample: 25, retrieve: 100, rest: 1, redirect: 1, telemetry: 2 };
const allowed = Object.values(smallPools).reduce((sum, sockets) => sum + sockets, 0);

export default async function bench({ args }) {
  const repeats = Number(args[0] ?? 3);
  const { name, packages, version } = oracles.at(-1);
  const python = ensureVenv(name, packages);
  const ours = [];
  const theirs = [];
  const bare = [];
  for (let i = 0; i < repeats; i++) {
    const mine = await withStub(0, (url) => json(process.execPath, [file("load.mjs"), url, "10000"]));
    const other = await withStub(0, (url) => json(python, [file("load.py"), url, "2000"]));
    const raw = await withStub(0, (url) => json(process.execPath, [file("raw.mjs"), url, "10000"]));
    bare.push(raw.calls / raw.cpu);
    ours.push(mine.calls / mine.cpu);
    theirs.push(other.calls / other.cpu);
  }
  const ratios = sorted(ours.map((value, i) => value / theirs[i]));
  const costs = sorted(ours.map((value, i) => bare[i] / value));
  const few = await withStub(200, (url) =>
    json(process.execPath, [file("load.mjs"), url, "2000", JSON.stringify(smallPools)]),
  );
  const heap = await withStub(20_000, (url) => json(process.execPath, ["--expose-gc", file("heap.mjs"), url, "2000"]));
  const ways = await withStub(200, (alone) =>
    withStub(
      200,
      (together) => json(process.execPath, [file("both-ways.mjs"), alone, together, String(5 * repeats)]),
      "one-poll",
    ),
  );
  const shares = sorted(ways.together.map((cpu, i) => cpu / ways.alone[i]));
  return {
    note: "2,000 samples at once (64 prompt tokens, 32 drawn), each one submission and one poll over HTTP/1.1 on loopback; CPU of the client's process alone. The official SDK runs with its default transport (pyqwest) and `asyncio.gather`.",
    rows: [
      {
        name: "samples per CPU-second, tinklet",
        value: Math.round(median(sorted(ours))),
        unit: "1/s",
        spread: spread(sorted(ours), 0),
        ratio: round(median(ratios), 1),
        target: "≥ 11 (goal 20)",
        note: `ratio to the official Python SDK ${version}, ${round(ratios[0], 1)}–${round(ratios.at(-1), 1)}`,
      },
      {
        name: `samples per CPU-second, official Python SDK ${version}`,
        value: Math.round(median(sorted(theirs))),
        unit: "1/s",
        spread: spread(sorted(theirs), 0),
      },
      {
        name: "samples per CPU-second, undici's dispatch without an SDK",
        value: Math.round(median(sorted(bare))),
        unit: "1/s",
        spread: spread(sorted(bare), 0),
        ratio: round(median(costs), 1),
        note: `times ours, ${round(costs[0], 1)}–${round(costs.at(-1), 1)}: the same headers and bodies, a submission and a poll, without queues, limits, retries, checks and results`,
      },
      {
        name: "CPU per sample with one poll for all (retrieve_futures)",
        value: round((median(sorted(ways.together)) / 2_000) * 1e6, 0),
        unit: "µs",
        ratio: round(median(shares), 2),
        target: "≤ 1",
        note: `ratio to asking for each sample alone (${round((median(sorted(ways.alone)) / 2_000) * 1e6, 0)} µs), rounds of 2,000 samples of 200 ms alternating in one process, ${round(shares[0], 2)}–${round(shares.at(-1), 2)}`,
      },
      {
        name: "heap per waiting sample",
        value: round(heap.bytesPerCall / 1000, 1),
        unit: "kB",
        target: "≤ 20 kB",
        note: `${heap.waiting} of ${heap.calls} waiting at once, each on a socket of its own; ${heap.mostOpen} sockets open at most`,
      },
      {
        name: "sockets open at most, pools of 25 for sampling and 100 for retrieving",
        value: few.mostOpen,
        unit: "sockets",
        target: `≤ ${allowed}`,
        note: `counted by the server under ${few.calls} samples at once; the limit is the sum of all pools`,
      },
    ],
  };
}
