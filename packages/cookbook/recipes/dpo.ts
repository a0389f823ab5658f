/**
 * Direct preference optimisation: pairs of answers, one preferred, without a reward model. Here a whole sentence is preferred to a bare number;
 * with `--data FILE` (lines of `prompt`, `chosen` and `rejected`, such as `tinklet traces export --as dpo` writes) the pairs are your own.
 */
import {
  defineRecipe,
  type Example,
  type Preference,
  readPreferences,
  renderExample,
  runPreference,
  scoreAnswers,
  seededRandom,
  splitData,
  toDatum,
  toExample,
} from "@tinklet/cookbook";

/** Generated pairs: a question, the answer that is preferred, and the other. */
function preferences(count: number, seed: number): Preference[] {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => {
    const [a, b] = [Math.floor(random() * 40) + 1, Math.floor(random() * 40) + 1];
    const prompt = [{ role: "user", content: `What is ${a} + ${b}?` }];
    const answered = (content: string) => toExample({ prompt, completion: [{ role: "assistant", content }] });
    return { chosen: answered(`The sum of ${a} and ${b} is ${a + b}.`), rejected: answered(String(a + b)) };
  });
}

export default defineRecipe({
  about: "preference learning by DPO, without a reward model (your pairs with --data)",
  metric: "log-prob of the preferred answer minus that of the other, in nats, on held-out pairs",
  takesData: true,
  async run(task) {
    const { base, tokenizer, seed } = task;
    const datum = (example: Example) => {
      const made = toDatum(renderExample(example, tokenizer, { trainOn: "last_answer" }));
      if (made === undefined) throw new Error("the answer has no tokens");
      return made;
    };
    const rendered = ({ chosen, rejected }: Preference) => ({ chosen: datum(chosen), rejected: datum(rejected) });
    const all =
      task.data === undefined ? preferences(260, seed) : await readPreferences(task.data, { signal: task.signal });
    const share = Math.min(60, Math.max(1, Math.round(all.length / 5)));
    const apart = splitData(all, { share, seed, key: ({ chosen }) => JSON.stringify(chosen) });
    const held = apart.test.map(rendered);
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
      pairs: apart.train.map(rendered),
      method: { kind: "dpo", reference: base, beta: 0.1 },
      rank: 16,
      learningRate: task.learningRate(1e-3),
      batchSize: 8,
      maxSteps: task.steps(25),
    });
    const { sampler } = await task.follow("dpo", loop);
    const answers = await task.compare(
      sampler,
      apart.test.slice(0, 3).map(({ chosen }) => chosen),
    );
    return { before, after: await lead(sampler), pairs: held.length, answers };
  },
});
