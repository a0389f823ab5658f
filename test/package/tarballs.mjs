// What would be published: each package packed, its files looked at, its manifest and types checked (publint,
// are-the-types-wrong), and the SDK's tarball installed alone, imported, and weighed as a browser bundle.
import { existsSync, readFileSync, statSync } from "node:fs";
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

export async function checkTarballs({ check }, packages, work) {
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
  await checkSdk({ check }, tarballsOf(packages, "tinklet"), join(work, "sdk"));
}

async function checkSdk({ check }, tarballs, home) {
  await check("tinklet: installs from its tarball into an empty folder", async () => {
    emptyProject(home);
    await run("npm", ["install", "--no-audit", "--no-fund", "--omit=optional", ...tarballs], { cwd: home });
  });
  const evaluate = async (script) =>
    (await run(process.execPath, ["--input-type=module", "-e", script], { cwd: home })).stdout.trim();
  await check("tinklet: imports in Node", async () => {
    const counted = await evaluate(
      'import * as sdk from "tinklet"; import { contract } from "tinklet/wire"; console.log(Object.keys(sdk).length, Object.keys(contract).length);',
    );
    const [exported, routes] = counted.split(" ").map(Number);
    if (!(exported > 50 && routes >= 36)) throw new Error(`${exported} exports, ${routes} routes`);
    return `${exported} exports`;
  });
  await check("tinklet: imports in a worker", async () => {
    const answer = await evaluate(`import { Worker } from "node:worker_threads";
      const worker = new Worker('import("tinklet").then(async ({ ModelInput }) => (await import("node:worker_threads")).parentPort.postMessage(ModelInput.fromInts([1, 2]).length))', { eval: true });
      worker.on("message", (length) => { console.log(length); });`);
    if (answer !== "2") throw new Error("no answer from the worker");
  });
  await check("tinklet: loads no heavy module (M-807)", async () => {
    const hook = new URL("programs/loaded.mjs", import.meta.url).href;
    const args = ["--import", hook, "--input-type=module", "-e", 'import "tinklet";'];
    const { stderr } = await run(process.execPath, args, { cwd: home });
    const loaded = [...stderr.matchAll(/^loaded (.*)$/gm)].map(([, url]) => url);
    if (!loaded.some((url) => url.includes("/node_modules/tinklet/"))) throw new Error(`nothing was seen:\n${stderr}`);
    const own = /\/node_modules\/(tinklet|@tinklet\/wire)\//;
    const foreign = loaded.filter((url) => url.includes("/node_modules/") && !own.test(url));
    if (foreign.length > 0) throw new Error(foreign.join("\n"));
    return `${loaded.length} modules, none of a package that is not ours`;
  });
  await check("tinklet: the executable runs", async () => {
    const { stdout } = await run(join(home, "node_modules/.bin/tinklet"), ["version"], { cwd: home });
    return stdout.trim();
  });
  const bundle = await bundleForBrowser('export * from "tinklet";', home);
  await check("tinklet: bundles for a browser without node: imports", () => {
    const imported = startOutputs(bundle).flatMap((path) => bundle.metafile.outputs[path].imports);
    const node = imported.filter((item) => item.kind === "import-statement" && /^node:/.test(item.path));
    if (node.length > 0) throw new Error(`imports ${node.map((item) => item.path).join(", ")}`);
  });
  await check("tinklet: browser bundle is light", () => {
    const size = startWeight(bundle);
    if (size > browserLimit) throw new Error(`${size} bytes gzip, over ${browserLimit}`);
    return `${(size / 1000).toFixed(1)} kB gzip of at most ${browserLimit / 1000} kB`;
  });
}

const { peerDependencies } = readJson(join(root, "packages/tinklet/package.json"));
const optionalPeers = Object.keys(peerDependencies).flatMap((name) => [name, `${name}/*`]);

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
    // optional peers: a page that wants them installs them
    external: ["@opentelemetry/api", "@huggingface/*", ...optionalPeers],
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
