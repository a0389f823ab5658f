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

export default defineRecipe({
  about: "reinforcement learning on sums: the reward is 1 for the right number",
  metric: "share of sums answered correctly, of those it was not trained on",
  async run(task) {
    const { base, chat, tokenizer, seed } = task;
    const all = sums(1160, seed);
    const held = exactMatch({ name: "sums", items: all.slice(0, 200), maxTokens: 6 });

    // Your reward goes here: `check` gets the answer and returns true or false, or any number.
    const environments = all
      .slice(200)
      .map(({ question, answer }) =>
        problemEnv({ chat, tokenizer, question, maxTokens: 6, check: (said) => said === answer }),
      );

    const [before] = await evaluate(base, [held], { chat, tokenizer });
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
    const [after] = await evaluate(sampler, [held], { chat, tokenizer });
    return { before: before?.mean ?? 0, after: after?.mean ?? 0, evaluations: [before, after], seed };
  },
});
