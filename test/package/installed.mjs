// What a user has after `npm install tinklet` in an empty folder: `npm ls`, one set of classes under two names, and that `quickstart`,
// `doctor`, `train`, `chat` and `serve` work and what they say about the model runtime. First as it comes out where onnxruntime-node's install script cannot reach its download (npm drops an
// optional package whose script fails), then after the install line that the tool itself gives.
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { tarballsOf } from "../../tools/pack.mjs";
import { emptyProject, plainEnvironment, run, tools } from "./report.mjs";
import { bundleForBrowser, loadedModules, weigh } from "./tarballs.mjs";

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
  const folder = emptyProject(join(work, "tinklet"));
  const tarballs = tarballsOf(packages, "tinklet");
  if (process.platform !== "linux" || process.arch !== "x64") {
    skip("installed: onnxruntime-node's script fails", "only on Linux x64 has its script something to download");
    return;
  }
  const installed = await check("installed: npm install where onnxruntime-node's script fails", async () => {
    await run("npm", ["install", "--no-audit", "--no-fund", ...tarballs], { cwd: folder, env: unreachable });
    const { files, bytes } = weigh(join(folder, "node_modules"));
    return `${files} files, ${Math.round(bytes / 1e6)} MB`;
  });
  if (!installed) return;
  await check("installed: npm ls, onnxruntime-node is missing and npm calls nothing broken", async () => {
    const { stdout } = await run("npm", ["ls", "--all"], { cwd: folder });
    if (!stdout.includes("UNMET OPTIONAL DEPENDENCY onnxruntime-node@")) throw new Error(stdout);
  });
  await checkNames({ check }, folder);
  await checkBundlers({ check }, folder);
  await checkCommands({ check }, folder, { native: false });
  const mended = await check(`installed: ${installLine}`, async () => {
    const [setting, command, ...args] = installLine.split(" ");
    const [name, value] = setting.split("=");
    await run(command, [...args, "--no-audit", "--no-fund"], { cwd: folder, env: { [name]: value } });
    const { stdout } = await run("npm", ["ls", "--all"], { cwd: folder });
    if (/UNMET OPTIONAL DEPENDENCY onnxruntime-node|invalid|extraneous/.test(stdout)) throw new Error(stdout);
    const { files, bytes } = weigh(join(folder, "node_modules"));
    return `${files} files, ${Math.round(bytes / 1e6)} MB`;
  });
  if (!mended) return;
  await checkCommands({ check }, folder, { native: true });
  await checkExamples({ check }, folder, tarballsOf(packages, "@tinklet/ai"));
}

/** The example programs, where they are installed and with the commands that their README gives. */
async function checkExamples({ check }, folder, ai) {
  const examples = join(folder, "node_modules", "tinklet", "examples");
  const env = { HOME: folder };
  await check("installed: examples/losses", async () => {
    const readme = readFileSync(join(examples, "losses", "README.md"), "utf8");
    if (!readme.includes("node run.mjs dpo")) throw new Error(readme);
    const { stdout } = await run(process.execPath, ["run.mjs", "dpo"], { cwd: join(examples, "losses"), env });
    const losses = [...stdout.matchAll(/loss (\S+)/g)].map(([, loss]) => Number(loss));
    if (!(losses.at(-1) < losses[0] / 2)) throw new Error(stdout);
    return `loss ${losses[0]} → ${losses.at(-1)}`;
  });
  await check("installed: examples/agent, copied", async () => {
    await run("npm", ["install", "--no-audit", "--no-fund", ...ai, "ai@6"], { cwd: folder });
    cpSync(join(examples, "agent"), join(folder, "my-agent"), { recursive: true });
    const args = ["my-agent/main.mjs", "--seed", "1", "--warm-up", "1", "--steps", "1", "--json"];
    const { stdout } = await run(process.execPath, args, { cwd: folder, env });
    const { before, after, rewards } = JSON.parse(stdout);
    if (![before, after, rewards[0]].every((share) => share >= 0 && share <= 1)) throw new Error(stdout);
    return stdout.trim();
  });
}

/** `tinklet` and `@tinklet/sdk` are the same modules: `instanceof` holds whichever name a program imports, and nothing is loaded twice. */
async function checkNames({ check }, folder) {
  await check("installed: tinklet and @tinklet/sdk have the same classes", async () => {
    const script = `import * as tinklet from "tinklet"; import * as sdk from "@tinklet/sdk";
      import * as ours from "tinklet/wire"; import * as wire from "@tinklet/wire";
      import * as testing from "tinklet/testing"; import * as sdkTesting from "@tinklet/sdk/testing";
      const same = (a, b) => Object.keys(a).length === Object.keys(b).length && Object.keys(a).every((name) => a[name] === b[name]);
      const error = await tinklet.ServiceClient.connect({ apiKey: "not-a-key" }).catch((error) => error);
      console.log(same(tinklet, sdk), same(ours, wire), same(testing, sdkTesting), tinklet.Datum === wire.Datum,
        error instanceof sdk.TinkerError, Object.keys(tinklet).length);`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", script], { cwd: folder });
    if (!stdout.startsWith("true true true true true ")) throw new Error(stdout);
    return `${stdout.trim().split(" ").at(-1)} exports`;
  });
  await check("installed: import tinklet loads the SDK alone", async () => {
    const loaded = await loadedModules("tinklet", folder);
    const own = /\/node_modules\/(tinklet|@tinklet\/(sdk|wire))\//;
    const foreign = loaded.filter((url) => url.includes("/node_modules/") && !own.test(url));
    if (foreign.length > 0) throw new Error(foreign.join("\n"));
    return `${loaded.length} modules`;
  });
}

const page = 'import { ServiceClient } from "tinklet";\nglobalThis.ServiceClient = ServiceClient;\n';

/** What bundlers make of `import "tinklet"` for a page: the SDK, without server, engine, command line or `node:` modules. */
async function checkBundlers({ check }, folder) {
  writeFileSync(join(folder, "page.mjs"), page);
  const judge = (modules, size) => {
    const strange = modules.filter(
      (name) =>
        !name.startsWith("(disabled)") &&
        /node_modules\/(@tinklet\/(server|engine|cookbook|studio|conformance|base-model)|tinklet\/dist\/cli|undici|onnxruntime|libsql)/.test(
          name,
        ),
    );
    if (strange.length > 0) throw new Error(`bundles ${strange.slice(0, 5).join(", ")}`);
    if (!modules.some((name) => name.includes("@tinklet/sdk"))) throw new Error(`no SDK in ${modules.join(", ")}`);
    return `${modules.length} modules, ${(size / 1000).toFixed(0)} kB`;
  };
  await check("installed: esbuild bundles import tinklet", async () => {
    const { metafile, outputFiles } = await bundleForBrowser('import "./page.mjs";', folder);
    return judge(Object.keys(metafile.inputs), sum(outputFiles.map(({ contents }) => contents.byteLength)));
  });
  await check("installed: Vite bundles import tinklet", async () => {
    const { build } = await import("vite");
    const { output } = await build({
      root: folder,
      configFile: false,
      logLevel: "error",
      build: { write: false, rollupOptions: { input: join(folder, "page.mjs"), external: ["@opentelemetry/api"] } },
    });
    const chunks = output.filter(({ type }) => type === "chunk");
    return judge(
      chunks.flatMap(({ modules }) => Object.keys(modules)),
      sum(chunks.map(({ code }) => code.length)),
    );
  });
  await check("installed: webpack bundles import tinklet", async () => {
    const found = await tools({ webpack: "webpack@5.112.2" });
    const webpack = createRequire(import.meta.url)(found.webpack);
    const options = {
      context: folder,
      mode: "production",
      entry: "./page.mjs",
      output: { path: join(folder, "webpack") },
      externals: { "@opentelemetry/api": "commonjs @opentelemetry/api" },
    };
    const stats = await new Promise((resolve, reject) => {
      webpack(options, (error, done) => (error ? reject(error) : resolve(done)));
    });
    const { errors, assets } = stats.toJson({ all: false, errors: true, assets: true });
    if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join("\n"));
    const names = [...stats.compilation.modules].map((module) => module.identifier());
    return judge(names, sum(assets.map(({ size }) => size)));
  });
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

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
  await check(title("tinklet quickstart"), async () => {
    // few steps on WebAssembly: that it works is the question here, how well it learns is asked with the native runtime
    rmSync(join(folder, "quickstart"), { recursive: true, force: true });
    const args = [bin, "quickstart", "--out", join(folder, "quickstart"), ...(native ? [] : ["--steps", "2"])];
    expectHint(both(await run(process.execPath, args, { cwd: folder, env })));
  });
  await check(title("tinklet chat"), async () => {
    const args = [bin, "chat", "--local", "--from", join(folder, "quickstart"), "--max-tokens", "8"];
    const text = both(await run(process.execPath, args, { cwd: folder, env, input: "Who are you?\n" }));
    expectHint(text);
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
