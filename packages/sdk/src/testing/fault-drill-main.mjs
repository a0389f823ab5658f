// `node packages/sdk/src/testing/fault-drill-main.mjs [calls] [seed]`: the fault drill over real sockets, against the built package, on a clock that
// runs 200 times faster than the wall's, so that timeouts of a minute take a third of a second. Runs twice: with a poll for each sample, and with
// one for all of them (`retrieve_futures`). Writes its log to docs/reports/client-drill.md and ends with status 1 when anything was found.
// Build first: `npm run build`.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as sdk from "../../dist/index.js";
import { listen, StubServer } from "../../dist/testing/index.js";
import { drill, faultScript } from "./fault-drill.mjs";

const calls = Number(process.argv[2] ?? 10_000);
const seed = Number(process.argv[3] ?? 1);
const speed = 200;
/** Virtual time after which a call is held to hang. */
const hangMs = 12 * 3_600_000;

/** The machine's clock, faster; its wall time can be set, as an administrator would. */
function fastClock({ ref }) {
  const clock = sdk.systemClock({ ref });
  const base = Date.now();
  let offset = 0;
  const monotonic = () => performance.now() * speed;
  return {
    now: () => base + monotonic() + offset,
    monotonic,
    timer: (ms, run) => clock.timer(ms / speed, run),
    sleep: (ms, signal) => clock.sleep(ms / speed, signal),
    jump: (ms) => {
      offset += ms;
    },
  };
}

/** One run. @param config - flags of the server */
async function run(config) {
  const clock = fastClock({ ref: true });
  const { script, counts } = faultScript(seed);
  const stub = new StubServer({
    clock: fastClock({ ref: false }),
    faults: script,
    config: { fwdbwd_max_chunk_len: 1, ...config },
  });
  const listener = await listen(stub);
  let jumps = 0;
  const result = await drill(sdk, {
    calls,
    seed,
    stub,
    client: { baseUrl: listener.url, clock },
    wait: (promise, what) =>
      new Promise((resolve, reject) => {
        const cancel = clock.timer(hangMs, () => reject(Object.assign(new Error(`${what} hangs`), { hang: true })));
        promise.then(
          (value) => {
            cancel();
            resolve(value);
          },
          (error) => {
            cancel();
            reject(error);
          },
        );
      }),
    jumpClock: () => clock.jump((jumps++ % 2 === 0 ? -1 : 1) * 3_600_000),
  });
  await listener.close();
  const { opened, mostOpen } = listener;
  return { ...result, counts, jumps, opened, mostOpen };
}

const started = Date.now();
const runs = [await run({}), await run({ sample_use_retrieve_futures: true })];
const problems = runs.flatMap((each, i) => each.problems.map((problem) => `${["each", "all"][i]}: ${problem}`));

const row = (name, of) => `| ${name} | ${runs.map(of).join(" | ")} |`;
const table = (of) => {
  const total = (name) => runs.reduce((sum, each) => sum + (of(each)[name] ?? 0), 0);
  const names = [...new Set(runs.flatMap((each) => Object.keys(of(each))))].sort((a, b) => total(b) - total(a));
  return names.map((name) => row(name, (each) => of(each)[name] ?? 0)).join("\n");
};
const head = (first) => `| ${first} | a poll for each sample | one for all (\`retrieve_futures\`) |\n|---|---|---|`;
const log = `# Client fault drill

\`npm run build && node packages/sdk/src/testing/fault-drill-main.mjs ${calls} ${seed}\` · ${new Date().toISOString().slice(0, 10)} · Node ${process.version} · ${Math.round((Date.now() - started) / 1000)} s at ${speed} times the speed

${calls} calls in each of two modes (training in eight models with chunked batches and cancellations, sampling by 24 workers with
cancellations, listings) over real sockets against the scripted server; the wall clock was set back and forth by an hour.

${head("")}
${row("calls that succeeded", ({ outcomes }) => outcomes.ok)}
${row("calls that failed, each with a typed error", ({ outcomes }) => outcomes.failed)}
${row("requests that reached the server", ({ requests }) => requests)}
${row("submissions sent again and recognised as the same", ({ repeats }) => repeats)}
${row("polls for all samples", ({ polls }) => polls)}
${row("wall clock set", ({ jumps }) => jumps)}
${row("sockets opened, most open at once", ({ opened, mostOpen }) => `${opened}, ${mostOpen}`)}
${row("hangs, stuck samples, unhandled rejections, requests applied twice or out of order, untyped errors, keys in errors or logs", (each) => each.problems.length)}

## Faults

${head("fault")}
${table(({ counts }) => counts)}

## Failures that callers saw

${head("error")}
${table(({ errors }) => errors)}
${problems.length === 0 ? "" : `\n## Problems\n\n${problems.map((problem) => `- ${problem}`).join("\n")}\n`}`;
if (calls >= 10_000) {
  mkdirSync(fileURLToPath(new URL("../../../../docs/reports/", import.meta.url)), { recursive: true });
  writeFileSync(new URL("../../../../docs/reports/client-drill.md", import.meta.url), log);
}
console.log(log);
process.exitCode = problems.length === 0 ? 0 : 1;
