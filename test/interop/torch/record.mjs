// Records what PyTorch + transformers + PEFT compute on tiny seeded models, as fixtures for the engine's tests:
//   node test/interop/torch/record.mjs [trees]
// `trees` records only the batches that share prefixes (fixtures/torch-trees/).
// The tests themselves need no Python.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { torchPython } from "./venv.mjs";

const script = fileURLToPath(new URL("record.py", import.meta.url));
execFileSync(torchPython(), [script, ...process.argv.slice(2)], { stdio: "inherit" });
