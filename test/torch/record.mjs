// Records what PyTorch + transformers + PEFT compute on tiny seeded models, as fixtures for the engine's tests:
//   node test/torch/record.mjs
// The tests themselves need no Python.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { torchPython } from "./venv.mjs";

execFileSync(torchPython(), [fileURLToPath(new URL("record.py", import.meta.url))], { stdio: "inherit" });
