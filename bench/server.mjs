// The server's own cost: durable requests per second over the fake engine, with the load generator beside it; 5,000 samples of 200
// sessions while two models train; from start to healthy; and training through the API against the bare engine.
//   npm run bench -- server [MODEL_FOLDER] [--skyrl[=CHECKOUT]]
// The model is the bundled one if none is named. With --skyrl, SkyRL's server (test/interop/skyrl/skyrl-server.mjs; a checkout of it, since its
// release 0.3.0 takes no protobuf) trains the same in turns; without it, its row is against what it gave before on such a machine.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bundle } from "../test/fixtures/programs/bundle.mjs";
import { startSkyrl } from "../test/interop/skyrl/skyrl-server.mjs";
import { median, round, spread } from "./measure.mjs";

const ascending = (values) => [...values].sort((a, b) => a - b);
/** SkyRL 0.3.0 on two cores, 4 × 256 tokens, rank 16. */
const skyrlBefore = 629;

/** A server over the fake engine. */
async function start(main, options) {
  const child = spawn(process.execPath, [main, JSON.stringify(options)], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const [url] = await once(lines, "line");
  const proc = (file) => readFileSync(`/proc/${child.pid}/${file}`, "utf8");
  return {
    url,
    /** Highest resident memory so far, in MiB. */
    peak: () => Number(/VmHWM:\s+(\d+)/.exec(proc("status"))?.[1] ?? 0) / 1024,
    /** Processor time so far, in ms: the kernel counts hundredths of a second. */
    cpu: () => {
      const [user, system] = proc("stat").split(") ")[1].split(" ").slice(11, 13);
      return (Number(user) + Number(system)) * 10;
    },
    /** Ends it; what it told about its event loop. */
    stop: async () => {
      const told = options.watchLoop ? once(lines, "line") : undefined;
      const gone = once(child, "exit");
      child.kill("SIGTERM");
      await gone;
      return told === undefined ? undefined : JSON.parse((await told)[0]);
    },
  };
}

function run(script, args) {
  const done = spawnSync(process.execPath, [script, ...args], { encoding: "utf8", timeout: 300_000 });
  if (done.status !== 0) throw new Error(done.stderr.slice(-2000));
  return JSON.parse(done.stdout.trim().split("\n").at(-1));
}

async function ratesOfRequests(work, main, load) {
  const runs = [];
  for (let i = 0; i < 3; i++) {
    const server = await start(main, { dataDir: join(work, `rate-${i}`) });
    const before = server.cpu();
    const count = 8000;
    const { samplesPerSecond } = run(load, [server.url, "rate", String(count)]);
    runs.push({ requests: 2 * samplesPerSecond, cpu: (server.cpu() - before) / (2 * count) });
    await server.stop();
  }
  const requests = ascending(runs.map((each) => each.requests));
  const cpu = ascending(runs.map((each) => each.cpu));
  return [
    {
      name: "durable requests, fake engine, load generator beside it",
      value: Math.round(median(requests)),
      unit: "requests/s",
      spread: spread(requests, 0),
      target: "≥ 2000",
      note: "samples; each is one submission, synced before it is acknowledged, and one poll",
    },
    {
      name: "the server's processor time for one of them",
      value: round(median(cpu), 3),
      unit: "ms",
      spread: spread(cpu, 3),
    },
  ];
}

async function mixedLoad(work, main, load) {
  const server = await start(main, { dataDir: join(work, "mixed"), callMs: 2, watchLoop: true });
  const first = run(load, [server.url, "mixed"]);
  const peaks = [server.peak()];
  const second = run(load, [server.url, "mixed"]);
  peaks.push(server.peak());
  const loop = await server.stop();
  const worse = [first, second].sort((a, b) => b.acceptP99Ms / b.acceptMedianMs - a.acceptP99Ms / a.acceptMedianMs)[0];
  return [
    {
      name: "5,000 samples of 200 sessions while two models train, twice: lost, wrong or out of order",
      value: first.lost + first.disordered + second.lost + second.disordered,
      unit: "of 10000",
      target: "0",
      note: `${first.steps + second.steps} training steps meanwhile`,
    },
    {
      name: "accepting a sample under that load, p99",
      value: round(worse.acceptP99Ms, 1),
      unit: "ms",
      ratio: `${round(worse.acceptP99Ms / worse.acceptMedianMs)}× the median (${round(worse.acceptMedianMs, 1)} ms)`,
      target: "≤ 5×",
    },
    {
      name: "peak memory after the first 5,000, and after as many again",
      value: Math.round(peaks[1]),
      unit: "MiB",
      ratio: `${round(peaks[1] / peaks[0])}× the first (${Math.round(peaks[0])})`,
      target: "≤ 1.2×",
    },
    {
      name: "longest hold-up of the event loop under that load",
      value: round(loop.maxMs, 0),
      unit: "ms",
      note: "200 clients that answer at once: a turn of the loop serves all of them",
    },
  ];
}

/** From starting `tinklet serve` with the bundled model to the first answer of healthz. */
async function startToHealthy(root, work) {
  const times = [];
  for (let i = 0; i < 5; i++) {
    const args = [
      join(root, "packages/tinklet/bin/tinklet.mjs"),
      "serve",
      ...["--port", "0", "--data-dir", join(work, `start-${i}`)],
    ];
    const started = performance.now();
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
    let url;
    for await (const line of createInterface({ input: child.stdout })) {
      url = /https?:\/\/[\w.:]+/.exec(line)?.[0];
      if (url !== undefined) break;
    }
    if (url === undefined) throw new Error("tinklet serve ended without an address");
    const answer = await fetch(`${url}/healthz`);
    if (!answer.ok) throw new Error(`healthz answered ${answer.status}`);
    times.push(performance.now() - started);
    const gone = once(child, "exit");
    child.kill("SIGTERM");
    await gone;
  }
  const sorted = ascending(times);
  return {
    name: "tinklet serve with the bundled model: from start to healthy",
    value: Math.round(median(sorted)),
    unit: "ms",
    spread: spread(sorted, 0),
    target: "< 1000",
  };
}

async function training(work, model, { withSkyrl, source }) {
  const skyrl = withSkyrl ? await startSkyrl({ work, model, ...(source ? { source } : {}) }) : undefined;
  let measured;
  try {
    const options = { model, rounds: withSkyrl ? 2 : 7, ...(skyrl === undefined ? {} : { skyrlUrl: skyrl.url }) };
    measured = run(await bundle("bench/server/train.ts"), [JSON.stringify(options)]);
  } finally {
    skyrl?.stop();
  }
  const [bare, api] = [ascending(measured.bare), ascending(measured.api)];
  const peer = withSkyrl ? median(ascending(measured.skyrl)) : skyrlBefore;
  const of = withSkyrl ? `SkyRL in turns: ${Math.round(peer)} tokens/s` : `SkyRL before: ${peer} tokens/s`;
  return [
    {
      name: "training through the API, 4 × 256 tokens, rank 16, against the bare engine",
      value: Math.round(median(api)),
      unit: "tokens/s",
      spread: spread(api, 0),
      ratio: round(median(api) / median(bare), 3),
      target: "≥ 0.9",
      note: `bare engine ${Math.round(median(bare))} tokens/s (${spread(bare, 0)}), taken in turns`,
    },
    {
      name: "the same against SkyRL's server",
      value: Math.round(median(api)),
      unit: "tokens/s",
      ratio: round(median(api) / peer),
      target: "≥ 3",
      note: of,
    },
    {
      name: "longest hold-up of the event loop while the engine trains",
      value: round(measured.loop.maxMs, 1),
      unit: "ms",
      note: `p99 ${round(measured.loop.p99Ms, 1)} ms; server and client in one process, beside the engine's threads`,
    },
  ];
}

export default async function bench({ root, args }) {
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-"));
  try {
    const main = await bundle("test/fixtures/programs/fake-main.ts");
    const load = await bundle("bench/server/load.ts");
    const skyrl = args.find((arg) => /^--skyrl(=|$)/.test(arg));
    const model = args.find((arg) => !arg.startsWith("--")) ?? join(root, "packages/base-model");
    return {
      rows: [
        ...(await ratesOfRequests(work, main, load)),
        ...(await mixedLoad(work, main, load)),
        await startToHealthy(root, work),
        ...(await training(work, model, { withSkyrl: skyrl !== undefined, source: skyrl?.split("=")[1] })),
      ],
    };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
