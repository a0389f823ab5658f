// Proof that PEFT and transformers read what the engine writes: trains an adapter, exports it as PEFT and merged, and compares the
// log-probs that both sides compute.
//   npm run build && node test/interop/torch/peft.mjs [model folder]
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openEngine } from "@tinklet/engine";
import { torchPython } from "./venv.mjs";

const here = (file) => fileURLToPath(new URL(file, import.meta.url));
const python = torchPython();
const work = mkdtempSync(join(tmpdir(), "tinklet-peft-"));
let failed = false;
try {
  let models = process.argv.slice(2);
  if (models.length === 0) {
    execFileSync(python, [here("peft_models.py"), work], { stdio: "inherit" });
    models = ["llama-tied", "qwen2-untied", "qwen3-tied"].map((name) => join(work, name));
  }
  for (const model of models) {
    const engine = await openEngine(model, { threads: 1 });
    const tokens = Array.from({ length: 24 }, (_, i) => (i * 37 + 11) % engine.info.vocabSize);
    const request = {
      lossFn: "cross_entropy",
      data: [
        { tokens: tokens.slice(0, -1), lossFnInputs: { target_tokens: { data: Int32Array.from(tokens.slice(1)) } } },
      ],
    };
    for (const options of [{}, { trainUnembed: false }, { trainMlp: false, trainUnembed: false }]) {
      const { adapterId } = await engine.createAdapter({ rank: 8, seed: 1, ...options });
      for (let i = 0; i < 5; i++) {
        await engine.forwardBackward(adapterId, request);
        await engine.optimStep(adapterId, { learningRate: 0.01 });
      }
      const { lossFnOutputs } = await engine.forward(adapterId, request);
      const base = await engine.forward(null, request);
      await engine.savePeft(adapterId, join(work, "adapter"));
      await engine.saveMerged(adapterId, join(work, "merged"));
      const logprobs = (result) => [...result.lossFnOutputs[0].logprobs.data];
      writeFileSync(
        join(work, "expected.json"),
        JSON.stringify({ tokens, base: logprobs(base), adapted: logprobs({ lossFnOutputs }) }),
      );
      const answer = execFileSync(python, [here("peft_check.py"), model, work], {
        stdio: ["ignore", "pipe", "ignore"],
      });
      const { base: baseError, peft, merged } = JSON.parse(answer.toString().trim().split("\n").at(-1));
      const ok = Math.max(baseError, peft, merged) < 1e-4;
      failed ||= !ok;
      console.log(
        `${ok ? "ok" : "FAILED"} ${model.split("/").at(-1)} ${JSON.stringify(options)}: base ${baseError}, PEFT ${peft}, merged ${merged}`,
      );
      rmSync(join(work, "adapter"), { recursive: true });
      rmSync(join(work, "merged"), { recursive: true });
    }
    await engine.close();
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
