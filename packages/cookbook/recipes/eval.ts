/** Evaluation of the base model: several kinds of tasks, with confidence intervals. Nothing is trained. */
import {
  defineRecipe,
  type EvalTask,
  evaluate,
  evaluationTable,
  exactMatch,
  multipleChoice,
  scored,
  seededRandom,
} from "@tinklet/cookbook";

const opposites = {
  hot: "cold",
  big: "small",
  fast: "slow",
  happy: "sad",
  dark: "light",
  old: "new",
  wet: "dry",
  high: "low",
};

function tasks(seed: number): EvalTask[] {
  const random = seededRandom(seed);
  const below = (count: number) => Math.floor(random() * count);

  // Your tasks go here.
  const sums = Array.from({ length: 60 }, () => {
    const [a, b] = [1 + below(9), 1 + below(9)];
    return { question: `What is ${a} + ${b}?`, answer: String(a + b) };
  });
  const larger = Array.from({ length: 60 }, () => {
    const a = 1 + below(8);
    const b = a + 1 + below(9 - a);
    const choices = below(2) === 0 ? [String(a), String(b)] : [String(b), String(a)];
    return {
      question: `Which number is larger, ${choices.join(" or ")}?`,
      choices,
      answer: choices.indexOf(String(b)),
    };
  });
  const words = Object.entries(opposites).map(([word, opposite]) => ({
    question: `What is the opposite of ${word}?`,
    opposite,
  }));
  return [
    exactMatch({
      name: "sums",
      items: sums,
      maxTokens: 6,
      samples: 4,
      passAt: [1, 4],
      parse: (text) => /\d+/.exec(text)?.[0],
    }),
    multipleChoice({ name: "larger number", items: larger }),
    scored({
      ...{ name: "opposites", items: words, maxTokens: 16 },
      score: (answer, { opposite }) => (answer === "" ? undefined : Number(answer.includes(opposite))),
    }),
  ];
}

export default defineRecipe({
  about: "evaluations with confidence intervals: exact match, pass@k, multiple choice",
  metric: "score on multiple choice: guessing, and the model",
  tasks: ({ seed }) => tasks(seed),
  async run(task) {
    const { base, chat, tokenizer, seed } = task;
    const results = await evaluate(base, tasks(seed), { chat, tokenizer, seed });
    task.note(evaluationTable(results));
    const choice = results.find(({ name }) => name === "larger number");
    return { before: 0.5, after: choice?.mean ?? 0, results };
  },
});
