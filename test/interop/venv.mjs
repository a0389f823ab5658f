// Python virtual environments for the proofs that need the official SDK or PyTorch. Each lives in `.venv/<name>`
// (git-ignored), is made from package names alone, and is left as it is when its stamp says it already holds exactly
// the packages asked for. Nothing here is needed to build, test or use the packages of this repository.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** Runs a command, which must not ask the Hub; on failure throws with its last lines, where pip, apt and Python say what went wrong. */
export function run(command, args) {
  const env = { ...process.env, HF_HUB_OFFLINE: "1" };
  const done = spawnSync(command, args, { encoding: "utf8", maxBuffer: 64 << 20, env });
  if (done.error) throw done.error;
  if (done.status !== 0) {
    const tail = `${done.stdout}\n${done.stderr}`.trim().split("\n").slice(-15).join("\n");
    throw new Error(`${command} ${args.join(" ")} ended with status ${done.status}:\n${tail}`);
  }
}

/** `python3 -m venv`; on Debian-like systems without the module, and only as root, its package is installed first. */
function createEnvironment(folder) {
  try {
    run("python3", ["-m", "venv", folder]);
  } catch (error) {
    const canInstall = process.getuid?.() === 0 && spawnSync("apt-get", ["--version"]).status === 0;
    if (!canInstall) throw error;
    console.log("python3 -m venv failed; installing python3-venv");
    run("apt-get", ["update", "-qq"]);
    run("apt-get", ["install", "-y", "-qq", "python3", "python3-venv"]);
    rmSync(folder, { recursive: true, force: true });
    run("python3", ["-m", "venv", folder]);
  }
}

const sitePackages = (folder) => {
  const lib = join(folder, "lib");
  return readdirSync(lib)
    .map((name) => join(lib, name, "site-packages"))
    .find(existsSync);
};

/**
 * Makes `.venv/<name>` hold the given packages and returns the path of its Python.
 *
 * PyTorch is 5.6 GB, so it is installed once, in `.venv/torch`, and an environment that needs it looks there after its own
 * packages; pip sees it too and does not install it again.
 *
 * @param {string} name folder under `.venv/`
 * @param {string[]} packages what pip is asked for, e.g. `["tinker==0.25.0"]`
 * @param {{ torch?: boolean }} [options] `torch`: the environment also sees PyTorch
 * @returns {string} path of the environment's Python executable
 * @throws when Python is missing or pip cannot install one of the packages
 */
export function ensureVenv(name, packages, { torch = false } = {}) {
  if (torch) ensureVenv("torch", ["torch", "numpy"]);
  const folder = join(root, ".venv", name);
  const stamp = join(folder, "packages.stamp");
  const python = join(folder, "bin", "python");
  const wanted = `${[...packages, ...(torch ? ["(torch)"] : [])].join("\n")}\n`;
  if (existsSync(python) && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return python;
  console.log(`.venv/${name}: installing ${packages.join(" ")}`);
  const started = Date.now();
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(dirname(folder), { recursive: true });
  createEnvironment(folder);
  if (torch) writeFileSync(join(sitePackages(folder), "torch.pth"), `${sitePackages(join(root, ".venv", "torch"))}\n`);
  run(python, ["-m", "pip", "install", "-q", "--disable-pip-version-check", ...packages]);
  writeFileSync(stamp, wanted);
  console.log(`.venv/${name}: ready after ${Math.round((Date.now() - started) / 1000)} s`);
  return python;
}

/** The release of the official cookbook that is compared with. */
export const cookbookRelease = "0.5.8";

/** Python with the official cookbook and what its recipes here need. */
export const cookbookPython = () =>
  ensureVenv("cookbook", [`tinker-cookbook[math-rl]==${cookbookRelease}`], { torch: true });
