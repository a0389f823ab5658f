// What would be published: each package packed, its files looked at, its manifest and types checked (publint,
// are-the-types-wrong), and the SDK's tarball installed alone, imported, and weighed as a browser bundle.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { checkFiles, tarballsOf } from "../../tools/pack.mjs";
import { emptyProject, root, run } from "./report.mjs";

/** The minified browser bundle of the whole SDK, gzip. */
const browserLimit = 60_000;

const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));

/** Runs a development dependency's executable without the detour over npx. */
const runTool = (name, executable, args) => {
  const { bin } = readJson(join(root, "node_modules", name, "package.json"));
  return run(process.execPath, [join(root, "node_modules", name, bin[executable]), ...args]);
};

export async function checkTarballs(report, packages, work) {
  const { check } = report;
  for (const [name, packed] of packages) {
    await check(`${name}: packed files`, () => {
      checkFiles(packed);
      return `${packed.files.length} files, ${Math.round(packed.unpackedSize / 1024)} kB`;
    });
    // what has types; the other entries are data files
    const code = Object.keys(packed.manifest.exports).filter((key) => typeof packed.manifest.exports[key] === "object");
    await check(`${name}: publint`, async () => {
      await runTool("publint", "publint", ["--strict", join(root, packed.path)]);
    });
    await check(`${name}: are the types wrong`, async () => {
      await runTool("@arethetypeswrong/cli", "attw", [
        packed.tarball,
        "--profile",
        "esm-only",
        "--entrypoints",
        ...code,
      ]);
    });
  }
  await checkSdk(report, packages, work);
}

/** The folder with the SDK alone, made once; undefined where it could not be installed. */
export async function installSdk({ check }, packages, work) {
  const home = join(work, "sdk");
  if (existsSync(home)) return home;
  const installed = await check("@tinklet/sdk: installs alone into an empty folder", async () => {
    const tarballs = tarballsOf(packages, "@tinklet/sdk");
    emptyProject(home);
    await run("npm", ["install", "--no-audit", "--no-fund", "--omit=optional", ...tarballs], { cwd: home });
    const { files, bytes } = weigh(join(home, "node_modules"));
    return `${files} files, ${(bytes / 1e6).toFixed(1)} MB`;
  });
  return installed ? home : undefined;
}

async function checkSdk(report, packages, work) {
  const { check } = report;
  const home = await installSdk(report, packages, work);
  if (home === undefined) return;
  const evaluate = async (script) =>
    (await run(process.execPath, ["--input-type=module", "-e", script], { cwd: home })).stdout.trim();
  await check("@tinklet/sdk: imports in Node", async () => {
    const exported = Number(
      await evaluate('import * as sdk from "@tinklet/sdk"; console.log(Object.keys(sdk).length);'),
    );
    if (!(exported > 50)) throw new Error(`${exported} exports`);
    return `${exported} exports`;
  });
  await check("@tinklet/sdk: imports in a worker", async () => {
    const answer = await evaluate(`import { Worker } from "node:worker_threads";
      const worker = new Worker('import("@tinklet/sdk").then(async ({ ModelInput }) => (await import("node:worker_threads")).parentPort.postMessage(ModelInput.fromInts([1, 2]).length))', { eval: true });
      worker.on("message", (length) => { console.log(length); });`);
    if (answer !== "2") throw new Error("no answer from the worker");
  });
  await check("@tinklet/sdk: loads no heavy module (M-807)", async () => {
    const loaded = await loadedModules("@tinklet/sdk", home);
    const foreign = loaded.filter((url) => url.includes("/node_modules/") && !/\/@tinklet\/(sdk|wire)\//.test(url));
    if (foreign.length > 0) throw new Error(foreign.join("\n"));
    return `${loaded.length} modules, none but the SDK's and the wire's`;
  });
  await check("@tinklet/sdk: local() names the package to install", async () => {
    const said = await evaluate(`import { ServiceClient } from "@tinklet/sdk";
      await ServiceClient.local().catch(({ code, hint }) => console.log(code, hint));`);
    if (!said.startsWith("missing_peer npm install tinklet")) throw new Error(said);
  });
  const bundle = await bundleForBrowser('export * from "@tinklet/sdk";', home);
  await check("@tinklet/sdk: bundles for a browser without node: imports", () => {
    const imported = startOutputs(bundle).flatMap((path) => bundle.metafile.outputs[path].imports);
    const node = imported.filter((item) => item.kind === "import-statement" && /^node:/.test(item.path));
    if (node.length > 0) throw new Error(`imports ${node.map((item) => item.path).join(", ")}`);
  });
  await check("@tinklet/sdk: browser bundle is light", () => {
    const size = startWeight(bundle);
    if (size > browserLimit) throw new Error(`${size} bytes gzip, over ${browserLimit}`);
    return `${(size / 1000).toFixed(1)} kB gzip of at most ${browserLimit / 1000} kB`;
  });
}

/** The addresses of the modules that `import "name"` loads. */
export async function loadedModules(name, folder) {
  const hook = new URL("programs/loaded.mjs", import.meta.url).href;
  const args = ["--import", hook, "--input-type=module", "-e", `import "${name}";`];
  const { stderr } = await run(process.execPath, args, { cwd: folder });
  const loaded = [...stderr.matchAll(/^loaded (.*)$/gm)].map(([, url]) => url);
  if (!loaded.some((url) => url.includes(`/node_modules/${name}/`))) throw new Error(`nothing was seen:\n${stderr}`);
  return loaded;
}

/** The files under a folder, and their bytes. */
export function weigh(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const bytes = files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  return { files: files.length, bytes };
}

/** A program for a page, bundled against what is installed in `folder`; optional peers stay outside. */
export function bundleForBrowser(contents, folder) {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) throw new Error(`${folder} is missing`);
  return build({
    stdin: { contents, resolveDir: folder },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
    metafile: true,
    splitting: true,
    outdir: join(folder, "bundle"),
    logLevel: "silent",
    external: ["@opentelemetry/api"], // an optional peer: a page that wants it installs it
  });
}

/** What a page loads at once: the program's own output (what is imported lazily is an entry point, too) and its static imports. */
function startOutputs({ metafile: { outputs } }) {
  const start = Object.keys(outputs).find((path) => outputs[path].entryPoint === "<stdin>");
  const wanted = new Set([start]);
  for (const path of wanted)
    for (const item of outputs[path].imports)
      if (item.kind === "import-statement" && item.path in outputs) wanted.add(item.path);
  return [...wanted];
}

/** Bytes of that, gzip. */
function startWeight(bundle) {
  const names = startOutputs(bundle).map((path) => path.split("/").at(-1));
  const files = bundle.outputFiles.filter((file) => names.includes(file.path.split(/[\\/]/).at(-1)));
  return gzipSync(Buffer.concat(files.map((file) => file.contents)), { level: 9 }).byteLength;
}
