// Environments that others wrote: a game of the official Python package `openenv`, served by it and played through `openEnv`, over
// WebSocket and HTTP. Every reply must be what the environment computed, and errors must arrive with the server's words.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { ensureVenv } from "../venv.mjs";

const python = ensureVenv("openenv", ["openenv==0.10.0"]);
const ours = await bundle("test/interop/environments/open-env-main.ts");
const program = fileURLToPath(new URL("open_env_server.py", import.meta.url));
const server = spawn(python, [program], {
  stdio: ["ignore", "pipe", "inherit"],
  env: { ...process.env, HF_HUB_OFFLINE: "1" },
});
const gone = once(server, "exit");
let failed = false;
const say = (ok, what, seen) => {
  console.log(`${ok ? "ok    " : "FAILED"} ${what}${ok ? "" : `: ${JSON.stringify(seen)}`}`);
  failed ||= !ok;
};
try {
  const [url] = await once(createInterface({ input: server.stdout }), "line");
  const client = spawn(process.execPath, [ours, url, join(root, "packages/base-model")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  for await (const chunk of client.stdout) output += chunk;
  const seen = JSON.parse(output);
  const result = (hint, reward, done) => (it) =>
    it.observation?.hint === hint && it.reward === reward && it.done === done;
  const expected = {
    reset: result("Guess 1 to 9.", 0, false),
    step: result("Higher.", 0, false),
    state: (it) => it.episode_id === "mine" && it.step_count === 1,
    "wrong action": (it) => /VALIDATION_ERROR/.test(it),
    "unknown field": (it) => /VALIDATION_ERROR/.test(it),
    failed: (it) => /EXECUTION_ERROR: the guess must be positive/.test(it),
    last: result("Right.", 1, true),
    "http reset": result("Guess 1 to 9.", 0, false),
    "http step": result("Right.", 1, true),
    "http wrong action": (it) => /HTTP 422/.test(it) && /guess/.test(it),
    // Halving with three guesses finds 3, 4, 5, 6, 7 and the neighbours 2 and 8: not 1 and 9.
    games: (it) =>
      it.length === 9 &&
      it.every(
        ([name, rewards]) => rewards.length === 8 && rewards.every((reward) => reward === (/[08]/.test(name) ? 0 : 1)),
      ),
    "failed games": (it) => it === 0,
    "full server": (it) => /CAPACITY_REACHED/.test(it) && /max_concurrent_envs/.test(it),
  };
  for (const [what, check] of Object.entries(expected))
    say(seen[what] !== undefined && check(seen[what]), `openenv: ${what}`, seen[what]);
} finally {
  server.kill("SIGKILL");
  await gone;
}
process.exitCode = failed ? 1 : 0;
