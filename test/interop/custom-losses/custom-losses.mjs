// Records custom losses as the newest official SDK traces them, with PyTorch's loss and slopes, into
// test/fixtures/custom-losses.json, and the regularizers of `@tinklet/sdk/losses` by PyTorch into test/fixtures/regularizers.json:
//   node test/interop/custom-losses/custom-losses.mjs
// The tests that read the file need no Python.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ensureVenv } from "../venv.mjs";
import { oracles, withEverything } from "../versions.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const python = ensureVenv(...withEverything(oracles.at(-1)));
execFileSync(python, ["-B", at("custom_losses.py"), at("../../fixtures/custom-losses.json")], { stdio: "inherit" });
execFileSync(python, ["-B", at("regularizers.py"), at("../../fixtures/regularizers.json")], { stdio: "inherit" });
