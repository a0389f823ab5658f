// What a user gets from the registry: each package is packed, checked (publint, are-the-types-wrong), the SDK's tarball is
// installed into an empty folder and imported in Node and in a worker, and its browser bundle is weighed.
// Every check prints a line; the exit code is 1 if one failed.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** The minified browser bundle of the whole SDK, gzip. */
const browserLimit = 60_000;
let failed = 0;

function check(name, body) {
  try {
    const detail = body();
    console.log(`ok    ${name}${detail ? `: ${detail}` : ""}`);
  } catch (error) {
    failed++;
    console.log(`FAIL  ${name}\n${indent(error.stdout?.toString() || error.stderr?.toString() || error.message)}`);
  }
}
const indent = (text) =>
  text
    .trim()
    .split("\n")
    .slice(-25)
    .map((line) => `      ${line}`)
    .join("\n");
const run = (command, args, cwd = root) =>
  execFileSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NO_COLOR: "1" },
  });

const work = mkdtempSync(join(tmpdir(), "tinklet-package-"));
try {
  const packages = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).workspaces.filter(
    (path) => existsSync(join(root, path, "dist/index.js")) || existsSync(join(root, path, "index.js")),
  );
  const tarballs = new Map();
  for (const path of packages) {
    const manifest = JSON.parse(readFileSync(join(root, path, "package.json"), "utf8"));
    check(`${manifest.name}: packs`, () => {
      const [packed] = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", work, `./${path}`]));
      tarballs.set(manifest.name, join(work, packed.filename));
      const strange = packed.files
        .map((file) => file.path)
        .filter((file) => /\.test\.|\.tsbuildinfo|node_modules/.test(file));
      if (strange.length > 0) throw new Error(`the tarball holds ${strange.join(", ")}`);
      return `${packed.files.length} files, ${Math.round(packed.unpackedSize / 1024)} kB`;
    });
    // what has types; the other entries are data files
    const code = Object.keys(manifest.exports).filter((entry) => typeof manifest.exports[entry] === "object");
    check(`${manifest.name}: publint`, () => void run("npx", ["publint", "--strict", join(root, path)]));
    check(
      `${manifest.name}: are the types wrong`,
      () => void run("npx", ["attw", tarballs.get(manifest.name), "--profile", "esm-only", "--entrypoints", ...code]),
    );
  }

  const home = join(work, "user");
  check("tinklet: installs from its tarball into an empty folder", () => {
    execFileSync("mkdir", ["-p", home]);
    writeFileSync(join(home, "package.json"), '{ "name": "user", "private": true, "type": "module" }\n');
    run("npm", ["install", "--no-audit", "--no-fund", "--omit=optional", tarballs.get("tinklet")], home);
  });
  check("tinklet: imports in Node", () => {
    const script =
      'import * as sdk from "tinklet"; import { contract } from "tinklet/wire"; console.log(Object.keys(sdk).length, Object.keys(contract).length);';
    const [exported, routes] = run(process.execPath, ["--input-type=module", "-e", script], home)
      .trim()
      .split(" ")
      .map(Number);
    if (!(exported > 50 && routes === 36)) throw new Error(`${exported} exports, ${routes} routes`);
    return `${exported} exports`;
  });
  check("tinklet: imports in a worker", () => {
    const script = `import { Worker } from "node:worker_threads";
      const worker = new Worker('import("tinklet").then(async ({ ModelInput }) => (await import("node:worker_threads")).parentPort.postMessage(ModelInput.fromInts([1, 2]).length))', { eval: true });
      worker.on("message", (length) => { console.log(length); });`;
    if (run(process.execPath, ["--input-type=module", "-e", script], home).trim() !== "2")
      throw new Error("no answer from the worker");
  });
  check("tinklet: loads no heavy module (M-807)", () => {
    const heavy = [
      "onnxruntime-node",
      "onnxruntime-web",
      "@huggingface/tokenizers",
      "@huggingface/jinja",
      "undici",
      "@tinklet/server",
    ];
    const script = `import "tinklet"; import { createRequire } from "node:module"; const loaded = process.moduleLoadList ?? []; console.log(JSON.stringify(Object.keys(createRequire(import.meta.url).cache).concat(loaded.filter((name) => name.includes("zstd")))));`;
    const loaded = JSON.parse(run(process.execPath, ["--input-type=module", "-e", script], home));
    const found = loaded.filter((path) => heavy.some((name) => path.includes(`node_modules/${name}`)));
    if (found.length > 0) throw new Error(found.join("\n"));
  });
  check("tinklet: the executable runs", () => {
    const bin = join(home, "node_modules/.bin/tinklet");
    if (!existsSync(join(root, "packages/tinklet/dist/cli/main.js"))) return "no CLI in this build";
    const done = spawnSync(bin, ["version"], { encoding: "utf8" });
    if (done.status !== 0) throw new Error(done.stderr);
    return done.stdout.trim();
  });

  const bundle = await build({
    stdin: { contents: 'export * from "tinklet";', resolveDir: home },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
    metafile: true,
    splitting: true,
    outdir: join(work, "bundle"),
    logLevel: "silent",
    // optional peers: a page that wants them installs them
    external: ["@opentelemetry/api", "@huggingface/*"],
  }).catch((error) => error);
  check("tinklet: bundles for a browser without node: imports", () => {
    if (bundle instanceof Error) throw bundle;
    const entry = Object.values(bundle.metafile.outputs).find((output) => output.entryPoint !== undefined);
    const node = entry.imports.filter((item) => item.kind === "import-statement" && item.path.startsWith("node:"));
    if (node.length > 0) throw new Error(`imports ${node.map((item) => item.path).join(", ")}`);
  });
  check("tinklet: browser bundle is light", () => {
    if (bundle instanceof Error) throw bundle;
    // what a page loads at once: the entry and what it imports statically
    const byPath = new Map(Object.entries(bundle.metafile.outputs));
    const start = [...byPath].find(([, output]) => output.entryPoint !== undefined)[0];
    const wanted = new Set([start]);
    for (const path of wanted)
      for (const item of byPath.get(path).imports)
        if (item.kind === "import-statement" && byPath.has(item.path)) wanted.add(item.path);
    const files = bundle.outputFiles.filter((file) =>
      [...wanted].some((path) => file.path.endsWith(path.split("/").at(-1))),
    );
    const size = gzipSync(Buffer.concat(files.map((file) => file.contents)), { level: 9 }).byteLength;
    if (size > browserLimit) throw new Error(`${size} bytes gzip, over ${browserLimit}`);
    return `${(size / 1000).toFixed(1)} kB gzip of at most ${browserLimit / 1000} kB`;
  });
} finally {
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;
