// The official Python SDK and its command line tool, unmodified, against our server over the real engine and a tiny model.
// For each release: every public method by reflection, every command, the quick look, and a training loop that must give what the
// same loop in TypeScript gives, byte for byte. `--write` renews docs/reports/python-sdk.md.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { ensureVenv } from "../venv.mjs";
import { oracles, withEverything } from "../versions.mjs";

const here = join(root, "test", "interop");
const work = mkdtempSync(join(tmpdir(), "tinklet-interop-"));
const model = join(work, "models", "tiny");
const regularizersFixture = join(root, "test", "fixtures", "regularizers.json");

/** Starts a server and returns its address and a function that ends it. */
async function start(options) {
  const main = await bundle("test/fixtures/programs/serve-main.ts");
  const child = spawn(process.execPath, [main, JSON.stringify({ tiny: model, ...options })], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [url] = await once(createInterface({ input: child.stdout }), "line");
  const stop = async () => {
    const gone = once(child, "exit");
    child.kill("SIGTERM");
    await gone;
  };
  return { url, stop };
}

function run(command, args, env = {}) {
  const done = spawnSync(command, args, {
    encoding: "utf8",
    maxBuffer: 64 << 20,
    timeout: 600_000,
    env: { ...process.env, HF_HUB_OFFLINE: "1", TINKER_TELEMETRY: "1", ...env },
  });
  return { ok: done.status === 0, out: done.stdout.trim(), all: `${done.stdout}\n${done.stderr}`.trim() };
}

let failed = false;
const say = (ok, what, detail = "") => {
  console.log(`${ok ? "ok    " : "FAILED"} ${what}${detail === "" ? "" : `\n${detail}`}`);
  failed ||= !ok;
};

const reports = [];
const loops = [];
const releases = oracles.map((oracle) => ({
  version: oracle.version,
  python: () => ensureVenv(...withEverything(oracle)),
}));

try {
  // the three ways a server can be set up that a client notices
  for (const options of [{}, { viaLoad: true, compress: true }]) {
    const server = await start({ dataDir: join(work, `data-${Object.keys(options).length}`), ...options });
    const label = Object.keys(options).join("+") || "default";
    for (const { version, python } of releases) {
      const executable = python();
      const report = join(work, `report-${version}-${label}.json`);
      const methods = run(executable, [join(here, "server/interop_server.py"), server.url, model, model, report]);
      const rows = existsSync(report) ? JSON.parse(readFileSync(report, "utf8")).rows : [];
      const bad = rows.filter(({ result }) => result !== "ok" && result !== "not served");
      say(
        rows.length > 0 && bad.length === 0,
        `tinker ${version}, ${label}: ${methods.out.split("\n").at(-1)}`,
        bad.length > 0 || rows.length === 0 ? methods.all.slice(-3000) : "",
      );
      if (label !== "default") continue;
      const cliReport = join(work, `cli-${version}.json`);
      const cli = run(executable, [join(here, "cli/cli_server.py"), server.url, model, cliReport]);
      say(cli.ok, `tinker ${version}, command line: ${cli.out.split("\n").at(-1)}`, cli.ok ? "" : cli.all.slice(-3000));
      reports.push({
        version,
        rows,
        cli: existsSync(cliReport) ? JSON.parse(readFileSync(cliReport, "utf8")).rows : [],
      });
      if (version === releases.at(-1).version) {
        const losses = run(executable, [join(here, "custom-losses/custom_losses_served.py"), server.url, model]);
        say(losses.ok, `tinker ${version}: ${losses.out.split("\n").at(-1)}`, losses.ok ? "" : losses.all.slice(-3000));
        const again = join(work, "regularizers.json");
        const regularizers = run(executable, [join(here, "custom-losses/regularizers.py"), again]);
        const difference = regularizers.ok ? greatestDifference(again, regularizersFixture) : Number.NaN;
        // Double precision on another processor; the tests compare with 1e-5.
        say(
          difference < 1e-9,
          `${regularizers.out.split("\n").at(-1)}, as kept (greatest difference ${difference})`,
          regularizers.ok ? "" : regularizers.all.slice(-3000),
        );
      }
      const loop = run(executable, [join(here, "server/loop_server.py"), server.url, model]);
      loops.push({
        who: `Python ${version}`,
        ok: loop.ok,
        result: loop.ok ? JSON.parse(loop.out.split("\n").at(-1)) : loop.all,
      });
    }
    if (label === "default") {
      const loop = run(process.execPath, [await bundle("test/interop/server/loop-main.ts"), server.url, model]);
      loops.push({
        who: "TypeScript",
        ok: loop.ok,
        result: loop.ok ? JSON.parse(loop.out.split("\n").at(-1)) : loop.all,
      });
      const old = ensureVenv("tinker-0.18.2", ["tinker==0.18.2"]);
      const smoke = run(old, [join(here, "server/server_smoke.py"), server.url, model]);
      say(
        smoke.ok,
        "tinker 0.18.2: trains, samples, saves and loads with JSON requests",
        smoke.ok ? "" : smoke.all.slice(-3000),
      );
    }
    await server.stop();
  }
  // the bundled model by its name, and where its tokenizer is found without a network
  const names = join(work, "names");
  mkdirSync(join(names, "tinklet"), { recursive: true });
  symlinkSync(join(root, "packages", "base-model"), join(names, "tinklet", "base"));
  const bundled = await start({ tiny: undefined });
  for (const { version, python } of releases) {
    const look = run(python(), [join(here, "server/bundled_server.py"), bundled.url, "tinklet/base", names]);
    say(
      look.ok,
      `tinker ${version}, bundled model: ${look.out.split("\n").at(-1)}`,
      look.ok ? "" : look.all.slice(-3000),
    );
  }
  await bundled.stop();
  const [first] = loops;
  for (const { who, ok, result } of loops) {
    const same = ok && JSON.stringify(result) === JSON.stringify(first.result);
    say(
      same,
      `loop of ten steps, ${who}: ${ok ? `last loss ${result.losses.at(-1)}, adapter ${result.adapter.slice(0, 16)}…` : result}`,
    );
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}

if (process.argv.includes("--write")) writeFileSync(join(root, "docs", "reports", "python-sdk.md"), page());
process.exitCode = failed ? 1 : 0;

/** The table of methods and results. */
/** The greatest difference of two files' numbers; NaN if they differ in anything else. */
function greatestDifference(one, other) {
  const [ours, theirs] = [one, other].map((file) => {
    const numbers = [];
    const shape = JSON.stringify(JSON.parse(readFileSync(file, "utf8")), (_, value) =>
      typeof value === "number" ? numbers.push(value) : value,
    );
    return { numbers, shape };
  });
  if (ours.shape !== theirs.shape) return Number.NaN;
  return ours.numbers.reduce((most, value, at) => Math.max(most, Math.abs(value - theirs.numbers[at])), 0);
}

function page() {
  const methods = [...new Set(reports.flatMap(({ rows }) => rows.map(({ method }) => method)))].sort();
  const cell = (rows, key, name) => rows.find((row) => row[key] === name)?.result ?? "–";
  const commands = [...new Set(reports.flatMap(({ cli }) => cli.map(({ command }) => command)))].sort();
  const table = (title, names, key, pick) =>
    [
      `| ${title} | ${reports.map(({ version }) => version).join(" | ")} |`,
      `|---|${reports.map(() => "---|").join("")}`,
      ...names.map((name) => `| \`${name}\` | ${reports.map((report) => cell(pick(report), key, name)).join(" | ")} |`),
    ].join("\n");
  const notes = new Map(
    reports.flatMap(({ rows }) =>
      rows.filter(({ result }) => result === "not served").map(({ method, note }) => [method, note]),
    ),
  );
  return `# The official Python SDK against our server

Written by \`node test/interop/server/server-interop.mjs --write\`: the unmodified SDK from the package index, a server over the real engine
with a tiny model. Every public method is found by reflection and checked with a postcondition (\`test/interop/server/interop_server.py\`);
"–" means that the release does not have it.

${table("method", methods, "method", ({ rows }) => rows)}

${[...notes].map(([method, note]) => `Not served: \`${method}\` ${note}.`).join("\n")}

One defect of the SDK shows here: \`RestClient.get_audit_log_async\` fails on any event loop but the SDK's own, so it is called there.

## The command line tool

${table("command", commands, "command", ({ cli }) => cli)}

"not checked": \`auth login\` and \`auth logout\` store and remove keys of the user's own account.

## The same loop in two languages

Ten steps of four sequences, LoRA of rank 8, then samples and a checkpoint; \`test/interop/server/loop_server.py\` and \`test/interop/server/loop-main.ts\`.

| program | last loss | adapter (SHA-256) |
|---|---|---|
${loops.map(({ who, ok, result }) => `| ${who} | ${ok ? result.losses.at(-1) : "failed"} | ${ok ? `\`${result.adapter.slice(0, 32)}…\`` : ""} |`).join("\n")}
`;
}
