// `node tools/quickstart-rates.mjs [RATE ...]` (after `npm run build`): the quickstart's training at several learning rates, through
// the embedded engine. Prints the loss on held-out pirate conversations, the perplexity of general text that was never trained on,
// and how many questions that are not in the data are still answered rightly (the likeliest answer holds the right word). The table
// is in docs/cli.md.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { datasets, modelPath } from "@tinklet/base-model";
import {
  BatchedDataset,
  evaluateNll,
  prepareSupervised,
  renderExample,
  toDatum,
  trainSupervised,
} from "@tinklet/cookbook";
import { loadTokenizer, ModelInput, ServiceClient } from "tinklet";

const given = process.argv.slice(2).map(Number);
const rates = [undefined, ...(given.length === 0 ? [4e-3, 2e-3, 1e-3] : given)];
const read = (name) => JSON.parse(readFileSync(fileURLToPath(new URL(`pretrain/${name}`, import.meta.url)), "utf8"));
/** Questions that the base model answers, with a word of the right answer; `tools/pretrain/datasets.py` keeps them out of the data. */
const questions = read("quickstart-questions.json");

const tokenizer = await loadTokenizer(modelPath);
const service = await ServiceClient.local({ dataDir: "memory" });
const data = await prepareSupervised(datasets.pirate.train, tokenizer);
const heldOut = await prepareSupervised(datasets.pirate.heldout, tokenizer);
const general = Object.values(read("heldout.json"))
  .flatMap((texts) => texts.filter((text) => typeof text === "string").slice(0, 6))
  .map((text) => renderExample({ kind: "text", text }, tokenizer, { trainOn: "everything" }))
  .map((rendered) => toDatum(rendered, { maxLength: 256 }))
  .filter((datum) => datum !== undefined);

async function rightAnswers(sampler) {
  const asked = Object.entries(questions).map(async ([content, right]) => {
    const prompt = tokenizer.applyChatTemplate([{ role: "user", content }], { addGenerationPrompt: true });
    const samplingParams = { maxTokens: 48, temperature: 0, stop: [...tokenizer.eosTokenIds] };
    const { sequences } = await sampler.sample(ModelInput.fromInts(prompt), { samplingParams });
    return tokenizer.decode(sequences[0].tokens).includes(right);
  });
  return (await Promise.all(asked)).filter(Boolean).length;
}

console.log("| learning rate | held-out loss | general perplexity | questions answered rightly |\n|---|---|---|---|");
for (const learningRate of rates) {
  const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 16, seed: 0 });
  if (learningRate !== undefined) {
    const dataset = new BatchedDataset(data.train, { batchSize: 8, seed: 0 });
    const loop = trainSupervised({ trainer, dataset, learningRate, evalEvery: 0, saveEvery: 0 });
    for await (const _ of loop);
  }
  const loss = await evaluateNll(trainer, heldOut.train);
  const perplexity = Math.exp(await evaluateNll(trainer, general));
  const right = await rightAnswers(await trainer.saveWeightsAndGetSamplingClient());
  const figures = [learningRate ?? "before", loss.toFixed(2), perplexity.toFixed(1)];
  console.log(`| ${figures.join(" | ")} | ${right} of ${Object.keys(questions).length} |`);
  await trainer.unload();
}
await service.close();
