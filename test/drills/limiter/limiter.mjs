// Many processes, one account: 50 processes with 16 samples each against a server that answers 429 above 100 samples in flight, with and
// without the option `sharedLimits`, and with it while the process that hands out the slots is killed. Prints how many samples saw a 429. With
// the limiter it must be less than 1 %.
//
//   node test/drills/limiter/limiter.mjs [processes] [requests] [limit]
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { listen, StubServer } from "@tinklet/sdk/testing";

/** Duration of a sample on the server. */
const sampleMs = 300;

const whole = (text, name) => {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0 && value <= 1_000) return value;
  throw new Error(`${name} must be an integer from 1 to 1000, got ${text}`);
};

/** The server, and which samples it refused. */
function crowdedServer(limit) {
  const accepted = [];
  const [seen, refused] = [new Set(), new Set()];
  let most = 0;
  const stub = new StubServer({
    sampleMs,
    faults: ({ operation, body }) => {
      if (operation !== "asample") return undefined;
      const now = performance.now();
      while (accepted.length > 0 && now - accepted[0] >= sampleMs) accepted.shift();
      const sample = `${body.samplingSessionId} ${body.seqId}`;
      seen.add(sample);
      if (accepted.length >= limit) {
        refused.add(sample);
        return { kind: "status", status: 429, body: { detail: "Too many concurrent samples." } };
      }
      accepted.push(now);
      most = Math.max(most, accepted.length);
      return undefined;
    },
  });
  return { stub, result: () => ({ samples: seen.size, refused: refused.size, most }) };
}

async function crowd({ processes, requests, limit }, { isShared, kills }) {
  const { stub, result } = crowdedServer(limit);
  const server = await listen(stub);
  const folder = mkdtempSync(join(tmpdir(), "tl-"));
  const shared = isShared ? JSON.stringify({ maxSamples: limit, folder }) : "";
  const client = fileURLToPath(new URL("limiter-client.mjs", import.meta.url));
  const start = () => fork(client, [server.url, String(requests), shared]);
  const children = [start()];
  try {
    await once(children[0], "message"); // the first one that is connected hands out the slots
    const others = Array.from({ length: processes - 1 }, start);
    children.push(...others);
    await Promise.all(others.map((child) => once(child, "message")));
    const startMs = performance.now();
    for (const child of children) child.send("go");
    if (kills) setTimeout(() => children[0].kill("SIGKILL"), 2 * sampleMs);
    const ended = await Promise.all(children.map((child) => once(child, "exit")));
    const failed = ended.filter(([code]) => code !== 0).length;
    return { ...result(), seconds: (performance.now() - startMs) / 1000, failed };
  } finally {
    for (const child of children) child.kill();
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const [processes, requests, limit] = [
  whole(process.argv[2] ?? "50", "processes"),
  whole(process.argv[3] ?? "16", "requests"),
  whole(process.argv[4] ?? "100", "limit"),
];
let isGood = true;
for (const [title, how] of [
  ["without", { isShared: false, kills: false }],
  ["with sharedLimits", { isShared: true, kills: false }],
  ["with sharedLimits, the listening process killed", { isShared: true, kills: true }],
]) {
  const { samples, refused, most, seconds, failed } = await crowd({ processes, requests, limit }, how);
  const share = (100 * refused) / samples;
  console.log(
    `${title}: ${samples} samples of ${processes} processes, ${refused} saw a 429 (${share.toFixed(1)} %), ` +
      `at most ${most} in flight, ${seconds.toFixed(1)} s, ${failed} processes failed`,
  );
  const lost = how.kills ? 1 : 0;
  if (samples < (processes - lost) * requests || failed !== lost || (how.isShared && share >= 1)) isGood = false;
}
process.exitCode = isGood ? 0 : 1;
