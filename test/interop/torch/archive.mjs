// PEFT and the server, both ways: the archive of a checkpoint trained through the API is loaded by PEFT and says what the server says;
// what PEFT then writes is imported and says what PEFT says. The same adapter with the Tinker service's names (`tinklet export --format tinker`)
// is merged by `weights.build_hf_model` of the official cookbook, which rejects PEFT's names for models with tied embeddings.
//   node test/interop/torch/archive.mjs
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { bundle } from "../../fixtures/programs/bundle.mjs";
import { cookbookPython } from "../venv.mjs";
import { torchPython } from "./venv.mjs";

const here = (file) => fileURLToPath(new URL(file, import.meta.url));
const python = torchPython();
const official = cookbookPython();
const work = mkdtempSync(join(tmpdir(), "tinklet-archive-"));
const lastLine = (bytes) => JSON.parse(bytes.toString().trim().split("\n").at(-1));
let server;
let failed = false;
try {
  execFileSync(python, [here("peft_models.py"), work], { stdio: ["ignore", "ignore", "inherit"] });
  const models = ["llama-tied", "qwen2-untied", "qwen3-tied"].map((name) => join(work, name));
  server = spawn(process.execPath, [await bundle("test/fixtures/programs/serve-main.ts"), JSON.stringify({ models })], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [url] = await once(createInterface({ input: server.stdout }), "line");
  const main = await bundle("test/interop/torch/archive-main.ts");
  const rename = await bundle("test/interop/torch/tinker-names-main.ts");
  const talk = (...args) =>
    lastLine(execFileSync(process.execPath, [main, url, ...args], { stdio: ["ignore", "pipe", "inherit"] }));
  for (const model of models) {
    const trained = talk(model);
    const adapter = join(work, "adapter");
    mkdirSync(adapter, { recursive: true });
    const archive = Buffer.from(await (await fetch(trained.archive)).arrayBuffer());
    execFileSync("tar", ["-xzf", "-", "-C", adapter], { input: archive });
    writeFileSync(join(work, "expected.json"), JSON.stringify(trained));
    const checked = lastLine(
      execFileSync(python, [here("archive_check.py"), model, work], { stdio: ["ignore", "pipe", "ignore"] }),
    );
    const back = talk(model, join(work, "rewritten"));
    const largest = Math.max(...checked.rewritten.map(Math.abs));
    const returned = Math.max(...checked.rewritten.map((value, i) => Math.abs(value - back.adapted[i]))) / largest;
    const ok = Math.max(checked.base, checked.peft, returned) < 1e-4;
    failed ||= !ok;
    console.log(
      `${ok ? "ok" : "FAILED"} ${model.split("/").at(-1)}: base ${checked.base}, archive in PEFT ${checked.peft}, PEFT's own back in the server ${returned}`,
    );
    execFileSync(process.execPath, [rename, adapter, join(work, "tinker-names")], { stdio: "inherit" });
    const merged = lastLine(
      execFileSync(official, [here("cookbook_merge.py"), model, work], { stdio: ["ignore", "pipe", "ignore"] }),
    );
    // With tied embeddings the official merge adds the unembedding's change to the shared matrix, which changes the input embedding, too.
    // So the model is compared with its own definition, and with what was trained only where nothing is shared.
    const built =
      merged.refused === merged.tied && Math.max(merged.definition, merged.tied ? 0 : merged.trained) < 1e-4;
    failed ||= !built;
    console.log(
      `${built ? "ok" : "FAILED"} ${model.split("/").at(-1)}: build_hf_model ${merged.refused ? "rejects" : "takes"} PEFT's names, and makes of the Tinker service's its definition to ${merged.definition} and what was trained to ${merged.trained}`,
    );
    rmSync(join(work, "tinker-names"), { recursive: true });
    rmSync(adapter, { recursive: true });
    rmSync(join(work, "rewritten"), { recursive: true });
  }
} finally {
  server?.kill("SIGTERM");
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
