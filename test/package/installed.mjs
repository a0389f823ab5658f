// What a user has after `npm install` of the packed packages in an empty folder: `npm ls`, and what `doctor`, `serve` and `train` say
// about the model runtime. First as it comes out where onnxruntime-node's install script cannot reach its download (npm drops an
// optional package whose script fails), then after the install line that the tool itself gives.
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { emptyProject, plainEnvironment, run } from "./report.mjs";

/** The line that mends it; the tool must give exactly this one, and the check follows it. */
const installLine = "ONNXRUNTIME_NODE_INSTALL=skip npm install onnxruntime-node";
/** A download that fails at once, whatever network there is: a proxy where nobody listens, and the download asked for. */
const unreachable = {
  ONNXRUNTIME_NODE_INSTALL: "cuda12",
  GLOBAL_AGENT_HTTPS_PROXY: "http://127.0.0.1:9",
  GLOBAL_AGENT_HTTP_PROXY: "http://127.0.0.1:9",
};

const folders = new Map();

/** The folder with all packages and the native runtime installed, for the suites that need it; made once. */
export async function installAll({ check }, packages, work) {
  if (!folders.has(work)) {
    const folder = emptyProject(join(work, "all"));
    folders.set(work, undefined);
    const tarballs = [...packages.values()].map(({ tarball }) => tarball);
    const env = { ONNXRUNTIME_NODE_INSTALL: "skip" };
    const done = await check("all packages install into an empty folder", async () => {
      await run("npm", ["install", "--no-audit", "--no-fund", ...tarballs], { cwd: folder, env });
    });
    if (done) folders.set(work, folder);
  }
  return folders.get(work);
}

export async function checkInstalled({ check, skip }, packages, work) {
  const folder = emptyProject(join(work, "all"));
  const tarballs = [...packages.values()].map(({ tarball }) => tarball);
  if (process.platform !== "linux" || process.arch !== "x64") {
    skip("installed: onnxruntime-node's script fails", "only on Linux x64 has its script something to download");
    return;
  }
  const installed = await check("installed: npm install where onnxruntime-node's script fails", async () => {
    await run("npm", ["install", "--no-audit", "--no-fund", ...tarballs], { cwd: folder, env: unreachable });
  });
  if (!installed) return;
  await check("installed: npm ls, onnxruntime-node is missing and npm calls nothing broken", async () => {
    const { stdout } = await run("npm", ["ls", "--all"], { cwd: folder });
    if (!stdout.includes("UNMET OPTIONAL DEPENDENCY onnxruntime-node@")) throw new Error(stdout);
  });
  await checkCommands({ check }, folder, { native: false });
  const mended = await check(`installed: ${installLine}`, async () => {
    const [setting, command, ...args] = installLine.split(" ");
    const [name, value] = setting.split("=");
    await run(command, [...args, "--no-audit", "--no-fund"], { cwd: folder, env: { [name]: value } });
    const { stdout } = await run("npm", ["ls", "--all"], { cwd: folder });
    if (/UNMET OPTIONAL DEPENDENCY onnxruntime-node|invalid|extraneous/.test(stdout)) throw new Error(stdout);
  });
  if (!mended) return;
  await checkCommands({ check }, folder, { native: true });
  folders.set(work, folder);
}

/** Each command says once, and rightly, which runtime it has; with the native one none of them mentions the install line. */
async function checkCommands({ check }, folder, { native }) {
  const title = (command) => `installed: ${command}, ${native ? "native runtime" : "no native runtime"}`;
  const bin = join(folder, "node_modules/tinklet/bin/tinklet.mjs");
  const env = { TINKLET_DATA_DIR: join(folder, "data"), HOME: folder };
  const expectHint = (text) => {
    const times = text.split(installLine).length - 1;
    if (times !== (native ? 0 : 1)) throw new Error(`the install line stands ${times} times in\n${text}`);
    if (!native && !/WebAssembly/.test(text)) throw new Error(`nothing says WebAssembly in\n${text}`);
    if (/nothing can be trained/.test(text)) throw new Error(text);
  };
  const both = ({ stdout, stderr }) => `${stdout}\n${stderr}`;
  await check(title("tinklet doctor"), async () => {
    const text = both(await run(process.execPath, [bin, "doctor", "--local"], { cwd: folder, env }));
    expectHint(text);
    return text
      .split("\n")
      .find((line) => line.includes("Runtime"))
      ?.trim();
  });
  await check(title("tinklet train"), async () => {
    mkdirSync(join(folder, "data"), { recursive: true });
    const lines = Array.from({ length: 8 }, (_, i) =>
      JSON.stringify({ prompt: `What is ${i} + 1?`, completion: `${i + 1}` }),
    );
    writeFileSync(join(folder, "sums.jsonl"), `${lines.join("\n")}\n`);
    const run_ = join(folder, `run-${native ? "native" : "wasm"}`);
    const args = [bin, "train", "sums.jsonl", "--local", "--out", run_];
    expectHint(both(await run(process.execPath, args, { cwd: folder, env })));
  });
  await check(title("tinklet serve"), async () => {
    expectHint(await served([bin, "serve", "--port", "0"], { cwd: folder, env: plainEnvironment(env) }));
  });
}

/** What `serve` writes until it listens and a model was opened; then it is told to stop, and ends by itself. */
function served(args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    const heard = (piece) => {
      text += piece;
      if (/http:\/\/127\.0\.0\.1:\d+/.test(text)) child.kill("SIGINT");
    };
    child.stdout.on("data", heard);
    child.stderr.on("data", heard);
    child.once("error", reject);
    child.once("exit", () => resolve(text));
  });
}
