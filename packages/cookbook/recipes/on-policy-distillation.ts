/**
 * On-policy distillation: the student answers, and the teacher gives the log-prob of each token. Here the teacher is the same model,
 * fine-tuned on sums; any model with the same tokenizer can be one: `createSamplingClient({ baseModel: "…" })`.
 */
import {
  defineRecipe,
  evaluate,
  exactMatch,
  prepareExamples,
  problemEnv,
  runDistillation,
  runSupervised,
  seededRandom,
} from "@tinklet/cookbook";

function sums(count: number, seed: number): { readonly question: string; readonly answer: string }[] {
  const random = seededRandom(seed);
  const made = new Map<string, string>();
  while (made.size < count) {
    const [a, b] = [Math.floor(random() * 90) + 10, Math.floor(random() * 90) + 10];
    made.set(`What is ${a} + ${b}?`, String(a + b));
  }
  return [...made].map(([question, answer]) => ({ question, answer }));
}

/** Sums that neither model is trained on. */
const held = (seed: number) => exactMatch({ name: "sums", items: sums(120, seed), maxTokens: 6 });

export default defineRecipe({
  about: "on-policy distillation: a student learns a teacher's distribution on its own answers",
  metric: "share of sums the student answers rightly, of those neither was trained on",
  tasks: ({ seed }) => [held(seed)],
  async run(task) {
    const { base, chat, tokenizer, seed } = task;
    const all = sums(2260, seed);
    const score = async (sampler: typeof base) =>
      (await evaluate(sampler, [held(seed)], { chat, tokenizer }))[0]?.mean ?? 0;

    const taught = all.slice(120, 1620).map(({ question, answer }) => ({
      messages: [
        { role: "user", content: question },
        { role: "assistant", content: answer },
      ],
    }));
    const teaching = runSupervised({
      ...task.stage("teacher"),
      data: prepareExamples(taught, tokenizer),
      ...{ rank: 16, learningRate: task.learningRate(2e-3), batchSize: 16, maxSteps: task.steps(94) },
    });
    const teacher = (await task.follow("teacher", teaching)).sampler;

    // No reward: the student learns from the teacher alone.
    const environments = all
      .slice(1620)
      .map(({ question }) => problemEnv({ chat, tokenizer, question, maxTokens: 6, check: () => 0 }));
    const before = await score(base);
    const loop = runDistillation({
      ...{ ...task.stage("student"), environments, teacher, steps: task.steps(20) },
      ...{ groupsPerStep: 32, groupSize: 4, rank: 16, learningRate: task.learningRate(1.5e-3) },
    });
    const { sampler } = await task.follow("student", loop);
    const answers = await task.compare(sampler, all.slice(0, 3));
    return { before, after: await score(sampler), teacher: await score(teacher), answers };
  },
});
