// Our client and the conformance kit against SkyRL's Tinker server, on the CPU.
//
//   node test/peers/skyrl.mjs --url http://host:8000 [--model NAME]   a server that is running
//   node test/peers/skyrl.mjs [--source DIR]                          starts one here, over a tiny model
//
// The second form makes .venv/skyrl from PyPI by package name (Python 3.12 or newer, about 7 GB because torch comes with it) and
// runs the server of that release, or with --source that of a checkout of the repository. `--only=group,group` runs a part of the
// kit, `--json=FILE` keeps the report. Ends with 0 when the runs could be made: a peer is described here, not judged.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { bundle, root } from "../server/bundle.mjs";

const argument = (name) => {
  const at = process.argv.findIndex((word) => word === `--${name}` || word.startsWith(`--${name}=`));
  if (at < 0) return undefined;
  return process.argv[at].includes("=") ? process.argv[at].slice(name.length + 3) : process.argv[at + 1];
};
const packages = ["skyrl[tinker,jax]==0.3.0", "uv", "zstandard", "xxhash", "psutil", "protobuf<7"];
const port = 8123;

/** A Python that SkyRL runs on: its server does not import on 3.11. */
function findPython() {
  for (const name of ["python3.13", "python3.12", "python3"]) {
    const asked = spawnSync(name, ["-c", "import sys; sys.exit(sys.version_info < (3, 12))"]);
    if (asked.status === 0) return name;
  }
  throw new Error("SkyRL's server needs Python 3.12 or newer, and none was found.");
}

function run(command, args) {
  const done = spawnSync(command, args, {
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, HF_HUB_OFFLINE: "1" },
  });
  if (done.status !== 0) throw new Error(`${command} ${args.slice(0, 3).join(" ")} … ended with status ${done.status}`);
}

/** The environment's folder. */
function environment() {
  const folder = join(root, ".venv", "skyrl");
  const stamp = join(folder, "packages.stamp");
  if (existsSync(stamp)) return folder;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(root, ".venv"), { recursive: true });
  run(findPython(), ["-m", "venv", folder]);
  run(join(folder, "bin", "pip"), ["install", "-q", ...packages]);
  writeFileSync(stamp, `${packages.join("\n")}\n`);
  return folder;
}

/** Starts SkyRL's server over a tiny model; resolves when it answers. */
async function start(work) {
  const folder = environment();
  const model = join(work, "models", "tiny");
  mkdirSync(model, { recursive: true });
  run(join(folder, "bin", "python"), [join(root, "test", "peers", "tiny_model.py"), model]);
  const source = argument("source");
  const child = spawn(
    join(folder, "bin", "uv"),
    // The server starts its engine as `uv run …` again and reads its own flags from the parent's command line.
    ["run", "--no-sync", "--extra", "tinker", "--extra", "jax", "-m", "skyrl.tinker.api"].concat(
      ["--host", "127.0.0.1", "--port", String(port), "--base-model", model, "--backend", "jax"],
      ["--backend-config", '{"max_lora_adapters":32,"max_lora_rank":32}'],
      ["--database-url", `sqlite:///${join(work, "tinker.db")}`, "--checkpoints-base", join(work, "checkpoints")],
    ),
    {
      cwd: source === undefined ? work : resolve(source),
      detached: true, // a group of its own, so that its engine ends with it
      stdio: ["ignore", "ignore", "inherit"],
      env: {
        ...process.env,
        HF_HUB_OFFLINE: "1",
        JAX_PLATFORMS: "cpu",
        UV_NO_SYNC: "1",
        UV_PROJECT_ENVIRONMENT: folder,
        VIRTUAL_ENV: folder,
        PATH: `${join(folder, "bin")}${delimiter}${process.env.PATH}`,
        ...(source === undefined ? {} : { PYTHONPATH: resolve(source) }),
      },
    },
  );
  const url = `http://127.0.0.1:${port}`;
  for (let attempt = 0; attempt < 240; attempt++) {
    if (child.exitCode !== null) throw new Error(`SkyRL's server ended with status ${child.exitCode}`);
    const answer = await fetch(`${url}/api/v1/healthz`).catch(() => undefined);
    if (answer?.ok) return { url, stop: () => process.kill(-child.pid, "SIGTERM") };
    await new Promise((done) => setTimeout(done, 500));
  }
  process.kill(-child.pid, "SIGTERM");
  throw new Error("SkyRL's server did not answer within two minutes.");
}

const work = mkdtempSync(join(tmpdir(), "tinklet-skyrl-"));
let server;
try {
  const given = argument("url");
  server = given === undefined ? await start(work) : { url: given, stop: () => {} };
  const only = argument("only")?.split(",");
  const options = {
    baseUrl: server.url,
    apiKey: process.env.TINKER_API_KEY ?? "tml-dummy",
    baseModel: argument("model"),
    only,
    json: argument("json"),
  };
  const done = spawnSync(process.execPath, [await bundle("test/peers/peer-main.ts"), JSON.stringify(options)], {
    stdio: "inherit",
  });
  process.exitCode = done.status ?? 1;
} finally {
  server?.stop();
  rmSync(work, { recursive: true, force: true });
}
