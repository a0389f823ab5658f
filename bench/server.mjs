// The server's own cost: durable requests per second over the fake engine, with the load generator beside it; 5,000 samples of 200
// sessions while two models train; and, with a model's folder as argument, training through the API against the bare engine.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bundle } from "../test/server/bundle.mjs";

async function start(main, options) {
  const child = spawn(process.execPath, [main, JSON.stringify(options)], { stdio: ["ignore", "pipe", "inherit"] });
  const [url] = await once(createInterface({ input: child.stdout }), "line");
  const memory = () =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
  const stop = async () => {
    const gone = once(child, "exit");
    child.kill("SIGTERM");
    await gone;
  };
  return { url, memory, stop };
}

function run(script, args) {
  const done = spawnSync(process.execPath, [script, ...args], { encoding: "utf8", timeout: 300_000 });
  if (done.status !== 0) throw new Error(done.stderr.slice(-2000));
  return JSON.parse(done.stdout.trim().split("\n").at(-1));
}

const round = (value, digits = 1) => Number(value.toFixed(digits));

export default async function bench({ args }) {
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-"));
  const rows = [];
  try {
    const main = await bundle("test/server/fake-main.ts");
    const load = await bundle("bench/server/load.ts");
    const rates = [];
    for (let i = 0; i < 3; i++) {
      const server = await start(main, { dataDir: join(work, `rate-${i}`) });
      rates.push(run(load, [server.url, "rate"]).requestsPerSecond);
      await server.stop();
    }
    rates.sort((a, b) => a - b);
    rows.push({
      name: "durable requests, fake engine, load generator beside it",
      value: Math.round(rates[1]),
      unit: "requests/s",
      spread: `${Math.round(rates[0])} to ${Math.round(rates[2])}`,
      target: "≥ 2000",
    });
    const server = await start(main, { dataDir: join(work, "mixed"), callMs: 2 });
    const mixed = run(load, [server.url, "mixed"]);
    const peak = server.memory();
    await server.stop();
    rows.push(
      {
        name: "5,000 samples of 200 sessions while two models train: lost + out of order",
        value: mixed.lost + mixed.disordered,
        unit: "of 5000",
        target: "0",
      },
      { name: "accepting a sample under that load, median", value: round(mixed.acceptMedianMs), unit: "ms" },
      {
        name: "accepting a sample under that load, p99",
        value: round(mixed.acceptP99Ms),
        unit: "ms",
        ratio: round(mixed.acceptP99Ms / mixed.acceptMedianMs, 2),
        target: "≤ 5 × median",
      },
      { name: "training steps taken meanwhile", value: mixed.steps, unit: "steps" },
      { name: "server's peak memory", value: Math.round(peak), unit: "MiB" },
    );
    if (args[0] !== undefined) {
      const trained = run(await bundle("bench/server/train.ts"), [args[0]]);
      rows.push({
        name: "training through the API against the bare engine, 4 × 256 tokens, rank 16",
        value: Math.round(trained.api),
        unit: "tokens/s",
        ratio: round(trained.api / trained.bare, 3),
        target: "≥ 0.9",
        spread: `bare ${Math.round(trained.bare)} tokens/s`,
      });
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return { rows };
}
