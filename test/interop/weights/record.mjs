// Records the fixtures that the tests of GGUF and of tokenizers compare with: `node test/interop/weights/record.mjs`. Makes a virtual
// environment under .venv/gguf with `gguf`, `tiktoken` and `tokenizers` from PyPI, which the suite itself does not need. The fixtures are
// committed.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const venv = join(here, "../../../.venv/gguf");
const fixtures = join(here, "../../fixtures/weights");
const python = join(venv, process.platform === "win32" ? "Scripts/python.exe" : "bin/python");

function run(command, ...args) {
  const { status, error } = spawnSync(command, args, { stdio: "inherit" });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

if (!existsSync(python)) run("python3", "-m", "venv", venv);
run(
  python,
  "-m",
  "pip",
  "install",
  "--quiet",
  "gguf==0.19.0",
  "numpy",
  "regex",
  "tiktoken==0.14.0",
  "tokenizers==0.23.3",
);
run(python, join(here, "record.py"), fixtures);
run(python, join(here, "record_tokenizers.py"), fixtures);
run(python, join(here, "record_tiktoken.py"), fixtures);
