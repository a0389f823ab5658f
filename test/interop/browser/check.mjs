// The engine in a real Chromium: a fresh profile, a static server on loopback, the built packages bundled with esbuild. The page trains the
// bundled model on the quickstart's data, samples, is loaded again in the middle, and comes to the numbers of Node's WebAssembly runtime.
// `--source` bundles the sources, without a build; `--measure` trains on all of the data and prints sizes and times.
import assert from "node:assert/strict";
import {
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { chromiumPath } from "../chromium-path.mjs";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const here = fileURLToPath(new URL("./", import.meta.url));
const fromSource = process.argv.includes("--source");
const measures = process.argv.includes("--measure");
const work = mkdtempSync(join(tmpdir(), "tinklet-browser-"));
const failures = [];
let passed = 0;
const started = performance.now();

const check = async (name, test) => {
  const begun = performance.now();
  try {
    const note = await test();
    passed++;
    console.log(
      `ok    ${name} (${((performance.now() - begun) / 1000).toFixed(1)} s)${note === undefined ? "" : `: ${note}`}`,
    );
  } catch (error) {
    failures.push(name);
    console.log(
      `FAIL  ${name}\n      ${String(error.stack ?? error)
        .split("\n")
        .slice(0, 14)
        .join("\n      ")}`,
    );
  }
};

async function bundle(entry, outfile, platform = "browser") {
  await build({
    ...{ bundle: true, format: "esm", target: "es2022", logLevel: "error", absWorkingDir: root },
    ...{ entryPoints: [entry], outfile, platform, minify: platform === "browser" },
    ...(platform === "node"
      ? { external: ["onnxruntime-node", "onnxruntime-web", "koffi", "esbuild"] }
      : { alias: { "node:zlib": join(here, "no-zlib.mjs") } }),
    ...(fromSource ? {} : { tsconfigRaw: "{}" }), // without it, the paths of tsconfig.json lead to the sources
  });
}

const types = {
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
  ".json": "application/json",
};
const page =
  '<!doctype html><meta charset="utf-8"><title>check</title><script type="module" src="/page.js"></script>\n';

/** A static server; counts the bytes of bodies that it sends. Paths under /isolated/ make a cross-origin isolated page. */
async function startServer() {
  const folders = {
    "/model/": join(root, "packages/base-model/"),
    "/data/": join(root, "packages/base-model/data/pirate/"),
    "/onnxruntime/": join(root, "node_modules/onnxruntime-web/dist/"),
    "/": `${work}/`,
  };
  const sent = new Map();
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    // Scripts of workers need the policy as well, or an isolated page does not start them.
    const isIsolated = pathname === "/isolated/" || /\.m?js$/.test(pathname);
    const headers = {
      "cross-origin-resource-policy": "same-origin",
      ...(isIsolated && { "cross-origin-embedder-policy": "require-corp" }),
      ...(pathname === "/isolated/" && { "cross-origin-opener-policy": "same-origin" }),
    };
    if (pathname === "/" || pathname === "/isolated/") {
      return response.writeHead(200, { ...headers, "content-type": "text/html" }).end(page);
    }
    const prefix = Object.keys(folders).find((start) => pathname.startsWith(start));
    const file = join(folders[prefix], pathname.slice(prefix.length));
    if (!existsSync(file) || !statSync(file).isFile()) return response.writeHead(404).end();
    const { size, mtimeMs } = statSync(file);
    const etag = `"${size}-${mtimeMs}"`;
    if (request.headers["if-none-match"] === etag) return response.writeHead(304, headers).end();
    sent.set(pathname, (sent.get(pathname) ?? 0) + size);
    const type = types[extname(file)] ?? "application/octet-stream";
    response.writeHead(200, { ...headers, etag, "content-length": size, "content-type": type });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/`, sent, close: () => server.close() };
}

const executablePath = chromiumPath();
if (executablePath === undefined)
  throw new Error("Chromium is missing: apt-get install chromium, or name one in CHROMIUM");
await bundle(join(here, "page.mjs"), join(work, "page.js"));
const workerEntry = fromSource
  ? join(root, "packages/engine/src/browser/worker.ts")
  : join(root, "packages/engine/dist/browser/worker.js");
await bundle(workerEntry, join(work, "worker.js"));
// beside the packages that it leaves outside of the bundle
const referenceFile = join(root, "node_modules/.cache/tinklet-browser-check", `reference-${process.pid}.mjs`);
await bundle(join(here, "reference.mjs"), referenceFile, "node");
const { loadTokenizer, openReference } = await import(pathToFileURL(referenceFile).href);
rmSync(referenceFile);
const text = readFileSync(join(root, "packages/base-model/data/pirate/train.jsonl"), "utf8");

const server = await startServer();
const profile = join(work, "profile");
mkdirSync(profile);
const context = await chromium.launchPersistentContext(profile, { executablePath, args: ["--no-sandbox"] });
context.setDefaultTimeout(120_000);
const problems = [];
const openPage = async (path = "") => {
  const tab = await context.newPage();
  tab.on("pageerror", (error) => problems.push(String(error.stack ?? error)));
  tab.on("request", (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (!["data:", "blob:"].includes(protocol) && hostname !== "127.0.0.1") problems.push(`request: ${request.url()}`);
  });
  await tab.goto(`${server.url}${path}`);
  await tab.waitForFunction(() => globalThis.api !== undefined);
  return tab;
};
const call = (tab, name, ...args) => tab.evaluate(([method, given]) => globalThis.api[method](...given), [name, args]);
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
const sentBytes = () => [...server.sent.values()].reduce((sum, size) => sum + size, 0);

const steps = 8;
const middle = 4;
const reference = await openReference(join(root, "packages/base-model"), text, loadTokenizer);
const expected = { losses: await reference.train(0, steps), samples: await reference.sample() };

const tab = await openPage();
try {
  if (measures) await measure();
  else await checks();
} finally {
  await context.close();
  server.close();
  await reference.close();
  rmSync(work, { recursive: true });
}
console.log(`${passed} passed, ${failures.length} failed (${((performance.now() - started) / 1000).toFixed(1)} s)`);
process.exitCode = failures.length === 0 ? 0 : 1;

async function checks() {
  const losses = [];
  await check("a fresh profile downloads the model and answers", async () => {
    await call(tab, "open");
    const answer = await call(tab, "answer");
    assert.match(answer, /Madrid/);
    return `${megabytes(sentBytes())} without compression`;
  });
  await check("a second tab on the same storage says so", async () => {
    const second = await openPage();
    const error = await call(second, "failsToOpen", {});
    assert.equal(error?.code, "storage_in_use");
    assert.match(error.message, /in use by another tab/);
    assert.equal(await call(second, "failsToOpen", { storage: "other" }), undefined);
    await second.close();
  });
  await check("the page trains, and is loaded again in the middle of a step", async () => {
    await call(tab, "create");
    losses.push(...(await call(tab, "train", 0, middle)));
    await call(tab, "begin", middle);
    await tab.reload();
    await tab.waitForFunction(() => globalThis.api !== undefined);
    const before = sentBytes();
    await call(tab, "open");
    assert.ok(sentBytes() - before < 1e6, `${sentBytes() - before} bytes were downloaded again`);
    const step = await call(tab, "resume");
    // The step in flight may have been stored before the page went.
    assert.ok(step === middle || step === middle + 1, `${step} steps are stored`);
    if (step > middle) losses.push(expected.losses[middle]);
    losses.push(...(await call(tab, "train", step, steps)));
    return `${step} of ${steps} steps were stored`;
  });
  await check("losses, tokens and log-probs are those of Node's WebAssembly runtime, to the bit", async () => {
    assert.deepEqual(losses, expected.losses);
    assert.deepEqual(await call(tab, "sample"), expected.samples);
    return `loss ${losses[0].toFixed(1)} → ${losses.at(-1).toFixed(1)}`;
  });
  await check("checkpoints are saved and sampled from after another load of the page", async () => {
    const { weights } = await call(tab, "save");
    const before = await call(tab, "answer", weights);
    await call(tab, "close");
    await tab.reload();
    await tab.waitForFunction(() => globalThis.api !== undefined);
    await call(tab, "open");
    assert.equal(await call(tab, "answer", weights), before);
    await call(tab, "resume");
    return before;
  });
  await check("an exported adapter has the same log-probs in Node and after its import", async () => {
    const path = await call(tab, "lastStep");
    const inPage = await call(tab, "forward", 0);
    const folder = join(work, "adapter");
    mkdirSync(folder);
    for (const [name, base64] of Object.entries(await call(tab, "export", path)))
      writeFileSync(join(folder, name), Buffer.from(base64, "base64"));
    assert.deepEqual(await reference.forwardWith(folder, 0), inPage);
    assert.deepEqual(await call(tab, "exportAndImport", path, 0), inPage);
  });
  await check("a stopped worker is noticed, and the next request starts another one", async () => {
    const count = await call(tab, "workers");
    await call(tab, "backward", 0);
    await call(tab, "stopWorker");
    const error = await call(tab, "step");
    assert.match(error.message, /worker has ended|ended with the gradients/);
    await call(tab, "train", 0, 1);
    assert.equal(await call(tab, "workers"), count + 1);
  });
  await check("a full storage fails the step and changes nothing", async () => {
    const before = await call(tab, "forward", 1);
    await call(tab, "setFull", true);
    await call(tab, "backward", 1);
    const error = await call(tab, "step");
    assert.match(error?.message ?? "no error", /is full; the change was not stored/);
    await call(tab, "setFull", false);
    assert.deepEqual(await call(tab, "forward", 1), before);
    await call(tab, "train", 1, 2);
  });
  await check("a budget that is too small is a typed error", async () => {
    const error = await call(tab, "failsToOpen", { storage: "small", options: { memoryBudgetBytes: 50e6 } });
    assert.equal(error?.name, "MemoryError");
    assert.match(error.message, /needs \d+ MB for its weights/);
  });
  await check("the conformance kit passes in the page: sessions, idempotency, errors, newer-sampling", async () => {
    const { totals, text: report } = await call(tab, "conformance", [
      "sessions",
      "idempotency",
      "errors",
      "newer-sampling",
    ]);
    assert.equal(totals.fail, 0, report);
    assert.ok(totals.pass > 55, report);
    return `${totals.pass} cases`;
  });
  await check("two threads on a cross-origin isolated page come to the same numbers", async () => {
    await call(tab, "close");
    const isolated = await openPage("isolated/");
    const opened = await call(isolated, "open", { storage: "isolated", options: { threads: 2 } });
    assert.equal(opened.isolated, true);
    await call(isolated, "create");
    assert.deepEqual(await call(isolated, "train", 0, 2), expected.losses.slice(0, 2));
    await call(isolated, "close");
    await isolated.close();
  });
  await check("no script failed, and no request went to another origin", () => assert.deepEqual(problems, []));
}

/** Sizes, times and memory, with the quickstart's data: 1,280 conversations, 160 steps. */
async function measure() {
  const begun = performance.now();
  await call(tab, "open");
  const opened = performance.now();
  await call(tab, "answer");
  console.log(
    `first answer after ${((performance.now() - begun) / 1000).toFixed(1)} s (opening ${((opened - begun) / 1000).toFixed(1)} s)`,
  );
  for (const [path, size] of server.sent) console.log(`  ${path} ${megabytes(size)}`);
  console.log(`  together ${megabytes(sentBytes())}`);
  await call(tab, "create");
  const pressed = performance.now();
  const losses = await call(tab, "train", 0, 160);
  const trained = performance.now();
  const answer = await call(tab, "answer", await call(tab, "lastStep"));
  console.log(
    `160 steps in ${((trained - pressed) / 1000).toFixed(1)} s, the changed answer after ${((performance.now() - pressed) / 1000).toFixed(1)} s: ${answer}`,
  );
  console.log(`loss ${losses[0].toFixed(1)} → ${losses.at(-1).toFixed(1)}`);
  await call(tab, "close");
  const isolated = await openPage("isolated/");
  await call(isolated, "open", { storage: "isolated", options: { threads: 2 } });
  await call(isolated, "create");
  const again = performance.now();
  await call(isolated, "train", 0, 160);
  console.log(`two threads: 160 steps in ${((performance.now() - again) / 1000).toFixed(1)} s`);
  const { bytes } = { bytes: await call(isolated, "memory") };
  console.log(`memory of the page and its workers: ${megabytes(bytes)}`);
}
