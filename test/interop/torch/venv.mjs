// A Python with torch, transformers and peft for the scripts that need one: made once under .venv/ from PyPI, by package name.
import { ensureVenv } from "../venv.mjs";

/** Path of the interpreter; TINKLET_TORCH_PYTHON names one that is already there. */
export const torchPython = () =>
  process.env.TINKLET_TORCH_PYTHON ?? ensureVenv("peft", ["transformers", "peft", "safetensors"], { torch: true });
