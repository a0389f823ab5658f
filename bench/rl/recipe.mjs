// The official cookbook's multi-turn recipe, unmodified, one step of 8 groups of 8 over the server of a build: its own times, in seconds.
// Needs a Python environment of the cookbook, made under .venv/ on first use.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { ensureVenv } from "../../test/interop/venv.mjs";

const release = "0.5.8";

/** The server of a build over the bundled model. */
const serve = async (build, model, dataDir) => {
  const { bundle } = await import(pathToFileURL(join(build, "test/fixtures/programs/bundle.mjs")).href);
  const main = await bundle("test/fixtures/programs/serve-main.ts");
  const child = spawn(process.execPath, [main, JSON.stringify({ models: [model], dataDir })], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [url] = await once(createInterface({ input: child.stdout }), "line");
  const stop = async () => {
    const gone = once(child, "exit");
    child.kill("SIGTERM");
    await gone;
  };
  return { url, stop };
};

export const runRecipe = async (root, build) => {
  const python = ensureVenv("cookbook", [`tinker-cookbook[math-rl]==${release}`], { torch: true });
  const model = join(root, "packages/base-model"); // the recipe loads the tokenizer from the model's name
  const work = mkdtempSync(join(tmpdir(), "tinklet-bench-recipe-"));
  const server = await serve(build, model, join(work, "data"));
  try {
    const options = {
      model_name: model,
      renderer_name: "qwen3_instruct",
      group_size: 8,
      batch_size: 8,
      max_steps: 1,
      eval_every: 0,
      save_every: 0,
      log_path: join(work, "log"),
    };
    const parts = Object.entries(options).map(([key, value]) => `${key}=${value}`);
    const done = spawnSync(python, ["-m", "tinker_cookbook.recipes.multiplayer_rl.guess_number.train", ...parts], {
      encoding: "utf8",
      maxBuffer: 256 << 20,
      timeout: 1_200_000,
      env: {
        ...process.env,
        HF_HUB_OFFLINE: "1",
        TINKER_API_KEY: "tml-local",
        TINKER_BASE_URL: server.url,
        TINKER_TELEMETRY: "0",
      },
    });
    if (done.status !== 0) throw new Error(`the recipe failed: ${done.stderr.slice(-2000)}`);
    const lines = readFileSync(join(work, "log/metrics.jsonl"), "utf8").trim().split("\n");
    const told = lines.map((line) => JSON.parse(line)).find((row) => typeof row["time/total"] === "number");
    return { sampling: told["time/sampling"], training: told["time/total"] - told["time/sampling"] };
  } finally {
    await server.stop();
    rmSync(work, { recursive: true, force: true });
  }
};
