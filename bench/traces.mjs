// Exports of traces beside training: 500 spans of 2 kB per second in batches of 50 over one minute, on the bundled model and a data
// folder. Training steps with and without that load in turns, so that the machine's drift is in both; the limit is 10 % slower steps.
// `npm run bench -- traces [--dry] [SECONDS]`
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bundle } from "../test/fixtures/programs/bundle.mjs";
import { median, round, spread } from "./measure.mjs";

const rounds = 3;
const spansPerSecond = 500;
const batch = 50;
const spanBytes = 2048;
const key = "tml-bench";

export default async function bench({ args }) {
  const seconds = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 60);
  const { ServiceClient, Datum, ModelInput } = await import("../packages/sdk/dist/index.js");
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-traces-"));
  const main = await bundle("test/fixtures/programs/serve-main.ts");
  const load = await bundle("bench/traces/load-main.ts");
  const server = spawn(process.execPath, [main, JSON.stringify({ dataDir: work })], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const [url] = await once(createInterface({ input: server.stdout }), "line");
    await using service = new ServiceClient({ baseUrl: url, apiKey: key, telemetry: false });
    const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 16, seed: 1 });
    const tokens = Array.from({ length: 128 }, (_, i) => 300 + ((i * 7919) % 1000));
    const lossFnInputs = { target_tokens: tokens.map((token) => token + 1), weights: tokens.map(() => 1) };
    const data = [0, 1].map(() => new Datum({ modelInput: ModelInput.fromInts(tokens), lossFnInputs }));
    const stepsFor = async (milliseconds) => {
      const times = [];
      for (const end = performance.now() + milliseconds; performance.now() < end; ) {
        const started = performance.now();
        await trainer.step(data, "cross_entropy", { learningRate: 1e-4 });
        times.push(performance.now() - started);
      }
      return times.sort((a, b) => a - b);
    };
    await stepsFor(3000);
    const part = (seconds / rounds) * 1000;
    const runs = [];
    for (let i = 0; i < rounds; i++) {
      const alone = await stepsFor(part);
      const options = { url, key, seconds: seconds / rounds, spansPerSecond, batch, spanBytes };
      const exporter = spawn(process.execPath, [load, JSON.stringify(options)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const told = once(createInterface({ input: exporter.stdout }), "line");
      const loaded = await stepsFor(part);
      const { spans, latencies } = JSON.parse((await told)[0]);
      runs.push({
        alone: median(alone),
        loaded: median(loaded),
        spans: spans / (seconds / rounds),
        latency: latencies,
      });
    }
    const ratios = runs.map(({ alone, loaded }) => loaded / alone).sort((a, b) => a - b);
    const rates = runs.map(({ spans }) => spans).sort((a, b) => a - b);
    const answers = runs.map(({ latency }) => latency.p99).sort((a, b) => a - b);
    return {
      note: `${seconds} s of load in ${rounds} turns; the load generator runs on the same machine. Each ratio is the median step of a turn with load by that of the turn before it`,
      rows: [
        {
          name: "training step beside exports, against alone",
          value: round(median(ratios)),
          unit: "×",
          spread: spread(ratios),
          target: "≤ 1.10",
        },
        {
          name: "spans stored per second",
          value: round(median(rates), 0),
          unit: "spans/s",
          spread: spread(rates, 0),
          target: `≥ ${spansPerSecond}`,
        },
        {
          name: "answer to an export of 50 spans, 99th percentile",
          value: round(median(answers), 0),
          unit: "ms",
          spread: spread(answers, 0),
        },
      ],
    };
  } finally {
    const gone = once(server, "exit");
    server.kill("SIGTERM");
    await gone;
    rmSync(work, { recursive: true, force: true });
  }
}
