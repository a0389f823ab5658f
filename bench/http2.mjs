// HTTP/1.1 against HTTP/2 with undici over TLS, for the SDK's two kinds of traffic: many polls that wait, and small requests one after the
// other. Time, processor time of the client (the server is another process), and sockets. `npm run bench -- http2`
import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { Agent } from "undici";

const rounds = 3;
const limitMs = 15_000;
const variants = {
  "HTTP/1.1, a socket each": { allowH2: false, pipelining: 1, connections: 2_000 },
  "HTTP/2, default": { allowH2: true },
  "HTTP/2, 2 sessions, pipelining 1": { allowH2: true, connections: 2, pipelining: 1 },
  "HTTP/2, 2 sessions, pipelining 100": { allowH2: true, connections: 2, pipelining: 100 },
  "HTTP/2, 10 sessions, pipelining 200": { allowH2: true, connections: 10, pipelining: 200 },
  "HTTP/2 of the SDK, up to 10 sessions": "sdk",
};
const loads = {
  "40 polls of 200 ms": { path: "/poll", count: 40, atOnce: 40 },
  "400 polls of 200 ms": { path: "/poll", count: 400, atOnce: 400 },
  "2,000 polls of 200 ms": { path: "/poll", count: 2_000, atOnce: 2_000 },
  "4,000 small requests, 20 at once": { path: "/small", count: 4_000, atOnce: 20 },
};

/** One POST through `dispatch`, as the SDK sends it. */
const post = (agent, origin, path) =>
  new Promise((resolve, reject) => {
    let bytes = 0;
    agent.dispatch(
      {
        origin,
        path,
        method: "POST",
        idempotent: true,
        headers: { "content-type": "application/json", "x-api-key": "tml-bench-key" },
        body: '{"request_id":"r","allow_metadata_only":true}',
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      {
        onRequestStart() {},
        onResponseStart() {},
        onResponseData: (_, piece) => {
          bytes += piece.byteLength;
        },
        onResponseEnd: () => resolve(bytes),
        onResponseError: (_, error) => reject(error),
      },
    );
  });

async function load(agent, origin, { path, count, atOnce }) {
  let left = count;
  const worker = async () => {
    while (left-- > 0) await post(agent, origin, path);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/** The SDK's sessions (`packages/sdk/src/transport/http2-sessions.node.ts`), compiled into the folder. */
async function sessionsOf(folder) {
  const source = fileURLToPath(new URL("../packages/sdk/src/transport/http2-sessions.node.ts", import.meta.url));
  const outfile = join(folder, "sessions.mjs");
  await build({ entryPoints: [source], outfile, bundle: true, platform: "node", format: "esm", external: ["undici"] });
  return (await import(pathToFileURL(outfile).href)).Http2Sessions;
}

/** Timers of the system, as far as the sessions use a clock. */
const clock = {
  timer: (ms, run) => {
    const handle = setTimeout(run, ms).unref();
    return () => clearTimeout(handle);
  },
};

async function measure(origin, options, work, Sessions) {
  const connect = { rejectUnauthorized: false, timeout: 30_000 };
  const agent =
    options === "sdk"
      ? new Sessions({ clock, background: clock, most: 2_000, connectTimeoutMs: 30_000 })
      : new Agent({ ...options, connect });
  let [cpu, startMs] = [process.cpuUsage(), performance.now()];
  try {
    await inTime(load(agent, origin, { path: "/small", count: 20, atOnce: 20 }));
    [cpu, startMs] = [process.cpuUsage(), performance.now()];
    await inTime(load(agent, origin, work));
  } catch (error) {
    void agent.destroy(error);
    throw error;
  }
  const ms = performance.now() - startMs;
  const { user, system } = process.cpuUsage(cpu);
  await agent.destroy(new Error("over"));
  return { ms, cpuUs: (user + system) / work.count };
}

/** Rejects if the work does not end: some settings of undici never do. */
function inTime(work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`did not end within ${limitMs / 1000} s`)), limitMs);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** The median of some rounds, compared with the first variant. */
async function rowOf(origin, name, { options, work, base, Sessions }) {
  const taken = [];
  try {
    for (let round = 0; round < rounds; round++) taken.push(await measure(origin, options, work, Sessions));
  } catch (error) {
    return { name, value: "-", unit: "ms", note: error.message };
  }
  const times = taken.map((one) => one.ms).sort((a, b) => a - b);
  const [ms, cpuUs] = [median(times), median(taken.map((one) => one.cpuUs))];
  base.ms ??= ms;
  base.cpuUs ??= cpuUs;
  return {
    name,
    value: Math.round(ms),
    unit: "ms",
    spread: `${Math.round(times[0])} to ${Math.round(times.at(-1))}`,
    ratio: `${(ms / base.ms).toFixed(2)} × the time, ${(cpuUs / base.cpuUs).toFixed(2)} × the processor time (${Math.round(cpuUs)} µs a request)`,
  };
}

export default async function bench({ onRow = () => {} } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "http2-"));
  const Sessions = await sessionsOf(folder);
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0"; // in this process alone; the server's certificate is self-signed
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const subject = ["-subj", "/CN=localhost", "-days", "1"];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, ...subject], {
    stdio: "ignore",
  });
  const server = fork(fileURLToPath(new URL("http2/server.mjs", import.meta.url)), [key, cert]);
  try {
    const [{ port }] = await once(server, "message");
    const rows = [];
    for (const [title, work] of Object.entries(loads)) {
      const base = {};
      for (const [name, options] of Object.entries(variants)) {
        const row = await rowOf(`https://127.0.0.1:${port}`, `${title}: ${name}`, { options, work, base, Sessions });
        rows.push(row);
        onRow(row);
      }
    }
    return {
      rows,
      note: "TLS on loopback, undici's dispatch, the median of three rounds; the server is another process.",
    };
  } finally {
    server.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}
