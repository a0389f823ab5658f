// What the package checks share: a line per check, processes run to their end in a clean environment, and tools from the
// registry that only these checks need, kept under `.cache/`.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const root = fileURLToPath(new URL("../..", import.meta.url));
const execute = promisify(execFile);

/** A report of checks: `check` runs one and prints its line, `skip` names one that cannot run here and why. */
export function createReport() {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  return {
    counts,
    /** Runs `body`; what it returns is the line's detail, what it throws is shown. */
    async check(name, body) {
      const start = Date.now();
      try {
        const detail = await body();
        counts.passed++;
        console.log(`ok    ${name}${detail ? `: ${detail}` : ""} (${((Date.now() - start) / 1000).toFixed(1)}s)`);
        return true;
      } catch (error) {
        counts.failed++;
        const text = [error.message, error.stdout, error.stderr].filter(Boolean).join("\n");
        console.log(`FAIL  ${name}\n${indent(text)}`);
        return false;
      }
    },
    skip(name, reason) {
      counts.skipped++;
      console.log(`skip  ${name}: ${reason}`);
    },
  };
}

const indent = (text) =>
  text
    .trim()
    .split("\n")
    .slice(-40)
    .map((line) => `      ${line}`)
    .join("\n");

/**
 * The environment a user would have: none of the settings that an outer `npm run` puts into it, no key, no colours.
 */
export function plainEnvironment(extra = {}) {
  const kept = Object.entries(process.env).filter(([name]) => !/^(npm_|TINKER_|TINKLET_|INIT_CWD$)/i.test(name));
  return { ...Object.fromEntries(kept), NO_COLOR: "1", HF_HUB_OFFLINE: "1", ...extra };
}

/** Runs a program to its end, with `input` on its standard input, and returns what it wrote; throws, with both outputs, when its status is not `status`. */
export async function run(command, args, { cwd = root, env = {}, status = 0, timeoutMs = 240_000, input = "" } = {}) {
  const options = { cwd, env: plainEnvironment(env), timeout: timeoutMs, maxBuffer: 64 * 2 ** 20 };
  const shell = process.platform === "win32" && /^(npm|npx)$/.test(command);
  const running = execute(command, args, { ...options, shell });
  running.child.stdin.end(input);
  const done = await running.catch((error) => error);
  const code = done instanceof Error ? done.code : 0;
  if (code === status) return { stdout: done.stdout, stderr: done.stderr };
  const failure = new Error(`${command} ${args.join(" ")} ended with ${code ?? done.signal}, not ${status}`);
  throw Object.assign(failure, { stdout: done.stdout, stderr: done.stderr });
}

/** A folder with a package.json, for what is installed there to be found. */
export function emptyProject(folder) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "name": "user", "private": true, "type": "module" }\n');
  return folder;
}

/**
 * Installs packages that only these checks need under `.cache/package-tools`, unless they are there. No install scripts run.
 *
 * @param wanted alias → "name@version"
 * @returns alias → folder of the package
 */
export async function tools(wanted) {
  const folder = join(root, ".cache/package-tools");
  if (!existsSync(join(folder, "package.json"))) emptyProject(folder);
  const at = (alias) => join(folder, "node_modules", alias);
  const missing = Object.entries(wanted).filter(([alias, spec]) => {
    const manifest = join(at(alias), "package.json");
    return !existsSync(manifest) || !spec.endsWith(`@${JSON.parse(readFileSync(manifest, "utf8")).version}`);
  });
  if (missing.length > 0) {
    const specs = missing.map(([alias, spec]) => `${alias}@npm:${spec}`);
    await run("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", ...specs], {
      cwd: folder,
    });
  }
  return Object.fromEntries(Object.keys(wanted).map((alias) => [alias, at(alias)]));
}
