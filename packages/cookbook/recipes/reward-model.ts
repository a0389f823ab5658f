/**
 * A reward model from comparisons, by Bradley-Terry. The model reads a question and an answer and is asked for a verdict; the
 * log-probability of "yes" is the score. It learns from pairs of answers, one preferred.
 */
import {
  defineRecipe,
  type PreferencePair,
  renderExample,
  runPreference,
  scoreAnswers,
  seededRandom,
  toDatum,
  toExample,
} from "@tinklet/cookbook";

const things =
  "dog cat bird fish tree boat house car ball kite hat shoe cake apple river hill star moon king farmer".split(" ");
const openings = ["Here is what I know.", "Let me see.", "That is a good question.", "I can tell you."];
const kind = ["Have a nice day!", "I hope that helps, my friend.", "Thank you for asking!", "You are very clever."];
const rude = ["Go away now.", "Do not ask me again.", "That was a silly question.", "I do not like you."];

/** Your comparisons go here. These prefer the friendly answer. */
function comparisons(count: number, seed: number) {
  const random = seededRandom(seed);
  const one = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)] as T;
  return Array.from({ length: count }, () => {
    const thing = one(things);
    const answer = `${one(openings)} A ${thing} is a ${one(["big", "small", "good", "old"])} thing.`;
    return { question: `What is a ${thing}?`, chosen: `${answer} ${one(kind)}`, rejected: `${answer} ${one(rude)}` };
  });
}

const asking = (question: string, answer: string) => `Question: ${question}\nAnswer: ${answer}\nIs this a good answer?`;

export default defineRecipe({
  about: "a reward model from comparisons (Bradley-Terry)",
  metric: "share of held-out comparisons that it decides as people did",
  async run(task) {
    const { base, tokenizer, seed } = task;
    const verdict = (question: string, answer: string) => {
      const messages = [
        { role: "user", content: asking(question, answer) },
        { role: "assistant", content: "yes" },
      ];
      const datum = toDatum(renderExample(toExample({ messages }), tokenizer));
      if (datum === undefined) throw new Error("a verdict without tokens");
      return datum;
    };
    const all = comparisons(300, seed);
    const pairs: PreferencePair[] = all.map(({ question, chosen, rejected }) => ({
      chosen: verdict(question, chosen),
      rejected: verdict(question, rejected),
    }));
    const held = pairs.slice(0, 100);
    const agreement = async (sampler: typeof base) => {
      const scores = await scoreAnswers(
        sampler,
        held.flatMap(({ chosen, rejected }) => [chosen, rejected]),
      );
      return held.filter((_, i) => (scores[2 * i] ?? 0) > (scores[2 * i + 1] ?? 0)).length / held.length;
    };

    const before = await agreement(base);
    const loop = runPreference({
      ...task.stage("reward-model"),
      pairs: pairs.slice(100),
      method: { kind: "bradley_terry" },
      rank: 16,
      learningRate: task.learningRate(1e-3),
      batchSize: 8,
      maxSteps: task.steps(25),
    });
    const { sampler, samplerPath } = await task.follow("reward-model", loop);
    const after = await agreement(sampler);
    const asked = all.slice(0, 3).map(({ question, rejected }) => asking(question, rejected));
    const answers = await task.compare(sampler, asked);
    return { before, after, pairs: held.length, reward_model: samplerPath, answers };
  },
});
