// SkyRL's Tinker server as a process of its own, on the CPU. The first use makes .venv/skyrl from PyPI by package name (Python 3.12 or
// newer, about 7 GB because torch comes with it).
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { root } from "../../fixtures/programs/bundle.mjs";

const packages = ["skyrl[tinker,jax]==0.4.0", "uv", "psutil", "aiohttp"];
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

/** A tiny model with random weights under `work`; returns its folder. */
export function tinyModel(work) {
  const model = join(work, "models", "tiny");
  mkdirSync(model, { recursive: true });
  run(join(environment(), "bin", "python"), [join(root, "test/interop/skyrl/tiny_model.py"), model]);
  return model;
}

/**
 * Starts the server over a model; resolves when it answers.
 *
 * @param {{ work: string, model: string, source?: string, backend?: object }} options `work` takes its database and checkpoints;
 *   `source` is a checkout to run instead of the release; `backend` further settings of its backend.
 */
export async function startSkyrl({ work, model, source, backend }) {
  const folder = environment();
  const child = spawn(
    join(folder, "bin", "uv"),
    // The server starts its engine as `uv run …` again and reads its own flags from the parent's command line.
    ["run", "--no-sync", "--extra", "tinker", "--extra", "jax", "-m", "skyrl.tinker.api"].concat(
      ["--host", "127.0.0.1", "--port", String(port), "--base-model", model, "--backend", "jax"],
      ["--backend-config", JSON.stringify({ max_lora_adapters: 32, max_lora_rank: 32, ...backend })],
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
