// The real chat templates of many families, as the Python package trl carries them. Only its files are wanted, not what it runs on.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../fixtures/programs/bundle.mjs";

const release = "1.16.0";

/**
 * @param {string} python any Python with pip
 * @returns {string} the folder with `NAME.jinja`
 */
export function realTemplates(python) {
  const target = join(root, `.cache/trl-${release}`);
  const folder = join(target, "trl/chat_templates");
  if (existsSync(folder)) return folder;
  const args = ["-m", "pip", "install", "-q", "--no-deps", "--target", target, `trl==${release}`];
  const done = spawnSync(python, args, { encoding: "utf8" });
  if (done.status !== 0) throw new Error(done.stderr);
  return folder;
}
