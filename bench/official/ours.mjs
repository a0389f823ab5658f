// The same run by our cookbook, and what its process used: `ours.mjs SPEC OUT`, as official.py. `spec.order` is the order in which
// the official loop takes its data; our loop shuffles by a rule of its own, so its data is laid out to come in that order.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const began = performance.timeOrigin; // of the process, as the official side counts
const used = () => {
  const { user, system } = process.cpuUsage(); // since the process began
  return (user + system) / 1e6;
};
const root = fileURLToPath(new URL("../..", import.meta.url));
const entry = (path) => import(pathToFileURL(join(root, "packages", path)));
const { ServiceClient } = await entry("sdk/dist/index.js");
const cookbook = await entry("cookbook/dist/index.js");
const { createChat } = await entry("models/dist/chat/index.js");

const [specFile, out] = process.argv.slice(2);
const spec = JSON.parse(readFileSync(specFile, "utf8"));
const imported = used();
const [importedAt] = [Date.now()];

const lines = () =>
  readFileSync(spec.data, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
const adam = { beta1: 0.9, beta2: 0.95, eps: 1e-8 }; // the official loops' own

/** Data that the loop's own shuffle brings into the official order. */
function inOrder(data) {
  const { permutation, derivedSeed } = cookbook;
  const placed = [];
  permutation(data.length, derivedSeed(spec.seed, 0)).forEach((at, i) => {
    placed[at] = data[spec.order[i]];
  });
  return placed;
}

const service = await ServiceClient.connect({ baseUrl: spec.url, apiKey: "tml-local" });
const { url: _, folder, model: baseModel, seed, rank, learningRate, steps } = spec;
const run = { service, folder, baseModel, seed, rank, learningRate, adam, evalEvery: 0, saveEvery: 0 };
const tokenizer = await (await service.createSamplingClient({ baseModel })).getTokenizer();

const loops = {
  sft() {
    const data = cookbook.prepareExamples(inOrder(lines()), tokenizer, { reduction: "mean" });
    return cookbook.runSupervised({ ...run, data, batchSize: spec.batchSize, maxSteps: steps });
  },
  async dpo() {
    const place = { file: spec.data, line: 1 };
    const datum = (messages) =>
      cookbook.toDatum(cookbook.renderExample(cookbook.toExample({ messages }, place), tokenizer));
    const pairs = inOrder(lines()).map(
      ({ comparison: { prompt_conversation: prompt, completion_A, completion_B } }) => ({
        chosen: datum([...prompt, ...completion_A]),
        rejected: datum([...prompt, ...completion_B]),
      }),
    );
    const reference = await service.createSamplingClient({ baseModel });
    const method = { kind: "dpo", reference, beta: 0.1 };
    return cookbook.runPreference({ ...run, pairs, method, batchSize: spec.batchSize, maxSteps: steps });
  },
  "math-rl": () =>
    cookbook.runReinforcement({
      ...run,
      ...rolling(
        ({ answer }) =>
          (said) =>
            said === answer,
      ),
    }),
  async "on-policy-distillation"() {
    const teacher = await service.createSamplingClient({ modelPath: spec.teacher });
    return cookbook.runDistillation({ ...run, ...rolling(() => () => 0), teacher });
  },
};

function rolling(check) {
  const chat = createChat(tokenizer);
  const problems = lines();
  const environments = (step) =>
    problems.slice(step * spec.groups, (step + 1) * spec.groups).map((problem) =>
      cookbook.problemEnv({
        chat,
        tokenizer,
        question: problem.question,
        maxTokens: spec.maxTokens,
        check: check(problem),
      }),
    );
  return { environments, steps, groupSize: spec.groupSize };
}

for await (const event of await loops[spec.recipe]())
  if (event.type === "done" && event.stopped !== undefined) throw new Error(`stopped: ${event.stopped}`);
await service.close();
const figures = {
  cpuSeconds: used(),
  importCpuSeconds: imported,
  seconds: (Date.now() - began) / 1000,
  importSeconds: (importedAt - began) / 1000,
};
writeFileSync(out, JSON.stringify(figures));
