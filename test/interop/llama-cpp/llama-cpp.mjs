// Exported GGUF files in llama.cpp itself, by the npm package node-llama-cpp: a model of every family is opened, continues prompts given as
// token ids as our engine does, and gives the same log-probs. The package is installed under .cache/ from its registry. Every check prints one line; exits 0
// when all held.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "../../fixtures/programs/bundle.mjs";
import { createChecks } from "../chat/checks.mjs";
import { installPackages } from "../chat/install-packages.mjs";

/** Most that log-probs may differ by: before a product with halves llama.cpp rounds its activations to halves, too; we compute in float32. */
const tolerance = 1e-2;

const load = installPackages("llama-cpp", [
  "node-llama-cpp@3.22.1",
  `@node-llama-cpp/${process.platform}-${process.arch}@3.22.1`,
]);
const folder = mkdtempSync(join(tmpdir(), "tinklet-llama-cpp-"));
try {
  const made = spawnSync(process.execPath, [await bundle("test/interop/llama-cpp/llama-cpp-main.ts"), folder], {
    encoding: "utf8",
  });
  if (made.status !== 0) throw new Error(`the models were not written: ${made.stderr}`);
  const models = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8"));
  const { getLlama, LlamaLogLevel } = await load("node-llama-cpp");
  const llama = await getLlama({
    gpu: false,
    build: "never",
    skipDownload: true,
    progressLogs: false,
    logLevel: LlamaLogLevel.error,
  });
  const checks = createChecks();
  for (const { name, file, prompts, vocabulary, exact, isBundled, isLive } of models) {
    // Its threads wait for each other in busy loops: on a machine with other work more than one is slower.
    const model = await llama.loadModel({ modelPath: join(folder, file), gpuLayers: 0 });
    const context = await model.createContext({
      contextSize: 256,
      threads: 1,
      flashAttention: false,
      experimentalKvCacheKeyType: "F32", // its halves are a choice of its own, which costs the third digit
      experimentalKvCacheValueType: "F32",
    });
    const sequence = context.getSequence();
    let same = 0;
    let compared = 0;
    let worst = 0;
    for (const { prompt, continuation, logprobs } of prompts) {
      if (continuation.length === 0) continue;
      await sequence.clearHistory();
      const drawn = [];
      for await (const { token, probabilities } of sequence.evaluateWithMetadata(
        prompt,
        { probabilities: true },
        { temperature: 0, yieldEogToken: true },
      )) {
        drawn.push(token);
        worst = Math.max(
          worst,
          Math.abs(Math.log(probabilities.get(continuation[drawn.length - 1])) - logprobs[drawn.length - 1]),
        );
        compared++;
        if (drawn.length === continuation.length || token !== continuation[drawn.length - 1]) break;
      }
      if (JSON.stringify(drawn) === JSON.stringify(continuation)) same++;
    }
    if (exact) {
      const told = prompts.filter(({ continuation }) => continuation.length > 0).length;
      checks.is(`${name}: our greedy continuation for each of ${told} prompts`, same, told);
      checks.holds(`${name}: the base with its adapter continues alike here`, isLive);
      checks.holds(
        `${name}: enough of them say something`,
        told >= (isBundled ? prompts.length : 10) && compared >= 60,
      );
      checks.holds(
        `${name}: ${compared} log-probs within ${tolerance} (the worst is ${worst.toExponential(1)} off)`,
        worst <= tolerance,
      );
    } else checks.holds(`${name}: opens and draws (${same} of ${prompts.length} continuations are ours)`, compared > 0);
    checks.is(
      `${name}: the vocabulary`,
      vocabulary.map(({ id }) => model.detokenize([id], true)),
      vocabulary.map(({ text }) => text),
    );
    await context.dispose();
    await model.dispose();
  }
  await llama.dispose();
  const { passed, failed } = checks.result();
  console.log(`${passed} checks held, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
