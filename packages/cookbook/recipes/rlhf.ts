/**
 * The whole pipeline of learning from human feedback: answers of the model itself in pairs, a preference between them, a reward
 * model that learns it, and reinforcement learning by that reward model. Here the shorter answer is preferred.
 */
import {
  defineRecipe,
  type PreferencePair,
  problemEnv,
  renderExample,
  runPreference,
  runReinforcement,
  type SupervisedDatum,
  scoreAnswers,
  toDatum,
  toExample,
} from "@tinklet/cookbook";
import { ModelInput } from "@tinklet/sdk";

const things =
  "dog cat bird fish tree boat house car ball kite hat shoe cake apple river hill star moon king farmer girl boy bear fox".split(
    " ",
  );
const questions = things.flatMap((thing) => [`Tell me about a ${thing}.`, `Describe a ${thing}.`]);

/** Your preferences go here: which of two answers is better? */
const prefersFirst = (first: string, second: string) => first.length < second.length;

export default defineRecipe({
  about: "learning from feedback: comparisons, a reward model, then reinforcement",
  metric: "mean length of answers, in tokens (people here prefer short ones)",
  better: "lower",
  async run(task) {
    const { base, chat, tokenizer, seed } = task;
    const maxTokens = 32;
    const verdict = (question: string, answer: string): SupervisedDatum => {
      const messages = [
        { role: "user", content: `Question: ${question}\nAnswer: ${answer}\nIs this a good answer?` },
        { role: "assistant", content: "yes" },
      ];
      const datum = toDatum(renderExample(toExample({ messages }), tokenizer));
      if (datum === undefined) throw new Error("a verdict without tokens");
      return datum;
    };
    const answers = async (sampler: typeof base, question: string, numSamples: number) => {
      const prompt = chat.render([{ role: "user", content: question }]);
      const samplingParams = { maxTokens, stop: [...chat.endTokenIds], seed: seed * 1000 };
      const { sequences } = await sampler.sample(ModelInput.fromInts(chat.encode(prompt)), {
        numSamples,
        samplingParams,
      });
      return sequences.map(({ tokens }) => ({ length: tokens.length, text: chat.parse(tokens, prompt).text.trim() }));
    };
    const meanLength = async (sampler: typeof base) => {
      const all = (await Promise.all(questions.map((question) => answers(sampler, question, 4)))).flat();
      return all.reduce((sum, { length }) => sum + length, 0) / all.length;
    };

    // 1. Comparisons of the model's own answers.
    const pairs: PreferencePair[] = [];
    for (const question of questions) {
      const own = await answers(base, question, 8);
      for (let i = 0; i + 1 < own.length; i += 2) {
        const [one, other] = [own[i]?.text ?? "", own[i + 1]?.text ?? ""];
        if (one.length === other.length) continue;
        const [good, bad] = prefersFirst(one, other) ? [one, other] : [other, one];
        pairs.push({ chosen: verdict(question, good), rejected: verdict(question, bad) });
      }
    }
    // 2. A reward model.
    const learning = { rank: 16, learningRate: task.learningRate(1e-3) };
    const method = { kind: "bradley_terry" } as const;
    const modelled = runPreference({
      ...task.stage("reward-model"),
      ...learning,
      pairs,
      method,
      maxSteps: task.steps(24),
    });
    const judge = (await task.follow("reward-model", modelled)).sampler;
    // 3. Reinforcement learning with the reward model.
    const environments = questions.map((question) =>
      problemEnv({
        ...{ chat, tokenizer, question, maxTokens },
        check: async (answer) => (await scoreAnswers(judge, [verdict(question, answer)]))[0] ?? 0,
      }),
    );
    const before = await meanLength(base);
    const loop = runReinforcement({
      ...{ ...task.stage("rl"), ...learning, environments, steps: task.steps(6), groupsPerStep: 12, groupSize: 8 },
      ...{ advantages: "normalised", kl: { reference: base, coefficient: 0.02 } },
    });
    const { sampler } = await task.follow("rl", loop);
    const after = await meanLength(sampler);
    return { before, after, comparisons: pairs.length, answers: await task.compare(sampler, questions.slice(0, 3)) };
  },
});
