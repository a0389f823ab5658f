/**
 * Supervised fine-tuning: the model learns to answer as the examples do. Here it learns to write sums out in full; with
 * `--data FILE` (JSONL, CSV, Parquet, or a Hub dataset) it learns from your own conversations instead.
 */
import {
  defineRecipe,
  prepareExamples,
  prepareSupervised,
  RunFolder,
  runSupervised,
  seededRandom,
} from "@tinklet/cookbook";

/** Generated examples. Yours can be a file: one {"messages": […]} per line. */
function examples(count: number, seed: number): object[] {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => {
    const [a, b] = [Math.floor(random() * 90) + 10, Math.floor(random() * 90) + 10];
    return {
      messages: [
        { role: "user", content: `What is ${a} + ${b}?` },
        { role: "assistant", content: `${a} + ${b} = ${a + b}.` },
      ],
    };
  });
}

export default defineRecipe({
  about: "supervised fine-tuning on examples (yours with --data)",
  metric: "loss per token on examples that were held out",
  better: "lower",
  takesData: true,
  async run(task) {
    const { tokenizer, seed } = task;
    const options = { testShare: 0.1, seed, onWarning: task.note };
    const data =
      task.data === undefined
        ? prepareExamples(examples(800, seed), tokenizer, options)
        : await prepareSupervised(task.data, tokenizer, options);
    const stage = task.stage("sft");
    const training = { rank: 16, learningRate: task.learningRate(2e-3), batchSize: 8, maxSteps: task.steps(80) };
    const loop = runSupervised({ ...stage, ...training, data, evalEvery: 20, keepBest: true });
    const { sampler } = await task.follow("sft", loop);

    const losses = (await RunFolder.at(stage.folder).readMetrics()).flatMap((row) => row["test/nll"] ?? []);
    const answers = await task.compare(sampler, data.examples.test.slice(0, 3));
    const [before = Number.NaN, after = Number.NaN] = [losses[0], losses.at(-1)];
    return { before, after, examples: data.train.length, answers };
  },
});
