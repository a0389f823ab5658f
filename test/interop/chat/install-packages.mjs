// Packages of npm that a suite needs and this repository does not depend on: installed under `.cache/`, from their registry, unless they are
// there.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "../../fixtures/programs/bundle.mjs";

/**
 * @param {string} name of the folder under `.cache/`
 * @param {readonly string[]} packages as `npm install` takes them, with their versions
 * @returns {(name: string) => Promise<any>} imports one of them
 */
export function installPackages(name, packages) {
  const folder = join(root, ".cache", name);
  const stamp = join(folder, "packages.stamp");
  const wanted = `${packages.join("\n")}\n`;
  if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== wanted) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
    const options = ["--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", "--no-save"];
    const done = spawnSync("npm", ["install", ...options, ...packages], { encoding: "utf8", cwd: folder });
    if (done.status !== 0) throw new Error(done.stderr);
    writeFileSync(stamp, wanted);
  }
  const require = createRequire(join(folder, "package.json"));
  return (wantedName) => import(pathToFileURL(entryOf(require, folder, wantedName)).href);
}

/** The file that `import` takes: packages without a form for `require` name it themselves. */
function entryOf(require, folder, name) {
  try {
    return require.resolve(name);
  } catch {
    const at = join(folder, "node_modules", name);
    const { exports, module, main } = JSON.parse(readFileSync(join(at, "package.json"), "utf8"));
    const entry = exports?.["."] ?? exports;
    const file = typeof entry === "string" ? entry : (entry?.import ?? entry?.node ?? entry?.default);
    return join(at, typeof file === "string" ? file : (file?.default ?? module ?? main ?? "index.js"));
  }
}
