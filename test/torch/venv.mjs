// A Python with torch, transformers and peft for the scripts that need one: made once under .venv/ from PyPI, by package name.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const PACKAGES = ["torch", "transformers", "peft", "safetensors", "numpy"];

/** Path of the interpreter; TINKLET_TORCH_PYTHON names one that is already there. */
export const torchPython = (root) => {
  if (process.env.TINKLET_TORCH_PYTHON) return process.env.TINKLET_TORCH_PYTHON;
  const folder = join(root, ".venv", "torch");
  const python = join(folder, "bin", "python");
  if (existsSync(join(folder, "complete"))) return python;
  console.error(`making ${folder} (a few GB, once)`);
  execFileSync("python3", ["-m", "venv", folder], { stdio: "inherit" });
  execFileSync(python, ["-m", "pip", "install", "--quiet", ...PACKAGES], { stdio: "inherit" });
  execFileSync("touch", [join(folder, "complete")]);
  return python;
};
