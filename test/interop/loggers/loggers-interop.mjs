// What `--log-to` writes, read back by the programs it is for: `tensorboard` and `trackio` from PyPI. Our command line trains on
// a local server, logging to both; then it goes on for more steps, as a run that was stopped does. Each program must have
// every row of `metrics.jsonl` exactly once, the times, and the configuration. A Trackio server that is gone must not stop a run.
import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { ensureVenv } from "../venv.mjs";

const work = mkdtempSync(join(tmpdir(), "tinklet-loggers-"));
const python = ensureVenv("loggers", ["tensorboard==2.21.0", "trackio==0.43.0"]);
const tinklet = await bundle("test/interop/cli/cli-main.ts");

const helper = fileURLToPath(new URL("loggers_read.py", import.meta.url));
const model = join(root, "packages", "base-model");
const quiet = { HF_HUB_OFFLINE: "1", TRACKIO_DIR: join(work, "trackio"), HF_HOME: join(work, "hf") };
const environment = { ...process.env, ...quiet, TINKER_API_KEY: "tml-local", NO_COLOR: "1" };

/** A program that serves, and the first line that it prints. */
async function serving(program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], env: environment });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  const gone = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await gone;
  };
  return { line, stop };
}
const server = await serving(process.execPath, [
  await bundle("test/fixtures/programs/serve-main.ts"),
  JSON.stringify({ models: [model], dataDir: join(work, "data") }),
]);
const board = await serving(python, [helper, "serve"]);

let failed = false;
const say = (ok, what, seen = "") => {
  console.log(`${ok ? "ok    " : "FAILED"} ${what}${ok ? "" : `: ${seen}`}`);
  failed ||= !ok;
};
const folder = join(work, "runs", "sums");
const data = join(model, "data", "arithmetic", "train.jsonl");
const train = (steps) =>
  new Promise((resolve) => {
    const options = ["--model", model, "--learning-rate", "0.002", "--out", folder, "--batch-size", "4", "--no-export"];
    const logging = ["--log-to", "tensorboard", "--log-to", "trackio"];
    const args = [tinklet, "train", data, "--max-steps", String(steps), ...options, ...logging, "--test-share", "8"];
    const env = { ...environment, TINKER_BASE_URL: server.line, TRACKIO_SERVER_URL: board.line };
    execFile(process.execPath, args, { env, cwd: work, timeout: 600_000 }, (error, stdout, stderr) => {
      say(error === null, `train --max-steps ${steps}`, `${stdout}${stderr}`);
      resolve(stderr);
    });
  });
const read = (what, ...args) => {
  const done = spawnSync(python, [helper, what, ...args], { encoding: "utf8", env: environment });
  if (done.status !== 0) throw new Error(done.stderr);
  return JSON.parse(done.stdout);
};
const rows = () =>
  readFileSync(join(folder, "metrics.jsonl"), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));

/** Every figure of the run, as `name step`, with its value; and nothing twice. @param left what the program cannot take back */
function compare(program, told, left = 0) {
  const wanted = rows().flatMap(({ step, ...figures }) =>
    Object.entries(figures).map(([name, value]) => [`${name} ${step}`, value]),
  );
  const found = new Map(told.points.map(([name, step, value]) => [`${name} ${step}`, value]));
  const points = told.points.filter(([name]) => !name.startsWith("time/"));
  const near = (a, b) => a !== undefined && Math.abs(a - b) <= 2 ** -23 * Math.abs(b); // TensorBoard's scalars are 32-bit floats
  const wrong = wanted.filter(([key, value]) => !near(found.get(key), value));
  say(wrong.length === 0, `${program} has all ${wanted.length} figures`, JSON.stringify(wrong.slice(0, 5)));
  say(points.length === wanted.length + left, `${program} has nothing twice`, `${points.length} of ${wanted.length}`);
  const times = told.points.filter(([name]) => name === "time/total").map(([, step]) => step);
  say(
    JSON.stringify(times) === JSON.stringify(wanted.length === 0 ? [] : [0, 1, 2, 3, 4, 5]),
    `${program} has the times`,
    times,
  );
  say(told.config.learning_rate === 0.002, `${program} has the configuration`, JSON.stringify(told.config));
}

try {
  await train(3);
  await train(6);
  compare("tensorboard", read("tensorboard", folder));
  compare("trackio", read("trackio", "tinklet", "sums"), 2); // `progress` and `test/nll` of the evaluation with which the shorter run ended
  say(readdirSync(folder).filter((name) => name.includes("tfevents")).length === 2, "one event file for each start");
  await board.stop();
  const said = await train(8);
  say(
    /trackio: cannot reach/.test(said) && /rows of sums were not logged/.test(said),
    "a server that is gone is told",
    said,
  );
  say(said.match(/cannot reach/g)?.length === 1, "told once", said);
} finally {
  await board.stop();
  await server.stop();
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
