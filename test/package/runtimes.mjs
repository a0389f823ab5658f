// A program of each kind trains and samples against the packed server with `@tinklet/sdk` alone: Node, Bun and Deno from their npm
// packages, and the browser bundle in Chromium, its page from the server's own origin. All of them must come to the same losses and tokens.
import { spawn } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { installAll } from "./installed.mjs";
import { plainEnvironment, run, tools } from "./report.mjs";
import { bundleForBrowser, installSdk } from "./tarballs.mjs";

const platform = `${process.platform}-${process.arch}`;
/** The packages that hold the executables themselves; the packages `bun` and `deno` would fetch or link them by a script. */
const runtimes = {
  bun: {
    version: "1.4.4",
    packages: {
      "linux-x64": "@oven/bun-linux-x64",
      "linux-arm64": "@oven/bun-linux-aarch64",
      "darwin-x64": "@oven/bun-darwin-x64",
      "darwin-arm64": "@oven/bun-darwin-aarch64",
      "win32-x64": "@oven/bun-windows-x64",
    },
    path: ["bin", process.platform === "win32" ? "bun.exe" : "bun"],
    args: ["run"],
  },
  deno: {
    version: "2.9.6",
    packages: {
      "linux-x64": "@deno/linux-x64-glibc",
      "linux-arm64": "@deno/linux-arm64-glibc",
      "darwin-x64": "@deno/darwin-x64",
      "darwin-arm64": "@deno/darwin-arm64",
      "win32-x64": "@deno/win32-x64",
    },
    path: [process.platform === "win32" ? "deno.exe" : "deno"],
    args: ["run", "--allow-net", "--allow-env", "--allow-read", "--allow-sys", "--node-modules-dir=manual"],
  },
};

export async function checkRuntimes(report, packages, work) {
  const { check, skip } = report;
  const folder = await installAll(report, packages, work);
  const home = await installSdk(report, packages, work);
  if (folder === undefined || home === undefined) return;
  for (const at of [folder, home])
    cpSync(fileURLToPath(new URL("programs/", import.meta.url)), at, { recursive: true });
  let server;
  const listening = await check("runtimes: the packed server starts", async () => {
    server = await startServer(folder);
    return server.url;
  });
  if (!listening) return;
  try {
    const results = new Map();
    const env = { PACKAGE_CHECK_URL: server.url, DENO_DIR: join(work, "deno"), DENO_NO_UPDATE_CHECK: "1" };
    const main = join(home, "main.mjs");
    await check("runtimes: Node trains and samples", async () => {
      results.set("Node", JSON.parse((await run(process.execPath, [main], { cwd: home, env })).stdout));
      return learned(results.get("Node"), process.version);
    });
    for (const [name, { version, packages: names, path, args }] of Object.entries(runtimes)) {
      const title = `runtimes: ${name} ${version} trains and samples`;
      if (names[platform] === undefined) {
        skip(title, `no package with its executable for ${platform}`);
        continue;
      }
      await check(title, async () => {
        const found = await tools({ [name]: `${names[platform]}@${version}` });
        const executable = join(found[name], ...path);
        chmodSync(executable, 0o755);
        results.set(name, JSON.parse((await run(executable, [...args, main], { cwd: home, env })).stdout));
        return learned(results.get(name), version);
      });
    }
    await checkBrowser(report, { folder, home, server, results });
    await check("runtimes: all of them saw the same losses and the same tokens", () => {
      const [[first, expected], ...others] = [...results];
      for (const [name, result] of others)
        if (JSON.stringify(result) !== JSON.stringify(expected))
          throw new Error(`${name} saw ${JSON.stringify(result)}\n${first} saw ${JSON.stringify(expected)}`);
      if (others.length === 0) throw new Error("there is nothing to compare");
      return [...results.keys()].join(", ");
    });
  } finally {
    await server.stop();
  }
}

/** The model has learned what it was taught: the loss is a small part of the first, and the tokens come back. */
function learned({ losses, sampled, wanted }, note) {
  const [first, last] = [losses[0], losses.at(-1)];
  const right = sampled.filter((token, index) => token === wanted[index]).length;
  const detail = `loss ${first.toFixed(2)} → ${last.toFixed(2)}, ${right} of ${wanted.length} tokens, ${note}`;
  if (!(last < first / 4 && right >= wanted.length / 2)) throw new Error(detail);
  return detail;
}

async function startServer(folder) {
  const child = spawn(process.execPath, [join(folder, "server.mjs")], {
    cwd: folder,
    env: plainEnvironment(),
    stdio: ["pipe", "pipe", "pipe"],
  });
  let complaints = "";
  child.stderr.on("data", (piece) => {
    complaints += piece;
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const url = await Promise.race([
    new Promise((resolve) => createInterface(child.stdout).once("line", resolve)),
    exited.then((status) => Promise.reject(new Error(`the server ended with ${status}: ${complaints}`))),
  ]);
  const stop = async () => {
    child.stdin.end();
    await exited;
  };
  return { url, stop };
}

/** Debian's Chromium, or the one that `CHROMIUM` names. */
const chromium = () => [process.env.CHROMIUM, "/usr/bin/chromium"].find((path) => path && existsSync(path));

async function checkBrowser({ check, skip }, { folder, home, server, results }) {
  const title = "runtimes: the bundle in Chromium trains and samples";
  const executablePath = chromium();
  if (executablePath === undefined && !(process.env.CI && process.platform === "linux")) {
    skip(title, "no Chromium here: apt-get install chromium (Debian), or name one in CHROMIUM");
    return;
  }
  await check(title, async () => {
    if (executablePath === undefined) throw new Error("Chromium is missing: apt-get install chromium");
    await writePage(folder, home);
    const found = await tools({ "playwright-core": "playwright-core@1.65.0" });
    const playwright = createRequire(import.meta.url)(found["playwright-core"]);
    const browser = await playwright.chromium.launch({ executablePath, args: ["--no-sandbox"] });
    try {
      const page = await browser.newPage();
      const problems = [];
      page.on("pageerror", (error) => problems.push(error.message));
      page.on("requestfailed", (request) => problems.push(`${request.url()} ${request.failure()?.errorText}`));
      await page.goto(`${server.url}/harness/`);
      await page
        .waitForFunction(() => globalThis.outcome !== undefined, undefined, { timeout: 20_000 })
        .catch(() => {
          throw new Error(`the page did not start: ${problems.join("\n")}`);
        });
      const { result, error } = await page.evaluate(() => globalThis.outcome);
      if (error !== undefined) throw new Error([error, ...problems].join("\n"));
      results.set("Chromium", result);
      return learned(result, browser.version());
    } finally {
      await browser.close();
    }
  });
  await check("runtimes: no answer had a CORS header, and no page needed one", async () => {
    const { requests, preflights, corsHeaders } = await (await fetch(`${server.url}/harness/seen`)).json();
    if (!(requests > 0 && preflights === 0 && corsHeaders.length === 0))
      throw new Error(`${requests} requests, ${preflights} preflights, ${corsHeaders.join(", ")}`);
    return `${requests} requests`;
  });
}

/** @param home - has the SDK alone. @param folder - the server's, which hands the page out */
async function writePage(folder, home) {
  const bundle = await bundleForBrowser('import "./page.mjs";', home);
  const target = join(folder, "page");
  mkdirSync(target, { recursive: true });
  for (const { path, contents } of bundle.outputFiles)
    writeFileSync(join(target, path.split(/[\\/]/).at(-1)), contents);
  writeFileSync(
    join(target, "index.html"),
    '<!doctype html><meta charset="utf-8"><script type="module" src="stdin.js"></script>\n',
  );
}
