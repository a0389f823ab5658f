/** Reinforcement learning with a verifiable reward: sums, right or wrong. There are no example solutions. */
import { defineRecipe, evaluate, exactMatch, problemEnv, runReinforcement, seededRandom } from "@tinklet/cookbook";

/** Questions with their answers, all different. */
function sums(count: number, seed: number): { readonly question: string; readonly answer: string }[] {
  const random = seededRandom(seed);
  const made = new Map<string, string>();
  while (made.size < count) {
    const [a, b] = [Math.floor(random() * 90) + 10, Math.floor(random() * 90) + 10];
    made.set(`What is ${a} + ${b}?`, String(a + b));
  }
  return [...made].map(([question, answer]) => ({ question, answer }));
}

/** Sums that it is not trained on. */
const held = (seed: number) => exactMatch({ name: "sums", items: sums(200, seed), maxTokens: 6 });

export default defineRecipe({
  about: "reinforcement learning on sums: the reward is 1 for the right number",
  metric: "share of sums answered correctly, of those it was not trained on",
  tasks: ({ seed }) => [held(seed)],
  async run(task) {
    const { base, chat, tokenizer, seed } = task;
    const all = sums(1160, seed);

    // Your reward goes here: `check` gets the answer and returns true or false, or any number.
    const environments = all
      .slice(200)
      .map(({ question, answer }) =>
        problemEnv({ chat, tokenizer, question, maxTokens: 6, check: (said) => said === answer }),
      );

    const [before] = await evaluate(base, [held(seed)], { chat, tokenizer });
    const loop = runReinforcement({
      ...task.stage("rl"),
      environments,
      steps: task.steps(20),
      groupsPerStep: 48,
      groupSize: 8,
      rank: 16,
      learningRate: task.learningRate(1.5e-3),
    });
    const { sampler } = await task.follow("rl", loop);
    const [after] = await evaluate(sampler, [held(seed)], { chat, tokenizer });
    const answers = await task.compare(sampler, all.slice(0, 3));
    return { before: before?.mean ?? 0, after: after?.mean ?? 0, evaluations: [before, after], seed, answers };
  },
});
