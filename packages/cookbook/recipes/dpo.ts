/** Direct preference optimisation: pairs of answers, one preferred, without a reward model. Here a whole sentence is preferred to a bare number. */
import {
  defineRecipe,
  type PreferencePair,
  renderExample,
  runPreference,
  type SupervisedDatum,
  scoreAnswers,
  seededRandom,
  toDatum,
  toExample,
} from "@tinklet/cookbook";

/** Your preferences go here: a question, the answer that is preferred, and the other. */
function preferences(count: number, seed: number) {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => {
    const [a, b] = [Math.floor(random() * 40) + 1, Math.floor(random() * 40) + 1];
    return {
      question: `What is ${a} + ${b}?`,
      chosen: `The sum of ${a} and ${b} is ${a + b}.`,
      rejected: String(a + b),
    };
  });
}

export default defineRecipe({
  about: "preference learning by DPO, without a reward model",
  metric: "log-prob of the preferred answer minus that of the other, in nats, on held-out pairs",
  async run(task) {
    const { base, tokenizer, seed } = task;
    const datum = (question: string, answer: string): SupervisedDatum => {
      const messages = [
        { role: "user", content: question },
        { role: "assistant", content: answer },
      ];
      const made = toDatum(renderExample(toExample({ messages }), tokenizer));
      if (made === undefined) throw new Error("the answer has no tokens");
      return made;
    };
    const all = preferences(260, seed);
    const pairs: PreferencePair[] = all.map(({ question, chosen, rejected }) => ({
      chosen: datum(question, chosen),
      rejected: datum(question, rejected),
    }));
    const held = pairs.slice(0, 60);
    const lead = async (sampler: typeof base) => {
      const scores = await scoreAnswers(
        sampler,
        held.flatMap(({ chosen, rejected }) => [chosen, rejected]),
      );
      return held.reduce((sum, _, i) => sum + (scores[2 * i] ?? 0) - (scores[2 * i + 1] ?? 0), 0) / held.length;
    };

    const before = await lead(base);
    const loop = runPreference({
      ...task.stage("dpo"),
      pairs: pairs.slice(60),
      method: { kind: "dpo", reference: base, beta: 0.1 },
      rank: 16,
      learningRate: task.learningRate(1e-3),
      batchSize: 8,
      maxSteps: task.steps(25),
    });
    const { sampler } = await task.follow("dpo", loop);
    const answers = await task.compare(sampler, all.slice(0, 3));
    return { before, after: await lead(sampler), pairs: held.length, answers };
  },
});
